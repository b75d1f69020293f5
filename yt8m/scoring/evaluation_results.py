"""The result of evaluating one checkpoint, and where it is written.

The metrics go to the log, a table on standard output, eval/report.json, eval/metrics.jsonl and TensorBoard. With
--report or --require the result also has the thresholds of the classes and the verdicts on requirements.
"""

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

from yt8m import runner, storage, terminal
from yt8m.config import run_dir
from yt8m.config.programs import EvalConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, quantity
from yt8m.eval_util import eval_samples
from yt8m.eval_util.eval_samples import EvalSamples
from yt8m.eval_util.evaluation_metrics import EvaluationMetrics
from yt8m.eval_util.guaranteed_precision import PARTS, CommonThreshold, PrecisionCalibration, least_labels
from yt8m.eval_util.metrics import Metric, is_below_one, why_undefined
from yt8m.eval_util.requirements import Verdict
from yt8m.eval_util.score_calibration import Calibration, calibrate
from yt8m.eval_util.videos import VideoSample
from yt8m.records.thresholds import BELOW_TARGET, CLASS, TOO_FEW_LABELS, OperatingPoints, PrecisionTarget
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import metric_files
from yt8m.runner.metric_files import EventFile
from yt8m.storage import sending
from yt8m.video.modeler import VideoEvaluator


