"""Models that read the frames in order, and their recurrent layers.

A layer runs in a loop over the time steps (frames). Two costly products are computed once for all steps: that of the
inputs and their weights before the loop, and the gradient of the recurrent weights after it. Inside the loop, only the
state is multiplied. Steps after the last frame of a video leave its state unchanged; on a CPU `train`, `eval` and
`inference` do not compute them (`time_steps`). On a GPU an LSTM may run cuDNN's kernel instead of the loop
(`cudnn_lstm`).
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
from yt8m.models import frames, time_steps
from yt8m.models.base import ClassifiedModel, register
from yt8m.models.layers import Net
from yt8m.models.time_steps import States
from yt8m.numerics import precision
from yt8m.numerics.compiled import custom_gradient, is_on_gpu
from yt8m.options import option
from yt8m.types import ModelOutput

LOOP, CUDNN = "loop", "cudnn"  # the values of the option `lstm_kernel`, see `lstm`

# preactivation(k, operand) -> [B, units]: the input at this time step times the k-th input weights of the layer, plus
# the operand [B, cells] times its k-th recurrent weights. An LSTM has one pair of weights, a GRU two.
Preactivation = Callable[[int, Any], Any]
Step = Callable[[Preactivation, States], States]  # (preactivation, states) -> the states one time step later


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
      net: makes the variables.
      inputs: float32 [T, B, D], time first.
      mask: float32 [T, B], 1 at real frames, which come first.
      cells: number of cells.
      scope: name of the variable scope.
      kernel: "loop", or "cudnn" to use cuDNN's kernel if the layer is on a GPU.
      with_memory: whether the final state is the memory c and the output h, side by side; otherwise it is h alone. With
        the memory the loop always runs: cuDNN's kernel runs all videos to the end of the longest one, and does not
        return the c that a shorter one has at its own end.

    Returns:
      The output h at every step, [T, B, cells], without a meaning at padding; and the state after the last real frame,
      [B, cells or 2 * cells], zeros for a video without a real frame.
    """
    with tf.variable_scope(f"{scope}/basic_lstm_cell"):
        variables = _make_weights(net, inputs, cells, 4 * cells, tf.zeros_initializer())
        if not with_memory and runs_cudnn(kernel, mask):
            return cudnn_lstm(inputs, mask, *variables, is_training=net.is_training)
        steps = time_steps.choose_frames(mask, is_training=net.is_training)
        products, weights = _input_products(steps.rows(inputs), *variables)

    def step(preactivation: Preactivation, states: States) -> States:
        memory, hidden = states
        input_gate, candidate, forget_gate, output_gate = steps.gates(preactivation(0, hidden), 4)
        memory = tf.sigmoid(forget_gate + 1.0) * memory + tf.sigmoid(input_gate) * tf.tanh(candidate)
        return memory, tf.sigmoid(output_gate) * tf.tanh(memory)

    # Products of the same few rows in every step are faster with weights that are transposed before the loop.
    is_transposed = not net.is_training and isinstance(steps, time_steps.PaddedFrames)
    layout = _StateLayout(2, kept=2 if with_memory else 1, is_transposed=is_transposed)
    return _run_over_time(step, [products], [weights], steps, cells, layout)


