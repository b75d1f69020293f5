"""The layers of models, built on `tf.nn`, with the variable names and initialisers of slim."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from yt8m.lazy import tf
from yt8m.numerics import across_towers, precision, random_keys, whole_blocks
from yt8m.numerics.compiled import add_biases
from yt8m.numerics.control_flow import cond_in_place
from yt8m.types import ModelOutput

BATCH_NORM_EPSILON = 1e-3  # added to a variance before its root, as in slim
BATCH_NORM_DECAY = 0.999  # the default decay of the moving averages of batch normalisation, as in slim
LAYER_NORM_EPSILON = 1e-6  # the default of the number that layer normalisation adds to a variance


# A function that makes two initialisers: of the weights and of the biases of a dense layer.
MakeInitializers = Callable[[], tuple[Any, Any]]


def xavier() -> tuple[Any, Any]:
    """Initialisers of a dense layer: Xavier uniform weights (Glorot and Bengio 2010), zero biases."""
    return tf.glorot_uniform_initializer(), tf.zeros_initializer()


def normal(weights: float, biases: float = 0.01) -> MakeInitializers:
    """Normal weights and biases of mean 0; `weights` and `biases` are their standard deviations."""
    return lambda: (tf.random_normal_initializer(stddev=weights), tf.random_normal_initializer(stddev=biases))


def scaled(fan_in: int) -> MakeInitializers:
    """Truncated normal weights of variance 2 / fan_in (He et al. 2015), zero biases, as in slim.

    Args:
      fan_in: number of inputs of a unit.
    """
    # As in slim, the factor 1.3 makes up for the variance that the truncation takes away: 1.3 * 2 = 2.6.
    return lambda: (tf.truncated_normal_initializer(stddev=math.sqrt(2.6 / fan_in)), tf.zeros_initializer())


class Net:
    """One build of a model: makes its layers and collects what they add to a training step.

    Args:
      is_training: see the attribute.
      batch_norm_decay: decay of the moving averages of batch normalisation.

    Attributes:
      is_training: whether batch statistics, dropout and random samples are used.
      penalties: regularisation terms, scalars.
      update_ops: ops that run once in each training step.
      labels: float32 [B, C], for a classifier that computes a loss of its own; None if the model got no labels.
    """

    labels: tf.Tensor | None = None

    def __init__(self, is_training: bool, batch_norm_decay: float = BATCH_NORM_DECAY) -> None:
        self.is_training, self._batch_norm_decay = is_training, batch_norm_decay
        self.penalties: list[tf.Tensor] = []
        self.update_ops: list[tf.Operation] = []

    def variable(
        self, name: str, shape: list[int], initializer: Any, *, l2_penalty: float = 0.0, trainable: bool = True
    ) -> tf.Tensor:
        """A float32 variable, made by the first tower and reused by the others.

        Args:
          name: name of the variable in the current scope.
          shape: its shape.
          initializer: gives its initial value.
          l2_penalty: factor of its L2 loss (half the sum of its squares) in `penalties`; 0: none is added.
          trainable: whether training changes it.
        """
        # The collections are those of slim's `model_variable`.
        collections = [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES]
        variable = tf.get_variable(
            name, shape, tf.float32, initializer, trainable=trainable, collections=collections, use_resource=True
        )
        if not trainable:
            return variable
        value = _read_once(variable)
        if l2_penalty:
            self.penalties.append(l2_penalty * tf.nn.l2_loss(value))
        return value

    def normal_weights(self, name: str, features: int, units: int) -> tf.Tensor:
        """Weights [features, units] whose initial values have mean 0 and standard deviation 1 / sqrt(features)."""
        return self.variable(name, [features, units], tf.random_normal_initializer(stddev=1 / math.sqrt(features)))

    def normalised_product(
        self,
        inputs: tf.Tensor,
        units: int,
        name: str,
        mask: tf.Tensor,
        *,
        batch_norm: bool,
        bias_stddev: float | None = None,
    ) -> tf.Tensor:
        """A linear layer with `normal_weights`, then batch normalisation or biases: [..., F] -> [..., units].

        Args:
          inputs: float32 [..., F].
          units: number of outputs.
          name: prefix of the names of the variables.
          mask: see `batch_norm`.
          batch_norm: whether to normalise; otherwise biases are added.
          bias_stddev: standard deviation of the initial biases; None for that of the weights.
        """
        features = int(inputs.shape[-1])
        outputs = precision.product(inputs, self.normal_weights(f"{name}_weights", features, units))
        if batch_norm:
            return self.batch_norm(outputs, f"{name}_bn", mask)
        initializer = tf.random_normal_initializer(stddev=bias_stddev or 1 / math.sqrt(features))
        return outputs + self.variable(f"{name}_biases", [units], initializer)

    def dense(
        self,
        inputs: tf.Tensor,
        units: int,
        scope: str = "fully_connected",
        *,
        bias: bool = True,
        l2_penalty: float = 0.0,
        l2_biases: bool = False,
        make_initializers: MakeInitializers = xavier,
    ) -> tf.Tensor:
        """A linear layer: inputs [..., F] times weights, plus biases, [..., units].

        Args:
          inputs: float32 [..., F].
          units: number of outputs.
          scope: variable scope of `weights` and `biases`.
          bias: whether there are biases.
          l2_penalty: factor of the L2 loss of the weights (half the sum of their squares).
          l2_biases: whether the L2 loss includes the biases.
          make_initializers: makes the initialisers of weights and biases.
        """
        weights_initializer, biases_initializer = make_initializers()
        with tf.variable_scope(scope):
            shape = [int(inputs.shape[-1]), units]
            weights = self.variable("weights", shape, weights_initializer, l2_penalty=l2_penalty)
            outputs = precision.wide_product(inputs, weights)
            if bias:
                of_biases = l2_penalty if l2_biases else 0.0
                biases = self.variable("biases", [units], biases_initializer, l2_penalty=of_biases)
                outputs = add_biases(outputs, whole_blocks.extend_columns(biases))
        return whole_blocks.cut(outputs, units)

    def batch_norm(
        self, inputs: tf.Tensor, scope: str, mask: tf.Tensor | None = None, *, biased: bool = False
    ) -> tf.Tensor:
        """Batch normalisation over the last axis (Ioffe and Szegedy 2015), with scale and centre.

        In training the statistics are those of this tower's rows, as in the published code, so a result depends on the
        number of towers. With `--sync_batch_norm` (an `across_towers.Exchange`) the statistics are those of the rows of
        all towers, and N towers train like one.

        Args:
          inputs: float32 [..., F].
          scope: variable scope of `beta`, `gamma` and the moving averages.
          mask: bool or float, of the shape of `inputs` without F; rows with 0 are left out of the
            statistics of training (they are normalised like the others). None if all rows count.
          biased: whether the moving average is that of S / n rather than of the unbiased estimate S / (n - 1), S being
            the sum of the squared deviations of the n rows from their mean.
        """
        size = [int(inputs.shape[-1])]
        with tf.variable_scope(scope):
            beta = self.variable("beta", size, tf.zeros_initializer())
            gamma = self.variable("gamma", size, tf.ones_initializer())
            mean = self.variable("moving_mean", size, tf.zeros_initializer(), trainable=False)
            variance = self.variable("moving_variance", size, tf.ones_initializer(), trainable=False)
        if not self.is_training:
            scale = gamma * tf.math.rsqrt(variance + BATCH_NORM_EPSILON)
            return inputs * scale + (beta - mean * scale)
        rows = tf.reshape(inputs, [-1, size[0]])
        outputs, count, batch_mean, batch_variance = _normalise(rows, mask, gamma, beta)
        if biased:
            batch_variance *= tf.maximum(count - 1.0, 1.0) / tf.maximum(count, 1.0)
        # Without a valid row the moving averages do not change.
        rate = tf.where(count > 0.0, 1.0 - self._batch_norm_decay, 0.0)
        self.update_ops += _update_averages((mean, variance), (batch_mean, batch_variance), rate)
        return tf.reshape(outputs, tf.shape(inputs))

    def layer_norm(self, inputs: tf.Tensor, scope: str, *, epsilon: float = LAYER_NORM_EPSILON) -> tf.Tensor:
        """Layer normalisation over the last axis (Ba et al. 2016), with scale and centre.

        Args:
          inputs: float32 [..., F].
          scope: variable scope of `beta` and `gamma`.
          epsilon: added to the variance.
        """
        size = [int(inputs.shape[-1])]
        with tf.variable_scope(scope):
            beta = self.variable("beta", size, tf.zeros_initializer())
            gamma = self.variable("gamma", size, tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
        return (inputs - mean) * tf.math.rsqrt(variance + epsilon) * gamma + beta

    def dropout(self, inputs: tf.Tensor, rate: float) -> tf.Tensor:
        """Zeroes a share `rate` of the values [B, F] or [B, T, F] in training; scales the others to match."""
        if not self.is_training or not rate:
            return inputs
        # The time axis is the first of the draws. So the draws of real frames are the same, however much padding
        # follows them.
        order = [1, 0, 2] if inputs.shape.rank == 3 else [0, 1]
        draws = tf.random.stateless_uniform(tf.gather(tf.shape(inputs), order), random_keys.next_seed())
        is_kept = tf.transpose(draws, order) >= rate
        return tf.where(is_kept, inputs / (1.0 - rate), tf.zeros_like(inputs))

    def absorb(self, output: ModelOutput) -> ModelOutput:
        """Moves the penalties and update ops of an output to this net; returns the output without them.

        Args:
          output: the output of a model inside of another one, such as a classifier.
        """
        if output.regularization_loss is not None:
            self.penalties.append(output.regularization_loss)
        self.update_ops += output.update_ops
        return dataclasses.replace(output, regularization_loss=None, update_ops=())

    def finish(self, output: ModelOutput) -> ModelOutput:
        """Returns `output` with the penalties and update ops that this net collected, besides its own."""
        output = self.absorb(output)
        return dataclasses.replace(
            output,
            regularization_loss=tf.add_n(self.penalties) if self.penalties else None,
            update_ops=tuple(self.update_ops),
        )


def _read_once(variable: Any) -> tf.Tensor:
    """The value of a variable on the device of the tower.

    Each use of a value on another device could copy it once more, so it is read once in a tower, and copied once. If
    weights are stored in few bits, `variable` is a tensor already.
    """
    value = tf.convert_to_tensor(variable)
    here = tf.identity(value)
    return value if not hasattr(variable, "handle") or here.device == variable.device else here


def _update_averages(averages: Sequence[Any], values: Sequence[tf.Tensor], rate: tf.Tensor) -> list[tf.Operation]:
    """Ops that move each variable [F] towards its value [F] by the share `rate` of their difference.

    They run on the device of the variables. If the tower has another one, all values go there as one tensor.
    """
    device = averages[0].device
    if tf.identity(rate).device != device:
        size = int(values[0].shape[0])
        joined = tf.concat([*values, rate[tf.newaxis]], 0)
        with tf.device(device):
            *values, rate = tf.split(joined, [size] * len(values) + [1], 0)
    with tf.device(device):
        return [
            average.assign_sub((average.read_value() - value) * rate).op
            for average, value in zip(averages, values, strict=True)
        ]


# (outputs [N, F], number of rows that count, their mean [F], the unbiased estimate of their variance [F])
_Normalised = tuple[Any, Any, Any, Any]


def _normalise(rows: tf.Tensor, mask: tf.Tensor | None, gamma: tf.Tensor, beta: tf.Tensor) -> _Normalised:
    """Normalises the rows by the mean and the variance of those that count.

    TensorFlow's fused kernel is three times as fast as separate ops, but supports neither a mask nor statistics of
    other towers. It is used if every row counts and towers exchange no statistics.

    Args:
      rows: float32 [N, F].
      mask: as in `Net.batch_norm`, of N values.
      gamma: [F], the scale of the outputs.
      beta: [F], the mean of the outputs.
    """
    if mask is None and not across_towers.is_exchanging():
        return _normalise_fused(rows, gamma, beta)
    weights = tf.ones(tf.shape(rows)[:1]) if mask is None else tf.reshape(tf.cast(mask, tf.float32), [-1])
    if across_towers.is_exchanging():
        statistics = _statistics(rows, weights * across_towers.has_examples())
        return _normalise_by(_combine_towers(*statistics), rows, gamma, beta)
    return cond_in_place(
        tf.reduce_all(weights > 0.0),
        lambda: _normalise_fused(rows, gamma, beta),
        lambda: _normalise_by(_statistics(rows, weights), rows, gamma, beta),
    )


def _normalise_fused(rows: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> _Normalised:
    """Does what `_normalise` does if all rows count, by TensorFlow's fused kernel."""
    size = rows.shape[-1]
    outputs, mean, variance = tf.nn.fused_batch_norm(
        tf.reshape(rows, [-1, 1, 1, size]), gamma, beta, epsilon=BATCH_NORM_EPSILON, is_training=True
    )
    return tf.reshape(outputs, [-1, size]), tf.cast(tf.shape(rows)[0], tf.float32), mean, variance


