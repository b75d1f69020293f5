"""Runs one training, evaluation or inference: creates the graph, runs steps in a session, and reports how it ended."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Iterable, Sequence
from typing import Any

from absl import logging

from yt8m import deploy, forks, storage
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
      UsageError: config and inputter have different batch sizes, or inputter or modeler has the wrong base class.
    """

    # Whether the process trains: then the training says on which devices the towers are, and moves the memory.
    _is_inside_training = False

    def __init__(
        self, config: RunnerConfig, inputter: Inputter, modeler: Modeler, callbacks: CallbackConfig | Sequence[str] = ()
    ) -> None:
        check_workload(inputter, modeler)
        if config.batch_size_per_gpu not in (None, inputter.batch_size):
            raise UsageError(
                f"batch_size_per_gpu is {config.batch_size_per_gpu}, but the inputter makes batches of "
                f"{inputter.batch_size}; make both equal, or leave batch_size_per_gpu out"
            )
        config = dataclasses.replace(config, batch_size_per_gpu=inputter.batch_size)
        self.config = creation.fit_to_gpus(config, self._is_inside_training)
        self.inputter, self.modeler = inputter, modeler
        self.callbacks = callbacks if isinstance(callbacks, CallbackConfig) else CallbackConfig(tuple(callbacks))
        self._step = 0

    def run(self) -> Outcome:
        """Runs to the end and returns how it ended. SIGTERM and ctrl-C end the run after the current step.

        Every error but a UsageError becomes an outcome: FAILED, with the message in the log too; or STOPPED if a signal
        caused the error.

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
                outcome = self._describe_failure(error, signals)
            finally:
                sending.send_growing()
        # A signal after the last step does not change the status, but the caller may have to stop because of it.
        return dataclasses.replace(outcome, signal=signals.signal)

    def create_graph(self) -> CreatedGraph:
        """Creates the graph of the run in the current, empty default graph, and finds the checkpoint to restore.

        A training that resumes imports its graph from the newest checkpoint, if it can.

        Raises:
          UsageError: local_runner is given several towers.
          RunError: there is no checkpoint for evaluation or inference, or no checkpoint can be read; or a later version
            of this project wrote the meta-graph of the checkpoint.
        """
        return creation.create(self.config, self.inputter, self.modeler, deployment_for(self.config))

    def replicate_graph(self, deployment: deploy.DeploymentConfig | None = None) -> TrainOps | EvalOps:
        """Builds the graph of the run from the model's code in the current default graph.

        Args:
          deployment: the towers and their devices; None to choose them by the config.
        """
        deployment = deployment or deployment_for(self.config)
        return creation.replicate(self.config, self.inputter, self.modeler, deployment)

    def _prepare(self, signals: StopSignals) -> tuple[CreatedGraph, Context, list[Any], list[tf.Operation] | None]:
        """Creates what the session of the run needs.

        Returns:
          (the graph; the context of the callbacks; all hooks in order; the ops that initialise the graph, or None if
          the graph is not finalized yet and these ops must be made).
        """
        # The files are listed before the graph is built, so that missing files are reported soon.
        files = list(self.inputter.files())
        created = self.create_graph()
        context, position = self._create_context(created, files, signals)
        return created, context, self._create_hooks(context, files, position), None

    def _run(self, signals: StopSignals) -> Outcome:
        """Runs the steps in a session; calls `end` of the hooks if there was no error, and `close` in any case."""
        forks.refuse_copy(self.config.model_dir)
        created, context, hooks, initializers = self._prepare(signals)
        try:
            if initializers is None:
                for hook in hooks:
                    hook.begin()
                initializers = creation.initializers(created)
                tf.get_default_graph().finalize()
            settings = creation.session_config(deployment_for(self.config, quiet=True), self.config.devices)
            with forks.new_session(config=settings) as session, signals.guarding(session):
                creation.start_session(session, created, initializers, self.config)
                self.modeler.restore(session)
                context.has_read_all = run_steps(session, context.ops, hooks, signals)
                if context.signals is not None:
                    signals.renew_grace()
                end_all(hooks, session, context)
            return outcome_of(context, signals)
        finally:
            self._step = context.global_step
            close_all(hooks)

    def _create_context(
        self, created: CreatedGraph, files: Sequence[str], signals: StopSignals | None = None, saver: Any = None
    ) -> tuple[Context, SavedPosition | None]:
        """Creates the context that the callbacks share.

        Args:
          signals: the signals that stop the run; None if the runner handles them itself.

        Returns:
          The context, and the position in the data; None if the position is not saved.
        """
        config, position, metrics = self.config, None, None
        format_line = config.format_line or FORMATS[config.mode]
        line = StepLine(config.log_every_n_steps)
        if not config.progress:
            line.listen(lambda values: logging.info("%s", format_line(values)))
        if created.saver is not None:
            metrics = MetricsFile(storage.join(config.model_dir, "metrics.jsonl"))
            line.listen(metrics.add, validations=True)
            position = self._create_position(created, files)
            saver = self._create_saver(created, position)
        context = Context(
            *(config, created.ops, self.modeler, line, saver, metrics, signals, self.inputter.records, len(files)),
            is_resumed=created.checkpoint is not None,
        )
        if created.saver is not None and created.checkpoint:
            # `StepHook` sets the step when the session is ready. A run that fails before that is at this step too.
            context.step = context.global_step = checkpoints.step_of(created.checkpoint)
        return context, position

    def _create_saver(self, created: CreatedGraph, position: SavedPosition | None) -> RunSaver:
        """Creates the object that saves the checkpoints of a training, and the position in the data with them."""
        config = self.config
        saved_step = checkpoints.step_of(created.checkpoint) if created.checkpoint else None
        keep = config.checkpoints.keep_checkpoints
        return RunSaver(config.model_dir, created.saver, keep, saved_step, position, created.is_own)

    def _create_position(self, created: CreatedGraph, files: Sequence[str]) -> SavedPosition | None:
        """Creates the object that saves the position in the data with each checkpoint; None if none is saved."""
        inputs, order = created.ops.input, self.inputter.shard_order
        if self.config.checkpoints.exact_resume:
            replica = self.config.members.replica if self.config.cluster else 0
            return Position(inputs, files, self._example_order(), replica, self.inputter.contents())
        # A replica reads only some of the shards, so the number of begun shards is no position of the whole run.
        if self.config.is_distributed or order is None:
            return None
        return ShardPosition(inputs, files, order, self.inputter.num_epochs)

    def _example_order(self) -> dict[str, Any]:
        """{name: JSON value} of the options that, besides the files, decide which examples are read in which order."""
        config, rows = self.config, self.inputter.batch_size
        rows *= config.towers if config.split_batch else 1
        return dict(self.inputter.example_order, batch_size=rows, seed=config.seed)

    def _create_hooks(
        self, context: Context, files: Sequence[str], position: SavedPosition | None
    ) -> list[tf.train.SessionRunHook]:
        """Creates the hooks of every run and the callbacks of this one, in the order in which they are called."""
        # Imported here: classes in these modules derive from one of TensorFlow, so importing them imports TensorFlow.
        from yt8m.runner import callbacks, hooks

        counts_records = self.config.mode == "train" and context.ops.input.shards is not None and self.inputter.records
        run_callbacks = callbacks.build(self.callbacks, context)
        saving = [hook for hook in run_callbacks if getattr(hook, "saves", False)]
        return [
            *([] if self.config.is_distributed else [hooks.CompileHook(context)]),
            hooks.InputHook(context, files, position),
            *([] if self._is_inside_training else [hooks.HugePagesHook(context)]),
            hooks.StepHook(context, self.inputter, position),
            hooks.SkippedHook(context, self.inputter),
            *([hooks.EpochHook(context, self.inputter, files)] if counts_records else []),
            *(hook for hook in run_callbacks if hook not in saving),
            *([_progress_of(context)] if self.config.progress else []),
            hooks.LineHook(context),
            *saving,
        ]

    def _describe_failure(self, error: Exception, signals: StopSignals) -> Outcome:
        """The outcome of a run that raised `error`: stopped if a signal caused it, else failed. Logs a failure."""
        if signals.has_closed or (signals.requested and isinstance(error, tf.errors.CancelledError)):
            return Outcome(Status.STOPPED, self._step, "stopped in the middle of a step", signals.signal)
        error = self._find_cause(error)
        message = explain(error)
        logging.error("%s", message)
        return Outcome(Status.FAILED, self._step, message, error=error)

    def _find_cause(self, error: Exception) -> Exception:
        """An error that names the damaged record, if such a record caused `error`; else `error` itself."""
        # TensorFlow's error does not name the shard or the record that it cannot parse. The inputter may find them.
        return (self.inputter.damage() if is_of_input(error) else None) or error


class StandingEvaluation(Runner):
    """Evaluates one checkpoint after another inside the process that trains, without log lines.

    The graph of the evaluation is built only once. Each evaluation opens and closes a session of its own, so that the
    variables of the evaluation occupy device memory only while an evaluation runs.

    Args:
      config: the config of the evaluations; its `checkpoint` is ignored.
      inputter: lists the files and makes batches of them.
      modeler: the model and its loss.
      callbacks: the callbacks of each evaluation.
    """

    _is_inside_training = True
    _created: CreatedGraph | None = None

    def evaluate(self, checkpoint: str, signals: StopSignals) -> Outcome:
        """Evaluates one checkpoint.

        Args:
          checkpoint: path of the checkpoint.
          signals: the signals of the training. A signal ends the evaluation after the current step, with the status
            `STOPPED`.

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
            raise RunError(f"the validation of {checkpoint} failed: {explain(self._find_cause(error))}") from error

    def _build(self, checkpoint: str) -> CreatedGraph:
        """Builds the graph that all evaluations use; `checkpoint` is that of the first one."""
        self._files, self._graph = list(self.inputter.files()), tf.Graph()
        config = dataclasses.replace(self.config, checkpoint=checkpoint)
        with self._graph.as_default():
            deployment = deployment_for(config, quiet=True)
            created = creation.create(config, self.inputter, self.modeler, deployment)
            self._initializers = creation.initializers(created)
            self._graph.finalize()
        return created

    def _prepare(self, signals: StopSignals) -> tuple[CreatedGraph, Context, list[Any], list[tf.Operation] | None]:
        """As in `Runner`, for the graph that was built before."""
        assert self._created is not None
        context = Context(self.config, self._created.ops, self.modeler, StepLine(self.config.log_every_n_steps))
        return self._created, context, self._create_hooks(context, self._files, None), self._initializers