def gru(net: Net, inputs: tf.Tensor, mask: tf.Tensor, cells: int, scope: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Gated recurrent unit (Cho et al. 2014), gate biases initially 1; arguments and results are those of `lstm`."""
    steps = time_steps.choose_frames(mask, is_training=net.is_training)
    rows = steps.rows(inputs)
    with tf.variable_scope(f"{scope}/gru_cell"):
        with tf.variable_scope("gates"):
            gates, gate_weights = _input_products(
                rows, *_make_weights(net, inputs, cells, 2 * cells, tf.ones_initializer())
            )
        with tf.variable_scope("candidate"):
            candidate, candidate_weights = _input_products(
                rows, *_make_weights(net, inputs, cells, cells, tf.zeros_initializer())
            )

    def step(preactivation: Preactivation, states: States) -> States:
        (hidden,) = states
        reset_gate, update_gate = steps.gates(tf.sigmoid(preactivation(0, hidden)), 2)
        proposed = tf.tanh(preactivation(1, reset_gate * hidden))
        return (update_gate * hidden + (1.0 - update_gate) * proposed,)

    return _run_over_time(
        step, [gates, candidate], [gate_weights, candidate_weights], steps, cells, _StateLayout(1, kept=1)
    )


class _StateLayout(NamedTuple):
    """The state tensors of a layer, and how they are multiplied.

    Attributes:
      states: number of state tensors [B, cells].
      kept: number of state tensors that are concatenated to the final state; they are the last ones.
      is_transposed: whether the recurrent weights are transposed before the loop, for `precision.few_rows_in_loop`.
    """

    states: int
    kept: int
    is_transposed: bool = False


Layer = Callable[..., tuple[Any, Any]]  # `lstm` or `gru`, perhaps with some arguments set


def stack(
    layer: Layer, net: Net, inputs: tf.Tensor, mask: tf.Tensor, cells: int, layers: int, scope: str = "rnn"
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs recurrent layers one after another, each on the outputs of the one before.

    Args:
      layer: a layer such as `lstm`.
      net: makes the variables.
      inputs: float32 [B, T, D].
      mask: float32 [B, T], 1 at real frames, which come first.
      cells: number of cells of each layer.
      layers: number of layers.
      scope: name of the variable scope.

    Returns:
      The outputs of the last layer, [B, T, cells], without a meaning at padding; and the final state of each layer, as
      `layer` returns it.
    """
    outputs, mask_by_time = tf.transpose(inputs, [1, 0, 2]), tf.transpose(mask)
    finals = []
    for index in range(layers):
        outputs, final = layer(net, outputs, mask_by_time, cells, f"{scope}/multi_rnn_cell/cell_{index}")
        finals.append(final)
    return tf.transpose(outputs, [1, 0, 2]), finals


def bidirectional(
    layer: Layer, net: Net, inputs: tf.Tensor, mask: tf.Tensor, cells: int, layers: int, scope: str
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs one stack over the frames forwards and one backwards (Schuster and Paliwal 1997).

    The arguments are those of `stack`.

    Returns:
      The outputs of both at each frame, concatenated, [B, T, 2 * cells]; and the final state of each layer: the forward
      state followed by the backward state.
    """
    num_frames = tf.cast(tf.reduce_sum(mask, 1), tf.int32)
    forward, forward_finals = stack(layer, net, inputs, mask, cells, layers, f"{scope}/fw")
    reversed_inputs = tf.reverse_sequence(inputs, num_frames, seq_axis=1, batch_axis=0)
    backward, backward_finals = stack(layer, net, reversed_inputs, mask, cells, layers, f"{scope}/bw")
    backward = tf.reverse_sequence(backward, num_frames, seq_axis=1, batch_axis=0)
    finals = [tf.concat(pair, 1) for pair in zip(forward_finals, backward_finals, strict=True)]
    return tf.concat([forward, backward], 2), finals


def _make_weights(
    net: Net, inputs: tf.Tensor, cells: int, units: int, bias_initializer: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """The weights of a layer: kernel [features + cells, units] and bias [units]."""
    shape = [int(inputs.shape[-1]) + cells, units]
    kernel = net.variable("kernel", shape, tf.glorot_uniform_initializer())
    return kernel, net.variable("bias", [units], bias_initializer)


def _input_products(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Multiplies the inputs of all time steps by the weights of the inputs.

    Args:
      inputs: float32 [N, features], the rows of all time steps.
      kernel: [features + cells, units], the weights of the inputs, then those of the state.
      bias: [units].

    Returns:
      The products plus the bias, [N, units]; and the weights of the state, [cells, units].
    """
    features = int(inputs.shape[-1])
    # `product` takes a matrix to have few rows, so the rows get a third dimension.
    products = tf.squeeze(precision.product(inputs[tf.newaxis], kernel[:features]), 0)
    return products + bias, kernel[features:]


def _run_over_time(
    step: Step,
    inputs: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    steps: time_steps.Frames,
    cells: int,
    layout: _StateLayout,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs `step` for all time steps.

    For the gradient, the loop is differentiated as if the recurrent weights were constant. In each step the products
    with the inputs and those with the weights are added, so both have the same gradient. The gradient of the weights
    is then one product after the loop: the transposed operands times this gradient.

    Args:
      step: computes the next states.
      inputs: products [N, units] of `_input_products`, for each pair of weights.
      weights: recurrent weights [cells, units], for each pair of weights.
      steps: the frames of the N rows.
      cells: number of cells, H.
      layout: the states.

    Returns:
      The last state tensor at every time step, [T, B, H]; and the final state, [B, H * layout.kept].
    """
    count, current_precision = len(inputs), precision.current()

    def run(*arguments: tf.Tensor) -> Any:
        own_inputs, own_weights = arguments[:count], arguments[count:]
        outputs, final, operands = _run_loop(step, own_inputs, own_weights, steps, cells, layout)

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            of_inputs = tf.gradients([outputs, final], own_inputs, upstream)
            with precision.scope(current_precision):  # this may run after the model left its scope
                return of_inputs + [
                    precision.matmul(operand, input_gradient, transpose_a=True)
                    for operand, input_gradient in zip(operands, of_inputs, strict=True)
                ]

        return (outputs, final), gradient

    outputs, final = custom_gradient(run)(*inputs, *weights)
    return steps.in_time(outputs), final


def _run_loop(
    step: Step,
    inputs: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    steps: time_steps.Frames,
    cells: int,
    layout: _StateLayout,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Runs the loop of `_run_over_time`.

    Returns:
      The outputs [N, H], the final state [B, H * layout.kept], and the operands [N, H] of each product with recurrent
      weights, for the gradient.
    """
    reads = [steps.by_time(values) for values in inputs]
    count = layout.kept if steps.needs_rows_of_final else 1  # of states whose rows are written
    lay_out, multiply = (
        (tf.transpose, precision.few_rows_in_loop) if layout.is_transposed else (tf.identity, precision.few_rows)
    )
    constant_weights = [tf.stop_gradient(precision.rounded(lay_out(values))) for values in weights]

    def body(time: tf.Tensor, states: States, written: States) -> Any:
        operands: list[tf.Tensor] = []

        def preactivation(index: int, operand: tf.Tensor) -> tf.Tensor:
            operands.append(operand)
            return reads[index].read(time) + multiply(operand, constant_weights[index])

        new_states = step(preactivation, tuple(steps.before(time, state) for state in states))
        states = steps.after(time, states, new_states)
        values = (*states[-count:], *operands)
        return time + 1, states, tuple(a.write(time, v) for a, v in zip(written, values, strict=True))

    zeros = tuple(tf.zeros([steps.videos, cells]) for _ in range(layout.states))
    empty = tuple(steps.to_write(cells) for _ in range(count + len(weights)))
    shapes = (
        tf.TensorShape([]),
        (tf.TensorShape([None, cells]),) * layout.states,
        (tf.TensorShape(None),) * len(empty),
    )
    _, final, written = tf.while_loop(lambda time, *_: time < steps.times, body, (0, zeros, empty), shapes)
    rows = [steps.written(array, cells) for array in written]
    rows_of_final = rows[:count] if steps.needs_rows_of_final else [None] * layout.kept
    finals = [steps.final(*pair) for pair in zip(final[-layout.kept :], rows_of_final, strict=True)]
    return rows[count - 1], tf.concat(finals, 1), rows[count:]


def runs_cudnn(kernel: str, tensor: tf.Tensor) -> bool:
    """Whether `kernel` is "cudnn" and the ops run on a GPU that supports cuDNN. Logs once if cuDNN cannot run.

    Args:
      kernel: "loop" or "cudnn".
      tensor: any tensor; a copy of it shows on which device the ops run.
    """
    if kernel != CUDNN:
        return False
    # On an AMD GPU (ROCm) another library implements the op, and it expects the gates in another order.
    if is_on_gpu(tf.identity(tensor)) and not tf.test.is_built_with_rocm():
        return True
    _log_that_the_loop_runs()
    return False


@functools.cache
def _log_that_the_loop_runs() -> None:
    """Logs, once in this process, that cuDNN was chosen but cannot run."""
    logging.info("lstm_kernel=cudnn: this graph is not for an NVIDIA GPU; the loop computes the same result")


def cudnn_lstm(
    inputs: tf.Tensor, mask: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, *, is_training: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes what `lstm` does, by cuDNN's kernel; but outputs after the last frame of a video are undefined.

    The kernel takes one flat vector with all weights of a layer. Each step packs the variables into it. So variables
    and checkpoints are the same as with the loop, and gradients reach the variables through the packing.

    All videos run to the end of the longest one, which changes nothing, since no output depends on a later frame. So
    the kernel needs no lengths of videos, and a video without a frame, which the kernel would refuse, is no special
    case. The kernel always computes in float32, on tensor cores with operands of 11 significant bits (TF32). Its
    bfloat16 version is not used: TensorFlow does not run it on tensor cores, and it would round the states too.

    Args:
      inputs: float32 [T, B, D], time first.
      mask: float32 [T, B], 1 at real frames, which come first.
      kernel: float32 [D + cells, 4 * cells], gates in the order of `lstm`.
      bias: float32 [4 * cells].
      is_training: whether gradients will be taken.
    """
    times, rows = tf.unstack(tf.shape(mask))
    initial_state = tf.zeros([1, rows, int(bias.shape[0]) // 4])
    outputs = tf.raw_ops.CudnnRNNV3(
        input=inputs,
        input_h=initial_state,
        input_c=initial_state,
        params=pack_for_cudnn(kernel, bias),
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


def pack_for_cudnn(kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Packs the weights of a layer (see `cudnn_lstm`) into cuDNN's vector, float32 [4 * cells * (D + cells + 2)].

    The vector has four parts, each of which has the four gates one after another: matrices for the input [cells, D],
    matrices for the state [cells, cells], biases [cells] of the input, biases [cells] of the state. The kernel adds the
    two biases. `bias` is used for the input, plus the 1 that the loop adds for the forget gate; the biases of the state
    are 0. The order is that of NVIDIA cuDNN, `cudnnRNNMode_t` (CUDNN_LSTM) and `cudnnGetRNNWeightParams`; Keras relies
    on the same order of the parts (`_standardize_cudnn_weights`).
    """
    features = int(kernel.shape[0]) - int(bias.shape[0]) // 4
    matrices = _in_cudnn_order(tf.transpose(kernel))
    input_gate, forget_gate, candidate, output_gate = _in_cudnn_order(bias)
    of_input = [tf.reshape(matrix[:, :features], [-1]) for matrix in matrices]
    of_state = [tf.reshape(matrix[:, features:], [-1]) for matrix in matrices]
    biases = [input_gate, forget_gate + 1.0, candidate, output_gate, tf.zeros_like(bias)]
    return tf.concat([*of_input, *of_state, *biases], 0)


def _in_cudnn_order(gates: tf.Tensor) -> list[tf.Tensor]:
    """Splits gates in the order of `lstm` along the first axis, and returns them in the order of cuDNN."""
    input_gate, candidate, forget_gate, output_gate = tf.split(gates, 4, 0)
    return [input_gate, forget_gate, candidate, output_gate]


@dataclass(frozen=True)
class RecurrentModel(ClassifiedModel, abc.ABC):
    """Recurrent layers, and a classifier on their state after the last real frame.

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
        """Refuses to draw single frames without a number of frames.

        Raises:
          UsageError: single frames are to be drawn (`*_random_sequence`), but sequence_frames is 0.
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
        """Runs the layers on inputs [B, T, D] with mask [B, T]; returns the final state of each, [B, H]."""

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        inputs, num_frames = self._read(net, inputs, num_frames)
        states = self.finals(net, inputs, frames.mask(inputs, num_frames))
        return self.classify(net, tf.concat(states, 1) if self.all_layers else states[-1], vocab_size)

    def _read(self, net: Net, inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Chooses the frames that the layers read: a sample in training, else all frames.

        A model that was trained on single frames reads as many evenly spaced ones in evaluation, because its final
        state depends on the number of steps.

        Returns:
          The frames, [B, S, D], and the number of real ones among them, [B] (None if all are real).
        """
        if not self.sequence_frames or not (net.is_training or self.draws_single_frames):
            return inputs, num_frames
        count = tf.minimum(frames.count(inputs, num_frames), self.sequence_frames)
        if not net.is_training:
            return frames.evenly_spaced(inputs, num_frames, self.sequence_frames), count
        scattered = self.draws_single_frames
        return frames.sample(inputs, num_frames, self.sequence_frames, scattered=scattered, is_training=True), count


def random_sequence_option() -> Any:
    """Declares an option `*_random_sequence`, which several models have."""
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
    lstm_random_sequence: bool = random_sequence_option()
    lstm_kernel: str = option(
        LOOP,
        "kernel of the layers on a GPU: this package's loop, or cuDNN's; both use the same weights",
        shapes="graph",
        choices=(LOOP, CUDNN),
    )

    def validate(self) -> None:
        """Refuses cuDNN's kernel if the classifier gets the memory.

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
        """`lstm` with the options of this model, as `stack` takes it."""
        return functools.partial(lstm, kernel=self.lstm_kernel, with_memory=self.lstm_memory)

    def finals(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
        """Runs the layers forwards; returns the final state of each, [B, H]."""
        return stack(self.layer, net, inputs, mask, self.lstm_cells, self.lstm_layers)[1]


@register
@dataclass(frozen=True)
class GruModel(RecurrentModel):
    """A stack of GRU layers."""

    family: ClassVar[str] = "gru"

    gru_cells: int = option(1200, "cells of each layer", minimum=1)
    gru_layers: int = option(2, "number of layers", minimum=1)
    gru_random_sequence: bool = random_sequence_option()

    def finals(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
        """Runs the layers forwards; returns the final state of each, [B, H]."""
        return stack(gru, net, inputs, mask, self.gru_cells, self.gru_layers)[1]


@register
@dataclass(frozen=True)
class BiLstmModel(LstmModel):
    """Two stacks of LSTM layers, one forwards and one backwards; their final states, concatenated, are classified."""

    def finals(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
        """The final state of each layer: the forward state followed by the backward state, [B, 2 H]."""
        return bidirectional(self.layer, net, inputs, mask, self.lstm_cells, self.lstm_layers, "bidirectional_rnn")[1]
