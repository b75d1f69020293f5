"""The objective of each clone, the weighted sum of the gradients of all clones, and slim's `deploy`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging

from yt8m.deploy.deployment import Clone, DeploymentConfig, create_clones
from yt8m.deploy.gradients import combine_gradients, gradients_after, values_of, with_values
from yt8m.lazy import tf


class Objective(NamedTuple):
    """What one clone minimises: loss + regularization. `optimize_clones` multiplies both by the weight of the clone.

    Attributes:
      loss: scalar, not yet weighted; None if there is no loss.
      regularization: scalar, not yet weighted; None if there is none.
      roots: pairs (tensor, d loss / d tensor), the gradient of `loss` in closed form. If there are any, backpropagation
        starts from these tensors instead of `loss`.
    """

    loss: tf.Tensor | None = None
    regularization: tf.Tensor | None = None
    roots: Sequence[tuple[tf.Tensor, tf.Tensor]] = ()


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
    """The total loss, which is the sum over the clones of weight * objective, and its gradients.

    If the weights are the clones' shares of a batch, the gradients are those of one clone on the whole batch. They
    differ only if the loss of an example depends on other examples, as with batch norm (see `across_towers`). A
    variable for which only some clones have a gradient gets the sum of these. Variables without any gradient are left
    out, and a warning in the log names them. The caller must run the update ops before it applies the gradients
    (`gradients_after`).

    Args:
      clones: the clones that `create_clones` made.
      optimizer: a tf.train.Optimizer.
      regularization_losses: scalars that are added once, unweighted, to the objective of the first clone. By default
        all of tf.GraphKeys.REGULARIZATION_LOSSES, or none if `objectives` are given.
      weights: numbers or scalar tensors, one per clone; 1 / len(clones) by default. A clone of weight 0
        adds nothing, not even a NaN.
      objectives: the objective of each clone. By default it is the sum of the clone's tf.GraphKeys.LOSSES, of which
        summaries are then added to tf.GraphKeys.SUMMARIES, as in slim.
      variables: gradients are taken with respect to these; all trainable variables by default.
      of_clones: a list to which the weighted (gradient, variable) pairs of each clone are added, unless `jointly`.
      jointly: whether the clones depend on one another (`across_towers`). If so, one gradient of the sum is computed,
        rather than one for each clone.
      **kwargs: further arguments of `optimizer.compute_gradients`.

    Returns:
      (total loss, None if no clone has a loss; (gradient, variable) pairs of the variables that have a gradient).

    Raises:
      ValueError: there is no clone, or a list does not have one item per clone.
    """
    shares = _create_shares(clones, regularization_losses, weights, objectives)
    variables = kwargs.pop("var_list", variables)
    variables = tf.trainable_variables() if variables is None else list(variables)
    losses, totals = _weighted_losses(shares)
    total = _sum_losses(totals)
    if objectives is None:
        _summarize_losses(clones, losses)
    if jointly:
        roots: list[tuple[tf.Tensor, tf.Tensor]] = []
        for share in shares:
            with share.scope():
                roots += share.roots()
        # Places the gradient of each op on the device of that op, since the sum depends on ops of all clones.
        options = {**kwargs, "colocate_gradients_with_ops": True}
        gradients = [_compute_gradients(roots, total, optimizer, variables, options)]
    else:
        gradients = []
        for share, loss in zip(shares, totals, strict=True):
            with share.scope():
                pairs = _compute_gradients(share.roots(), loss, optimizer, variables, kwargs)
                gradients.append(_zero_if_weightless(share.weight, pairs) if len(shares) > 1 else pairs)
        if of_clones is not None:
            of_clones.extend(gradients)
    combined = combine_gradients(gradients)
    _warn_of_untrained(total, combined, variables)
    return total, combined


def clones_loss(clones: Sequence[Clone]) -> tf.Tensor | None:
    """The total loss that `optimize_clones` returns by default, but without computing gradients.

    Adds summaries of the losses to tf.GraphKeys.SUMMARIES.

    Returns:
      A scalar; None if no clone has a loss.
    """
    losses, totals = _weighted_losses(_create_shares(clones, None, None, None))
    _summarize_losses(clones, losses)
    return _sum_losses(totals)


def regularization_terms(clones: Sequence[Clone]) -> tuple[list[tf.Tensor], list[list[tf.Tensor]]]:
    """Divides tf.GraphKeys.REGULARIZATION_LOSSES into terms that count once and terms that each clone adds.

    If every clone adds its own copy of a term, unweighted copies would count N times. So each copy gets the weight of
    its clone; the weights add up to 1, and N clones train like one. The regulariser of a variable is added when the
    variable is made, so only the first clone adds it, and it counts once.

    Args:
      clones: the clones that `create_clones` made.

    Returns:
      (terms that count once; for each clone, the terms that count with its weight).
    """
    added = [clone.collected(tf.GraphKeys.REGULARIZATION_LOSSES) for clone in clones]
    repeated = {
        _name_in_clone(term, clone) for clone, terms in zip(clones[1:], added[1:], strict=True) for term in terms
    }
    added[0] = [term for term in added[0] if _name_in_clone(term, clones[0]) in repeated]
    repeated_ids = {id(term) for terms in added for term in terms}
    all_terms = {id(term): term for term in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)}
    return [term for key, term in all_terms.items() if key not in repeated_ids], added


def _name_in_clone(term: tf.Tensor, clone: Clone) -> str:
    """The name of a tensor without the scope of its clone, which is the same in all clones."""
    return str(term.name).removeprefix(clone.scope)


# The weighted terms that one clone adds to the total loss: its loss (None if it has none), and regularisation terms.
ShareLosses = tuple[Any, list[Any]]


class CloneShare(NamedTuple):
    """One clone's part of the total loss: weight * (loss + regularization) + unweighted.

    Attributes:
      unweighted: a scalar that only this clone adds; None if there is none.
    """

    clone: Clone
    objective: Objective
    weight: Any
    unweighted: tf.Tensor | None = None

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """A context in which ops get the clone's name scope and device."""
        with tf.name_scope(self.clone.scope), tf.device(self.clone.device):
            yield

    def losses(self) -> ShareLosses:
        """The weighted loss and the regularisation terms. A weight of 0 gives 0, even if the loss is NaN."""
        loss, regularization, _ = self.objective
        terms = [self._multiply(regularization), self.unweighted]
        return self._multiply(loss, "scaled_clone_loss"), [term for term in terms if term is not None]

    def roots(self) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Pairs (tensor, weighted gradient) from which backpropagation starts.

        The weight multiplies these gradients and never the loss, so a step that does not report the loss need not
        compute it.
        """
        loss, regularization, closed_form = self.objective
        pairs = [
            (tensor, gradient if self._has_weight_one() else gradient * self._weight_like(gradient))
            for tensor, gradient in closed_form
        ]
        scalars = [regularization] if closed_form else [loss, regularization]
        pairs += [(scalar, self._weight_like(scalar)) for scalar in scalars if scalar is not None]
        if self.unweighted is not None:
            pairs.append((self.unweighted, tf.ones([], self.unweighted.dtype)))
        return pairs

    def _multiply(self, value: tf.Tensor | None, name: str | None = None) -> tf.Tensor | None:
        """`value` times the weight; None stays None."""
        if value is None or self._has_weight_one():
            return value
        return tf.math.multiply_no_nan(value, self._weight_like(value), name=name)

    def _has_weight_one(self) -> bool:
        """Whether the weight is known to be 1 while the graph is built, so that no product is needed."""
        return isinstance(self.weight, int | float) and self.weight == 1

    def _weight_like(self, tensor: tf.Tensor) -> tf.Tensor:
        """The weight in the dtype of `tensor`."""
        return tf.cast(self.weight, tensor.dtype)


def _create_shares(
    clones: Sequence[Clone],
    regularization_losses: Sequence[tf.Tensor] | None,
    weights: Sequence[Any] | None,
    objectives: Sequence[Objective] | None,
) -> list[CloneShare]:
    """Each clone's part of the total loss; the part of the first clone also has the terms that count once.

    The arguments are those of `optimize_clones`.
    """
    if not clones:
        raise ValueError("clones is empty; expected at least one")
    weights = [1.0 / len(clones)] * len(clones) if weights is None else list(weights)
    if objectives is None:
        terms_of_clones: list[list[tf.Tensor]] = [[] for _ in clones]
        if regularization_losses is None:
            regularization_losses, terms_of_clones = regularization_terms(clones)
        objectives = [_collect_objective(*pair) for pair in zip(clones, terms_of_clones, strict=True)]
    for name, values in (("weights", weights), ("objectives", objectives)):
        if len(values) != len(clones):
            raise ValueError(f"{name} has {len(values)} entries; expected one for each of {len(clones)} clones")
    shares = [CloneShare(*fields) for fields in zip(clones, objectives, weights, strict=True)]
    if regularization_losses:
        with shares[0].scope():
            unweighted = tf.add_n(list(regularization_losses), name="regularization_loss")
        shares[0] = shares[0]._replace(unweighted=unweighted)
    return shares


def _collect_objective(clone: Clone, own_terms: Sequence[tf.Tensor]) -> Objective:
    """The objective whose loss is the sum of the tf.GraphKeys.LOSSES of the clone."""
    losses = clone.collected(tf.GraphKeys.LOSSES)
    with tf.name_scope(clone.scope), tf.device(clone.device):
        return Objective(
            tf.add_n(losses, name="clone_loss") if losses else None, tf.add_n(list(own_terms)) if own_terms else None
        )


def _weighted_losses(shares: Sequence[CloneShare]) -> tuple[list[ShareLosses], list[tf.Tensor | None]]:
    """The terms that each clone adds to the total loss; and for each clone their sum, None if it has no terms."""
    losses, totals = [], []
    for share in shares:
        with share.scope():
            loss, terms = share.losses()
            losses.append((loss, terms))
            terms_and_loss = terms if loss is None else [loss, *terms]
            totals.append(tf.add_n(terms_and_loss) if terms_and_loss else None)
    return losses, totals


def _sum_losses(losses: Sequence[tf.Tensor | None]) -> tf.Tensor | None:
    """The sum of the losses that are not None; None if all are."""
    reported = [loss for loss in losses if loss is not None]
    return tf.add_n(reported, name="total_loss") if reported else None


def _summarize_losses(clones: Sequence[Clone], losses: Sequence[ShareLosses]) -> None:
    """Adds summaries of each clone's weighted loss and of the sum of all regularisation, with slim's tags."""
    # The summary ops are not placed on the clones' devices, because they have no GPU kernel.
    for clone, (loss, _) in zip(clones, losses, strict=True):
        if loss is not None:
            with tf.name_scope(clone.scope):
                tf.summary.scalar("/".join(filter(None, ("Losses", clone.scope, "clone_loss"))), loss)
    terms = [term for _, regularization in losses for term in regularization]
    if terms:
        with tf.name_scope(clones[0].scope):
            tf.summary.scalar("Losses/regularization_loss", tf.add_n(terms) if terms[1:] else terms[0])


def _warn_of_untrained(total: tf.Tensor | None, pairs: Sequence[tuple[Any, Any]], variables: Sequence[Any]) -> None:
    """Logs a warning that names those of `variables` that are in none of the (gradient, variable) `pairs`.

    If there is no total loss, nothing is logged.
    """
    trained = {id(variable) for _, variable in pairs}
    untrained = [variable.op.name for variable in variables if id(variable) not in trained]
    if total is not None and untrained:
        logging.warning("The loss has no gradient for %s: not trained.", ", ".join(untrained))


def _compute_gradients(
    roots: Sequence[tuple[tf.Tensor, tf.Tensor]],
    loss: tf.Tensor | None,
    optimizer: Any,
    variables: Sequence[Any],
    options: Mapping[str, Any],
) -> list[tuple[Any, Any]]:
    """The (gradient, variable) pairs of `loss`.

    If the optimizer overrides `compute_gradients`, as one that scales the loss does, its method is called with `loss`
    (if there is a loss). Otherwise backpropagation starts at `roots`. The override of SyncReplicasOptimizer does not
    count, since it only passes the call on.

    Args:
      loss: weighted scalar; None if there is none.
      variables: gradients are taken with respect to these; one without a gradient gets None.
    """
    plain = (tf.train.Optimizer.compute_gradients, tf.train.SyncReplicasOptimizer.compute_gradients)
    if loss is not None and type(optimizer).compute_gradients not in plain:
        return optimizer.compute_gradients(loss, var_list=list(variables), **options)
    if not roots:
        return [(None, variable) for variable in variables]
    tensors, seeds = zip(*roots, strict=True)
    gradients = tf.gradients(list(tensors), list(variables), grad_ys=list(seeds), **_translate_options(**options))
    return list(zip(gradients, variables, strict=True))


def _translate_options(
    gate_gradients: int | None = None, aggregation_method: int | None = None, colocate_gradients_with_ops: bool = False
) -> dict[str, Any]:
    """Translates arguments of `Optimizer.compute_gradients` to the arguments of `tf.gradients`."""
    return {
        "gate_gradients": gate_gradients == tf.train.Optimizer.GATE_OP,
        "aggregation_method": aggregation_method,
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
    }


def _zero_if_weightless(weight: Any, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The same pairs, but in a step in which the clone has weight 0 all gradients are 0.

    tf.cond does this, not a product: a product would read and write all gradients in every step, and NaN * 0 is NaN.
    """
    present = [values_of(gradient) for gradient, _ in pairs if gradient is not None]
    if not present or (not tf.is_tensor(weight) and weight):
        return list(pairs)
    values = tf.cond(tf.not_equal(weight, 0), lambda: present, lambda: [tf.zeros_like(part) for part in present])
    for before, after in zip(present, values := tf.nest.flatten(values), strict=True):
        after.set_shape(before.shape)
    remaining = iter(values)
    return [(None if old is None else with_values(old, next(remaining)), variable) for old, variable in pairs]


