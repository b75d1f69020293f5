"""What one clone minimises, and the gradient of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.deploy.clones import Clone
from yt8m.lazy import tf


class Objective(NamedTuple):
    """What one clone minimises: loss + regularization, both times the clone's weight.

    Attributes:
      loss: scalar, unscaled; None for none.
      regularization: scalar, unscaled; None for none.
      roots: pairs (tensor, d loss / d tensor), the gradient of `loss` in closed form, used in its place.
    """

    loss: tf.Tensor | None = None
    regularization: tf.Tensor | None = None
    roots: Sequence[tuple[tf.Tensor, tf.Tensor]] = ()


def gathered(clone: Clone, own_terms: Sequence[tf.Tensor]) -> Objective:
    """The sum of what the clone added to tf.GraphKeys.LOSSES, and of its own regularisation terms."""
    losses = clone.collected(tf.GraphKeys.LOSSES)
    with tf.name_scope(clone.scope), tf.device(clone.device):
        return Objective(
            tf.add_n(losses, name="clone_loss") if losses else None,
            tf.add_n(list(own_terms)) if own_terms else None,
        )


def regularization_terms(clones: Sequence[Clone]) -> tuple[list[tf.Tensor], list[list[tf.Tensor]]]:
    """All that tf.GraphKeys.REGULARIZATION_LOSSES holds, each term in one place.

    A term that every clone adds anew would count once a clone. Such terms belong to their clones, whose
    weights make one whole of them, so that N clones equal one. A variable's own term is added with the
    variable, and so by the first clone alone.

    Returns:
      (terms that count once, for each clone the terms that count with its weight).
    """
    added = [clone.collected(tf.GraphKeys.REGULARIZATION_LOSSES) for clone in clones]
    repeated = {
        _own_name(term, clone) for clone, terms in zip(clones[1:], added[1:], strict=True) for term in terms
    }
    added[0] = [term for term in added[0] if _own_name(term, clones[0]) in repeated]
    of_clones = {id(term) for terms in added for term in terms}
    everything = {id(term): term for term in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)}
    return [term for key, term in everything.items() if key not in of_clones], added


def _own_name(term: tf.Tensor, clone: Clone) -> str:
    return str(term.name).removeprefix(clone.scope)


class ShareLosses(NamedTuple):
    """What one clone adds to the total loss, weighted.

    Attributes:
      loss: scalar; None for none.
      regularization: scalars.
    """

    loss: tf.Tensor | None
    regularization: list[tf.Tensor]

    def total(self) -> tf.Tensor | None:
        """The sum; None if there is nothing."""
        parts = [*([] if self.loss is None else [self.loss]), *self.regularization]
        return tf.add_n(parts) if parts else None


class Share(NamedTuple):
    """One clone's part in the whole.

    Attributes:
      objective: what it minimises.
      weight: factor of it, a number or a scalar tensor.
      once: a scalar that this clone alone adds, unweighted; None for none.
    """

    objective: Objective
    weight: Any
    once: tf.Tensor | None = None

    def losses(self) -> ShareLosses:
        """The parts of weight * (loss + regularization) + once.

        A weight of 0 gives 0 whatever the loss (NaN too).
        """
        loss, regularization, _ = self.objective
        terms = [self._scaled(regularization), self.once]
        return ShareLosses(
            self._scaled(loss, "scaled_clone_loss"), [term for term in terms if term is not None]
        )

    def _scaled(self, value: tf.Tensor | None, name: str | None = None) -> tf.Tensor | None:
        if value is None or self._is_whole():
            return value
        return tf.math.multiply_no_nan(value, _like(self.weight, value), name=name)

    def _is_whole(self) -> bool:
        return isinstance(self.weight, int | float) and self.weight == 1

    def roots(self) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Pairs (tensor, incoming gradient), weighted.

        The weight is the incoming gradient and never multiplies the loss, so no loss is computed in
        a step that does not report it.
        """
        loss, regularization, closed_form = self.objective
        found = [(tensor, self._weighted(gradient)) for tensor, gradient in closed_form]
        scalars = [regularization] if closed_form else [loss, regularization]
        found += [(scalar, _like(self.weight, scalar)) for scalar in scalars if scalar is not None]
        return found + ([] if self.once is None else [(self.once, tf.ones([], self.once.dtype))])

    def _weighted(self, gradient: tf.Tensor) -> tf.Tensor:
        return gradient if self._is_whole() else gradient * _like(self.weight, gradient)


def _like(weight: Any, tensor: tf.Tensor) -> tf.Tensor:
    return tf.cast(weight, tensor.dtype)


def clone_gradients(
    share: Share, loss: tf.Tensor | None, optimizer: Any, variables: Sequence[Any], options: Mapping[str, Any]
) -> list[tuple[Any, Any]]:
    """The (gradient, variable) pairs of one clone.

    An optimizer with a way of its own to compute gradients (loss scaling) is given the weighted loss;
    for all others the gradient starts at `share.roots()`.
    """
    if loss is not None and _computes_its_own(optimizer):
        return optimizer.compute_gradients(loss, var_list=list(variables), **options)
    return _gradients_of(share.roots(), variables, options)


def joint_gradients(
    parts: Sequence[tuple[Clone, Share]],
    total: tf.Tensor | None,
    optimizer: Any,
    variables: Sequence[Any],
    options: Mapping[str, Any],
) -> list[tuple[Any, Any]]:
    """The (gradient, variable) pairs of all clones together, for clones that depend on one another.

    The gradient of one clone's loss runs through the ops of all clones, so one pass over the graph is made
    for the weighted sum. Each op's gradient sits on the device of the op.
    """
    options = {**options, "colocate_gradients_with_ops": True}
    if total is not None and _computes_its_own(optimizer):
        return optimizer.compute_gradients(total, var_list=list(variables), **options)
    roots = []
    for clone, share in parts:
        with tf.name_scope(clone.scope), tf.device(clone.device):
            roots += share.roots()
    return _gradients_of(roots, variables, options)


def _gradients_of(
    roots: Sequence[tuple[tf.Tensor, tf.Tensor]], variables: Sequence[Any], options: Mapping[str, Any]
) -> list[tuple[Any, Any]]:
    if not roots:
        return [(None, variable) for variable in variables]
    tensors, seeds = zip(*roots, strict=True)
    gradients = tf.gradients(list(tensors), list(variables), grad_ys=list(seeds), **_for_gradients(**options))
    return list(zip(gradients, variables, strict=True))


def _computes_its_own(optimizer: Any) -> bool:
    # SyncReplicasOptimizer hands the call on unchanged.
    plain = (tf.train.Optimizer.compute_gradients, tf.train.SyncReplicasOptimizer.compute_gradients)
    return type(optimizer).compute_gradients not in plain


def _for_gradients(
    gate_gradients: int | None = None,
    aggregation_method: int | None = None,
    colocate_gradients_with_ops: bool = False,
) -> dict[str, Any]:
    """The options of `Optimizer.compute_gradients` as those of `tf.gradients`."""
    return {
        "gate_gradients": gate_gradients == tf.train.Optimizer.GATE_OP,
        "aggregation_method": aggregation_method,
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
    }