def _progress_of(context: Context) -> tf.train.SessionRunHook:
    """The hook that shows the progress on a terminal."""
    from yt8m.runner.callbacks.progress import Progress  # imports rich, which only a terminal needs

    return Progress(context)


def outcome_of(context: Context, signals: StopSignals) -> Outcome:
    """The Outcome of a run that ended without an error."""
    status, message = Status.FINISHED, context.ending or "finished"
    if signals.requested:
        status, message = Status.STOPPED, "stopped by a signal"
    elif context.has_read_all:
        status, message = Status.OUT_OF_DATA, "all data were read"
    return Outcome(status, context.global_step, message, signals.signal, context.results)


# The types of the ops that read the input. `is_of_input` looks for them in the message of an error.
_INPUT_OPS = ("IteratorGetNext", "MakeIterator")
# {number of an error that means that a file cannot become larger: the operating system's text for it}
_NO_ROOM = {number: os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}
_MAKE_ROOM = "Make room there, or write elsewhere, and start again."


def explain(error: Exception) -> str:
    """One or two sentences that say what went wrong and, for a full disk or too little memory, what to do.

    The message of a RunError stays as it is; of any other error only the first line counts. An error of an unknown
    type, such as one of a user's own callback, is also logged with its traceback.
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
    # If the op that failed is inside a function of the input, `error.op` is None, or an unrelated op of the same name.
    # So the op is looked for in the message.
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
      hooks: the hooks, in the order in which they are called.
      context: the run context of the hooks; None for a new SessionRunContext.
    """
    coordinator = tf.train.Coordinator()
    for hook in hooks:
        hook.after_create_session(session, coordinator)
    fetch = ops.train_op if isinstance(ops, TrainOps) else ops.examples
    context = context or tf.train.SessionRunContext(tf.train.SessionRunArgs(fetch), session)
    try:
        while not coordinator.should_stop() and not context.stop_requested and not signals.requested:
            requests = [hook.before_run(context) or tf.train.SessionRunArgs(None) for hook in hooks]
            options, metadata = _merge_options(requests)
            fetches = [request.fetches for request in requests if request.fetches is not None]
            _, fetched = session.run((fetch, fetches), _merge_feeds(requests), options, metadata)
            results = iter(fetched)
            for hook, request in zip(hooks, requests, strict=True):
                result = None if request.fetches is None else next(results)
                hook.after_run(context, tf.train.SessionRunValues(result, options, metadata))
    except tf.errors.OutOfRangeError as error:
        if not is_end_of_data(error):
            raise
        return True
    return False


