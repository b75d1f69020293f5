"""The options of a run (`RunnerConfig`), its result (`Outcome`), and the state that its callbacks share (`Context`)."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from yt8m.config.train_config import EngineConfig
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import UsageError, suggestion
from yt8m.graph import Modeler
from yt8m.graph.optimizers import Columns
from yt8m.graph.restore import ClassMap
from yt8m.options import option, sections_of
from yt8m.runner.lines import StepLine, StepValues
from yt8m.runner.signals import StopSignals

MODES = ("train", "eval", "infer")  # the values of `RunnerConfig.mode`

# {keyword of RunnerConfig in the published code: name of the option in the sections of a training's config}
_PUBLISHED_NAMES = {"gpu_count": "num_gpu", "log_every_n_iter": "log_every_n_steps"}


def _count_processes(cluster: ClusterConfig | None) -> list[int] | None:
    """[number of replicas, number of parameter servers] of a training; None if one process trains alone."""
    return [len(cluster.replicas), len(cluster.servers)] if cluster and cluster.is_distributed else None


def check_for_cluster(config: EngineConfig, cluster: ClusterConfig) -> None:
    """Refuses options that a training by several processes does not support."""
    exchange = config.distributed.exchange
    cluster.check_servers(exchange)
    if config.checkpoints.exact_resume and exchange != "all-reduce":
        raise UsageError(
            "--exact_resume is for one machine or --exchange=all-reduce: replicas on parameter servers have no "
            "common position in the data. Leave it out."
        )
    # If the loss of a server interrupts a step, its batch may stay in the staging area; the next step would wait
    # forever for room in it.
    if config.devices.prefetch_to_device:
        raise UsageError(
            "--prefetch_to_device is for one machine: a replica of a cluster may have to begin its data again in the "
            "middle of a step. Leave it out."
        )
    if config.optimizer.accumulate_steps > 1 and exchange != "all-reduce":
        raise UsageError(
            f"--accumulate_steps={config.optimizer.accumulate_steps}: with parameter servers all replicas would add to "
            "the same sums of gradients. Leave it out, or use more workers with --sync_replicas."
        )


@dataclass(frozen=True, init=False)
class RunnerConfig(EngineConfig):
    """The options of one run in one mode: the sections of a training's config, and options of the runner alone.

    A section is a field of `EngineConfig`, such as `devices`, whose class declares options. Every option of a section
    is also a keyword: `RunnerConfig(precision="bfloat16")` means
    `RunnerConfig(devices=DeviceConfig(precision="bfloat16"))`. The keyword `gpu_count` sets the option `num_gpu`, and
    `log_every_n_iter` sets `log_every_n_steps`.

    Attributes:
      mode: train, eval or infer.
      model_dir: the folder of checkpoints, event files and metrics.jsonl.
      checkpoint: path of the checkpoint for evaluation and inference; empty for the newest in `model_dir`.
      optimizer, checkpoints, distributed: used in training only, except that evaluation and inference use the moving
        averages of the weights if `optimizer.moving_average_decay` is not 0.
      devices: the number and precision of the towers; but inference always uses one tower, and evaluation and inference
        always compute in float32.
      name: the runner, see `yt8m.runner.runners`; empty to choose it by the number of processes and towers.
      batch_size_per_gpu: examples per tower and step, equal to the inputter's; None to take the inputter's.
      summary_names: patterns of the tags of the summaries to write (`*` matches any letters); an entry may hold several
        patterns with commas between them. Empty writes all. A pattern that matches no summary is an error.
      split_batch: whether the towers share each batch; if False, each tower gets a batch of its own.
      signature: {name: JSON value} of the options of the workload that shape the graph (model, features, epochs, ...).
        If it is empty, or differs from that of the checkpoint, a resumed run builds its graph from the model's code.
      init_checkpoint: for a new training, path of the checkpoint whose weights are loaded by name, without optimizer
        slots and the step; empty for none.
      init_classes: maps the classes of the model to those of `init_checkpoint`; None if they are the same.
      columns: {name of a variable: bool [size of its last axis], which of its columns are trained}; all other weights
        stay fixed. None trains all weights.
      cluster: all processes that train together, and the role of this one; None if one process trains alone.
      stop_grace_seconds: seconds for which a step may continue after SIGTERM or ctrl-C, before it is aborted.
      format_line: formats the log line; None for the mode's format, which is that of the published code.
      progress: whether a progress bar on stderr, which must be a terminal, replaces the log lines.
    """

    mode: str = option("train", "what the run does", shapes="nothing", choices=MODES)
    model_dir: str = ""
    checkpoint: str = ""
    name: str = ""
    batch_size_per_gpu: int | None = option(None, "examples per tower and step", shapes="input", minimum=1)
    summary_names: tuple[str, ...] = ()
    split_batch: bool = option(True, "whether the towers share one batch", shapes="graph")
    signature: Mapping[str, Any] = field(default_factory=dict)
    init_checkpoint: str = ""
    init_classes: ClassMap | None = None
    columns: Columns | None = None
    cluster: ClusterConfig | None = option(None, "the processes", shapes="graph", shaped_by=_count_processes)  # noqa: RUF009 - the default is immutable
    stop_grace_seconds: float = 20.0
    format_line: Callable[[StepValues], str] | None = None
    progress: bool = False

    def __init__(self, mode: str = "train", model_dir: str = "", **settings: Any) -> None:
        """Sets the attributes, and the options of sections.

        Args:
          **settings: values of other attributes, and of options of the sections. If an option and its section are both
            given, the value of the option is used.
        """
        values = {"mode": mode, "model_dir": model_dir, **_group_into_sections(settings)}
        for attribute in dataclasses.fields(self):
            factory = attribute.default_factory
            default = attribute.default if factory is dataclasses.MISSING else factory()
            object.__setattr__(self, attribute.name, values.pop(attribute.name, default))
        for name in values:
            names = [attribute.name for attribute in dataclasses.fields(self)]
            raise TypeError(f"RunnerConfig has no keyword {name!r}{suggestion(name, names)}")
        self.__post_init__()

    @classmethod
    def for_run(cls, run: EngineConfig, mode: str, model_dir: str, **settings: Any) -> RunnerConfig:
        """The config of a run, with the sections of another config.

        Args:
          run: the config that has the sections, such as that of a training.
          mode: train, eval or infer.
          model_dir: the folder of the run.
          **settings: other keywords of `RunnerConfig`. They take precedence over the sections of `run`.
        """
        shared = {field.name: getattr(run, field.name) for field in dataclasses.fields(EngineConfig)}
        return cls(mode, model_dir, **{**shared, **settings})

    def __post_init__(self) -> None:
        names = (self.summary_names,) if isinstance(self.summary_names, str) else self.summary_names
        split = tuple(part.strip() for name in names for part in name.split(",") if part.strip())
        object.__setattr__(self, "summary_names", split)
        super().__post_init__()
        if not self.model_dir and not (self.mode != "train" and self.checkpoint):
            raise UsageError("model_dir is empty; name the folder of the run")
        if self.is_distributed:
            if self.mode != "train":
                raise UsageError(
                    f"the mode is {self.mode}, but several processes can only train; leave the cluster out"
                )
            check_for_cluster(self, self.members)

    @property
    def members(self) -> ClusterConfig:
        """`cluster`, which must not be None."""
        assert self.cluster is not None
        return self.cluster

    @property
    def is_distributed(self) -> bool:
        """Whether several processes train together."""
        return self.cluster is not None and self.cluster.is_distributed

    @property
    def is_all_reduce(self) -> bool:
        """Whether several processes train together without parameter servers."""
        return self.is_distributed and self.distributed.exchange == "all-reduce"

    @property
    def towers(self) -> int:
        """The number of towers in this mode."""
        return 1 if self.mode == "infer" else self.devices.num_gpu


def _group_into_sections(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Moves options into their sections."""
    values = {_PUBLISHED_NAMES.get(name, name): value for name, value in settings.items()}
    for section, kind in sections_of(EngineConfig).items():
        names = values.keys() & {field.name for field in dataclasses.fields(kind)} - {section}
        if names:
            options = {name: values.pop(name) for name in names}
            values[section] = dataclasses.replace(values.get(section, kind()), **options)
    return values


