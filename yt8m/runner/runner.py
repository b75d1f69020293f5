"""Runs one training, evaluation or inference: creates the graph, runs steps in a session, and reports how it ended."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Iterable, Sequence
from typing import Any

from absl import logging

from yt8m import deploy, storage
from yt8m.errors import RunError, UsageError, first_line
from yt8m.graph import EvalOps, Inputter, Modeler, TrainOps, check_workload
from yt8m.lazy import tf
from yt8m.runner import checkpoints, creation
from yt8m.runner.creation import CreatedGraph, deployment_for
from yt8m.runner.lines import FORMATS, StepLine
from yt8m.runner.metric_files import MetricsFile
from yt8m.runner.run_config import CallbackConfig, Context, Outcome, RunnerConfig, Status
from yt8m.runner.saver import Position, RunSaver, SavedPosition, ShardPosition
from yt8m.runner.signals import StopSignals
from yt8m.storage import sending


class Runner:
    """One run: training, evaluation or inference of one workload.

    Args:
      config: the config of the run.
      inputter: lists the files and makes batches of them.
      modeler: the model and its loss.
      callbacks: the callbacks of the run.

    Raises:
      UsageError: config and inputter differ in the batch size, or inputter or modeler has the wrong base class.
    """

    def __init__(
        self, config: RunnerConfig, inputter: Inputter, modeler: Modeler, callbacks: CallbackConfig | Sequence[str] = ()
    ) -> None:
        check_workload(inputter, modeler)
        if config.batch_size_per_gpu not in (None, inputter.batch_size):
            raise UsageError(
                f"batch_size_per_gpu is {config.batch_size_per_gpu}, but the inputter makes batches of "
                f"{inputter.batch_size}; make both equal, or leave batch_size_per_gpu out"
            )
        self.config = dataclasses.replace(config, batch_size_per_gpu=inputter.batch_size)
        self.inputter, self.modeler = inputter, modeler
        self.callbacks = callbacks if isinstance(callbacks, CallbackConfig) else CallbackConfig(tuple(callbacks))
        self._step = 0

    def run(self) -> Outcome:
        """Runs to the end and returns how it ended. SIGTERM and ctrl-C end the run after the current step.

        Raises:
          UsageError: the options are invalid.
        """
        with StopSignals(self.config.stop_grace_seconds) as signals:
            try:
                with tf.Graph().as_default():
                    outcome = self._run(signals)
            except UsageError:
                raise
            except Exception as error:
                outcome = self._failed(error, signals)
            finally:
                sending.send_growing()
        # A signal after the last step does not change the status, but the caller may have to stop because of it.
        return dataclasses.replace(outcome, signal=signals.signal)

    def create_graph(self) -> CreatedGraph:
        """Creates the graph of the run in the current, empty default graph, see `creation.create`."""
        return creation.create(self.config, self.inputter, self.modeler, deployment_for(self.config))

    def replicate_graph(self, deployment: deploy.DeploymentConfig | None = None) -> TrainOps | EvalOps:
        """Builds the graph by code, with the towers of `deployment`; None takes the deployment of the config."""
        deployment = deployment or deployment_for(self.config)
        return creation.replicate(self.config, self.inputter, self.modeler, deployment)

    def _prepare(self, signals: StopSignals) -> tuple[CreatedGraph, Context, list[Any], list[tf.Operation] | None]:
        """(the graph, the context, the hooks, the initialisers of the graph or None if it is not yet finalized)."""
        files = list(self.inputter.files())  # listed before the graph is built, so that missing files are reported soon
        created = self.create_graph()
        context, position = self._context(created, files, signals)
        return created, context, self._hooks(context, files, position), None

    def _run(self, signals: StopSignals) -> Outcome:
        """Runs the steps in a session; calls `end` of the hooks if there was no error, and `close` in any case."""
        created, context, hooks, start = self._prepare(signals)
        try:
            if start is None:
                for hook in hooks:
                    hook.begin()
                start = creation.initializers(created)
                tf.get_default_graph().finalize()
            with tf.Session(config=creation.session_config(self.config)) as session, signals.guarding(session):
                creation.start_session(session, created, start, self.config)
                self.modeler.restore(session)
                context.has_read_all = run_steps(session, context.ops, hooks, signals)
                if context.signals is not None:
                    signals.renew_grace()
                for hook in hooks:
                    hook.end(session)
            return outcome_of(context, signals)
        finally:
            self._step = context.global_step
            close_all(hooks)

    def _context(
        self, created: CreatedGraph, files: Sequence[str], signals: StopSignals | None = None, saver: Any = None
    ) -> tuple[Context, SavedPosition | None]:
        """The context that the callbacks share, and the position in the data (None if it is not saved)."""
        config, position, metrics = self.config, None, None
        format_line = config.format_line or FORMATS[config.mode]
        line = StepLine(config.log_every_n_steps)
        if not config.progress:
            line.listen(lambda values: logging.info("%s", format_line(values)))
        if created.saver is not None:
            metrics = MetricsFile(storage.join(config.model_dir, "metrics.jsonl"))
            line.listen(metrics.add, validations=True)
            position = self._position(created, files)
            saver = self._saver(created, position)
        context = Context(
            *(config, created.ops, self.modeler, line, saver, metrics, signals, self.inputter.records, len(files)),
            is_resumed=created.checkpoint is not None,
        )
        return context, position

    def _saver(self, created: CreatedGraph, position: SavedPosition | None) -> RunSaver:
        config = self.config
        saved = checkpoints.step_of(created.checkpoint) if created.checkpoint else None
        keep = config.checkpoints.keep_checkpoints
        return RunSaver(config.model_dir, created.saver, keep, saved, position, created.is_own)

    def _position(self, created: CreatedGraph, files: Sequence[str]) -> SavedPosition | None:
        """The position in the data that is saved with each checkpoint; None if none is saved."""
        inputs, order = created.ops.input, self.inputter.shard_order
        if self.config.checkpoints.exact_resume:
            return Position(inputs, files, self._order(), self.config.members.replica if self.config.cluster else 0)
        if self.config.is_distributed or order is None:  # a replica reads some of the shards only
            return None
        return ShardPosition(inputs, files, order, self.inputter.num_epochs)

    def _order(self) -> dict[str, Any]:
        """The options that, besides the files, decide which examples are read in which order."""
        config, rows = self.config, self.inputter.batch_size
        rows *= config.towers if config.split_batch else 1
        return dict(self.inputter.example_order, batch_size=rows, seed=config.seed)

    def _hooks(
        self, context: Context, files: Sequence[str], position: SavedPosition | None
    ) -> list[tf.train.SessionRunHook]:
        # Imported here: classes in these modules derive from one of TensorFlow, so importing them imports TensorFlow.
        from yt8m.runner import callbacks, hooks
        from yt8m.runner.callbacks.progress import Progress

        is_counted = self.config.mode == "train" and context.ops.input.shards is not None and self.inputter.records
        chosen = callbacks.build(self.callbacks, context)
        saving = [hook for hook in chosen if getattr(hook, "saves", False)]
        return [
            *([] if self.config.is_distributed else [hooks.CompileHook(context)]),
            hooks.InputHook(context, files, position),
            hooks.StepHook(context, self.inputter, position),
            hooks.SkippedHook(context, self.inputter),
            *([hooks.EpochHook(context, self.inputter, files)] if is_counted else []),
            *(hook for hook in chosen if hook not in saving),
            *([Progress(context)] if self.config.progress else []),
            hooks.LineHook(context),
            *saving,
        ]

    def _failed(self, error: Exception, signals: StopSignals) -> Outcome:
        if signals.has_closed or (signals.requested and isinstance(error, tf.errors.CancelledError)):
            return Outcome(Status.STOPPED, self._step, "stopped in the middle of a step", signals.signal)
        error = self._cause(error)
        message = explain(error)
        logging.error("%s", message)
        return Outcome(Status.FAILED, self._step, message, error=error)

    def _cause(self, error: Exception) -> Exception:
        """An error that names the damaged record, if one caused `error`; else `error` itself."""
        # TensorFlow's error does not name the shard or the record that it cannot parse; the inputter may find them.
        return (self.inputter.damage() if is_of_input(error) else None) or error


class StandingEvaluation(Runner):
    """Evaluates one checkpoint after another in the process of a training, without log lines.

    The graph is built once. Each evaluation opens and closes a session of its own, so the variables of the evaluation
    take device memory only meanwhile.

    Args:
      config: the config of the evaluations; its `checkpoint` is ignored.
      inputter: lists the files and makes batches of them.
      modeler: the model and its loss.
      callbacks: the callbacks of each evaluation.
    """

    _created: CreatedGraph | None = None

    def evaluate(self, checkpoint: str, signals: StopSignals) -> Outcome:
        """Evaluates one checkpoint. A signal ends the evaluation after the current step, with the status `STOPPED`.

        Raises:
          RunError: the evaluation failed.
        """
        try:
            self._created = dataclasses.replace(self._created or self._build(checkpoint), checkpoint=checkpoint)
            with self._graph.as_default():
                return self._run(signals)
        except Exception as error:
            if signals.has_closed:
                return Outcome(Status.STOPPED, self._step, "stopped in the middle of a step", signals.signal)
            raise RunError(f"the validation of {checkpoint} failed: {explain(self._cause(error))}") from error

    def _build(self, checkpoint: str) -> CreatedGraph:
        self._files, self._graph = list(self.inputter.files()), tf.Graph()
        config = dataclasses.replace(self.config, checkpoint=checkpoint)
        with self._graph.as_default():
            deployment = deployment_for(config, quiet=True)
            created = creation.create(config, self.inputter, self.modeler, deployment)
            self._start = creation.initializers(created)
            self._graph.finalize()
        return created

    def _prepare(self, signals: StopSignals) -> tuple[CreatedGraph, Context, list[Any], list[tf.Operation] | None]:
        assert self._created is not None
        context = Context(self.config, self._created.ops, self.modeler, StepLine(self.config.log_every_n_steps))
        return self._created, context, self._hooks(context, self._files, None), self._start


def outcome_of(context: Context, signals: StopSignals) -> Outcome:
    """The Outcome of a run that ended without an error."""
    status, message = Status.FINISHED, context.ending or "finished"
    if signals.requested:
        status, message = Status.STOPPED, "stopped by a signal"
    elif context.has_read_all:
        status, message = Status.OUT_OF_DATA, "all data were read"
    return Outcome(status, context.global_step, message, signals.signal, context.results)


_INPUT_OPS = ("IteratorGetNext", "MakeIterator")
_NO_ROOM = {number: os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}
_MAKE_ROOM = "Make room there, or write elsewhere, and start again."


def explain(error: Exception) -> str:
    """One or two sentences that say what went wrong and what to do, without TensorFlow's long messages.

    An unexpected error, such as one of a user's own callback, is also logged with its traceback.
    """
    if isinstance(error, RunError):
        return str(error)
    if isinstance(error, tf.errors.OpError):
        # TensorFlow reports a full disk as ResourceExhaustedError, and a file size limit as OutOfRangeError.
        if any(text in str(error.message) for text in _NO_ROOM.values()):
            return f"no room to write: {first_line(error)}. {_MAKE_ROOM}"
        if isinstance(error, tf.errors.ResourceExhaustedError):
            return f"out of memory: {first_line(error)}. Use a smaller batch size, or fewer towers per device."
        where = f" in {error.op.name}" if error.op is not None else ""
        return f"{type(error).__name__}{where}: {first_line(error)}"
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return f"no room to write: {error.strerror}. {_MAKE_ROOM}"
    logging.error("the run failed", exc_info=error)
    return f"{type(error).__name__}: {first_line(error)}"


def is_of_input(error: Exception) -> bool:
    """Whether a damaged record may be the cause of `error`."""
    # TensorFlow's message may quote a record that is not UTF-8; then Python cannot decode the message.
    if isinstance(error, tf.errors.DataLossError | UnicodeDecodeError):
        return True
    # The failed op is inside a function of the input: error.op is None, or an unrelated op of the same name.
    return isinstance(error, tf.errors.OpError) and (
        any(name in str(error.message) for name in _INPUT_OPS)
        or (error.op is None and isinstance(error, tf.errors.InvalidArgumentError))
    )


def run_steps(
    session: tf.Session,
    ops: TrainOps | EvalOps,
    hooks: Sequence[tf.train.SessionRunHook],
    signals: Any,
    context: Any = None,
) -> bool:
    """Calls `after_create_session` of the hooks, then runs steps until a hook or a signal requests a stop.

    A step is one `session.run`, which fetches the values of all hooks. MonitoredSession is not used, because it
    silently returns to the last checkpoint if a callback raises UnavailableError, and takes every OutOfRangeError for
    the end of the data.

    Args:
      session: the session of the run.
      ops: the handles of the graph.
      hooks: the hooks, in their order.
      signals: an object whose attribute `requested` ends the loop once it is True.
      context: the run context of the hooks; None for a new SessionRunContext.

    Returns:
      Whether the loop ended because all data were read.
    """
    coordinator = tf.train.Coordinator()
    for hook in hooks:
        hook.after_create_session(session, coordinator)
    fetch = ops.train_op if isinstance(ops, TrainOps) else ops.examples
    context = context or tf.train.SessionRunContext(tf.train.SessionRunArgs(fetch), session)
    try:
        while not coordinator.should_stop() and not context.stop_requested and not signals.requested:
            requests = [hook.before_run(context) or tf.train.SessionRunArgs(None) for hook in hooks]
            options, metadata = _merged_options(requests)
            fetches = [request.fetches for request in requests if request.fetches is not None]
            _, got = session.run((fetch, fetches), _merged_feeds(requests), options, metadata)
            results = iter(got)
            for hook, request in zip(hooks, requests, strict=True):
                result = None if request.fetches is None else next(results)
                hook.after_run(context, tf.train.SessionRunValues(result, options, metadata))
    except tf.errors.OutOfRangeError as error:
        if not is_end_of_data(error):
            raise
        return True
    return False


def is_end_of_data(error: tf.errors.OpError) -> bool:
    """Whether the OutOfRangeError comes from the data iterator, not from a file size limit."""
    return error.op is not None and error.op.type == "IteratorGetNext"


def close_all(hooks: Sequence[Any]) -> None:
    """Calls `close` of every hook that has one; an error is logged and does not prevent the other calls."""
    for hook in hooks:
        if hasattr(hook, "close"):
            try:
                hook.close()
            except Exception as error:
                logging.error("closing %s failed: %s", type(hook).__name__, error)


def _merged_feeds(requests: Iterable[tf.train.SessionRunArgs]) -> dict[Any, Any]:
    feeds: dict[Any, Any] = {}
    for request in requests:
        for tensor, value in (request.feed_dict or {}).items():
            if tensor in feeds:
                raise RuntimeError(f"two callbacks feed {tensor}")
            feeds[tensor] = value
    return feeds


def _merged_options(requests: Iterable[tf.train.SessionRunArgs]) -> tuple[Any, Any]:
    """The merged run options of all hooks, and an empty RunMetadata; (None, None) if no hook has options."""
    run_options = [request.options for request in requests if request.options is not None]
    if not run_options:
        return None, None
    merged = tf.RunOptions()
    for options in run_options:
        merged.MergeFrom(options)
    return merged, tf.RunMetadata()