class EvaluationResult(NamedTuple):
    """The result of evaluating one checkpoint.

    Attributes:
      sample: a sample of the videos; None without --report and --require, like `chosen` and `calibration`.
      calibration: how scores become probabilities; also None if half of the sampled videos are not enough to fit it.
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
    metrics: EvaluationMetrics | None = None

    def values(self) -> list[tuple[type[Metric], float]]:
        """(metric, value) of each metric that is defined on these data."""
        defined = (metric for metric in self.metric_classes if metric.figure_key() in self.figures)
        return [(metric, self.figures[metric.figure_key()]) for metric in defined]

    def samples(self, run: TrainConfig) -> EvalSamples | None:
        """The content of videos.npz: the sampled videos with the results; None if no video was sampled."""
        videos = self.sample.videos() if self.sample else None
        if self.sample is None or self.chosen is None or videos is None:
            return None
        report = report_json(self, run.model.model)
        return EvalSamples(report, videos, run.data.num_classes, self.sample.seen, self.chosen.points)


def evaluation_result(
    checkpoint: str, outcome: runner.Outcome, names: Vocabulary, config: EvalConfig | None = None
) -> EvaluationResult:
    """The result of evaluating a checkpoint.

    Args:
      config: says which thresholds are chosen if the evaluation sampled videos; None for those with the best F1.
    """
    results = outcome.results
    if not results.get("examples"):
        raise RunError("the evaluation data hold no example, so nothing was evaluated; check --eval_data_pattern.")
    evaluator = results["evaluator"]
    figures, classes = results["figures"], evaluator.metrics.metric_classes
    thresholds = choose_thresholds(evaluator, config or EvalConfig())
    step, examples = outcome.global_step, results["examples"]
    videos = evaluator.sample.videos() if evaluator.sample else None
    calibration = calibrate(videos) if videos else None
    return EvaluationResult(
        checkpoint,
        step,
        figures,
        examples,
        classes,
        names,
        evaluator.sample,
        thresholds,
        calibration,
        (),
        evaluator.metrics,
    )


# Keys that report.json and the evaluator already use; no metric may have one of these names.
RESERVED_KEYS = frozenset(
    ("checkpoint", "global_step", "model", "num_examples", "num_classes_with_positives", "metrics", "classes")
    + ("versions", "aps", "aps_class", "aps_positives", "threshold_counts", "guarantee", "calibration", "requirements")
)
_NUM_LISTED = 5  # number of best classes, and of worst classes, in the table


# How the tags of TensorBoard begin, as in the published code: for videos, and for rated segments.
VIDEO_SCOPE, SEGMENT_SCOPE = "Eval", "SegEval"


def write(folder: str, events: EventFile, result: EvaluationResult, model: str, scope: str = VIDEO_SCOPE) -> None:
    """Writes the result of one checkpoint to the log, standard output, eval/ in a folder, and TensorBoard.

    Args:
      model: name of the model class, such as `LogisticModel`.
    """
    write_report(storage.join(folder, eval_samples.FOLDER, "report.json"), result, model)
    _add_to_history(storage.join(folder, eval_samples.FOLDER, metric_files.METRICS), result)
    _write_summaries(events, result, scope)


def write_report(path: str, result: EvaluationResult, model: str) -> None:
    """Writes the result of a checkpoint of model class `model` to the log, standard output and the JSON file `path`."""
    logging.info("%s", summary_line(result))
    if not len(result.figures["aps"]):
        logging.warning("no example has a label (is this a test split?), so these figures say nothing about the model")
    print_table(result)
    figures = report_json(result, model)
    terminal.print_json(figures)
    if result.calibration:
        print(result.calibration.line())
    for verdict in result.verdicts:
        print(verdict.line())
    storage.write(path, json.dumps(figures, indent=2, ensure_ascii=False, allow_nan=False))


def _add_to_history(path: str, result: EvaluationResult) -> None:
    """Adds the metrics to eval/metrics.jsonl, which has a line for each evaluated checkpoint."""
    earlier_lines = storage.read_bytes(path) if storage.exists(path) else b""
    values = {metric.name: float(value) if np.isfinite(value) else None for metric, value in result.values()}
    storage.write(path, earlier_lines + json.dumps({"step": result.step, **values}).encode() + b"\n")


def summary_line(result: EvaluationResult) -> str:
    """The log line, in the format of the published evaluator; `num_classes` is the number of classes with a label."""
    figures = [
        f"{metric.log_name()}: {metric.description().text(value)}"
        for metric, value in result.values()
        if not metric.is_detail
    ]
    return " | ".join([f"epoch/eval number {result.step}", *figures, f"num_classes: {len(result.figures['aps'])}"])


def report_json(result: EvaluationResult, model: str) -> dict[str, Any]:
    """The content of report.json; a metric whose value is infinite or nan is None."""
    return {
        "checkpoint": result.checkpoint,
        "global_step": result.step,
        "model": model,
        "num_examples": result.num_examples,
        "num_classes_with_positives": len(result.figures["aps"]),
        **{metric.key: float(value) if np.isfinite(value) else None for metric, value in result.values()},
        "metrics": [metric.description()._asdict() for metric, _ in result.values()],
        "classes": [
            {"class": index, "name": name, "average_precision": ap, "positives": positives}
            for index, name, ap, positives in _class_rows(result)
        ],
        **({"guarantee": result.chosen.summary.as_json()} if result.chosen and result.chosen.summary else {}),
        **({"calibration": result.calibration.as_json()} if result.calibration else {}),
        **({"requirements": [verdict.as_json() for verdict in result.verdicts]} if result.verdicts else {}),
        "versions": run_dir.versions(),
    }


def print_table(result: EvaluationResult) -> None:
    """Prints the metrics and the classes with the best and the worst AP to standard output."""
    table = Table(title=f"step {result.step}, {quantity(result.num_examples, 'example')}")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for metric, value in result.values():
        why = why_undefined(metric.key, float(value), len(result.figures["aps"]) > 0)
        table.add_row(metric.name, f"— ({why})" if why else metric.description().text(value, 4))
    ranked = sorted(_class_rows(result), key=lambda row: (-row[2], row[0]))
    worst = [row for row in ranked[_NUM_LISTED:] if is_below_one(row[2])][-_NUM_LISTED:]
    for title, rows in (("best", ranked[:_NUM_LISTED]), ("worst", worst)):
        table.add_section()
        for index, name, ap, _ in rows:
            table.add_row(Text(f"{title}: {name} ({index})"), f"{ap:.4f}")  # Text: rich takes [..] in a str for markup
    Console(soft_wrap=True).print(table)


def _class_rows(result: EvaluationResult) -> list[tuple[int, str, float, int]]:
    """[(class, its name, its AP, its number of labels), ...] of the classes with a label."""
    columns = zip(*(result.figures[name] for name in ("aps_class", "aps", "aps_positives")), strict=True)
    return [(int(index), result.names.name(int(index)), float(ap), int(count)) for index, ap, count in columns]


def _write_summaries(events: EventFile, result: EvaluationResult, scope: str) -> None:
    """Writes the metrics to TensorBoard under the tags of the published code, and a precision-recall curve."""
    from yt8m.runner.callbacks.figures import published_spelling  # here, because its module imports TensorFlow

    tags = {f"Epoch/{scope}_{published_spelling(metric.log_name())}": value for metric, value in result.values()}
    events.add_scalars(tags, result.step)
    events.add(metric_files.precision_recall(f"Epoch/{scope}_PR", result.figures["threshold_counts"]), result.step)
    sending.send_growing()


class GuaranteeSummary(NamedTuple):
    """What the thresholds of an evaluation guarantee; the content of `guarantee` in report.json."""

    target: PrecisionTarget
    precision_of: str
    testing_videos: int
    classes: int
    too_few_labels: int
    below_target: int
    labels_needed: int
    for_all: CommonThreshold

    @property
    def most_below(self) -> float:
        """At most so many of the thresholds of single classes are below the target, on average.

        The confidence is that of each tested class, whether it then gets a threshold or not.
        """
        return min(float(self.classes), (1 - self.target.confidence) * (self.classes + self.below_target))

    def as_json(self) -> dict[str, Any]:
        """The summary for report.json; `threshold_for_all` is None if there is none."""
        threshold, videos, predictions = self.for_all
        return {
            "target_precision": self.target.precision,
            "confidence": self.target.confidence,
            **{name: value for name, value in self._asdict().items() if name not in ("target", "for_all")},
            "most_thresholds_below": round(self.most_below, 6),
            "threshold_for_all": threshold if np.isfinite(threshold) else None,
            "videos_for_all": videos,
            "predictions_for_all": predictions,
        }

    def log(self) -> None:
        """Logs how many classes have a threshold, and why the others abstain."""
        logging.info(
            "%s: %d classes have a threshold (on average, at most %.3g of these are below the target); %d abstain "
            "because they have too few labels (at least %d are needed), and %d because no threshold is sure to reach "
            "this precision",
            self.target,
            self.classes,
            self.most_below,
            self.too_few_labels,
            self.labels_needed,
            self.below_target,
        )
        threshold, videos, predictions = self.for_all
        if np.isfinite(threshold):
            text = f"{threshold:.4g}, tested on {predictions} predictions for {videos} videos"
        else:
            text = "none is sure to reach this precision"
        logging.info("one threshold for all tags together: %s", text)


class ChosenThresholds(NamedTuple):
    """The thresholds of the classes, and what they guarantee: `summary`, None for the thresholds with the best F1."""

    points: OperatingPoints
    summary: GuaranteeSummary | None = None


def choose_thresholds(evaluator: VideoEvaluator, config: EvalConfig) -> ChosenThresholds | None:
    """The thresholds that `config` asks for; None if the evaluator keeps no sample of the videos."""
    if evaluator.sample is None:
        return None
    if evaluator.calibration is None or config.target is None:
        return ChosenThresholds(evaluator.metrics.operating_points(config.min_positives))
    return _guaranteed_thresholds(evaluator.calibration, config.target, config.precision_of)


def _guaranteed_thresholds(
    calibration: PrecisionCalibration, target: PrecisionTarget, precision_of: str
) -> ChosenThresholds:
    """The thresholds that guarantee the target precision of `class` or `all`; logs a summary of them."""
    points, for_all = calibration.choose_class_thresholds(target), calibration.choose_common_threshold(target)
    bases = Counter(points.bases())
    summary = GuaranteeSummary(
        target,
        precision_of,
        calibration.testing_videos,
        bases[CLASS],
        bases[TOO_FEW_LABELS],
        bases[BELOW_TARGET],
        # `least_labels` of a class must be in the testing part, which has about (PARTS - 1) / PARTS of all labels.
        -(-least_labels(target) * PARTS // (PARTS - 1)),
        for_all,
    )
    summary.log()
    if precision_of == "all":
        points = calibration.points_at_common_threshold(for_all, target)
    return ChosenThresholds(points, summary)
