"""One clear message for whatever ended a run.

Creates or restores the graph, opens the session, runs steps until told to stop, says how it ended.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Sequence
from typing import Any

from absl import logging

from yt8m import deploy, storage
from yt8m.errors import RunError, UsageError, first_line
from yt8m.graph import EvalOps, Inputter, Modeler, TrainOps
from yt8m.lazy import tf
from yt8m.runner import checkpoints, creation
from yt8m.runner.creation import CreatedGraph, create, deployment_for, input_signature, replicate
from yt8m.runner.lines import FORMATS, StepLine
from yt8m.runner.metric_files import MetricsFile
from yt8m.runner.run_config import CallbackConfig, Context, Outcome, RunnerConfig, Status
from yt8m.runner.saver import Position, RunSaver, ShardPosition
from yt8m.runner.session import close_all, run_steps
from yt8m.runner.signals import StopSignals
from yt8m.storage import sending


def explain(error: Exception) -> str:
    """What went wrong and what to do, without the pages that TensorFlow adds.

    The traceback of what nobody foresaw (a callback of a user's own, say) is logged.
    """
    if isinstance(error, RunError):
        return str(error)
    # A full disk is an exhausted resource too, and a file that grows too large is out of some range.
    if isinstance(error, tf.errors.OpError) and any(text in str(error.message) for text in _NO_ROOM.values()):
        return f"no room to write: {first_line(error)}"
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return f"out of memory: {first_line(error)}. Use a smaller batch size, or fewer towers a device."
    if isinstance(error, tf.errors.OpError):
        where = f" in {error.op.name}" if error.op is not None else ""
        return f"{type(error).__name__}{where}: {first_line(error)}"
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return f"no room to write: {error.strerror}"
    logging.error("the run failed", exc_info=error)
    return f"{type(error).__name__}: {first_line(error)}"


def is_of_input(error: Exception) -> bool:
    """Whether a damaged record may be the reason."""
    # What quotes a record may be no text, and Python fails to decode the runtime's message.
    if isinstance(error, tf.errors.DataLossError | UnicodeDecodeError):
        return True
    # The op is that of the function inside the input, which the graph does not have, or has by chance.
    return isinstance(error, tf.errors.OpError) and (
        any(name in str(error.message) for name in _INPUT_OPS)
        or (error.op is None and isinstance(error, tf.errors.InvalidArgumentError))
    )


_INPUT_OPS = ("IteratorGetNext", "MakeIterator")
_NO_ROOM = {number: os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}


class Runner:
    """One run: training, evaluation or inference of one workload.

    Args:
      config: the run's.
      inputter: files and how they become batches.
      modeler: the model and its loss.
      callbacks: which callbacks, by name.

    Raises:
      UsageError: config and inputter differ on the batch size.
    """

    def __init__(
        self, config: RunnerConfig, inputter: Inputter, modeler: Modeler, callbacks: CallbackConfig | Sequence[str] = ()
    ) -> None:
        self.config, self.inputter, self.modeler = _with_batch_size(config, inputter), inputter, modeler
        if not isinstance(callbacks, CallbackConfig):
            callbacks = CallbackConfig(tuple(callbacks))
        self.callbacks = callbacks
        self._step = 0

    def run(self) -> Outcome:
        """Runs to the end, whatever that is; while it runs, SIGTERM and ctrl-C end it well.

        Raises:
          UsageError: what was asked for cannot be.
        """
        with StopSignals(self.config.stop_grace_seconds) as signals:
            outcome = self._guarded(signals)
        # One that came behind the last step has stopped nothing, but whoever would go on has to know.
        return dataclasses.replace(outcome, signal=signals.signal)

    def _guarded(self, signals: StopSignals) -> Outcome:
        try:
            with tf.Graph().as_default():
                return self._run(signals)
        except UsageError:
            raise
        except Exception as error:
            if signals.has_closed or (signals.requested and isinstance(error, tf.errors.CancelledError)):
                return Outcome(Status.STOPPED, self._step, "stopped in the middle of a step", signals.signal)
            return self._failed(error)
        finally:
            sending.send_growing()

    def create_graph(self) -> CreatedGraph:
        """The graph in the current, empty default graph: restored or built, see `create.create`."""
        return create(self.config, self.inputter, self.modeler, deployment_for(self.config))

    def replicate_graph(self, deployment: deploy.DeploymentConfig | None = None) -> TrainOps | EvalOps:
        """The graph built by code over the towers of `deployment`, by default the config's."""
        deployment = deployment or deployment_for(self.config)
        return replicate(self.config, self.inputter, self.modeler, deployment)

    def _run(self, signals: StopSignals) -> Outcome:
        files = list(self.inputter.files())  # what is wrong there is said before anything is built
        created = self.create_graph()
        context, position = self._context(created, files)
        hooks: list[tf.train.SessionRunHook] = []
        try:
            hooks += self._hooks(context, files, position)
            for hook in hooks:
                hook.begin()
            start = creation.initializers(created)
            tf.get_default_graph().finalize()
            with tf.Session(config=self._session_config()) as session:
                signals.guard(session)
                creation.start_session(session, created, start, self.config)
                self.modeler.restore(session)
                return self._drive(session, context, hooks, signals)
        finally:
            self._step = context.global_step
            close_all(hooks)

    def _drive(
        self, session: tf.Session, context: Context, hooks: Sequence[tf.train.SessionRunHook], signals: StopSignals
    ) -> Outcome:
        coordinator = tf.train.Coordinator()
        for hook in hooks:
            hook.after_create_session(session, coordinator)
        ops = context.ops
        fetch = ops.train_op if isinstance(ops, TrainOps) else ops.examples
        is_end = context.has_read_all = run_steps(session, fetch, hooks, coordinator, signals)
        signals.noticed()
        for hook in hooks:
            hook.end(session)
        status, message = Status.FINISHED, "finished"
        if signals.requested:
            status, message = Status.STOPPED, "stopped by a signal"
        elif is_end:
            status, message = Status.OUT_OF_DATA, "all data were read"
        return Outcome(status, context.global_step, message, signals.signal, context.results)

    def _context(self, created: CreatedGraph, files: Sequence[str]) -> tuple[Context, Position | ShardPosition | None]:
        """What the callbacks share, and the position in the data where it is kept."""
        config = self.config
        format_line = config.format_line or FORMATS[config.mode]
        line = StepLine(config.log_every_n_iter)
        if not config.progress:
            line.listen(lambda values: logging.info("%s", format_line(values)))
        is_resumed = created.checkpoint is not None
        context = Context(config, created.ops, self.modeler, line, is_resumed=is_resumed)
        if created.saver is None:
            return context, None
        line.listen(MetricsFile(storage.join(config.model_dir, "metrics.jsonl")).add)
        position = self._position(created, files)
        keep = config.checkpoints.keep_checkpoints
        saved = checkpoints.step_of(created.checkpoint) if created.checkpoint else None
        context.saver = RunSaver(config.model_dir, created.saver, keep, saved, position)
        return context, position

    def _position(self, created: CreatedGraph, files: Sequence[str]) -> Position | ShardPosition | None:
        """What of the position in the data is saved beside checkpoints."""
        inputs, inputter = created.ops.input, self.inputter
        if self.config.exact_resume:
            return Position(inputs, files, input_signature(self.config))
        order = getattr(inputter, "shard_order", None)
        # The shards of a replica are no sequence of their own; a graph of an earlier version has no numbers.
        if self.config.is_distributed or order is None or inputs.begun is None:
            return None
        return ShardPosition(inputs, files, order, getattr(inputter, "num_epochs", None))

    def _hooks(
        self, context: Context, files: Sequence[str], position: Position | ShardPosition | None
    ) -> list[tf.train.SessionRunHook]:
        # Here, since these modules subclass a class of TensorFlow's, which costs its import.
        from yt8m.runner import callbacks, hooks

        inputter: Any = self.inputter
        # A graph of an earlier version does not say from which shards the records of a step are.
        is_counted = self.config.mode == "train" and context.ops.input.shards is not None
        records = getattr(inputter, "records", None) if is_counted else None
        return [
            hooks.InputHook(context, files, position),
            hooks.StepHook(context),
            hooks.SkippedHook(context, self.inputter),
            *([hooks.EpochHook(context, inputter, files)] if records else []),
            *callbacks.build(self.callbacks, context),
            *([callbacks.progress_bar(context, inputter)] if self.config.progress else []),
            hooks.LineHook(context),
        ]

    def _session_config(self) -> Any:
        config = deployment_for(self.config, quiet=True).session_config()
        config.log_device_placement = self.config.log_device_placement
        if self.config.xla:
            config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
        return config

    def _failed(self, error: Exception) -> Outcome:
        damage = self._damage() if is_of_input(error) else None
        message = explain(damage or error)
        logging.error("%s", message)
        return Outcome(Status.FAILED, self._step, message, error=damage or error)

    def _damage(self) -> Exception | None:
        """Which shard and record are damaged, where the inputter can tell; the runtime names none."""
        find = getattr(self.inputter, "damage", None)
        if find is None:
            return None
        logging.info("looking for the damaged record")
        return find()


def _with_batch_size(config: RunnerConfig, inputter: Inputter) -> RunnerConfig:
    """`config` with the inputter's batch size, which is what the graph takes."""
    if config.batch_size_per_gpu not in (None, inputter.batch_size):
        raise UsageError(
            f"batch_size_per_gpu is {config.batch_size_per_gpu}, but the inputter makes batches of "
            f"{inputter.batch_size}; give both the same, or leave the first out"
        )
    return dataclasses.replace(config, batch_size_per_gpu=inputter.batch_size)
