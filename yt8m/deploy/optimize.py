"""The gradients of all clones, weighted and summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.deploy.clones import Clone
from yt8m.deploy.gradients import check_same_variables, combine_gradients, values_of, with_values
from yt8m.deploy.objectives import Objective, Share, clone_gradients, gathered, joint_gradients
from yt8m.lazy import tf


def optimize_clones(
    clones: Sequence[Clone],
    optimizer: Any,
    regularization_losses: Sequence[tf.Tensor] | None = None,
    *,
    weights: Sequence[Any] | None = None,
    objectives: Sequence[Objective] | None = None,
    variables: Sequence[Any] | None = None,
    barrier: Sequence[tf.Operation] = (),
    of_clones: list[list[tuple[Any, Any]]] | None = None,
    jointly: bool = False,
    **kwargs: Any,
) -> tuple[tf.Tensor | None, list[tuple[Any, Any]]]:
    """The total loss and its gradients: sum over clones of weight_i * objective_i.

    With the clones' shares of a batch as weights that is the gradient of one clone on the whole batch, unless
    the loss of a row depends on other rows (statistics of batch norm): see `across_towers` for those.

    Args:
      clones: from `create_clones`.
      optimizer: a tf.train.Optimizer.
      regularization_losses: scalars counted once, unweighted, with the first clone. None: those that
        the variables of the clones registered, or none where `objectives` are given.
      weights: numbers or scalar tensors, one a clone; 1 / len(clones) by default. A clone of weight 0
        adds nothing, not even a NaN.
      objectives: one a clone; by default the sum of its tf.GraphKeys.LOSSES.
      variables: what is differentiated for; all trainable variables by default.
      barrier: ops that run before any gradient of the first clone and before its loss is reported.
      of_clones: gets the weighted (gradient, variable) pairs of each clone; nothing with `jointly`.
      jointly: the clones depend on one another (`across_towers`), so one gradient of the sum is taken.
      **kwargs: further arguments of `optimizer.compute_gradients`.

    Returns:
      (total loss, None where no clone has any; (gradient, variable) pairs of the variables that have one).

    Raises:
      ValueError: no clones, lists of another length, or a variable that has a gradient in some clones only.
    """
    shares = _shares(clones, regularization_losses, weights, objectives, barrier)
    variables = kwargs.pop("var_list", variables)
    variables = tf.trainable_variables() if variables is None else list(variables)
    if jointly:
        return _optimize_jointly(shares, optimizer, variables, kwargs)
    losses, gradients = [], []
    for clone, share in shares:
        with tf.name_scope(clone.scope), tf.device(clone.device):
            losses.append(share.loss())
            pairs = clone_gradients(share, losses[-1], optimizer, variables, kwargs)
            gradients.append(_unless_empty(share.weight, pairs) if len(shares) > 1 else pairs)
    names = [clone.scope.rstrip("/") or f"clone {index}" for index, (clone, _) in enumerate(shares)]
    check_same_variables(gradients, names)
    if of_clones is not None:
        of_clones.extend(gradients)
    return _total(losses), combine_gradients(gradients)


def _optimize_jointly(
    shares: Sequence[tuple[Clone, Share]],
    optimizer: Any,
    variables: Sequence[Any],
    options: Mapping[str, Any],
) -> tuple[tf.Tensor | None, list[tuple[Any, Any]]]:
    losses = []
    for clone, share in shares:
        with tf.name_scope(clone.scope), tf.device(clone.device):
            losses.append(share.loss())
    gradients = joint_gradients(shares, losses, optimizer, variables, options)
    return _total(losses), combine_gradients([gradients])


def clones_loss(clones: Sequence[Clone]) -> tf.Tensor | None:
    """The total loss of `optimize_clones`, where nothing is optimized; None where no clone has a loss."""
    losses = []
    for clone, share in _shares(clones, None, None, None, ()):
        with tf.name_scope(clone.scope), tf.device(clone.device):
            losses.append(share.loss())
    return _total(losses)


def _total(losses: Sequence[tf.Tensor | None]) -> tf.Tensor | None:
    reported = [loss for loss in losses if loss is not None]
    return tf.add_n(reported, name="total_loss") if reported else None


def _shares(
    clones: Sequence[Clone],
    regularization_losses: Sequence[tf.Tensor] | None,
    weights: Sequence[Any] | None,
    objectives: Sequence[Objective] | None,
    barrier: Sequence[tf.Operation],
) -> list[tuple[Clone, Share]]:
    """The clones that count, each with its part; the first carries what is counted once."""
    if not clones:
        raise ValueError("clones is empty; expected at least one")
    weights = [1.0 / len(clones)] * len(clones) if weights is None else list(weights)
    if regularization_losses is None:
        regularization_losses = _regularization_of(clones) if objectives is None else ()
    objectives = [gathered(clone) for clone in clones] if objectives is None else list(objectives)
    for name, values in (("weights", weights), ("objectives", objectives)):
        if len(values) != len(clones):
            raise ValueError(
                f"{name} has {len(values)} entries; expected one for each of {len(clones)} clones"
            )
    once = (
        tf.add_n(list(regularization_losses), name="regularization_loss") if regularization_losses else None
    )
    before = [*barrier, *objectives[0].update_ops]
    shares = [Share(objectives[0], weights[0], once, before)]
    shares += [Share(*pair) for pair in zip(objectives[1:], weights[1:], strict=True)]
    return list(zip(clones, shares, strict=True))


def _regularization_of(clones: Sequence[Clone]) -> list[tf.Tensor]:
    """The terms of the first clone: the others share its variables, and would count them again."""
    if clones[0].added is None:
        return tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    return clones[0].collected(tf.GraphKeys.REGULARIZATION_LOSSES)


def _unless_empty(weight: Any, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Zeros in place of the gradients of a clone that turns out to have weight 0.

    A branch passes gradients through untouched; a product would go over them once more and keep a NaN.
    """
    dense = [values_of(gradient) for gradient, _ in pairs if gradient is not None]
    if not dense or (not tf.is_tensor(weight) and weight):
        return list(pairs)
    kept = tf.cond(tf.not_equal(weight, 0), lambda: dense, lambda: [tf.zeros_like(part) for part in dense])
    for before, after in zip(dense, kept := tf.nest.flatten(kept), strict=True):
        after.set_shape(before.shape)
    left = iter(kept)
    return [(None if old is None else with_values(old, next(left)), variable) for old, variable in pairs]
