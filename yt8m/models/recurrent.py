"""Models that read the frames in order, and their recurrent layers.

A layer computes its costly products once for all time steps: the product with the inputs before the loop, the
gradient of the recurrent weights after it. Inside the loop, only the state is multiplied. Steps after the last
frame of a video keep the state unchanged. On a GPU an LSTM may run cuDNN's kernel instead (`cudnn_lstm`).
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from absl import logging

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.models.base import ClassifiedModel, register
from yt8m.models.layers import Net
from yt8m.numerics import precision
from yt8m.numerics.compiled import custom_gradient, is_on_gpu
from yt8m.options import option
from yt8m.types import ModelOutput

LOOP, CUDNN = "loop", "cudnn"

# preactivation(k, operand) -> products of the k-th part of the layer with its input at this time step, plus operand
# times the k-th recurrent weights; [B, units].
Preactivation = Callable[[int, Any], Any]
States = tuple[Any, ...]
Step = Callable[[Preactivation, States], States]


def lstm(
    net: Net,
    inputs: tf.Tensor,
    mask: tf.Tensor,
    cells: int,
    scope: str,
    kernel: str = LOOP,
    *,
    with_memory: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Long short-term memory (Hochreiter and Schmidhuber 1997; forget bias 1, Gers et al. 2000).

    Args:
      inputs: float32 [T, B, D], time first.
      mask: float32 [T, B], 1 at real frames, which come first.
      kernel: "loop", or "cudnn" to use cuDNN's kernel if the layer is on a GPU.
      with_memory: whether the final state is c and h, side by side; otherwise h alone. Needs the loop: cuDNN's
        kernel runs every row to the end of the longest, and c after a row's own end is lost.

    Returns:
      (h at every step [T, B, cells], state after the last real frame [B, cells or 2 * cells]; zeros if there is none).
    """
    with tf.variable_scope(f"{scope}/basic_lstm_cell"):
        variables = _variables(net, inputs, cells, 4 * cells, tf.zeros_initializer())
        if not with_memory and runs_cudnn(kernel, mask):
            return cudnn_lstm(inputs, mask, *variables, is_training=net.is_training)
        products, weights = _input_products(inputs, *variables)

    def step(preactivation: Preactivation, states: States) -> States:
        memory, hidden = states
        write, fresh, keep, show = tf.split(preactivation(0, hidden), 4, 1)
        memory = tf.sigmoid(keep + 1.0) * memory + tf.sigmoid(write) * tf.tanh(fresh)
        return memory, tf.sigmoid(show) * tf.tanh(memory)

    layout = _StateLayout(2, kept=2 if with_memory else 1, is_transposed=not net.is_training)
    return _recur(step, [products], [weights], mask, cells, layout)


