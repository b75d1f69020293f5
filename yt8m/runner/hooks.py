"""The engine's own hooks around those of the callbacks: the input, the step count, the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yt8m.lazy import tf
from yt8m.runner.context import Context
from yt8m.runner.saver import Position
from yt8m.runner.shard_position import ShardPosition


class InputHook(tf.train.SessionRunHook):
    """Starts the iterator on the files, then takes up the saved position.

    As a hook it runs after the variables' restore, in a plain session and after each recovery in a cluster.
    """

    def __init__(
        self, context: Context, files: Sequence[str], position: Position | ShardPosition | None
    ) -> None:
        self._context, self._files, self._position = context, files, position

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Runs before any callback's."""
        context, position = self._context, self._position
        inputs, folder = context.ops.input, context.config.model_dir
        feed: dict[Any, Any] = {inputs.files: list(self._files)}
        step = int(session.run(context.ops.global_step)) if position and context.is_resumed else None
        if step is not None and isinstance(position, ShardPosition):
            feed |= position.resume(folder, step)
        session.run(inputs.initializer, feed)
        if step is not None and isinstance(position, Position):
            position.restore(session, folder, step)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Asks where the step's records are from."""
        if isinstance(self._position, ShardPosition):
            return tf.train.SessionRunArgs(self._position.last_shard)
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts, before any callback saves."""
        if isinstance(self._position, ShardPosition):
            self._position.note(int(run_values.results))


class StepHook(tf.train.SessionRunHook):
    """Keeps the context's step; comes before all callbacks."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Reads where the variables are."""
        context = self._context
        context.global_step = int(session.run(context.ops.global_step))
        context.step = context.global_step if context.config.mode == "train" else 0
        context.line.start(context.step)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Asks for the step read after train_op: read beside it, it would be of an undefined moment."""
        if self._context.config.mode != "train":
            return None
        return tf.train.SessionRunArgs(self._context.ops.step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts."""
        context = self._context
        if context.config.mode != "train":
            context.step += 1
        else:
            context.step = context.global_step = int(run_values.results)


class LineHook(tf.train.SessionRunHook):
    """Gives out what the callbacks put into the line; comes after all of them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Once a line's step is complete."""
        self._context.line.give_out(self._context.step, self._context.global_step)

    def end(self, session: tf.Session) -> None:
        """What a callback left at the end."""
        self._context.line.give_out(self._context.step, self._context.global_step)
