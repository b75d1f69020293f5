"""A run, opened once: its folder, config, vocabulary, checkpoints, thresholds and extractors."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from absl import logging

from yt8m import options, storage
from yt8m.config import data_fit, run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.data_fit import Takes
from yt8m.config.export_config import ExportConfig
from yt8m.config.model_options import with_hyper_parameters
from yt8m.config.programs import EvalConfig, InferenceConfig, PassConfig
from yt8m.config.run_dir import SavedRun
from yt8m.config.run_options import DamagePolicy
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints, metric_files, validation_history
from yt8m.runs import best_checkpoint


class FittedData(NamedTuple):
    """Data that fit a run.

    Attributes:
      names: the vocabulary of the run, or else of the data; empty if there is neither.
    """

    config: DataConfig
    opened: OpenedData
    names: Vocabulary


@dataclass(frozen=True)
class OpenedRun:
    """The config and vocabulary of a run, read once.

    Each call that needs the checkpoints lists them again, because a training may still add and remove some.

    Attributes:
      names: the run's own vocabulary; empty if it has none.
    """

    folder: str
    config: TrainConfig
    names: Vocabulary
    is_own: bool

    @property
    def shown_names(self) -> Vocabulary:
        """The names to show: the run's own, or else YouTube-8M's if the run has 3862 classes; else empty."""
        return self.names.shown(self.config.data.num_classes)

    @property
    def extractors(self) -> Sequence[Mapping[str, Any]]:
        """The extractors that computed the features, as data manifests describe them; empty if they are unknown."""
        return self.config.data.extractors

    def newest_checkpoint(self) -> str:
        """The path of the newest checkpoint that can be read."""
        newest = checkpoints.newest_readable(self.folder)
        if newest is None:
            raise RunError(f"no checkpoint in {self.folder}: train first, or name another --train_dir.")
        return newest

    def choice(self, choice: str = "") -> str:
        """Which checkpoint is meant: the user's choice, or else `best` if config.json says so and there is one.

        Args:
          choice: `last`, `best` or a step; empty if the user names none.
        """
        if choice or self.config.checkpoint != "best":
            return choice or "last"
        return "best" if checkpoints.steps_in(storage.join(self.folder, run_dir.BEST_FOLDER)) else "last"

    def checkpoint(self, choice: str = "") -> str:
        """Returns the path of a checkpoint of the run.

        Args:
          choice: `last`, `best`, or a step; empty for the one that the run means (see `choice`). A step that the
            training has deleted since is found in best/ if it is the best one.
        """
        choice = self.choice(choice)
        if choice == "last":
            return self.newest_checkpoint()
        return self._best_checkpoint() if choice == "best" else self._checkpoint_of_step(_parse_step(choice))

    @property
    def _best_folder(self) -> str:
        return storage.join(self.folder, run_dir.BEST_FOLDER)

    def _best_checkpoint(self) -> str:
        folder = self._best_folder
        steps = checkpoints.steps_in(folder)
        if not steps:
            raise UsageError(
                f"{self.folder} has no best checkpoint; train with --eval_data_pattern, or keep one by "
                "yt8m eval --keep_best."
            )
        step = best_checkpoint.best_step(folder, steps)
        path = checkpoints.path_of(folder, step)
        problem = checkpoints.problem_of(path)
        if problem and best_checkpoint.best_step(folder, checkpoints.steps_in(folder)) != step:
            return self._best_checkpoint()  # an evaluation has just replaced the checkpoint by a better one
        return _refuse_unreadable(path, problem)

    def _checkpoint_of_step(self, step: int) -> str:
        steps = checkpoints.steps_in(self.folder)
        best = [] if step in steps else checkpoints.steps_in(self._best_folder)
        if step not in (*steps, *best):
            listed = ", ".join((*map(str, steps), *(f"{other} (the best)" for other in best if other not in steps)))
            raise UsageError(f"{self.folder} has no checkpoint of step {step}; it has: {listed or 'none'}.")
        path = checkpoints.path_of(self.folder if step in steps else self._best_folder, step)
        return _refuse_unreadable(path, checkpoints.problem_of(path))

    def data_for(
        self, config: EvalConfig | InferenceConfig | ExportConfig, pattern: str, segment_labels: bool
    ) -> DataConfig:
        """Returns the data config of an evaluation, inference or export; features and classes are the run's."""
        data = self.config.data
        if segment_labels and not data.frame_features:
            raise UsageError(
                f"Segments are cut from frames, but the model was trained on video-level features "
                f"({','.join(data.feature_names)}); name a run that was trained with --frame_features."
            )
        damage_options = dataclasses.fields(DamagePolicy) if isinstance(config, DamagePolicy) else ()
        fitted = dataclasses.replace(
            data,
            data_pattern=pattern,
            held_out=(),
            segment_labels=segment_labels,
            vocabulary=getattr(config, "vocabulary", ""),
            max_frames=getattr(config, "max_frames", None) or data.max_frames,
            cache=getattr(config, "cache", ""),
            num_readers=config.num_readers,
            **{field.name: getattr(config, field.name) for field in damage_options},
        )
        fitted.check_cache()
        usual = fitted.examples_in_batch(config.most_in_batch, getattr(config, "segment_context", 0))
        return dataclasses.replace(fitted, batch_size=config.batch_size or usual)

    def takes(self, data: DataConfig, where: str = "") -> Takes:
        """What the model of the run takes.

        Args:
          where: the folder or file with the run's vocabulary, which error messages name; by default the run's folder.
        """
        return Takes(data, self.names, where or self.folder)

    def fit(
        self,
        data: DataConfig,
        flag: str,
        flags: Mapping[str, Any],
        *,
        opened: OpenedData | None = None,
        is_rated: bool = False,
        where: str = "",
        remedy: str = "",
    ) -> FittedData:
        """Opens the files of an evaluation, inference or export, and refuses those that do not fit the model.

        Args:
          data: the data config that `data_for` returned; without a pattern no file is opened.
          flags: {flag: value} of flags that describe the records, see `data_fit.fit`.
          remedy: the last sentence of error messages, which says what to do; by default one that fits a trained run.
        """
        opened, takes = opened or data_fit.open_for(data, flag), self.takes(data, where)
        names = takes.names_on(opened, remedy)
        if not self.names:
            opened.log_names()
        fitted = data_fit.fit(takes, opened, flags, flag=flag, is_rated=is_rated, remedy=remedy)
        return FittedData(fitted, opened, names)


