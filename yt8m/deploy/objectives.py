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
      update_ops: moving averages; only those of the first clone are run.
    """

    loss: tf.Tensor | None = None
    regularization: tf.Tensor | None = None
    roots: Sequence[tuple[tf.Tensor, tf.Tensor]] = ()
    update_ops: Sequence[tf.Operation] = ()

    def value(self) -> tf.Tensor | None:
        """loss + regularization as far as they are there."""
        parts = [part for part in (self.loss, self.regularization) if part is not None]
        return tf.add_n(parts) if parts else None


def gathered(clone: Clone) -> Objective:
    """The sum of what the clone added to tf.GraphKeys.LOSSES."""
    losses = clone.collected(tf.GraphKeys.LOSSES)
    with tf.name_scope(clone.scope), tf.device(clone.device):
        return Objective(tf.add_n(losses, name="clone_loss") if losses else None)


class Share(NamedTuple):
    """One clone's part in the whole.

    Attributes:
      objective: what it minimises.
      weight: factor of it, a number or a scalar tensor.
      once: a scalar that this clone alone adds, unweighted; None for none.
      barrier: run before any gradient of this clone, and before its loss is reported.
    """

    objective: Objective
    weight: Any
    once: tf.Tensor | None = None
    barrier: Sequence[tf.Operation] = ()

    def loss(self) -> tf.Tensor | None:
        """weight * (loss + regularization) + once; a weight of 0 gives 0 whatever the loss (NaN too)."""
        value = self.objective.value()
        parts = [] if value is None else [tf.math.multiply_no_nan(value, _like(self.weight, value))]
        parts += [] if self.once is None else [self.once]
        if not parts:
            return None
        with tf.control_dependencies(self.barrier):
            return tf.add_n([tf.identity(part) for part in parts])

    def roots(self) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Pairs (tensor, incoming gradient), weighted and behind the barrier.

        The weight is the incoming gradient and never multiplies the loss, so no loss is computed in
        a step that does not report it; and as every gradient starts here, all of them wait for the
        barrier.
        """
        loss, regularization, closed_form, _ = self.objective
        with tf.control_dependencies(self.barrier):
            found = [(tensor, self._weighted(gradient)) for tensor, gradient in closed_form]
            scalars = [regularization] if closed_form else [loss, regularization]
            found += [(scalar, _like(self.weight, scalar)) for scalar in scalars if scalar is not None]
            found += [] if self.once is None else [(self.once, tf.ones([], self.once.dtype))]
            return [(tensor, tf.identity(seed)) for tensor, seed in found]

    def _weighted(self, gradient: tf.Tensor) -> tf.Tensor:
        is_one = isinstance(self.weight, int | float) and self.weight == 1
        return gradient if is_one else gradient * _like(self.weight, gradient)


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
        with tf.control_dependencies(share.barrier):
            seed = tf.ones([], loss.dtype)
        return optimizer.compute_gradients(loss, var_list=list(variables), grad_loss=seed, **options)
    return _gradients_of(share.roots(), variables, options)


def joint_gradients(
    parts: Sequence[tuple[Clone, Share]],
    losses: Sequence[tf.Tensor | None],
    optimizer: Any,
    variables: Sequence[Any],
    options: Mapping[str, Any],
) -> list[tuple[Any, Any]]:
    """The (gradient, variable) pairs of all clones together, for clones that depend on one another.

    The gradient of one clone's loss runs through the ops of all clones, so one pass over the graph is made
    for the weighted sum. Each op's gradient sits on the device of the op.
    """
    options = {**options, "colocate_gradients_with_ops": True}
    present = [loss for loss in losses if loss is not None]
    if present and _computes_its_own(optimizer):
        with tf.control_dependencies(parts[0][1].barrier):
            seed = tf.ones([], present[0].dtype)
        total = tf.add_n(present)
        return optimizer.compute_gradients(total, var_list=list(variables), grad_loss=seed, **options)
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