def is_end_of_data(error: tf.errors.OpError) -> bool:
    """Whether an OutOfRangeError means that all data were read; else a file reached its size limit."""
    return error.op is not None and error.op.type == "IteratorGetNext"


def end_all(hooks: Sequence[Any], session: tf.Session, context: Context) -> None:
    """Calls `end` of the hooks. If one fails in a training, the last step is still saved, and the error is raised.

    Callbacks that save come after the others, so without this, the error of a user's callback, such as one that cannot
    reach its server any more, would cost all steps since the last checkpoint.
    """
    try:
        for hook in hooks:
            hook.end(session)
    except Exception:
        if context.saver is not None:
            context.saver.save(session, context.step)
        raise


def close_all(hooks: Sequence[Any]) -> None:
    """Calls `close` of every hook that has one; an error is logged and does not prevent the other calls."""
    for hook in hooks:
        if hasattr(hook, "close"):
            try:
                hook.close()
            except Exception as error:
                logging.error("closing %s failed: %s", type(hook).__name__, error)


def _merge_feeds(requests: Iterable[tf.train.SessionRunArgs]) -> dict[Any, Any]:
    """{tensor: value} that all hooks together feed; raises RuntimeError if two of them feed the same tensor."""
    feeds: dict[Any, Any] = {}
    for request in requests:
        for tensor, value in (request.feed_dict or {}).items():
            if tensor in feeds:
                raise RuntimeError(f"two callbacks feed {tensor}")
            feeds[tensor] = value
    return feeds


def _merge_options(requests: Iterable[tf.train.SessionRunArgs]) -> tuple[Any, Any]:
    """The merged run options of all hooks, and an empty RunMetadata; (None, None) if no hook has options."""
    run_options = [request.options for request in requests if request.options is not None]
    if not run_options:
        return None, None
    merged = tf.RunOptions()
    for options in run_options:
        merged.MergeFrom(options)
    return merged, tf.RunMetadata()