@dataclass(frozen=True)
class CallbackConfig:
    """The callbacks of a run, by name or as `package.module:Class`.

    Attributes:
      names: callbacks besides the mode's default ones; `-name` removes a default one.
      options: {name of a callback: keyword arguments for its constructor}; a callback that is named only here is added
        after the others.
    """

    names: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Status(StrEnum):
    """How a run ended.

    FINISHED: a callback ended it, for example at max_steps.
    OUT_OF_DATA: all data were read.
    STOPPED: a signal ended it.
    FAILED: an error ended it.
    """

    FINISHED = "finished"
    OUT_OF_DATA = "out_of_data"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """How and at which step a run ended.

    Attributes:
      status: finished, out_of_data, stopped or failed.
      global_step: the last completed training step; in evaluation and inference, the step of the checkpoint.
      message: one sentence for the user.
      signal: the number of the first signal that the process got during the run; None if it got none.
      results: {name: value} from the callbacks, such as the metrics of an evaluation.
      error: the exception that made the run fail; None if it did not fail.
    """

    status: Status
    global_step: int
    message: str
    signal: int | None = None
    results: Mapping[str, Any] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def ending(self) -> str:
        """The message to log. If the run failed, it only refers to the error, which the runner has already logged."""
        return "the error above ended it" if self.status is Status.FAILED else self.message

    @property
    def exit_code(self) -> int:
        """0 if the run ended well, 143 after SIGTERM, 130 after ctrl-C, else the `exit_code` of the error, or 1."""
        if self.status is Status.STOPPED:
            return 128 + (self.signal or signal.SIGTERM)
        if self.status is Status.FAILED:
            return int(getattr(self.error, "exit_code", 1))
        return 0


