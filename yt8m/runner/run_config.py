"""The options of a run (`RunnerConfig`), its result (`Outcome`), and the state its callbacks share (`Context`)."""

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

MODES = ("train", "eval", "infer")

# Keywords of the runner/inputter/modeler design whose option has another name in the sections of a training's config.
_DESIGN = {"gpu_count": "num_gpu", "log_every_n_iter": "log_every_n_steps"}


def _processes(cluster: ClusterConfig | None) -> list[int] | None:
    """The numbers of replicas and of parameter servers; None if one process trains."""
    return [len(cluster.replicas), len(cluster.servers)] if cluster and cluster.is_distributed else None


@dataclass(frozen=True, init=False)
class RunnerConfig(EngineConfig):
    """One run of one mode: the sections that a training's config has too, and what only the runner has to know.

    Every option of a section is also a keyword: `RunnerConfig(precision="bfloat16")` means
    `RunnerConfig(devices=DeviceConfig(precision="bfloat16"))`. `gpu_count` is the option `num_gpu` of the devices, and
    `log_every_n_iter` is `log_every_n_steps`.

    Attributes:
      mode: train, eval or infer.
      model_dir: the folder of checkpoints, event files and metrics.jsonl.
      checkpoint: the checkpoint for evaluation and inference; empty for the newest in `model_dir`.
      optimizer, checkpoints, distributed: training only, except for `optimizer.moving_average_decay`: evaluation
        reads the averages of the weights if it is not 0.
      devices: inference always uses one tower; evaluation and inference compute in float32.
      name: local_runner (one tower, which holds its variables) or parameter_server_runner (several towers,
        the variables on the CPU); empty to choose by the number of towers.
      batch_size_per_gpu: examples per tower and step, equal to the inputter's; None for that of the inputter.
      summary_names: patterns (`*` as in a shell) of the summaries that are written, each in an entry of its own or
        several with commas between; empty for all. An entry that matches none is refused.
      split_batch: whether each step splits one batch over the towers; if false, each tower gets a batch of its own.
      signature: the options of the workload that shape the graph (model, features, epochs, ...), as JSON values. If it
        is empty, or differs from the checkpoint's, a resumed run rebuilds its graph by code.
      init_checkpoint: for a new training, the checkpoint from which weights are read by name (optimizer slots and the
          step are not read); empty for none.
      init_classes: where the classes of the model are there; None if they are the same ones.
      columns: {variable: bool [size of its last axis], which columns learn}; nothing else learns. None: all do.
      cluster: for training by several processes, all of them and the role of this one.
      stop_grace_seconds: after SIGTERM or ctrl-C, the seconds that the current step may take to end by itself.
      format_line: formats the log line; None for the mode's published format.
      progress: whether a progress bar on stderr, which must be a terminal, replaces the lines.
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
    cluster: ClusterConfig | None = option(None, "the processes", shapes="graph", shaped_by=_processes)  # noqa: RUF009 - one that is immutable
    stop_grace_seconds: float = 20.0
    format_line: Callable[[StepValues], str] | None = None
    progress: bool = False

    def __init__(self, mode: str = "train", model_dir: str = "", **settings: Any) -> None:
        """Takes the attributes, and the options of the sections, which change the sections that are given.

        Raises:
          TypeError: there is no such keyword.
          UsageError: a value is not valid.
        """
        values = {"mode": mode, "model_dir": model_dir, **_in_sections(settings)}
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
        """The config of one run in `mode` of a model trained as `run` says; `settings` take precedence over `run`."""
        shared = {field.name: getattr(run, field.name) for field in dataclasses.fields(EngineConfig)}
        return cls(mode, model_dir, **{**shared, **settings})

    def __post_init__(self) -> None:
        names = (self.summary_names,) if isinstance(self.summary_names, str) else self.summary_names
        split = tuple(part.strip() for name in names for part in name.split(",") if part.strip())
        object.__setattr__(self, "summary_names", split)
        super().__post_init__()
        if not self.model_dir and not (self.mode != "train" and self.checkpoint):
            raise UsageError("model_dir must name a folder; it is empty")
        if self.is_distributed:
            self._check_cluster()

    def _check_cluster(self) -> None:
        """Refuses options that a cluster does not support."""
        self.members.check_servers(self.distributed.exchange)
        if self.mode != "train":
            raise UsageError(f"a cluster trains; the mode is {self.mode}")
        if self.checkpoints.exact_resume and not self.is_all_reduce:
            raise UsageError(
                "exact_resume is for one machine or --exchange=all-reduce: replicas on parameter servers have no "
                "common position in the data; leave it out"
            )
        # If a lost server interrupts a step, its batch may still be staged while the next step stages another, and
        # nothing ends that wait.
        if self.devices.prefetch_to_device:
            raise UsageError(
                "prefetch_to_device is for one machine: a replica of a cluster may have to begin its data "
                "again in the middle of a step; leave it out"
            )
        if self.optimizer.accumulate_steps > 1 and not self.is_all_reduce:
            raise UsageError(
                f"accumulate_steps is {self.optimizer.accumulate_steps}, but the replicas of a cluster would "
                "add to the same sums; leave it out, or use more workers with sync_replicas."
            )

    @property
    def members(self) -> ClusterConfig:
        """The `cluster` of a training that has one."""
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


def _in_sections(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a `RunnerConfig`, with each option of a section put into its section."""
    values = {_DESIGN.get(name, name): value for name, value in settings.items()}
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
      names: callbacks besides the mode's usual ones; `-name` removes a usual one.
      options: keyword arguments for the constructors, by the callback's name; a callback that is named
        here only is added after the others.
    """

    names: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Status(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    OUT_OF_DATA = "out_of_data"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """How and where a run ended.

    Attributes:
      status: finished (a callback asked for the end, such as max_steps), out_of_data, stopped (by a
        signal) or failed.
      global_step: the last completed training step; in evaluation and inference, the step of the checkpoint.
      message: one sentence for the user.
      signal: the signal that stopped the run.
      results: values that callbacks return (such as the metrics of an evaluation).
      error: the exception that made the run fail.
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
        """0 if the run ended well, 143 after SIGTERM, 130 after ctrl-C, otherwise the error's own status or 1."""
        if self.status is Status.STOPPED:
            return 128 + (self.signal or signal.SIGTERM)
        if self.status is Status.FAILED:
            return int(getattr(self.error, "exit_code", 1))
        return 0


