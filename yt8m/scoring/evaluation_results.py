"""The results of one evaluation: a line of the log, a table, eval/report.json, a row of metrics.jsonl, TensorBoard."""

from __future__ import annotations

import json
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
from yt8m.errors import RunError
from yt8m.eval_util.metrics import Metric
from yt8m.eval_util.requirements import Verdict
from yt8m.eval_util.score_calibration import Calibration, calibrate
from yt8m.eval_util.videos import VideoSample
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import eval_samples
from yt8m.reports.measures import is_below_one
from yt8m.runner import metric_files
from yt8m.runner.metric_files import EventFile
from yt8m.scoring import chosen_thresholds
from yt8m.scoring.chosen_thresholds import ChosenThresholds
from yt8m.storage import sending


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


def evaluated(
    checkpoint: str, outcome: runner.Outcome, names: Vocabulary, config: EvalConfig | None = None
) -> Evaluated:
    """The metric values that an evaluation of this checkpoint saved; raises `RunError` if there was no example."""
    results = outcome.results
    if not results.get("examples"):
        raise RunError("the evaluation data hold no example: nothing was evaluated.")
    evaluator = results["evaluator"]
    figures, classes = results["figures"], evaluator.metrics.metric_classes
    chosen = chosen_thresholds.choose(evaluator, config or EvalConfig())
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


def add_to_history(folder: str, done: Evaluated) -> None:
    """Adds a row to eval/metrics.jsonl, which has the figures of all evaluated checkpoints."""
    path = storage.join(folder, eval_samples.FOLDER, metric_files.METRICS)
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


def write_summaries(events: EventFile, done: Evaluated) -> None:
    """Writes the metrics to TensorBoard under the published tags, and a precision-recall curve over all classes."""
    from yt8m.runner.callbacks.figures import published_spelling  # imports TensorFlow

    tags = {f"Epoch/Eval_{published_spelling(metric.log_name())}": value for metric, value in done.values()}
    events.add_scalars(tags, done.step)
    events.add(metric_files.precision_recall("Epoch/Eval_PR", done.figures["threshold_counts"]), done.step)
    sending.send_growing()