def open_run(train_dir: str, flags: PassConfig | None = None, *, trust_code: bool = False) -> OpenedRun:
    """Opens the folder of a run.

    Args:
      train_dir: the folder; if it is empty, the newest run under runs/ is opened.
      flags: the flags of the program. They complete a run of the published code, which has only model_flags.json: the
        hyper-parameters come from the flags, and the number of classes from the flags, from a meta-graph in the folder,
        or from the vocabulary that the flags name. None for no flags.
    """
    folder = find_folder(train_dir)
    config = config_of(folder, flags or PassConfig(), trust_code)
    if flags is not None and flags.stated:
        _compare_stated(folder, config, flags.stated)
    return OpenedRun(folder, config, run_dir.own_names(folder, config.data.num_classes), run_dir.is_own(folder))


def _compare_stated(folder: str, config: TrainConfig, stated: Mapping[str, Any]) -> None:
    """Compares flags of a training with the run: another model or other features are refused, other values are said."""
    for item in options.shaping(config):
        flag = options.short_name(item.name)
        if flag not in stated or stated[flag] == options.value_at(config, item.name):
            continue
        text = f"--{flag}={options.shown(stated[flag])}"
        saved = options.shown(options.value_at(config, item.name))
        if item.shapes == "variables":
            raise UsageError(f"{text}: the run in {folder} was trained with {saved}; leave the flag out.")
        logging.warning("%s has no effect: the run in %s was trained with %s", text, folder, saved)
    for flag in sorted({*stated} - {options.short_name(item.name) for item in options.shaping(config)}):
        logging.warning("--%s=%s has no effect: only a training uses it", flag, options.shown(stated[flag]))


def find_folder(train_dir: str) -> str:
    """Returns `train_dir`, or the folder of the newest run under runs/ if `train_dir` is empty."""
    if train_dir:
        if not storage.is_dir(train_dir):
            raise UsageError(f"{train_dir}: {storage.why_no_folder(train_dir)}; name the folder of a run.")
        return train_dir
    folders = [
        os.path.join(run_dir.RUNS, name) for name in (os.listdir(run_dir.RUNS) if os.path.isdir(run_dir.RUNS) else [])
    ]
    folders = [path for path in folders if os.path.exists(os.path.join(path, run_dir.CONFIG))]
    if not folders:
        raise UsageError(
            "no --train_dir is given and there is no run under runs/; train one first "
            "(yt8m train --train_data_pattern=FILES), or name its folder."
        )
    newest = max(folders, key=lambda path: os.path.getmtime(os.path.join(path, run_dir.CONFIG)))
    logging.info("no --train_dir was named: taking the newest run, %s", newest)
    return newest