class DeployedModel(NamedTuple):
    """The result of `deploy`.

    Attributes:
      train_op: scalar tensor; running it takes one step and gives the total loss before the step. None if there is no
        optimizer, no loss or no gradient.
      summary_op: one op that merges all summaries: those made before, those of the first clone, each clone's loss,
        the regularisation, the total loss and, on request, the gradients; None if there are none.
      total_loss: scalar, or None if no clone has a loss.
      clones: as `create_clones` returned them.
    """

    train_op: tf.Tensor | None
    summary_op: tf.Tensor | None
    total_loss: tf.Tensor | None
    clones: list[Clone]


def deploy(
    config: DeploymentConfig,
    model_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    optimizer: Any | None = None,
    summarize_gradients: bool = False,
) -> DeployedModel:
    """Makes clones of a model and, if an optimizer is given, a training step.

    The loss of each clone counts 1 / num_clones. Each term of tf.GraphKeys.REGULARIZATION_LOSSES counts once; if every
    clone adds a copy of a term, their mean counts. The update ops of the first clone run before the gradients are
    applied, and each step increments the global step. Only `train_op` changes variables. `deploy` may be called several
    times in one graph.

    Args:
      config: the number of clones and their devices.
      model_fn: builds one clone from `args` and `kwargs`, and adds its losses to tf.GraphKeys.LOSSES.
      args: the positional arguments of `model_fn`; none by default.
      kwargs: the keyword arguments of `model_fn`; none by default.
      optimizer: a tf.train.Optimizer; None for no training step.
      summarize_gradients: whether the summaries have histograms of each gradient and its norm.
    """
    summaries = tf.get_collection(tf.GraphKeys.SUMMARIES)
    clones = create_clones(config, model_fn, args, kwargs)
    summaries += clones[0].collected(tf.GraphKeys.SUMMARIES)
    end_of_clones = len(tf.get_collection(tf.GraphKeys.SUMMARIES))
    train_op = None
    with tf.device(config.optimizer_device()):
        if optimizer is None:
            total_loss = clones_loss(clones)
        else:
            total_loss, gradients = optimize_clones(clones, optimizer)
            if summarize_gradients:
                _summarize_gradients(gradients)
            update_ops = clones[0].collected(tf.GraphKeys.UPDATE_OPS)
            train_op = _create_train_op(config, optimizer, total_loss, gradients, update_ops)
        if total_loss is not None:
            tf.summary.scalar("total_loss", total_loss)
        summaries += tf.get_collection(tf.GraphKeys.SUMMARIES)[end_of_clones:]
        summary_op = tf.summary.merge(summaries, name="summary_op") if summaries else None
    return DeployedModel(train_op, summary_op, total_loss, clones)


