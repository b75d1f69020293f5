"""An LSTM layer computed by cuDNN's kernel, with the same variables as our own loop.

The kernel takes one flat vector for all weights of a layer. Each step packs our variables into it, so variables
and checkpoints are those of the loop, and gradients reach them through the packing.

Equations and order of the gates: NVIDIA cuDNN, `cudnnRNNMode_t` (CUDNN_LSTM) and `cudnnGetRNNWeightParams`;
Keras relies on the same order of the parts (`_standardize_cudnn_weights`).
"""

from __future__ import annotations

import functools

from absl import logging

from yt8m.lazy import tf
from yt8m.numerics.devices import is_on_gpu

LOOP, CUDNN = "loop", "cudnn"


def is_meant_for(kernel: str, tensor: tf.Tensor) -> bool:
    """Whether `kernel` asks for cuDNN's kernel and the op on `tensor` is on a GPU that has it.

    If cuDNN is requested but not available, this is logged once per process.
    """
    if kernel != CUDNN:
        return False
    # With ROCm another library implements the op, with another order of the gates.
    if is_on_gpu(tf.identity(tensor)) and not tf.test.is_built_with_rocm():
        return True
    _log_that_the_loop_runs()
    return False


@functools.cache
def _log_that_the_loop_runs() -> None:
    logging.info("lstm_kernel=cudnn: this graph is for no NVIDIA GPU; the loop computes the same with the same weights")


def lstm(
    inputs: tf.Tensor, mask: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, *, is_training: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """As `recurrent.lstm`, but outputs past the last frame of a video are undefined.

    Every row runs to the end of the longest, since no output depends on a later frame. So rows without a frame,
    which the kernel refuses as length 0, need no special case, and its code for unequal lengths is not needed.
    It computes in float32 whatever the precision of other layers, on tensor cores with operands of 11
    significant bits (TF32). TensorFlow does not run its bfloat16 on tensor cores, and it would round states too.

    Args:
      inputs: float32 [T, B, D], time first.
      mask: float32 [T, B], 1 at real frames, which come first.
      kernel: float32 [D + cells, 4 * cells], gates in the order of `recurrent.lstm`.
      bias: float32 [4 * cells].
      is_training: whether gradients will be taken.
    """
    times, rows = tf.unstack(tf.shape(mask))
    nothing = tf.zeros([1, rows, int(bias.shape[0]) // 4])
    outputs = tf.raw_ops.CudnnRNNV3(
        input=inputs,
        input_h=nothing,
        input_c=nothing,
        params=packed(kernel, bias),
        sequence_lengths=tf.fill([rows], times),
        rnn_mode="lstm",
        input_mode="linear_input",
        direction="unidirectional",
        is_training=is_training,
        time_major=True,
    )[0]
    # 1 at the last real frame of a row; all 0 in a row without frames.
    is_last = mask - tf.pad(mask[1:], [[0, 1], [0, 0]])
    return outputs, tf.reduce_sum(outputs * is_last[:, :, tf.newaxis], 0)


def packed(kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """float32 [4 * cells * (D + cells + 2)], the weights of one layer as the kernel takes them.

    Gate by gate: matrices for the input [cells, D], matrices for the state [cells, cells], biases [cells]
    of the input, biases of the state. The kernel adds the two biases: ours are those of the input, with the 1
    that the loop adds to the forget gate; those of the state are 0.

    Args:
      kernel, bias: as `lstm`.
    """
    features = int(kernel.shape[0]) - int(bias.shape[0]) // 4
    matrices = _in_its_order(tf.transpose(kernel))
    write, keep, fresh, show = _in_its_order(bias)
    of_input = [tf.reshape(matrix[:, :features], [-1]) for matrix in matrices]
    of_state = [tf.reshape(matrix[:, features:], [-1]) for matrix in matrices]
    biases = [write, keep + 1.0, fresh, show, tf.zeros_like(bias)]
    return tf.concat([*of_input, *of_state, *biases], 0)


def _in_its_order(gates: tf.Tensor) -> list[tf.Tensor]:
    """Splits our gates along the first axis and returns them in the order of cuDNN."""
    write, fresh, keep, show = tf.split(gates, 4, 0)
    return [write, keep, fresh, show]
