"""Combines the gradients of several clones, and clips gradients by norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.lazy import tf

Gradient = Any  # tf.Tensor, tf.IndexedSlices, or None if the loss does not depend on the variable
GradientsAndVariables = Sequence[tuple[Gradient, Any]]


def combine_gradients(
    tower_grads: Sequence[GradientsAndVariables], weights: Sequence[Any] | None = None, mode: str = "sum"
) -> list[tuple[Gradient, Any]]:
    """Combines the (gradient, variable) lists of the towers into one list.

    Args:
      tower_grads: one list of (gradient, variable) pairs per tower, as `optimizer.compute_gradients` returns them.
      weights: one scalar per tower, the factor of its gradients; all 1 by default.
      mode: "sum" for the weighted sum, as in YouTube-8M's published trainer, or "mean" for the weighted sum divided by
        the sum of all weights.

    Returns:
      One (gradient, variable) pair for each variable for which at least one tower has a gradient. Towers without a
      gradient for the variable add nothing.

    Raises:
      ValueError: there is no tower, the mode is unknown, or `weights` has another length.
    """
    if mode not in ("sum", "mean"):
        raise ValueError(f"mode is {mode!r}; expected 'sum' or 'mean'")
    if not tower_grads:
        raise ValueError("tower_grads is empty; expected the gradients of at least one tower")
    if weights is not None and len(weights) != len(tower_grads):
        raise ValueError(f"weights has {len(weights)} entries; expected one for each of {len(tower_grads)}")
    factors = _factors(weights, len(tower_grads), mode)
    grouped = _group_by_variable(tower_grads)
    return [(_weighted_sum(gradients, factors, variable), variable) for gradients, variable in grouped]


def average_gradients(tower_grads: Sequence[GradientsAndVariables]) -> list[tuple[Gradient, Any]]:
    """The mean over the towers of each variable's gradient; the same as `combine_gradients(tower_grads, mode="mean")`.

    Args:
      tower_grads: one list of (gradient, variable) pairs per tower, as `optimizer.compute_gradients` returns them.
    """
    return combine_gradients(tower_grads, mode="mean")


def _group_by_variable(tower_grads: Sequence[GradientsAndVariables]) -> list[tuple[dict[int, Gradient], Any]]:
    """A pair ({index of a tower: its gradient}, variable) for each variable that has any, in order of appearance."""
    gradients: dict[int, tuple[dict[int, Gradient], Any]] = {}
    for tower, pairs in enumerate(tower_grads):
        for gradient, variable in pairs:
            if gradient is not None:
                gradients.setdefault(id(variable), ({}, variable))[0][tower] = gradient
    return list(gradients.values())


def _factors(weights: Sequence[Any] | None, count: int, mode: str) -> list[Any] | None:
    """The factor of each tower's gradient; None if all factors are 1."""
    if mode == "sum":
        return None if weights is None else list(weights)
    values = [tf.cast(weight, tf.float32) for weight in weights or [1.0] * count]
    total = tf.add_n(values)
    return [value / total for value in values]


def _weighted_sum(tower_gradients: Mapping[int, Gradient], factors: Sequence[Any] | None, variable: Any) -> Gradient:
    """The sum of the gradients of one variable times the factors of their towers; sparse if all gradients are.

    Args:
      factors: the factor of each tower, by index; None if all are 1.
    """
    gradients = list(tower_gradients.values())
    if factors is not None:
        gradients = [scale(gradient, factors[tower]) for tower, gradient in tower_gradients.items()]
    if len(gradients) == 1:
        return gradients[0]
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
        return tf.IndexedSlices(
            tf.concat([gradient.values for gradient in gradients], 0),
            tf.concat([tf.cast(gradient.indices, tf.int64) for gradient in gradients], 0),
            gradients[0].dense_shape,
        )
    name = f"{variable.op.name}/sum_grads" if hasattr(variable, "op") else None
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in gradients], name=name)


def gradients_after(
    ops: Sequence[tf.Operation], gradients_to_variables: GradientsAndVariables
) -> list[tuple[Gradient, Any]]:
    """The same pairs with copies of the gradients that are computed only after `ops` have run.

    If the caller applies the returned gradients, and not the original ones, `ops` run in every step. A summary or norm
    of the original gradients does not run `ops`.

    Args:
      ops: the ops that must run first, such as the update ops of batch norm.
      gradients_to_variables: (gradient, variable) pairs.
    """
    if not ops:
        return list(gradients_to_variables)
    with tf.control_dependencies(list(ops)):
        return [
            (None if gradient is None else with_values(gradient, tf.identity(values_of(gradient))), variable)
            for gradient, variable in gradients_to_variables
        ]


