"""A whole training or evaluation graph from one model function (slim's model_deploy.deploy)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.deploy.clones import Clone, create_clones
from yt8m.deploy.config import DeploymentConfig
from yt8m.deploy.optimize import clones_loss, optimize_clones
from yt8m.lazy import tf


class DeployedModel(NamedTuple):
    """What `deploy` built.

    Attributes:
      train_op: scalar tensor; running it takes one step and gives the total loss. None without an
        optimizer or a loss.
      summary_op: the merged summaries of the first clone, of the total loss and, on request, of the
        gradients; None where there are none.
      total_loss: scalar, or None where no clone has a loss.
      clones: as `create_clones` gave them.
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
    """Clones `model_fn`, which adds its losses to tf.GraphKeys.LOSSES; trains it with an optimizer.

    Losses are scaled by 1 / num_clones, regularisation is counted once, the update ops of the first
    clone run before the gradients, and the global step counts. May be called several times in one graph.
    """
    clones = create_clones(config, model_fn, args, kwargs)
    summaries = clones[0].collected(tf.GraphKeys.SUMMARIES)
    train_op = None
    with tf.device(config.optimizer_device()):
        if optimizer is None:
            total_loss = clones_loss(clones)
        else:
            update_ops = clones[0].collected(tf.GraphKeys.UPDATE_OPS)
            total_loss, gradients = optimize_clones(clones, optimizer, barrier=update_ops)
            summaries += _gradient_summaries(gradients) if summarize_gradients else []
            train_op = _train_op(config, optimizer, total_loss, gradients, update_ops)
        if total_loss is not None:
            summaries.append(tf.summary.scalar("Losses/total_loss", total_loss))
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
    applied = optimizer.apply_gradients(gradients, global_step=global_step)
    with tf.control_dependencies([applied, *update_ops]):
        return tf.identity(total_loss, name="train_op")


def _gradient_summaries(gradients: Sequence[tuple[Any, Any]]) -> list[tf.Tensor]:
    """The histogram and the norm of each gradient."""
    summaries = []
    for gradient, variable in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        name = variable.op.name
        summaries.append(tf.summary.histogram(f"{name}/gradient", values))
        summaries.append(tf.summary.scalar(f"{name}/gradient_norm", tf.linalg.global_norm([values])))
    return summaries