def gru(net: Net, inputs: tf.Tensor, mask: tf.Tensor, cells: int, scope: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Gated recurrent unit (Cho et al. 2014, gate biases start at 1); arguments and results are those of `lstm`."""
    with tf.variable_scope(f"{scope}/gru_cell"):
        with tf.variable_scope("gates"):
            gates, gate_weights = _input_products(
                inputs, *_variables(net, inputs, cells, 2 * cells, tf.ones_initializer())
            )
        with tf.variable_scope("candidate"):
            candidate, candidate_weights = _input_products(
                inputs, *_variables(net, inputs, cells, cells, tf.zeros_initializer())
            )

    def step(preactivation: Preactivation, states: States) -> States:
        (hidden,) = states
        reset, keep = tf.split(tf.sigmoid(preactivation(0, hidden)), 2, 1)
        fresh = tf.tanh(preactivation(1, reset * hidden))
        return (keep * hidden + (1.0 - keep) * fresh,)

    return _recur(step, [gates, candidate], [gate_weights, candidate_weights], mask, cells, _StateLayout(1, kept=1))


class _StateLayout(NamedTuple):
    """How the states of a layer are kept and multiplied.

    Attributes:
      states: number of state tensors [B, cells].
      kept: the last `kept` of them, concatenated, are the final state of the layer.
      is_transposed: whether the recurrent weights are transposed once before the loop.
    """

    states: int
    kept: int
    is_transposed: bool = False


Layer = Callable[..., tuple[Any, Any]]


def stack(
    layer: Layer, net: Net, inputs: tf.Tensor, mask: tf.Tensor, cells: int, layers: int, scope: str = "rnn"
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """`layers` recurrent layers of `cells` cells each on inputs [B, T, D] with mask [B, T].

    Returns:
      (outputs of the last layer [B, T, cells], the final state of each layer, as `layer` gives it).
    """
    outputs, times = tf.transpose(inputs, [1, 0, 2]), tf.transpose(mask)
    finals = []
    for index in range(layers):
        outputs, final = layer(net, outputs, times, cells, f"{scope}/multi_rnn_cell/cell_{index}")
        finals.append(final)
    return tf.transpose(outputs, [1, 0, 2]), finals


def both_ways(
    layer: Layer, net: Net, inputs: tf.Tensor, mask: tf.Tensor, cells: int, layers: int, scope: str
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """One stack forwards and one backwards, outputs concatenated (Schuster and Paliwal 1997).

    Returns:
      (outputs [B, T, 2 * cells], the final state of each layer: the forward state, then the backward state).
    """
    real = tf.cast(tf.reduce_sum(mask, 1), tf.int32)
    forth, forth_finals = stack(layer, net, inputs, mask, cells, layers, f"{scope}/fw")
    backwards = tf.reverse_sequence(inputs, real, seq_axis=1, batch_axis=0)
    back, back_finals = stack(layer, net, backwards, mask, cells, layers, f"{scope}/bw")
    back = tf.reverse_sequence(back, real, seq_axis=1, batch_axis=0)
    finals = [tf.concat(pair, 1) for pair in zip(forth_finals, back_finals, strict=True)]
    return tf.concat([forth, back], 2), finals


def _variables(
    net: Net, inputs: tf.Tensor, cells: int, units: int, bias_initializer: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """kernel [features + cells, units] and bias [units]."""
    shape = [int(inputs.shape[-1]) + cells, units]
    kernel = net.variable("kernel", shape, tf.glorot_uniform_initializer())
    return kernel, net.variable("bias", [units], bias_initializer)


def _input_products(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """(inputs times their rows of the kernel, plus bias, [T, B, units]; the rows for the recurrent state)."""
    features = int(inputs.shape[-1])
    return precision.product(inputs, kernel[:features]) + bias, kernel[features:]


def _recur(
    step: Step,
    inputs: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    mask: tf.Tensor,
    cells: int,
    layout: _StateLayout,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs `step` over time; returns the last state tensor at every time, and the final state.

    The loop is differentiated with constant weights. Inputs and recurrent products are added, so both have the same
    gradient. The gradient of the weights is therefore one product after the loop: operands^T times that gradient.
    """
    count, computed_in = len(inputs), precision.current()

    def run(*arguments: tf.Tensor) -> Any:
        own_inputs, fixed = arguments[:count], arguments[count:]
        outputs, final, operands = _loop(step, own_inputs, fixed, mask, cells, layout)

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            of_inputs = tf.gradients([outputs, final], own_inputs, upstream)
            with precision.scope(computed_in):
                return of_inputs + [
                    precision.matmul(_rows(operand), _rows(input_gradient), transpose_a=True)
                    for operand, input_gradient in zip(operands, of_inputs, strict=True)
                ]

        return (outputs, final), gradient

    return custom_gradient(run)(*inputs, *weights)


def _rows(values: tf.Tensor) -> tf.Tensor:
    return tf.reshape(values, [-1, values.shape[-1]])


def _loop(
    step: Step,
    inputs: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    mask: tf.Tensor,
    cells: int,
    layout: _StateLayout,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """(outputs [T, B, H], final state [B, H * kept], operands of each product [T, B, .])."""
    times, rows = tf.shape(mask)[0], tf.shape(mask)[1]
    reads = [tf.TensorArray(tf.float32, times).unstack(values) for values in (*inputs, mask[:, :, tf.newaxis])]
    turn, multiply = (
        (tf.transpose, precision.few_rows_in_loop) if layout.is_transposed else (tf.identity, precision.few_rows)
    )
    constant = [tf.stop_gradient(precision.rounded(turn(values))) for values in weights]

    def body(time: tf.Tensor, states: States, written: States) -> Any:
        operands: list[tf.Tensor] = []

        def preactivation(index: int, operand: tf.Tensor) -> tf.Tensor:
            operands.append(operand)
            return reads[index].read(time) + multiply(operand, constant[index])

        real = reads[-1].read(time)
        moved = [real * new + (1.0 - real) * old for new, old in zip(step(preactivation, states), states, strict=True)]
        values = (moved[-1], *operands)
        return time + 1, tuple(moved), tuple(a.write(time, v) for a, v in zip(written, values, strict=True))

    start = tuple(tf.zeros([rows, cells]) for _ in range(layout.states))
    empty = tuple(tf.TensorArray(tf.float32, times) for _ in range(1 + len(weights)))
    _, final, written = tf.while_loop(lambda time, *_: time < times, body, (0, start, empty))
    outputs, *operands = [tf.reshape(array.stack(), [times, rows, cells]) for array in written]
    return outputs, tf.concat(final[-layout.kept :], 1), operands


def runs_cudnn(kernel: str, tensor: tf.Tensor) -> bool:
    """Whether `kernel` is "cudnn" and the device of the op of `tensor` is a GPU that supports cuDNN.

    If cuDNN's kernel is requested but cannot run, this is logged once per process.
    """
    if kernel != CUDNN:
        return False
    # On ROCm another library implements the op, with another order of the gates.
    if is_on_gpu(tf.identity(tensor)) and not tf.test.is_built_with_rocm():
        return True
    _log_that_the_loop_runs()
    return False


@functools.cache
def _log_that_the_loop_runs() -> None:
    logging.info("lstm_kernel=cudnn: this graph is not for an NVIDIA GPU; the loop computes the same result")


def cudnn_lstm(
    inputs: tf.Tensor, mask: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, *, is_training: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """The same as `lstm`, by cuDNN's kernel, but outputs after the last frame of a video are undefined.

    The kernel takes one flat vector for all weights of a layer. Each step packs our variables into it, so variables
    and checkpoints are those of the loop, and gradients reach them through the packing.

    Every row runs to the end of the longest one, since no output depends on a later frame. So the kernel's code for
    unequal lengths is not needed, nor a special case for rows without a frame, which the kernel would refuse.
    The kernel always computes in float32, on tensor cores with operands of 11 significant bits (TF32).
    TensorFlow does not run its bfloat16 version on tensor cores, and that would also round states.

    Args:
      inputs: float32 [T, B, D], time first.
      mask: float32 [T, B], 1 at real frames, which come first.
      kernel: float32 [D + cells, 4 * cells], gates in the order of `lstm`.
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
    """float32 [4 * cells * (D + cells + 2)], the weights of one layer as cuDNN's kernel takes them.

    Gate by gate: matrices for the input [cells, D], matrices for the state [cells, cells], biases [cells]
    of the input, biases of the state. The kernel adds the two biases. Our biases become those of the input, plus the 1
    that the loop adds for the forget gate; those of the state are 0.

    Args:
      kernel: see `cudnn_lstm`.
      bias: see `cudnn_lstm`.

    The order is that of NVIDIA cuDNN, `cudnnRNNMode_t` (CUDNN_LSTM) and `cudnnGetRNNWeightParams`; Keras relies on
    the same order of the parts (`_standardize_cudnn_weights`).
    """
    features = int(kernel.shape[0]) - int(bias.shape[0]) // 4
    matrices = _in_cudnn_order(tf.transpose(kernel))
    write, keep, fresh, show = _in_cudnn_order(bias)
    of_input = [tf.reshape(matrix[:, :features], [-1]) for matrix in matrices]
    of_state = [tf.reshape(matrix[:, features:], [-1]) for matrix in matrices]
    biases = [write, keep + 1.0, fresh, show, tf.zeros_like(bias)]
    return tf.concat([*of_input, *of_state, *biases], 0)


def _in_cudnn_order(gates: tf.Tensor) -> list[tf.Tensor]:
    """Splits our gates along the first axis and returns them in the order of cuDNN."""
    write, fresh, keep, show = tf.split(gates, 4, 0)
    return [write, keep, fresh, show]


@dataclass(frozen=True)
class RecurrentModel(ClassifiedModel, abc.ABC):
    """A classifier on the state after the last real frame.

    Attributes:
      family: prefix of the names of the model's own fields, as in the published flags.
    """

    family: ClassVar[str]

    sequence_frames: int = option(
        0,
        "number of frames that training reads: consecutive ones from a random start, or single ones; 0: all frames",
        minimum=0,
    )
    all_layers: bool = option(False, "classify the final states of all layers, not only of the last one")

    def validate(self) -> None:
        """Refuses to draw single frames without their number.

        Raises:
          UsageError: single frames are to be drawn, but sequence_frames is 0.
        """
        super().validate()
        if self.draws_single_frames and not self.sequence_frames:
            raise UsageError(
                f"{type(self).__name__}: {self.family}_random_sequence draws sequence_frames single frames; "
                "sequence_frames must be at least 1; it is 0"
            )

    @property
    def draws_single_frames(self) -> bool:
        """Whether training reads single frames in random order rather than a run of frames."""
        return bool(getattr(self, f"{self.family}_random_sequence"))

    @abc.abstractmethod
    def finals(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
        """The final state [B, H] of each layer, from inputs [B, T, D] with mask [B, T]."""

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        inputs, num_frames = self._read(net, inputs, num_frames)
        states = self.finals(net, inputs, frames.mask(inputs, num_frames))
        return self.classify(net, tf.concat(states, 1) if self.all_layers else states[-1], vocab_size)

    def _read(self, net: Net, inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor | None]:
        """(the frames that are read, the number of real ones [B]): a sample in training, else all frames.

        A model that was trained on single frames reads as many evenly spaced ones in evaluation, because its final
        state depends on how many steps there were.
        """
        if not self.sequence_frames or not (net.is_training or self.draws_single_frames):
            return inputs, num_frames
        count = tf.minimum(frames.count(inputs, num_frames), self.sequence_frames)
        if not net.is_training:
            return frames.evenly_spaced(inputs, num_frames, self.sequence_frames), count
        scattered = self.draws_single_frames
        return frames.sample(inputs, num_frames, self.sequence_frames, scattered=scattered, is_training=True), count


def random_sequence() -> Any:
    """The declaration of an option `*_random_sequence`, which several models have."""
    return option(
        False, "read sequence_frames single frames, drawn with replacement, in random order, not consecutive ones"
    )


@register
@dataclass(frozen=True)
class LstmModel(RecurrentModel):
    """A stack of LSTM layers."""

    family: ClassVar[str] = "lstm"

    lstm_cells: int = option(1024, "cells of each layer", minimum=1)
    lstm_layers: int = option(2, "number of layers", minimum=1)
    lstm_memory: bool = option(False, "classify the memory c of a layer too, besides its output h, as published")
    lstm_random_sequence: bool = random_sequence()
    lstm_kernel: str = option(
        LOOP,
        "kernel of the layers on a GPU: this package's loop, or cuDNN's; both use the same weights",
        shapes="graph",
        choices=(LOOP, CUDNN),
    )

    def validate(self) -> None:
        """Refuses cuDNN's kernel for a classifier on the memory.

        Raises:
          UsageError: lstm_memory is set, but cuDNN's kernel does not give the memory.
        """
        super().validate()
        if self.lstm_memory and self.lstm_kernel == CUDNN:
            raise UsageError(
                f"{type(self).__name__}: lstm_kernel must be {LOOP} if lstm_memory is set; cuDNN's kernel does not "
                "give the memory after the last frame of a video"
            )

    @property
    def layer(self) -> Layer:
        """One layer, in the form that `recurrent.stack` expects."""
        return functools.partial(lstm, kernel=self.lstm_kernel, with_memory=self.lstm_memory)

    def finals(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
        """The final states of layers that run forwards."""
        return stack(self.layer, net, inputs, mask, self.lstm_cells, self.lstm_layers)[1]


@register
@dataclass(frozen=True)
class GruModel(RecurrentModel):
    """A stack of GRU layers."""

    family: ClassVar[str] = "gru"

    gru_cells: int = option(1200, "cells of each layer", minimum=1)
    gru_layers: int = option(2, "number of layers", minimum=1)
    gru_random_sequence: bool = random_sequence()

    def finals(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
        """The final states of layers that run forwards."""
        return stack(gru, net, inputs, mask, self.gru_cells, self.gru_layers)[1]


@register
@dataclass(frozen=True)
class BiLstmModel(LstmModel):
    """Two stacks of LSTM layers, one forwards and one backwards, whose outputs are concatenated."""

    def finals(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
        """The final states of both directions, concatenated."""
        return both_ways(self.layer, net, inputs, mask, self.lstm_cells, self.lstm_layers, "bidirectional_rnn")[1]
