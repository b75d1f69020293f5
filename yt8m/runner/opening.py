"""How the variables of a new session get their values."""

from __future__ import annotations

from collections.abc import Sequence

from absl import logging

from yt8m import storage
from yt8m.errors import RunError
from yt8m.graph import Restorer, WarmStart, warm_start
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.runner.config import RunnerConfig
from yt8m.runner.create import CreatedGraph, choose
from yt8m.storage import copies


def initializers(created: CreatedGraph) -> list[tf.Operation]:
    """What has to run before the restore; only what is needed, for each op stays in the saved graph."""
    ops = [] if created.checkpoint else [tf.global_variables_initializer()]
    if tf.local_variables():
        ops.append(tf.local_variables_initializer())
    if tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS):
        ops.append(tf.tables_initializer())
    return ops


def start(
    session: tf.Session, created: CreatedGraph, first: Sequence[tf.Operation], config: RunnerConfig
) -> None:
    """Runs `first`, then restores the checkpoint if there is one; else takes the weights to begin with.

    Raises:
      RunError: the checkpoint is another model's.
    """
    session.run(list(first))
    if created.checkpoint is None:
        if config.init_checkpoint:
            _warm_start(session, created, config.init_checkpoint)
        return
    if created.restorer is not None:
        try:
            _restore(session, created.restorer, created.checkpoint, config)
        except RunError as error:
            changed = f" What has changed: {created.reason}." if created.reason else ""
            raise RunError(f"{error}{changed}") from error
    elif created.saver is not None:
        created.saver.restore(session, copies.copy_of(created.checkpoint))


def _warm_start(session: tf.Session, created: CreatedGraph, checkpoint: str) -> None:
    """Begins with another run's weights and lists what was not found there."""
    folder = checkpoint.rpartition("/")[0] or "."

    def read(path: str) -> WarmStart:
        done = warm_start(session, path, getattr(created.ops, "averages", ()))
        logging.info("%d of the model's variables are those of %s", len(done.found), path)
        return done

    done = checkpoints.with_newer(
        checkpoint, lambda: checkpoints.newest_readable(folder) or checkpoint, lambda path: [path], read
    )
    if done.missing:
        logging.warning("not found there, and so at fresh values: %s", ", ".join(done.missing))
    if done.other_shapes:
        logging.warning("of another shape there, and so at fresh values: %s", "; ".join(done.other_shapes))


def _restore(session: tf.Session, restorer: Restorer, checkpoint: str, config: RunnerConfig) -> None:
    """Restores; where a training run has just deleted the checkpoint, the next one."""
    while True:
        try:
            restorer.restore(session, checkpoint)
            return
        except (tf.errors.OpError, ValueError, RuntimeError, storage.NotFoundError) as error:
            if not checkpoints.is_gone(checkpoint) or config.mode == "train":
                raise
            if config.checkpoint:
                raise storage.NotFoundError(f"{checkpoint} was deleted while it was read") from error
        logging.warning("%s was deleted meanwhile: taking the next", checkpoint)
        checkpoint = choose(config)
