"""A run together with chosen weights: a checkpoint, or an inference model (weights with a meta-graph file)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from absl import logging

from yt8m import storage, terminal
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.programs import PassConfig
from yt8m.config.run_dir import BEST_FOLDER, INFERENCE_MODEL, SEGMENT_MODEL
from yt8m.config.train_config import DeviceConfig
from yt8m.errors import RunError, UsageError
from yt8m.graph.restore import read_meta_graph
from yt8m.lazy import tf
from yt8m.runner import RunnerConfig, checkpoints, creation
from yt8m.runs import archive
from yt8m.runs.opened_run import OpenedRun, config_of
from yt8m.storage import copies
from yt8m.video import workload
from yt8m.video.meta_modeler import MetaGraphModeler, class_count
from yt8m.video.modeler import VideoModeler

T = TypeVar("T")
_STEP = "global_step"  # the variable that holds the training step


@dataclass(frozen=True)
class TrainedModel:
    """The model of a run with certain weights.

    Attributes:
      is_file: whether the graph is read from the meta-graph file of an inference model; otherwise the model's code
        builds it.
    """

    run: OpenedRun
    weights: str
    is_file: bool = False

    @property
    def step(self) -> int:
        """The training step of the weights; 0 for an inference model that has no step, such as that of an ensemble."""
        if not self.is_file:
            return checkpoints.step_of(self.weights)
        reader = tf.train.load_checkpoint(copies.copy_of(self.weights))
        return int(reader.get_tensor(_STEP)) if reader.has_tensor(_STEP) else 0

    def modeler(self, data: DataConfig, mode: str, top_k: int = 20) -> VideoModeler:
        """Creates the modeler, which builds the graph of the model."""
        if not self.is_file:
            return workload.create_modeler(data, self.run.config.model, mode, top_k)
        if data.film_mean and data.segment_labels:
            raise UsageError(
                f"{self.weights} was trained with --film_mean, and an inference model has no input for the mean of the "
                "video beside a segment; name the folder of the run, with its checkpoints."
            )
        loss = workload.create_loss(self.run.config.model) if mode == "eval" else None
        modeler = MetaGraphModeler(self.weights, top_k, loss)
        modeler.one_class = data.one_class  # what it imports divides the scores by their sum already
        return modeler

    def runner_config(self, mode: str, config: PassConfig | None = None) -> RunnerConfig:
        """Returns the config of a runner with these weights.

        Args:
          config: the config of the program; if it is None, the runner writes no log lines and shows no progress.
        """
        return RunnerConfig.for_run(
            self.run.config,
            mode,
            self.run.folder,
            checkpoint=self.weights,
            devices=DeviceConfig(num_gpu=getattr(config, "num_gpu", 1)),
            log_every_n_steps=config.log_every_n_steps if config else sys.maxsize,
            progress=config is not None and terminal.shows_bar(),
        )

    def log(self) -> None:
        """Logs which model is used: its name, step, whether its weights are averages, and their path."""
        is_averaged = not self.is_file and creation.decay_in(self.weights, self.run.config.optimizer) > 0
        step = f"step {self.step}, as exported" if self.is_file else f"step {self.step}"
        which = f"{step}, averaged weights" if is_averaged else step
        if self.weights.rpartition("/")[0].endswith(f"/{BEST_FOLDER}"):
            which += ", the best by validation"
        search, is_apart = self.run.config.search, bool(self.run.config.data.held_out)
        if search.undone_refit.get("step") == self.step:
            which += ", trained without the videos that chose it, since with them it was worse there"
        elif search.is_refitted:
            which += ", trained on the split validate too"
        elif search.trials and not is_apart and not search.quoted.get("validation"):
            which += ", trained on the videos too that were held out to choose it"
        logging.info("the model is %s, %s, from %s", self.run.config.model.model, which, self.weights)


def has_weights(run: OpenedRun) -> bool:
    """Whether the run has a checkpoint or an inference model."""
    return bool(checkpoints.steps_in(run.folder)) or _inference_model_of(run) is not None


def _inference_model_of(run: OpenedRun) -> str | None:
    """The path of the files of the run's inference model, without their endings; None if there is none."""
    return _inference_model_in(storage.join(run.folder, INFERENCE_MODEL))


def _inference_model_in(folder: str) -> str | None:
    """The path of the files of the inference model in a folder, without their endings; None if there is none.

    The published code gives the model another name if it has evaluated segments.
    """
    prefixes = (storage.join(folder, name) for name in (INFERENCE_MODEL, SEGMENT_MODEL))
    return next((prefix for prefix in prefixes if storage.exists(f"{prefix}.meta")), None)


def of_run(run: OpenedRun, choice: str = "") -> TrainedModel:
    """Returns the model of a run with the weights of a checkpoint.

    Args:
      choice: `last`, `best`, or a step; empty for the one that the run means (`OpenedRun.choice`). In a folder
        without checkpoints, `last` is its inference model.
    """
    choice = run.choice(choice)
    if choice != "last":
        return TrainedModel(run, run.checkpoint(choice))
    prefix, newest = _inference_model_of(run), checkpoints.newest_readable(run.folder)
    if newest is None and prefix is not None:
        return TrainedModel(run, prefix, is_file=True)
    return TrainedModel(run, newest or run.newest_checkpoint())


def of_archive(tgz: str, folder: str, *, trust_code: bool = False, is_unpacked: bool = False) -> TrainedModel:
    """Unpacks an archive and finds its inference model.

    The model is in the root of the archive or, in archives of the published code, in a folder there.

    Args:
      tgz: the path of the archive, local or gs://.
      folder: the local folder to unpack into, which must be new or empty.
    """
    if not is_unpacked:
        archive.safe_extract(tgz, folder)
    logging.info("%s was unpacked to %s", tgz, folder)
    for inner in (folder, *storage.glob_in(folder, "*")):
        prefix = _inference_model_in(inner)
        if prefix is not None:
            classes = class_count(read_meta_graph(f"{prefix}.meta"))
            # The run's config is in the folder of the model or, in published archives, in the parent folder.
            config_folder = inner if run_dir.read(inner) else folder
            config = config_of(config_folder, PassConfig(num_classes=classes), trust_code)
            run = OpenedRun(folder, config, run_dir.own_names(inner, classes), run_dir.is_own(config_folder))
            return TrainedModel(run, prefix, is_file=True)
    raise RunError(
        f"{tgz}, unpacked to {folder}, holds no {INFERENCE_MODEL}.meta, so it is not the archive of a model; make "
        "one by yt8m inference --output_model_tgz."
    )


def with_newer(choose: Callable[[], TrainedModel], use: Callable[[TrainedModel], T]) -> T:
    """Calls `use` with the model that `choose` returns, and returns the result.

    If training deletes the checkpoint of the model during the call, and there is a newer one, both functions are called
    again. Errors of both functions are passed on.
    """
    return checkpoints.with_newer(choose(), choose, lambda model: [] if model.is_file else [model.weights], use)
