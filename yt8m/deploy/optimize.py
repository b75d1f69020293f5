"""The gradients of all clones, weighted and summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from yt8m.deploy.clones import Clone
from yt8m.deploy.gradients import combine_gradients, values_of, with_values
from yt8m.deploy.objectives import (
    Objective,
    Share,
    ShareLosses,
    clone_gradients,
    gathered,
    joint_gradients,
    regularization_terms,
)
from yt8m.lazy import tf


def optimize_clones(
    clones: Sequence[Clone],
    optimizer: Any,
    regularization_losses: Sequence[tf.Tensor] | None = None,
    *,
    weights: Sequence[Any] | None = None,
    objectives: Sequence[Objective] | None = None,
    variables: Sequence[Any] | None = None,
    of_clones: list[list[tuple[Any, Any]]] | None = None,
    jointly: bool = False,
    **kwargs: Any,
) -> tuple[tf.Tensor | None, list[tuple[Any, Any]]]:
    """The total loss and its gradients: sum over clones of weight_i * objective_i.

    With the clones' shares of a batch as weights that is the gradient of one clone on the whole batch, unless
    the loss of a row depends on other rows (statistics of batch norm): see `across_towers` for those.
    A gradient that only some clones have is summed over those. Variables without any are left out and
    logged. Update ops are the business of whoever applies the gradients (`gradients_after`).

    Args:
      clones: from `create_clones`.
      optimizer: a tf.train.Optimizer.
      regularization_losses: scalars counted once, unweighted, with the first clone. None: all of
        tf.GraphKeys.REGULARIZATION_LOSSES, or none where `objectives` are given.
      weights: numbers or scalar tensors, one a clone; 1 / len(clones) by default. A clone of weight 0
        adds nothing, not even a NaN.
      objectives: one a clone; by default the sum of its tf.GraphKeys.LOSSES, which then has summaries
        beside it in tf.GraphKeys.SUMMARIES, as slim's.
      variables: what is differentiated for; all trainable variables by default.
      of_clones: gets the weighted (gradient, variable) pairs of each clone; nothing with `jointly`.
      jointly: the clones depend on one another (`across_towers`), so one gradient of the sum is taken.
      **kwargs: further arguments of `optimizer.compute_gradients`.

    Returns:
      (total loss, None where no clone has any; (gradient, variable) pairs of the variables that have one).

    Raises:
      ValueError: no clones, or lists of another length.
    """
    shares = _shares(clones, regularization_losses, weights, objectives)
    variables = kwargs.pop("var_list", variables)
    variables = tf.trainable_variables() if variables is None else list(variables)
    losses, totals = _losses(shares)
    total = _total(totals)
    if objectives is None:
        _summarize(clones, losses)
    if jointly:
        together = combine_gradients([joint_gradients(shares, total, optimizer, variables, kwargs)])
    else:
        gradients = _by_clone(shares, totals, optimizer, variables, kwargs)
        together = combine_gradients(gradients)
        if of_clones is not None:
            of_clones.extend(gradients)
    _log_missing(total, together, variables)
    return total, together


def _by_clone(
    shares: Sequence[tuple[Clone, Share]],
    totals: Sequence[tf.Tensor | None],
    optimizer: Any,
    variables: Sequence[Any],
    options: Mapping[str, Any],
) -> list[list[tuple[Any, Any]]]:
    """The weighted (gradient, variable) pairs of each clone, computed on its device."""
    gradients = []
    for (clone, share), total in zip(shares, totals, strict=True):
        with tf.name_scope(clone.scope), tf.device(clone.device):
            pairs = clone_gradients(share, total, optimizer, variables, options)
            gradients.append(_unless_empty(share.weight, pairs) if len(shares) > 1 else pairs)
    return gradients


def clones_loss(clones: Sequence[Clone]) -> tf.Tensor | None:
    """The total loss of `optimize_clones`, if nothing is optimized; None if no clone has a loss."""
    losses, totals = _losses(_shares(clones, None, None, None))
    _summarize(clones, losses)
    return _total(totals)


def _losses(shares: Sequence[tuple[Clone, Share]]) -> tuple[list[ShareLosses], list[tf.Tensor | None]]:
    """What each clone adds to the total loss: its parts, and their sum."""
    losses, totals = [], []
    for clone, share in shares:
        with tf.name_scope(clone.scope), tf.device(clone.device):
            losses.append(share.losses())
            totals.append(losses[-1].total())
    return losses, totals


def _summarize(clones: Sequence[Clone], losses: Sequence[ShareLosses]) -> None:
    """Summaries with slim's tags of what each clone adds to the total loss, and of all regularisation."""
    # Not on the clones' devices: no GPU computes a summary.
    for clone, part in zip(clones, losses, strict=True):
        if part.loss is not None:
            with tf.name_scope(clone.scope):
                tf.summary.scalar("/".join(filter(None, ("Losses", clone.scope, "clone_loss"))), part.loss)
    terms = [term for part in losses for term in part.regularization]
    if terms:
        with tf.name_scope(clones[0].scope):
            tf.summary.scalar("Losses/regularization_loss", tf.add_n(terms) if terms[1:] else terms[0])


def _log_missing(total: tf.Tensor | None, found: Sequence[tuple[Any, Any]], variables: Sequence[Any]) -> None:
    having = {id(variable) for _, variable in found}
    missing = [variable.op.name for variable in variables if id(variable) not in having]
    if total is not None and missing:
        logging.warning("The loss has no gradient for %s: not trained.", ", ".join(missing))


def _total(losses: Sequence[tf.Tensor | None]) -> tf.Tensor | None:
    reported = [loss for loss in losses if loss is not None]
    return tf.add_n(reported, name="total_loss") if reported else None


def _shares(
    clones: Sequence[Clone],
    regularization_losses: Sequence[tf.Tensor] | None,
    weights: Sequence[Any] | None,
    objectives: Sequence[Objective] | None,
) -> list[tuple[Clone, Share]]:
    """The clones that count, each with its part; the first carries what is counted once."""
    if not clones:
        raise ValueError("clones is empty; expected at least one")
    weights = [1.0 / len(clones)] * len(clones) if weights is None else list(weights)
    if objectives is None:
        own: list[list[tf.Tensor]] = [[] for _ in clones]
        if regularization_losses is None:
            regularization_losses, own = regularization_terms(clones)
        objectives = [gathered(*pair) for pair in zip(clones, own, strict=True)]
    for name, values in (("weights", weights), ("objectives", objectives)):
        if len(values) != len(clones):
            raise ValueError(
                f"{name} has {len(values)} entries; expected one for each of {len(clones)} clones"
            )
    once = None
    if regularization_losses:
        with tf.name_scope(clones[0].scope), tf.device(clones[0].device):
            once = tf.add_n(list(regularization_losses), name="regularization_loss")
    shares = [Share(*pair) for pair in zip(objectives, weights, strict=True)]
    return list(zip(clones, [shares[0]._replace(once=once), *shares[1:]], strict=True))


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