def scale(gradient: Gradient, factor: Any) -> Gradient:
    """`gradient * factor`, in the dtype of `gradient`; a sparse gradient stays sparse."""
    return with_values(gradient, values_of(gradient) * tf.cast(factor, gradient.dtype))


def values_of(gradient: Gradient) -> tf.Tensor:
    """The values of a gradient: the tensor itself if it is dense, the rows that are present if it is sparse."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def with_values(gradient: Gradient, values: tf.Tensor) -> Gradient:
    """A gradient that has `values` in place of the values of `gradient`, and its indices if `gradient` is sparse."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values


def gradient_norms(gradients: Sequence[Gradient]) -> tf.Tensor:
    """float32 [V], the L2 norm of each of V gradients. A sparse gradient has the norm of its values, None has 0."""
    return tf.stack([_norm(gradient) for gradient in gradients]) if gradients else tf.zeros([0])


def _norm(gradient: Gradient) -> tf.Tensor:
    if gradient is None:
        return tf.zeros([], tf.float32)
    # l2_loss halves the sum of squares, without a copy of the squares.
    return tf.sqrt(2.0 * tf.nn.l2_loss(tf.cast(values_of(gradient), tf.float32)))


def clip_gradient_norms(
    gradients_to_variables: GradientsAndVariables, max_norm: float, norms: tf.Tensor | None = None
) -> list[tuple[Gradient, Any]]:
    """The same pairs, with each gradient whose norm is larger than `max_norm` scaled down to that norm.

    Args:
      gradients_to_variables: V pairs (gradient, variable); a gradient that is None stays None.
      max_norm: upper limit of the L2 norm of each gradient, positive.
      norms: float32 [V], `gradient_norms` of the same gradients; computed here if None.

    Raises:
      ValueError: max_norm is not positive.
    """
    pairs = list(gradients_to_variables)
    norms = _check_and_compute_norms(pairs, max_norm, norms)
    return _scale_all(pairs, max_norm / tf.maximum(norms, max_norm))


def clip_by_global_norm(
    gradients_to_variables: GradientsAndVariables, max_norm: float, norms: tf.Tensor | None = None
) -> list[tuple[Gradient, Any]]:
    """The same pairs, with all gradients scaled by one factor so that their common norm is at most `max_norm`.

    The direction of the step does not change (Pascanu, Mikolov & Bengio 2013, algorithm 1).

    Args:
      gradients_to_variables: V pairs (gradient, variable); a gradient that is None stays None.
      max_norm: upper limit of the L2 norm of all gradients taken as one vector, positive.
      norms: float32 [V], `gradient_norms` of the same gradients; computed here if None.

    Raises:
      ValueError: max_norm is not positive.
    """
    pairs = list(gradients_to_variables)
    factor = max_norm / tf.maximum(tf.norm(_check_and_compute_norms(pairs, max_norm, norms)), max_norm)
    return _scale_all(pairs, tf.fill([len(pairs)], factor))


def _check_and_compute_norms(pairs: GradientsAndVariables, max_norm: float, norms: tf.Tensor | None) -> tf.Tensor:
    """Checks `max_norm`; returns `norms`, or the norms of the gradients in `pairs` if `norms` is None."""
    if not max_norm > 0:
        raise ValueError(f"max_norm is {max_norm}; expected a positive number")
    return gradient_norms([gradient for gradient, _ in pairs]) if norms is None else norms


def _scale_all(pairs: GradientsAndVariables, factors: tf.Tensor) -> list[tuple[Gradient, Any]]:
    """The V pairs with each gradient times its factor; gradients that are None stay None.

    If all factors are 1, as in most steps, no gradient is multiplied.

    Args:
      factors: float32 [V].
    """
    indices = [index for index, (gradient, _) in enumerate(pairs) if gradient is not None]
    if not indices:
        return list(pairs)
    unscaled = [values_of(pairs[index][0]) for index in indices]

    def multiply() -> list[tf.Tensor]:
        return [tf.cast(factors[i], values.dtype) * values for i, values in zip(indices, unscaled, strict=True)]

    scaled = tf.nest.flatten(tf.cond(tf.reduce_all(tf.equal(factors, 1.0)), lambda: unscaled, multiply))
    scaled_pairs = list(pairs)
    for index, before, after in zip(indices, unscaled, scaled, strict=True):
        after.set_shape(before.shape)
        scaled_pairs[index] = (with_values(pairs[index][0], after), pairs[index][1])
    return scaled_pairs
