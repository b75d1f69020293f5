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

    A variable for which only some towers have a gradient gets the combination of these. A variable without any gradient
    is dropped.

    Args:
      tower_grads: as `optimizer.compute_gradients` returns them, one list per tower.
      weights: one scalar per tower, the factor of its gradients; all 1 by default.
      mode: "sum", as in YouTube-8M's published trainer, or "mean", the weighted sum / the sum of the weights.

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
    return [
        (_weighted_sum(gradients, factors, variable), variable) for gradients, variable in _by_variable(tower_grads)
    ]


def average_gradients(tower_grads: Sequence[GradientsAndVariables]) -> list[tuple[Gradient, Any]]:
    """The mean over the towers of each variable's gradient; `combine_gradients` with mode "mean"."""
    return combine_gradients(tower_grads, mode="mean")


def _by_variable(tower_grads: Sequence[GradientsAndVariables]) -> list[tuple[dict[int, Gradient], Any]]:
    """Each variable that has a gradient, in the order of appearance, with its gradients by tower."""
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


def _weighted_sum(of_towers: Mapping[int, Gradient], factors: Sequence[Any] | None, variable: Any) -> Gradient:
    gradients = list(of_towers.values())
    if factors is not None:
        gradients = [scale(gradient, factors[tower]) for tower, gradient in of_towers.items()]
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
    """The same pairs, with gradients that are available only after `ops` have run.

    Apply the returned gradients. A summary or norm of the original gradients does not run `ops`.
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
    """`gradient` with its values replaced; a sparse gradient keeps its indices."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values


def gradient_norms(gradients: Sequence[Gradient]) -> tf.Tensor:
    """float32 [V], the L2 norm of each gradient. For IndexedSlices it is the norm of their values; for None it is 0."""
    return tf.stack([_norm(gradient) for gradient in gradients]) if gradients else tf.zeros([0])


def _norm(gradient: Gradient) -> tf.Tensor:
    if gradient is None:
        return tf.zeros([], tf.float32)
    # l2_loss halves the sum of squares, without a copy of the squares.
    return tf.sqrt(2.0 * tf.nn.l2_loss(tf.cast(values_of(gradient), tf.float32)))


def clip_gradient_norms(
    gradients_to_variables: GradientsAndVariables, max_norm: float, norms: tf.Tensor | None = None
) -> list[tuple[Gradient, Any]]:
    """Each gradient scaled down to `max_norm` if its own norm is larger; None stays None.

    Args:
      gradients_to_variables: V pairs (gradient, variable).
      max_norm: upper limit of each norm, positive.
      norms: `gradient_norms` of the same gradients, if the caller has computed them.

    Raises:
      ValueError: max_norm is not positive.
    """
    pairs = list(gradients_to_variables)
    norms = _norms_to_clip(pairs, max_norm, norms)
    return _scaled(pairs, max_norm / tf.maximum(norms, max_norm))


def clip_by_global_norm(
    gradients_to_variables: GradientsAndVariables, max_norm: float, norms: tf.Tensor | None = None
) -> list[tuple[Gradient, Any]]:
    """All gradients scaled by the same factor, so that their common norm is at most `max_norm`.

    The direction of the step does not change (Pascanu, Mikolov & Bengio 2013, algorithm 1). Arguments and errors
    are those of `clip_gradient_norms`.
    """
    pairs = list(gradients_to_variables)
    factor = max_norm / tf.maximum(tf.norm(_norms_to_clip(pairs, max_norm, norms)), max_norm)
    return _scaled(pairs, tf.fill([len(pairs)], factor))


def _norms_to_clip(pairs: GradientsAndVariables, max_norm: float, norms: tf.Tensor | None) -> tf.Tensor:
    if not max_norm > 0:
        raise ValueError(f"max_norm is {max_norm}; expected a positive number")
    return gradient_norms([gradient for gradient, _ in pairs]) if norms is None else norms


def _scaled(pairs: GradientsAndVariables, factors: tf.Tensor) -> list[tuple[Gradient, Any]]:
    """Each gradient times its factor from factors [V]; nothing is multiplied if all factors are 1, as in most steps."""
    places = [index for index, (gradient, _) in enumerate(pairs) if gradient is not None]
    if not places:
        return list(pairs)
    plain = [values_of(pairs[index][0]) for index in places]

    def scaled() -> list[tf.Tensor]:
        return [tf.cast(factors[i], part.dtype) * part for i, part in zip(places, plain, strict=True)]

    values = tf.nest.flatten(tf.cond(tf.reduce_all(tf.equal(factors, 1.0)), lambda: plain, scaled))
    pairs_after = list(pairs)
    for index, before, after in zip(places, plain, values, strict=True):
        after.set_shape(before.shape)
        pairs_after[index] = (with_values(pairs[index][0], after), pairs[index][1])
    return pairs_after