@dataclass
class Context:
    """The state that callbacks share; each gets it when it is made. The engine keeps `step` up to date.

    These are fixed when a run begins:

    Attributes:
      config: the config of the run.
      ops: the graph's handles: TrainOps in training, else EvalOps.
      modeler: the model, which gives callbacks its evaluator.
      line: the line of the step, which all callbacks share. It knows when the run will end.
      saver: the RunSaver that saves checkpoints; None in evaluation and inference.
      metrics: the run's metrics.jsonl; None in evaluation and inference.
      signals: the signals that ask the run to stop; None in a cluster, which has its own.
      records: number of records of one epoch; None if it is not known.
      num_files: number of files of one epoch.

    These change:

    Attributes:
      step: the last completed step: the global step in training, else the number of batches.
      global_step: the step of the training, or of the checkpoint.
      is_resumed: whether the variables came from a checkpoint.
      has_read_all: whether all data were read; set before the callbacks' `end` is called.
      save_planned: whether a checkpoint will be saved after the step about to run. A callback that saves says so in
        `before_run`.
      stop_planned: whether the run will end after the step about to run.
      ending: why a callback asked the run to end, for the Outcome; empty if there is nothing to say.
      results: values that callbacks put into the Outcome.
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
        """Whether the step about to run gets a line."""
        return self.line.due(self.step + 1)

    @property
    def keeps_to_plan(self) -> bool:
        """Whether only planned checkpoints are saved, because other processes have to save their positions."""
        return self.config.is_all_reduce and self.config.checkpoints.exact_resume