def _refuse_unreadable(path: str, problem: str) -> str:
    """Returns the path of a checkpoint if there is no problem with it; otherwise raises `RunError`."""
    if problem:
        raise RunError(f"{path} cannot be read: {problem}; choose another one by --checkpoint")
    return path


def _parse_step(choice: str) -> int:
    if not choice.isdecimal():
        raise UsageError(f"--checkpoint={choice}: expected last, best, or a step such as 1000.")
    return int(choice)


def config_of(folder: str, flags: PassConfig, trust_code: bool) -> TrainConfig:
    """Reads the config of the run in `folder` and completes it by `flags`; see `open_run` for arguments and errors."""
    saved = run_dir.read(folder, trust_code=trust_code)
    if saved is None:
        raise UsageError(f"{run_dir.why_no_run(folder)}. Name the folder that was the --train_dir of a training.")
    config = saved.config
    if flags.hyper_parameters:  # without them the model's code need not be imported: a meta-graph may replace it
        config = dataclasses.replace(config, model=with_hyper_parameters(config.model, flags.hyper_parameters))
    num_classes = flags.num_classes
    if saved.published:
        num_classes_of_flags = open_data(None, vocabulary=flags.vocabulary).num_classes(num_classes)
        num_classes = num_classes or _classes_in_meta_graph(folder) or num_classes_of_flags
    elif num_classes is not None and config.data.num_classes not in (None, num_classes):
        raise UsageError(
            f"--num_classes={num_classes}: the run in {folder} was trained with {config.data.num_classes}; leave the "
            "flag out."
        )
    if num_classes is not None:
        config = dataclasses.replace(config, data=dataclasses.replace(config.data, num_classes=num_classes))
    return config


def _classes_in_meta_graph(train_dir: str) -> int | None:
    """The number of classes in the newest meta-graph (model.ckpt-N.meta) of a folder; None if there is no such file."""
    from yt8m.graph.restore import read_meta_graph
    from yt8m.video.meta_modeler import class_count

    steps = checkpoints.steps_in(train_dir)
    for step in steps:
        meta = f"{checkpoints.path_of(train_dir, step)}.meta"
        try:
            count = class_count(read_meta_graph(meta))
        except storage.NotFoundError:
            continue
        logging.info("the class count, %d, comes from %s", count, meta)
        return count
    # A running training may have deleted all listed checkpoints before their meta-graphs were read. Then its newer
    # checkpoints are tried.
    has_changed = checkpoints.steps_in(train_dir)[:1] != steps[:1]
    return _classes_in_meta_graph(train_dir) if has_changed else None


Lines = Sequence[Mapping[str, Any]]  # lines of metrics.jsonl, each as {name: value}


class RunFiles:
    """The files of a run, each of which is read at its first use. A property raises RunError if its file is damaged.

    Args:
      folder: the folder of the run.
      names: names of the files in the folder; None if they are not known, so that the folder has to be listed.
    """

    def __init__(self, folder: str, names: Collection[str] | None = None) -> None:
        self.folder = folder
        self.names = storage.listdir(folder) if names is None else names

    @cached_property
    def saved(self) -> SavedRun | None:
        """The config of the training; None if there is none."""
        return run_dir.read(self.folder)

    @cached_property
    def kept_step(self) -> int | None:
        """The step of the best checkpoint, if the run means that one; else None."""
        means_best = self.saved is not None and self.saved.config.checkpoint == "best"
        return best_checkpoint.kept_step(self.folder) if means_best else None

    @cached_property
    def lines(self) -> Lines:
        """The lines of metrics.jsonl, without a last line that a killed process left incomplete."""
        return list(metric_files.rows(self.folder)) if metric_files.METRICS in self.names else []

    @property
    def training_lines(self) -> Lines:
        """The lines of training batches; in the folder of an evaluation, the lines of evaluated checkpoints."""
        return [line for line in self.lines if "mode" not in line]

    @property
    def validation_lines(self) -> Lines:
        """The lines of the validations of a training."""
        return [line for line in self.lines if line.get("mode") == metric_files.VALIDATE]

    @cached_property
    def forgotten(self) -> Collection[int]:
        """Steps of validations that are not compared with later ones, because the validation data have changed."""
        return validation_history.forgotten_in(self.folder) if validation_history.NAME in self.names else ()
