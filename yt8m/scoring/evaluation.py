"""Evaluates a run's newest checkpoint once, or each new checkpoint as it appears, and writes the results.

The metrics go to the log, standard output, eval/report.json and eval/metrics.jsonl in the folder of the results,
TensorBoard and, with --report, an HTML page.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

from yt8m import readers, runner, scoring, storage, terminal
from yt8m.config import data_fit, run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.programs import EvalConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.eval_util import eval_samples, metrics
from yt8m.eval_util.metrics import Gap
from yt8m.eval_util.requirements import Requirement, parse_requirements, with_keys
from yt8m.export import derived_runs
from yt8m.export.saved_model import write_model_of_run
from yt8m.lazy import tf
from yt8m.readers.input_check import CountedShards, check_input
from yt8m.records import label_check, shared_videos, thresholds, vocabulary
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import media_links, report_writer, verdicts
from yt8m.runner import callbacks, checkpoints
from yt8m.runner.metric_files import EventFile
from yt8m.runs import checkpoint_following
from yt8m.runs.best_checkpoint import keep_best
from yt8m.runs.default_data import sample_data_of_run
from yt8m.runs.opened_run import FittedData, OpenedRun, find_folder, open_run
from yt8m.runs.trained_model import TrainedModel
from yt8m.scoring import EvaluationSettings, evaluation_results, film_thresholds
from yt8m.scoring.evaluation_results import RESERVED_KEYS, EvaluationResult, evaluation_result
from yt8m.scoring.export_scorer import compare_stated, is_export, refuse_run_options
from yt8m.scoring.graph_scorer import Evaluation
from yt8m.scoring.model_input import Videos
from yt8m.storage import local
from yt8m.storage.new_outputs import new_output
from yt8m.termination import terminable
from yt8m.video import workload
from yt8m.video.modeler import VideoModeler


def config_for_training(config: TrainConfig) -> EvalConfig:
    """Returns the config that evaluates the checkpoints of a training on its validation data (--eval_data_pattern)."""
    data = config.data
    return EvalConfig(
        train_dir=config.train_dir,
        eval_data_pattern=config.validation.eval_data_pattern,
        batch_size=data.examples_in_batch(data.batch_size),
        num_readers=data.num_readers,
        max_bad_records=data.max_bad_records,
        nan_policy=data.nan_policy,
        cache=data.cache,
        num_gpu=config.devices.num_gpu,
        log_every_n_steps=config.log_every_n_steps,
    )


class Results(NamedTuple):
    """Where an evaluation writes its results, and which checkpoints did not meet the conditions of --require.

    Attributes:
      events: the event file of TensorBoard that all checkpoints share.
      missed: {path of an evaluated checkpoint: number of conditions of --require that its metrics do not fulfil}.
    """

    folder: str
    events: EventFile
    missed: dict[str, int]


def _span_report(config: EvalConfig) -> Callable[[Any], None]:
    """Refuses a table --media that cannot be read; returns what writes eval/spans.html."""
    from yt8m.reports import media_links, span_report, templates  # slow to import, and other evaluations need none

    templates.environment("--report")
    media_links.check(config.media)

    def write(evaluated: Any) -> None:
        path = storage.join(evaluated.folder, "eval", span_report.PAGE)
        storage.makedirs(storage.join(evaluated.folder, "eval"))
        shown = evaluated.films, evaluated.figures, evaluated.classes, evaluated.names
        span_report.write(path, *shown, config.media)
        print(f"the worst spans: {path}")

    return write


def evaluate(config: EvalConfig, checkpoints: Iterator[str] | None = None, data: OpenedData | None = None) -> int:
    """Evaluates the checkpoints of a run, or an exported model, and writes the results.

    Args:
      checkpoints: the paths of the checkpoints to evaluate; by default those that `config` selects.

    Returns:
      The exit status: 0; 1 if a checkpoint does not fulfil a condition of --require; that of the first evaluation that
      failed; or 128 plus the number of a signal that ended the evaluation.
    """
    if config.spans:
        from yt8m.scoring import span_evaluation  # most evaluations do not need it

        return span_evaluation.evaluate(config, _span_report(config) if config.report else None)
    if is_export(config.train_dir) or _has_model_alone(config.train_dir):
        return _evaluate_export(config, data)
    if not config.calibrated_run:
        return _evaluate_run(config, checkpoints, data)
    if config.eval_data_pattern and data is None:
        data = open_data(config.eval_data_pattern, vocabulary=config.vocabulary, manifest=config.manifest)
    sources = [config.train_dir, *(data.files if data else ())]
    with new_output(config.calibrated_run, repr(config), "calibrated_run", sources=sources) as is_done:
        config = dataclasses.replace(config, calibrated_run="") if is_done else config
        return _evaluate_run(config, checkpoints, data)


def _evaluate_run(config: EvalConfig, checkpoints: Iterator[str] | None, data: OpenedData | None) -> int:
    """Evaluates the checkpoints of a run; see `evaluate`."""
    run, task = prepare(config, data)
    folder = config.eval_dir or run.folder
    deleted: set[str] = set()
    with contextlib.closing(EventFile(storage.join(folder, eval_samples.FOLDER))) as events:
        results = Results(folder, events, {})
        for checkpoint in checkpoints or checkpoint_following.follow(run, config.checkpoint, config.run_once, deleted):
            outcome = _evaluate_and_write(config, TrainedModel(run, checkpoint), task, results)
            if outcome is None:
                logging.warning("%s was deleted while it was evaluated: taking the next", checkpoint)
                deleted.add(checkpoint)
            elif outcome.exit_code:
                return outcome.exit_code
            elif outcome.signal:
                return 128 + outcome.signal
    return 1 if any(results.missed.values()) else 0


def _has_model_alone(folder: str) -> bool:
    """Whether the folder has an inference model but no checkpoints, like a folder that `yt8m export` writes."""
    model = storage.join(folder, run_dir.INFERENCE_MODEL, f"{run_dir.INFERENCE_MODEL}.meta")
    return folder != "" and run_dir.is_run(folder) and not checkpoints.steps_in(folder) and storage.exists(model)


def _evaluate_export(config: EvalConfig, data: OpenedData | None) -> int:
    """Evaluates an exported model, which has no loss, and writes the results; returns the exit status, 0."""
    refuse_run_options(config)
    if not config.eval_data_pattern:
        raise UsageError(
            f"--eval_data_pattern is missing: {config.train_dir} is an export, which names no data; give the files to "
            "evaluate on."
        )
    if not config.eval_dir and not storage.is_dir(config.train_dir):
        raise UsageError(f"--eval_dir is missing: {config.train_dir} is a file; name a folder for the results.")
    folder = config.eval_dir or config.train_dir
    _refuse_read_only(folder)
    with (
        terminable(),
        scoring.open(config.train_dir, config.checkpoint, trust_code=config.trust_code) as scorer,
        contextlib.closing(EventFile(storage.join(folder, eval_samples.FOLDER))) as events,
    ):
        compare_stated(scorer, config)
        size = config.batch_size or scorer.videos_in_batch(config.most_in_batch)
        logging.info("input: --batch_size=%d", size)
        data = data or open_data(config.eval_data_pattern, manifest=config.manifest)
        batches = scorer.batches(data, size, label_check.LABELS)
        result = evaluate_with(scorer, batches, EvaluationSettings(config.top_k), config.metrics)
        evaluation_results.write(folder, events, result, scorer.model)
        _write_names(config, folder, scorer.names)
    return 0


def evaluate_with(
    scorer: scoring.Scorer, batches: Iterator[Videos], settings: EvaluationSettings, metric_names: Sequence[str]
) -> EvaluationResult:
    """Computes the metrics of a model on batches with labels."""
    metric_classes = metrics.load(tuple(metric_names), RESERVED_KEYS)
    evaluation = Evaluation(scorer, settings, metric_classes)
    for videos in terminal.with_bar(batches, "evaluating"):
        evaluation.add(videos)
    evaluator = evaluation.evaluator
    results = {"figures": evaluator.get(), "examples": evaluation.examples, "evaluator": evaluator}
    outcome = runner.Outcome(runner.Status.OUT_OF_DATA, scorer.step, "evaluated", results=results)
    return evaluation_result(scorer.weights, outcome, scorer.shown_names)


def _evaluate_and_write(
    config: EvalConfig, model: TrainedModel, task: EvaluationTask, results: Results
) -> runner.Outcome | None:
    """Evaluates one checkpoint and writes its results.

    Stores in `results.missed`, under the path of the checkpoint, how many conditions of --require it does not fulfil.
    If the evaluation itself fails, nothing is written or stored.

    Returns:
      How the evaluation ended; None if training deleted the checkpoint during the evaluation.
    """
    outcome, checkpoint, run = None, model.weights, model.run.config
    try:
        outcome = run_evaluation(config, model, task, results.events)
        if not outcome.exit_code:
            names = task.fitted.names.shown(run.data.num_classes)
            result = evaluation_result(checkpoint, outcome, names, config)
            samples = result.samples(run) if task.requirements else None
            if result.chosen and (points := film_thresholds.choose(config, model, task.fitted.opened)):
                result = result._replace(chosen=result.chosen._replace(points=points))
            result = result._replace(
                verdicts=verdicts.judge(
                    task.requirements, results.folder, samples, result.metric_classes, task.modeler.class_counts
                )
            )
            scope = _tag_scope(_is_of_segments(config, run))
            evaluation_results.write(results.folder, results.events, result, run.model.model, scope)
            _write_names(config, results.folder, task.fitted.names)
            if config.report:
                _write_report(results.folder, result, run, config.media)
            _write_models(config, model, results.folder, result, task)
            if config.calibrated_run and result.chosen:
                thresholds_of_run, names = result.chosen.points, result.names
                derived_runs.write_calibrated(
                    config.calibrated_run, model.run, checkpoint, result.calibration, thresholds_of_run, names
                )
            results.missed[checkpoint] = sum(not verdict.is_met for verdict in result.verdicts)
    except (tf.errors.OpError, RunError, ValueError):
        if not checkpoints.is_gone(checkpoint):
            raise
        return outcome if outcome is not None and outcome.signal else None
    is_lost = outcome.exit_code and not outcome.signal and checkpoints.is_gone(checkpoint)
    return None if is_lost else outcome


def _write_names(config: EvalConfig, folder: str, names: Vocabulary) -> None:
    """Writes the vocabulary, if there is one, into eval/ in the folder of the results, where `yt8m report` reads it.

    With --eval_dir the vocabulary is also written into that folder itself, because `yt8m inference` accepts that folder
    in place of a run's folder, and reads the vocabulary there.
    """
    folders = [storage.join(folder, eval_samples.FOLDER), *([folder] if config.eval_dir else [])]
    for path in folders if names else ():
        vocabulary.write(storage.join(path, vocabulary.NAME), names)


class EvaluationTask(NamedTuple):
    """The parts of an evaluation that are the same for every checkpoint."""

    inputter: readers.BatchQueue
    modeler: VideoModeler
    counted_shards: CountedShards
    fitted: FittedData
    requirements: Sequence[Requirement] = ()


def prepare(config: EvalConfig, data: OpenedData | None = None) -> tuple[OpenedRun, EvaluationTask]:
    """Checks all flags and the folder of the results, opens the run, and creates the parts of its evaluation."""
    if config.report:
        report_writer.require_libraries()
        media_links.check(config.media)
    callbacks.check("eval", config.callbacks)
    if "eval_metrics" not in callbacks.names_for("eval", config.callbacks):
        raise UsageError("--callbacks=-eval_metrics would leave an evaluation without metrics; leave it out.")
    metric_classes = metrics.load(config.metrics, RESERVED_KEYS)
    requirements = with_keys(parse_requirements(config.require), metric_classes, has_frequencies=True)
    train_dir = find_folder(config.train_dir)
    _refuse_read_only(config.eval_dir or train_dir)
    run = open_run(train_dir, config, trust_code=config.trust_code)
    if config.calibrated_run:
        derived_runs.check_calibrated(run)
    if config.target and run.config.data.segment_labels:
        raise UsageError(
            f"--target_precision is for labels of videos, but {train_dir} was trained on rated segments; leave it out."
        )
    task = create_task(config, run, data)
    task.inputter.log_settings()
    task.modeler.keeps_videos = config.report or bool(config.require)
    task.modeler.metric_classes = metric_classes
    task.modeler.calibrates = config.target is not None
    counts = task.modeler.class_counts
    requirements = with_keys(requirements, metric_classes, counts is not None and bool(counts.any()))
    return run, task._replace(requirements=requirements)


def create_task(
    config: EvalConfig,
    run: OpenedRun,
    data: OpenedData | None = None,
    where: str = "",
    sample: Callable[[FittedData], DataConfig] = lambda fitted: fitted.config,
    remedy: str = "",
    are_held_out: bool = False,
) -> EvaluationTask:
    """Checks the data of an evaluation, and creates the parts that are the same for every checkpoint.

    Args:
      where: the folder or file with the run's vocabulary, which error messages name; by default the run's folder.
      sample: gets the data, and returns a config that reads a copy of some of the videos; by default all videos are
        read from the files themselves.
      remedy: the last sentence of error messages, which says what to do; by default one that fits a trained run.
      are_held_out: whether `sample` takes videos that the training holds out, so that its files are named rightly.
    """
    fitted = _fit_data(config, run, data, where, remedy)
    if not are_held_out and not fitted.config.reader:
        shared_videos.warn(fitted.opened, run.config.data.data_pattern, "eval_data_pattern")
    read_data, training_data = sample(fitted), run.config.data
    are_copies = read_data != fitted.config
    inputter = readers.BatchQueue.for_config(read_data, "eval", opened=None if are_copies else fitted.opened)
    modeler = workload.create_modeler(read_data, run.config.model, "eval", config.top_k)
    shown = fitted.names.shown(training_data.num_classes)
    modeler.class_counts = data_fit.training_counts(shown, training_data)
    return EvaluationTask(inputter, modeler, check_input(inputter, read_data, are_copies=are_copies), fitted)


def _refuse_read_only(folder: str) -> None:
    for path in (folder, storage.join(folder, eval_samples.FOLDER)):
        if not storage.is_remote(path) and not local.is_writable(path):
            raise UsageError(
                f"{path} is not writable, but the results are to be written there; name another folder by --eval_dir."
            )


def _is_of_segments(config: EvalConfig, run: TrainConfig) -> bool:
    """Whether the rated segments of videos are evaluated."""
    return config.segment_labels or run.data.segment_labels


def _tag_scope(is_of_segments: bool) -> str:
    """How the tags of this evaluation in TensorBoard begin."""
    return evaluation_results.SEGMENT_SCOPE if is_of_segments else evaluation_results.VIDEO_SCOPE


def _fit_data(config: EvalConfig, run: OpenedRun, opened: OpenedData | None, where: str, remedy: str) -> FittedData:
    segments = _is_of_segments(config, run.config)
    data = run.data_for(config, config.eval_data_pattern, segments)
    if not config.eval_data_pattern:
        data = sample_data_of_run(run.folder, run.config.data, data, "validate", "eval_data_pattern")
    flags = dict(num_classes=config.num_classes, segment_labels=config.segment_labels)
    fitted = run.fit(data, "eval_data_pattern", flags, opened=opened, is_rated=segments, where=where, remedy=remedy)
    if not data.reader:
        label_check.warn(fitted.opened, label_check.RATINGS if segments else label_check.LABELS)
    return fitted


def run_evaluation(config: EvalConfig, model: TrainedModel, task: EvaluationTask, events: EventFile) -> runner.Outcome:
    """Evaluates one checkpoint in this process."""
    task.counted_shards.check_unchanged()
    model.log()
    summary = {"events": events, "scope": _tag_scope(_is_of_segments(config, model.run.config))}
    callbacks = runner.CallbackConfig(config.callbacks, {"eval_summary": summary})
    outcome = runner.build(model.runner_config("eval", config), task.inputter, task.modeler, callbacks).run()
    if outcome.status is runner.Status.OUT_OF_DATA:
        task.counted_shards.check_read()
    return outcome


def _write_report(folder: str, result: EvaluationResult, run: TrainConfig, media: str) -> None:
    """Writes eval/thresholds.csv, the results of the sampled videos and the HTML report.

    Nothing is written if no video was sampled, and no thresholds if no class has a label in the data.

    Args:
      media: the CSV file with addresses of videos (--media); empty if there is none.
    """
    samples = result.samples(run)
    if samples is None:
        return
    if len(result.figures["aps"]):  # data without labels give no thresholds, so those of an earlier evaluation stay
        path = storage.join(folder, eval_samples.FOLDER, thresholds.NAME)
        thresholds.write(path, samples.points, result.names, result.step)
    eval_samples.write(folder, samples)
    report_writer.write([folder], report_writer.ReportConfig(media=media))


def _write_models(
    config: EvalConfig, model: TrainedModel, folder: str, result: EvaluationResult, task: EvaluationTask
) -> None:
    """Writes the inference model of a checkpoint; with --keep_best, also keeps the checkpoint if its GAP is best."""
    inference_model = storage.join(folder, run_dir.INFERENCE_MODEL)
    also = run_dir.SEGMENT_MODEL if _is_of_segments(config, model.run.config) else ""
    prefix = write_model_of_run(inference_model, model, task.modeler, task.fitted.names, folder, result.step, also)
    logging.info("the inference model of step %d is %s", result.step, prefix)
    if config.keep_best:
        keep_best(folder, result.checkpoint, result.step, float(result.figures[Gap.figure_key()]))
