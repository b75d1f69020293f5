"""Evaluates the checkpoints of a training in the training's own process, and keeps the best checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import heapq
import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from yt8m import runner, storage
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.programs import EvalConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.eval_util import metrics
from yt8m.eval_util.metrics import Gap, Loss
from yt8m.eval_util.videos import hashes
from yt8m.records import manifest, shards
from yt8m.records.held_out import HeldOut
from yt8m.records.opened_data import OpenedData
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.runner.lines import StepValues
from yt8m.runs import best_checkpoint
from yt8m.runs.opened_run import FittedData, OpenedRun
from yt8m.runs.trained_model import TrainedModel
from yt8m.scoring import evaluation, evaluation_results
from yt8m.scoring.evaluation import EvaluationTask
from yt8m.storage import copies

_SAMPLE = "sample.tfrecord"  # name of the shard with the copies of the videos that --eval_max_videos draws


class Validator:
    """Evaluates checkpoints of a training, one after another, on the files of --eval_data_pattern.

    The constructor checks the data; if --eval_max_videos is given, it reads all records to draw the videos.

    Args:
      names: the vocabulary of the training data; empty if they have none.
    """

    def __init__(self, config: TrainConfig, folder: str, names: Vocabulary) -> None:
        settings = evaluation.config_for_training(config)
        self._folder, self._num_classes = config.train_dir, config.data.num_classes
        self._flag = f"--eval_data_pattern={config.validation.eval_data_pattern}"
        self.metric = metrics.find(config.validation.best_metric)
        run, self._task = _create_task(settings, config, folder, names)
        is_sampled = self._task.inputter.files() == [storage.join(folder, _SAMPLE)]
        self.data = _describe_data(config, self._task.fitted.opened, is_sampled)
        if self.metric not in metrics.load():
            metric_classes = metrics.load([config.validation.best_metric], evaluation_results.RESERVED_KEYS)
            self._task.modeler.metric_classes = metric_classes
        runner_config = TrainedModel(run, "").runner_config("eval", settings)
        runner_config = dataclasses.replace(runner_config, progress=False, log_every_n_steps=sys.maxsize)
        callbacks = runner.CallbackConfig(("-eval_speed",))
        self._standing = runner.StandingEvaluation(runner_config, self._task.inputter, self._task.modeler, callbacks)

    def __call__(self, checkpoint: str, signals: runner.StopSignals) -> StepValues | None:
        """Evaluates a checkpoint.

        Returns:
          The loss and the metrics; None if a signal ended the evaluation.
        """
        counted_shards, inputter = self._task.counted_shards, self._task.inputter
        counted_shards.check_unchanged()
        inputter.begin_again()
        outcome = self._standing.evaluate(checkpoint, signals)
        if outcome.status is not runner.Status.OUT_OF_DATA:
            return None
        counted_shards.check_read()
        if not outcome.results.get("examples"):
            raise RunError(f"{self._flag} holds no example, so nothing was validated: name other files.")
        result = evaluation_results.evaluation_result(
            checkpoint, outcome, self._task.fitted.names.shown(self._num_classes)
        )
        figures = {metric.name: float(value) for metric, value in result.values()}
        return StepValues(
            step=checkpoints.step_of(checkpoint),
            global_step=result.step,
            loss=figures.pop(Loss.name, None),
            figures=figures,
            unlogged=metrics.names_of_details() - {self.metric.name},
            examples=result.num_examples,
            is_validation=True,
        )

    def checkpoint_of(self, step: int) -> str | None:
        """The path of the checkpoint of step `step` in the run's folder, else in best/; None if neither can be read."""
        for folder in (self._folder, storage.join(self._folder, run_dir.BEST_FOLDER)):
            path = checkpoints.path_of(folder, step)
            if step in checkpoints.steps_in(folder) and not checkpoints.problem_of(path):
                return path
        return None

    def keep(self, checkpoint: str, values: StepValues) -> None:
        """Copies a checkpoint to best/ in the run's folder, and writes its loss and metrics to best.json there."""
        figures = values.figures | ({} if values.loss is None else {Loss.name: values.loss})
        finite = {name: value for name, value in figures.items() if math.isfinite(value)}
        gap = {"gap": finite[Gap.name]} if Gap.name in finite else {}
        note = {**gap, "metric": self.metric.name, "figures": finite}
        best_checkpoint.replace_best(self._folder, checkpoint, values.step, note)
        name, value = self.metric.name, finite[self.metric.name]
        logging.info("the best checkpoint so far is that of step %d (%s %.4f)", values.step, name, value)