@dataclass
class Context:
    """The state of a run that its callbacks share; it is the first argument of their constructors.

    These attributes do not change after the run has begun:

    Attributes:
      config: the config of the run.
      ops: the handles of the graph: TrainOps in training, else EvalOps.
      modeler: the model and its loss; it makes evaluators for callbacks.
      line: the log line that the callbacks fill in.
      saver: the RunSaver that saves checkpoints; None in evaluation and inference.
      metrics: the MetricsFile of the run; None in evaluation and inference.
      signals: the `StopSignals` of the run; None in a replica of a cluster, whose runner handles signals itself.
      records: number of records in one epoch; None if that is not known.
      num_files: number of files in one epoch.

    These attributes change during the run:

    Attributes:
      step: the last completed step: the global step in training, else the number of batches. `StepHook` updates it.
      global_step: the global step to which the values of the variables belong: in training the current one, else that
        of the checkpoint.
      is_resumed: whether the variables got their values from a checkpoint of this run.
      has_read_all: whether all data were read; set before the callbacks' `end` is called.
      save_planned: whether a checkpoint will be saved after the next step. A callback that saves sets this in
        `before_run`.
      stop_planned: whether the run will end after the next step. A callback that ends it sets this in `before_run`.
      ending: why a callback ended the run, which becomes the message of the Outcome; empty for no message.
      results: {name: value} that callbacks put into the Outcome.
    """

    config: RunnerConfig
    ops: Any
    modeler: Modeler
    line: StepLine
    saver: Any = None
    metrics: Any = None
    signals: StopSignals | None = None
    records: int | None = None
    num_files: int = 0
    step: int = 0
    global_step: int = 0
    is_resumed: bool = False
    has_read_all: bool = False
    save_planned: bool = False
    stop_planned: bool = False
    ending: str = ""
    results: dict[str, Any] = field(default_factory=dict)

    @property
    def line_due(self) -> bool:
        """Whether a log line is written after the next step."""
        return self.line.due(self.step + 1)

    @property
    def keeps_to_plan(self) -> bool:
        """Whether a checkpoint may be saved only if `save_planned` is set.

        That is so if all replicas of a cluster save their positions in the data with each checkpoint.
        """
        return self.config.is_all_reduce and self.config.checkpoints.exact_resume
