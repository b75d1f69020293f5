"""Validation: a training evaluates its own checkpoints, with the code and the figures of eval.py."""

from __future__ import annotations

import dataclasses
import sys

from yt8m import runner
from yt8m.commands import evaluation, workload
from yt8m.config import run_dir
from yt8m.config.programs import EvalConfig
from yt8m.config.train_config import TrainConfig
from yt8m.eval_util.metrics import Loss
from yt8m.records import vocabulary
from yt8m.runner import checkpoints
from yt8m.runner.lines import StepValues


class Validator:
    """Evaluates checkpoints of a training, one after another, on the files of --eval_data_pattern.

    Args:
      config: the complete config of the training.

    Raises:
      UsageError: the data do not fit the run, or no file matches.
      RunError: a shard is damaged.
    """

    def __init__(self, config: TrainConfig) -> None:
        settings = _settings(config)
        self._num_classes = config.data.num_classes
        self._parts = _parts(settings, config)
        runner_config = evaluation.runner_config(settings, config, config.train_dir)
        runner_config = dataclasses.replace(runner_config, progress=False, log_every_n_iter=sys.maxsize)
        callbacks = runner.CallbackConfig(("-eval_speed",))
        self._standing = runner.StandingEvaluation(runner_config, self._parts.inputter, self._parts.modeler, callbacks)

    def __call__(self, checkpoint: str, signals: runner.StopSignals) -> StepValues | None:
        """The figures of a checkpoint; None if a signal ended the evaluation.

        Raises:
          RunError: a shard changed since the start of the training, or the data have no example.
        """
        walked, inputter = self._parts.walked, self._parts.inputter
        assert walked is not None
        walked.check_unchanged()
        inputter.forget_reads()
        outcome = self._standing.evaluate(checkpoint, signals)
        if outcome.status is not runner.Status.OUT_OF_DATA:
            return None
        walked.check_read(inputter)
        done = evaluation.evaluated(checkpoint, outcome, vocabulary.of(self._num_classes, self._parts.names))
        figures = {metric.name: float(value) for metric, value in done.values()}
        return StepValues(
            step=checkpoints.step_of(checkpoint),
            global_step=done.step,
            loss=figures.pop(Loss.name, None),
            figures=figures,
            examples=done.num_examples,
            is_validation=True,
        )


def _settings(config: TrainConfig) -> EvalConfig:
    """The evaluation that the flags of the training ask for."""
    return EvalConfig(
        train_dir=config.train_dir,
        eval_data_pattern=config.validation.eval_data_pattern,
        batch_size=config.data.batch_size,
        num_readers=config.data.num_readers,
        max_bad_records=config.data.max_bad_records,
        nan_policy=config.data.nan_policy,
        num_gpu=config.devices.num_gpu,
    )


def _parts(settings: EvalConfig, config: TrainConfig) -> workload.Workload:
    own = vocabulary.of_data(config.data.vocabulary, ())
    names = own.names if own else run_dir.own_names(config.train_dir, config.data.num_classes)
    return evaluation.parts_for(settings, config, names, config.train_dir)