def _create_train_op(
    config: DeploymentConfig,
    optimizer: Any,
    total_loss: tf.Tensor | None,
    gradients: Sequence[tuple[Any, Any]],
    update_ops: Sequence[tf.Operation],
) -> tf.Tensor | None:
    """A tensor that takes one training step when it is fetched, and has the total loss before the step as its value.

    Args:
      total_loss: scalar; None if there is no loss.

    Returns:
      The tensor; None if there is no loss or no gradient.
    """
    if total_loss is None or not gradients:
        return None
    with tf.device(config.variables_device()):
        global_step = tf.train.get_or_create_global_step()
    # The loss is computed before the gradients are applied, or it could read a weight that the step has changed.
    delayed = gradients_after([*update_ops, total_loss.op], gradients)
    step_op = optimizer.apply_gradients(delayed, global_step=global_step)
    with tf.control_dependencies([step_op, *update_ops]):
        return tf.identity(total_loss, name="train_op")


def _summarize_gradients(gradients: Sequence[tuple[Any, Any]]) -> None:
    """Adds to the graph histograms of each gradient and of its norm, with slim's tags."""
    for gradient, variable in gradients:
        values, name = values_of(gradient), variable.op.name
        tf.summary.histogram(f"{name}_gradient", values)
        tf.summary.histogram(f"{name}_gradient_norm", tf.linalg.global_norm([values]))