@contextlib.contextmanager
def open_validator(config: TrainConfig, names: Vocabulary) -> Iterator[Validator]:
    """Opens a `Validator` with a temporary folder, which is removed after the `with` block.

    Args:
      names: the vocabulary of the training data; empty if they have none.
    """
    with copies.private_folder("yt8m-validation-") as folder:
        yield Validator(config, folder, names)


def _create_task(
    settings: EvalConfig, config: TrainConfig, folder: str, names: Vocabulary
) -> tuple[OpenedRun, EvaluationTask]:
    """Returns the run that is being trained, and the parts of its evaluations.

    Args:
      names: the vocabulary of the training data; empty if they have none.
    """
    most, rule = config.validation.eval_max_videos, config.data.held_out if config.validates_on_held_out else ()

    def sample(data: FittedData) -> DataConfig:
        return (
            data.config if most is None and not rule else _copy_sample(data, most, storage.join(folder, _SAMPLE), rule)
        )

    where = names.path or f"the vocabulary of {config.train_dir}"
    names = names or run_dir.own_names(config.train_dir, config.data.num_classes)
    run = OpenedRun(config.train_dir, config, names, is_own=True)
    remedy = f"Validate on data with the same format as those of --train_data_pattern={config.data.data_pattern}."
    try:
        return run, evaluation.create_task(settings, run, None, where, sample, remedy, are_held_out=bool(rule))
    except UsageError as error:
        if str(error).startswith("--eval_"):  # the message already names the flag
            raise
        raise UsageError(f"--eval_data_pattern={config.validation.eval_data_pattern}: {error}") from error


def _describe_data(config: TrainConfig, data: OpenedData, is_sampled: bool) -> dict[str, Any]:
    """Describes the validation data for `validation_history.History`.

    Returns:
      `pattern`, the value of --eval_data_pattern; `max_videos`, that of --eval_max_videos, or None if all videos are
      evaluated; and `fingerprint`, a hash of the paths, the sizes and the versions of the files, of `max_videos`, and
      of the rule by which videos are held out.
    """
    most = config.validation.eval_max_videos if is_sampled else None
    facts = [most, manifest.versions(data.files), *config.data.held_out * config.validates_on_held_out]
    fingerprint = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return {"pattern": config.validation.eval_data_pattern, "max_videos": most, "fingerprint": fingerprint}


def _copy_sample(fitted: FittedData, most: int | None, path: str, rule: Sequence[int] = ()) -> DataConfig:
    """Copies the `most` videos whose ids have the smallest hashes to the shard `path`; all of them if it is None.

    So the choice depends only on the ids of the videos, and each validation evaluates the same ones.

    Args:
      rule: only videos that it holds out are copied, see `records.held_out`; empty for no such rule.

    Returns:
      The data config with `path` as its only file. If there is no rule and there are at most `most` videos, nothing is
      copied and the config of the data themselves is returned.
    """
    data, files = fitted.config, fitted.opened.files
    held_out = HeldOut(rule, files)
    if data.reader:
        raise UsageError(
            f"--eval_max_videos finds the ids of YouTube-8M's records, not of --reader={data.reader}; leave it out."
        )
    # The videos drawn so far, as a heap of (-hash, -index of the file, -number of the record). Its smallest entry is
    # the video with the largest hash, which `heappushpop` removes.
    heap: list[tuple[int, int, int]] = []
    total = 0
    for file_index, file in enumerate(files):
        for number, (_, record) in enumerate(_read_until_damage(file, data)):
            if held_out and not held_out.holds(record):
                continue
            key = int(hashes([record.id()])[0])
            add = heapq.heappush if most is None or len(heap) < most else heapq.heappushpop
            add(heap, (-key, -file_index, -number))
            total += 1
    if not held_out and most is not None and total <= most:
        return data
    drawn = {(-file_index, -number) for _, file_index, number in heap}
    with storage.write_atomic(path) as out:
        for file_index in sorted({file_index for file_index, _ in drawn}):
            for number, (payload, _) in enumerate(_read_until_damage(files[file_index], data)):
                if (file_index, number) in drawn:
                    out.write(shards.framed(payload))
    which = "videos that are held out of the training" if held_out else "videos (--eval_max_videos)"
    logging.info("each validation reads the same %d of %d %s", len(drawn), total, which)
    # The name of a cached file depends on the path of its shard, and the next start copies to another one. So in the
    # folder of --cache the file would be of no use later.
    return dataclasses.replace(data, data_pattern=path, cache=f"{path}.cache" if data.cache else "")


def _read_until_damage(path: str, data: DataConfig) -> Iterator[tuple[bytes, shards.Record]]:
    """Yields the records of a shard, serialized and parsed; stops at a bad record if the run tolerates bad records."""
    try:
        yield from shards.read_contexts(path)
    except shards.DamagedError:
        if not data.max_bad_records:
            raise
