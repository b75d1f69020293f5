"""A whole training or evaluation graph from one model function (slim's model_deploy.deploy)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.deploy.clones import Clone, create_clones
from yt8m.deploy.deployment import DeploymentConfig
from yt8m.deploy.gradients import gradients_after, values_of
from yt8m.deploy.optimize import clones_loss, optimize_clones
from yt8m.lazy import tf


class DeployedModel(NamedTuple):
    """What `deploy` built.

    Attributes:
      train_op: scalar tensor; running it takes one step and gives the total loss. None without an
        optimizer or a loss.
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
    """Clones `model_fn`, which adds its losses to tf.GraphKeys.LOSSES; with an optimizer, builds a training step too.

    Losses are scaled by 1 / num_clones, all of tf.GraphKeys.REGULARIZATION_LOSSES is counted once, the
    update ops of the first clone run before the gradients are applied, and each step increments the global step. Only
    `train_op` changes variables. May be called several times in one graph.
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
            train_op = _train_op(config, optimizer, total_loss, gradients, update_ops)
        if total_loss is not None:
            tf.summary.scalar("total_loss", total_loss)
        summaries += tf.get_collection(tf.GraphKeys.SUMMARIES)[end_of_clones:]
        summary_op = tf.summary.merge(summaries, name="summary_op") if summaries else None
    return DeployedModel(train_op, summary_op, total_loss, clones)


def _train_op(
    config: DeploymentConfig,
    optimizer: Any,
    total_loss: tf.Tensor | None,
    gradients: Sequence[tuple[Any, Any]],
    update_ops: Sequence[tf.Operation],
) -> tf.Tensor | None:
    if total_loss is None or not gradients:
        return None
    with tf.device(config.variables_device()):
        global_step = tf.train.get_or_create_global_step()
    # Computes the loss before the step: otherwise it could read a weight that the step has already changed.
    ready = gradients_after([*update_ops, total_loss.op], gradients)
    applied = optimizer.apply_gradients(ready, global_step=global_step)
    with tf.control_dependencies([applied, *update_ops]):
        return tf.identity(total_loss, name="train_op")


def _summarize_gradients(gradients: Sequence[tuple[Any, Any]]) -> None:
    """Histograms of each gradient and of its norm, with slim's tags."""
    for gradient, variable in gradients:
        values, name = values_of(gradient), variable.op.name
        tf.summary.histogram(f"{name}_gradient", values)
        tf.summary.histogram(f"{name}_gradient_norm", tf.linalg.global_norm([values]))
