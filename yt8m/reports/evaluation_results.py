"""The results of one evaluation: log, table, eval/report.json, metrics.jsonl, TensorBoard; thresholds and verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from rich.console import Console
from rich.table import Table
from rich.text import Text

from yt8m import runner, storage
from yt8m.config import run_dir
from yt8m.config.programs import EvalConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError
from yt8m.eval_util.arrays import Ints64
from yt8m.eval_util.guaranteed_precision import PARTS, CommonThreshold, PrecisionCalibration, least_labels
from yt8m.eval_util.metrics import Gap, MeanAveragePrecision, Metric
from yt8m.eval_util.ranked_entries import THIRDS, thirds
from yt8m.eval_util.requirements import Requirement, Verdict
from yt8m.eval_util.resampling import Interval, interval
from yt8m.eval_util.score_calibration import Calibration, calibrate
from yt8m.eval_util.videos import VideoSample
from yt8m.records.thresholds import BELOW_TARGET, CLASS, TOO_FEW_LABELS, OperatingPoints, PrecisionTarget
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import eval_samples
from yt8m.reports.eval_samples import EvalSamples
from yt8m.reports.loading import Run, certain_enough, evaluated_run, figure, interval_of, interval_of_mean_ap, shrink_of
from yt8m.reports.measures import is_below_one
from yt8m.runner import metric_files
from yt8m.runner.metric_files import EventFile
from yt8m.storage import sending
from yt8m.video.modeler import VideoEvaluator


class Evaluated(NamedTuple):
    """The metric values of one checkpoint, under the names of `EvaluationMetrics.get`.

    With them: the metric objects, the names of the classes and, with --report or --require, a sample of the videos,
    the thresholds of the classes and the calibration of the scores; then the verdicts on what --require demands.
    """

    checkpoint: str
    step: int
    figures: dict[str, Any]
    num_examples: int
    metric_classes: Sequence[type[Metric]]
    names: Vocabulary
    sample: VideoSample | None = None
    chosen: ChosenThresholds | None = None
    calibration: Calibration | None = None
    verdicts: Sequence[Verdict] = ()

    def values(self) -> list[tuple[type[Metric], float]]:
        """(metric, value) of each metric that is defined on these data."""
        shown = (metric for metric in self.metric_classes if metric.figure_key() in self.figures)
        return [(metric, self.figures[metric.figure_key()]) for metric in shown]

    def samples(self, run: TrainConfig) -> EvalSamples | None:
        """The sampled videos with the results; None if no video was sampled."""
        videos = self.sample.videos() if self.sample else None
        if self.sample is None or self.chosen is None or videos is None:
            return None
        report = report_json(self, run.model.model)
        return EvalSamples(report, videos, run.data.num_classes, self.sample.seen, self.chosen.points)


def evaluated(
    checkpoint: str, outcome: runner.Outcome, names: Vocabulary, config: EvalConfig | None = None
) -> Evaluated:
    """The metric values that an evaluation of this checkpoint saved; raises `RunError` if there was no example."""
    results = outcome.results
    if not results.get("examples"):
        raise RunError("the evaluation data hold no example: nothing was evaluated.")
    evaluator = results["evaluator"]
    figures, classes = results["figures"], evaluator.metrics.metric_classes
    chosen = choose(evaluator, config or EvalConfig())
    step, examples = outcome.global_step, results["examples"]
    videos = evaluator.sample.videos() if evaluator.sample else None
    calibration = calibrate(videos) if videos else None
    return Evaluated(checkpoint, step, figures, examples, classes, names, evaluator.sample, chosen, calibration)


# Keys that report.json and the evaluator already use; no metric may have one of these names.
RESERVED_KEYS = frozenset(
    ("checkpoint", "global_step", "model", "num_examples", "num_classes_with_positives", "metrics", "classes")
    + ("versions", "aps", "aps_class", "aps_positives", "threshold_counts", "guarantee", "calibration", "requirements")
)
_SHOWN = 5  # number of best classes, and of worst classes, in the table


def write(folder: str, events: EventFile, done: Evaluated, model: str) -> None:
    """Writes the metric values of one checkpoint of `model` into the folder of the evaluation, and to TensorBoard."""
    write_report(storage.join(folder, eval_samples.FOLDER, "report.json"), done, model)
    _add_to_history(storage.join(folder, eval_samples.FOLDER, metric_files.METRICS), done)
    _write_summaries(events, done)


def write_report(path: str, done: Evaluated, model: str) -> None:
    """Writes the metric values of one checkpoint of `model` to the log, standard output and the JSON file `path`."""
    logging.info("%s", summary_line(done))
    if not len(done.figures["aps"]):
        logging.warning("no example has a label (a test split?): these figures say nothing about the model")
    print_table(done)
    if done.calibration:
        print(done.calibration.line())
    for verdict in done.verdicts:
        print(verdict.line())
    storage.write(path, json.dumps(report_json(done, model), indent=2, ensure_ascii=False, allow_nan=False))


def _add_to_history(path: str, done: Evaluated) -> None:
    """Adds a row to eval/metrics.jsonl, which has the figures of all evaluated checkpoints."""
    former = storage.read_text(path) if storage.exists(path) else ""
    values = {metric.name: float(value) if np.isfinite(value) else None for metric, value in done.values()}
    storage.write(path, f"{former}{json.dumps({'step': done.step, **values})}\n")


def summary_line(done: Evaluated) -> str:
    """The log line in the format of the published evaluator; `num_classes` counts the classes with a positive."""
    figures = [
        f"{metric.log_name()}: {metric.description().text(value)}"
        for metric, value in done.values()
        if not metric.is_detail
    ]
    return " | ".join([f"epoch/eval number {done.step}", *figures, f"num_classes: {len(done.figures['aps'])}"])


def report_json(done: Evaluated, model: str) -> dict[str, Any]:
    """The content of report.json; a metric that is not defined on these data is None."""
    return {
        "checkpoint": done.checkpoint,
        "global_step": done.step,
        "model": model,
        "num_examples": done.num_examples,
        "num_classes_with_positives": len(done.figures["aps"]),
        **{metric.key: float(value) if np.isfinite(value) else None for metric, value in done.values()},
        "metrics": [metric.description()._asdict() for metric, _ in done.values()],
        "classes": [
            {"class": index, "name": name, "average_precision": ap, "positives": positives}
            for index, name, ap, positives in _classes(done)
        ],
        **({"guarantee": done.chosen.summary.as_json()} if done.chosen and done.chosen.summary else {}),
        **({"calibration": done.calibration.as_json()} if done.calibration else {}),
        **({"requirements": [verdict.as_json() for verdict in done.verdicts]} if done.verdicts else {}),
        "versions": run_dir.versions(),
    }


def print_table(done: Evaluated) -> None:
    """Prints the metrics and the classes with the best and the worst AP to standard output."""
    table = Table(title=f"step {done.step}, {done.num_examples} examples")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for metric, value in done.values():
        table.add_row(metric.name, metric.description().text(value, 4))
    ranked = sorted(_classes(done), key=lambda row: (-row[2], row[0]))
    worst = [row for row in ranked[_SHOWN:] if is_below_one(row[2])][-_SHOWN:]
    for title, rows in (("best", ranked[:_SHOWN]), ("worst", worst)):
        table.add_section()
        for index, name, ap, _ in rows:
            table.add_row(Text(f"{title}: {name} ({index})"), f"{ap:.4f}")  # Text, not markup: a name may hold brackets
    Console(soft_wrap=True).print(table)


def _classes(done: Evaluated) -> list[tuple[int, str, float, int]]:
    columns = zip(*(done.figures[name] for name in ("aps_class", "aps", "aps_positives")), strict=True)
    return [(int(index), done.names.name(int(index)), float(ap), int(count)) for index, ap, count in columns]


def _write_summaries(events: EventFile, done: Evaluated) -> None:
    """Writes the metrics to TensorBoard under the published tags, and a precision-recall curve over all classes."""
    from yt8m.runner.callbacks.figures import published_spelling  # imports TensorFlow

    tags = {f"Epoch/Eval_{published_spelling(metric.log_name())}": value for metric, value in done.values()}
    events.add_scalars(tags, done.step)
    events.add(metric_files.precision_recall("Epoch/Eval_PR", done.figures["threshold_counts"]), done.step)
    sending.send_growing()


class GuaranteeSummary(NamedTuple):
    """What the thresholds of an evaluation guarantee, as report.json says it.

    Attributes:
      target: the precision on new videos, and the confidence in it.
      precision_of: `class` if it is that of each class, `all` if it is that of all tags.
      testing_videos: number of videos that tested the thresholds.
      classes: number of classes with a threshold of their own.
      too_few_labels, below_target: number of classes that abstain, by the reason.
      labels_needed: number of labels, of all evaluated videos, without which a class has to abstain.
      for_all: the threshold for all classes.
    """

    target: PrecisionTarget
    precision_of: str
    testing_videos: int
    classes: int
    too_few_labels: int
    below_target: int
    labels_needed: int
    for_all: CommonThreshold

    def as_json(self) -> dict[str, Any]:
        """The summary for report.json; `threshold_for_all` is None if there is none."""
        threshold, videos, predictions = self.for_all
        return {
            "target_precision": self.target.precision,
            "confidence": self.target.confidence,
            **{name: value for name, value in self._asdict().items() if name not in ("target", "for_all")},
            "threshold_for_all": threshold if np.isfinite(threshold) else None,
            "videos_for_all": videos,
            "predictions_for_all": predictions,
        }

    def log(self) -> None:
        """Says how many classes have a threshold, and why the others abstain."""
        logging.info(
            "%s: %d classes have a threshold; %d abstain because they have too few labels (at least %d are needed), "
            "and %d because no threshold is sure to reach it",
            self.target,
            self.classes,
            self.too_few_labels,
            self.labels_needed,
            self.below_target,
        )
        threshold, videos, predictions = self.for_all
        if np.isfinite(threshold):
            tested = f"{threshold:.4g}, tested by {predictions} predictions of {videos} videos"
        else:
            tested = "none is sure to reach it"
        logging.info("one threshold for all tags together: %s", tested)


class ChosenThresholds(NamedTuple):
    """The thresholds of the classes; `summary` is None for those with the best F1."""

    points: OperatingPoints
    summary: GuaranteeSummary | None = None


def choose(evaluator: VideoEvaluator, config: EvalConfig) -> ChosenThresholds | None:
    """The thresholds that `config` asks for; None if it asks for no report."""
    if evaluator.sample is None:
        return None
    if evaluator.calibration is None or config.target is None:
        return ChosenThresholds(evaluator.metrics.operating_points(config.min_positives))
    return _guaranteed(evaluator.calibration, config.target, config.precision_of)


def _guaranteed(calibration: PrecisionCalibration, target: PrecisionTarget, precision_of: str) -> ChosenThresholds:
    points, for_all = calibration.choose_class_thresholds(target), calibration.choose_common_threshold(target)
    bases = Counter(points.bases())
    summary = GuaranteeSummary(
        target,
        precision_of,
        calibration.testing_videos,
        bases[CLASS],
        bases[TOO_FEW_LABELS],
        bases[BELOW_TARGET],
        # Of so many labels, the testing part is expected to have enough.
        -(-least_labels(target) * PARTS // (PARTS - 1)),
        for_all,
    )
    summary.log()
    if precision_of == "all":
        points = calibration.points_at_common_threshold(for_all, target)
    return ChosenThresholds(points, summary)


RESAMPLES, SEED = 200, 0  # those of the report by default, so that both have the same intervals


def with_verdicts(
    done: Evaluated, folder: str, run: TrainConfig, requirements: Sequence[Requirement], class_counts: Ints64 | None
) -> Evaluated:
    """The results with the verdict on each requirement, which has no value if no video was judged.

    Args:
      done: the results.
      folder: path of the folder with the evaluation.
      run: the config of the run.
      requirements: name metrics by their keys.
      class_counts: [C], number of training videos of each class; None if it is not labelled.
    """
    samples = done.samples(run) if requirements else None
    if samples is None:
        return done._replace(verdicts=[Verdict(requirement, None, None, None) for requirement in requirements])
    judged = evaluated_run(folder, samples, RESAMPLES, SEED, done.metric_classes, class_counts)
    verdicts = []
    for requirement in requirements:
        value = figure(judged, requirement.metric)
        bounds = _interval(judged, requirement.metric, class_counts) if value is not None else None
        verdicts.append(Verdict(requirement, value, *(bounds or (None, None))))
    return done._replace(verdicts=verdicts)


def _interval(run: Run, key: str, class_counts: Ints64 | None) -> Interval | None:
    """The 95 % interval of a metric; None if there is none, or if the videos say too little."""
    if key not in run.resampled or np.isnan(run.resampled[key]).all():
        return None
    for third, classes in zip(THIRDS, thirds(class_counts), strict=False):
        if key == f"{Gap.key}_{third}":
            bounds = interval(figure(run, key), run.resampled[key], shrink_of(run))
            return certain_enough(bounds, len(run.samples.videos))
        if key == f"{MeanAveragePrecision.key}_{third}":
            labels = {row["class"]: row["positives"] for row in run.samples.figures["classes"]}
            labelled = [number for number in classes.tolist() if number in labels]
            counts = np.array([labels[number] for number in labelled])
            return interval_of_mean_ap(run, figure(run, key), run.resampled[key], run.excess[labelled], counts)
    return interval_of(run, key)