# (number of rows that count, their mean [F], their variance [F])
_Statistics = tuple[Any, Any, Any]


def _statistics(rows: tf.Tensor, weights: tf.Tensor) -> _Statistics:
    """The statistics of the rows [N, F] whose weight in `weights` [N] is 1 rather than 0; all 0 without such a row."""
    count = tf.reduce_sum(weights)
    shares = (weights / tf.maximum(count, 1.0))[tf.newaxis, :]
    mean = tf.matmul(shares, rows)[0]
    return count, mean, tf.matmul(shares, tf.square(rows - mean))[0]


def _combine_towers(count: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> _Statistics:
    """Combines the statistics of this tower with those of all others (Chan, Golub and LeVeque 1983).

    Each tower gives its variance about its own mean, not its sum of squares, which would lose digits if the mean is
    large. A tower has the weight of its number of rows that count.
    """
    size = int(mean.shape[0])
    gathered = across_towers.gathered(tf.concat([count[tf.newaxis], mean, variance], 0))
    counts, means, variances = tf.split(gathered, [1, size, size], axis=1)
    total = tf.reduce_sum(counts)
    shares = counts / tf.maximum(total, 1.0)
    common_mean = tf.reduce_sum(shares * means, 0)
    return total, common_mean, tf.reduce_sum(shares * (variances + tf.square(means - common_mean)), 0)


def _normalise_by(statistics: _Statistics, rows: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> _Normalised:
    """Normalises rows [N, F] by given statistics; the other arguments are those of `_normalise`."""
    count, mean, variance = statistics
    outputs = (rows - mean) * (gamma * tf.math.rsqrt(variance + BATCH_NORM_EPSILON)) + beta
    # The variance that the moving average gets is the unbiased estimate, as the fused kernel returns it.
    return outputs, count, mean, variance * count / tf.maximum(count - 1.0, 1.0)


def context_gating(
    net: Net, inputs: tf.Tensor, scope: str = "gating", *, valid: tf.Tensor | None = None, remove_diagonal: bool = False
) -> tf.Tensor:
    """x * sigmoid(BN(W x)), [B, F] (context gating, Miech et al. 2017, equation 1).

    Args:
      net: makes the layers.
      inputs: x, float32 [B, F].
      scope: variable scope of the gates.
      valid: [B], true for rows that count in the batch statistics; None if all count.
      remove_diagonal: whether to remove each feature from the inputs of its own gate.
    """
    features = int(inputs.shape[-1])
    with tf.variable_scope(scope):
        weights = net.normal_weights("weights", features, features)
        if remove_diagonal:
            weights = weights * (1.0 - tf.eye(features))
        return inputs * tf.sigmoid(net.batch_norm(precision.product(inputs, weights), "bn", valid))


def squeeze_excite(
    net: Net,
    inputs: tf.Tensor,
    reduction: int,
    *,
    valid: tf.Tensor | None = None,
    bias: bool = True,
    biased: bool = False,
) -> tf.Tensor:
    """x * sigmoid(W2 relu(BN(W1 x)) + b), [B, F] (squeeze and excitation, Hu et al. 2018, section 3).

    Args:
      net: makes the layers.
      inputs: x, float32 [B, F].
      reduction: W1 maps the F features to F / reduction units, but at least to one.
      valid: [B], true for rows that count in the batch statistics; None if all count.
      bias: whether b is added. Without b the weights are initialised by `scaled`, as in the published NeXtVLAD.
      biased: see `Net.batch_norm`.
    """
    features = int(inputs.shape[-1])
    units = max(features // reduction, 1)
    initializers = (xavier, xavier) if bias else (scaled(features), scaled(units))
    with tf.variable_scope("se_gating"):
        squeezed = net.dense(inputs, units, "squeeze", bias=False, make_initializers=initializers[0])
        squeezed = tf.nn.relu(net.batch_norm(squeezed, "bn", valid, biased=biased))
        excited = net.dense(squeezed, features, "excite", bias=bias, make_initializers=initializers[1])
        return inputs * tf.sigmoid(excited)
