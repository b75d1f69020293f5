"""Which metrics `yt8m runs` shows of a run, and where they come from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.run_dir import BEST_FOLDER, BEST_NOTE
from yt8m.errors import DamagedFileError, RunError
from yt8m.eval_util import eval_samples
from yt8m.eval_util.metrics import Gap, metrics, why_undefined
from yt8m.runs.opened_run import RunFiles

EVALUATION, TEST, CHOICE, TRAINING = "evaluation", "split test", "choice", "training batch"
_NOT_METRICS = ("step", "examples", "examples_per_second", "zeroed_values", "bad_records")  # keys of metrics.jsonl


class Figures(NamedTuple):
    """The metrics of one evaluation of a run, or of its last training batch.

    Attributes:
      values: {name of the metric: value}.
      videos: number of evaluated videos; None if it is not known.
      labels: a hash of how many of the videos have each class; empty if it is not known.
      undefined: {name of the metric: why its value would say nothing about the model}.
    """

    source: str
    step: int
    values: Mapping[str, float]
    videos: int | None = None
    labels: str = ""
    undefined: Mapping[str, str] = {}


def shown(files: RunFiles, step: int, metric: str) -> Figures | None:
    """Those of the split test, or else of the best evaluation, of the choice, or of the last training batch.

    Validations that later ones are not compared with (`RunFiles.forgotten`) are left out: their data were others, which
    may have been easier.

    Args:
      step: the last step of the run.
      metric: the name of the metric by which an evaluation is the best.
    """
    if run_dir.TEST_FIGURES in files.names:  # the model was chosen on the videos of the other evaluations
        for figures in _figures_in_file(storage.join(files.folder, run_dir.TEST_FIGURES), _figures_of_report):
            return figures._replace(source=TEST)
    validation_lines = [line for line in files.validation_lines if line["step"] not in files.forgotten]
    evaluations = [Figures(EVALUATION, line["step"], _metric_values(line)) for line in validation_lines]
    evaluations += _figures_in_file(storage.join(files.folder, eval_samples.FOLDER, "report.json"), _figures_of_report)
    evaluations += _figures_in_file(storage.join(files.folder, BEST_FOLDER, BEST_NOTE), _figures_of_best)
    evaluations = [figures for figures in evaluations if figures.step == files.kept_step] or evaluations
    if evaluations:
        # Of evaluations with the same value of the metric, the one with the most metrics is taken.
        return min(evaluations, key=lambda figures: (*rank(figures.values.get(metric), metric), -len(figures.values)))
    if files.saved and files.saved.config.search.quoted:
        return _figures_of_choice(files.saved.config.search.quoted, step)
    if files.training_lines:
        return Figures(TRAINING, files.training_lines[-1]["step"], _metric_values(files.training_lines[-1]))
    return None


def _figures_in_file(path: str, figures_of: Callable[[Any], Figures]) -> list[Figures]:
    """The metrics in a JSON file, as a list of one entry; empty if there is no such file."""
    try:
        return [figures_of(storage.read_json(path))]
    except storage.NotFoundError:
        return []
    except DamagedFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RunError(f"{path} is cut short or damaged ({error}).") from error


def _figures_of_report(report: Any) -> Figures:
    # The names and keys of the metrics are read from the file too, because a metric may be the user's own.
    values = {str(row["name"]): report.get(row["key"]) for row in report["metrics"]}
    has_labels = bool(report.get("num_classes_with_positives", True))
    reasons = {row["name"]: why_undefined(row["key"], values[row["name"]], has_labels) for row in report["metrics"]}
    undefined = {name: why for name, why in reasons.items() if why}
    values = {name: value for name, value in values.items() if name not in undefined}
    positives = [[row["class"], row["positives"]] for row in report.get("classes", ())]
    labels = hashlib.blake2b(json.dumps(positives).encode(), digest_size=8).hexdigest()
    step, videos = int(report["global_step"]), int(report["num_examples"])
    return Figures(EVALUATION, step, _metric_values(values), videos, labels, undefined)


def _figures_of_best(note: Any) -> Figures:
    values = note["figures"] if "figures" in note else {Gap.name: float(note["gap"])}
    return Figures(EVALUATION, int(note["step"]), _metric_values(values))


def _figures_of_choice(quoted: Mapping[str, Any], step: int) -> Figures:
    """Those that a choice of the model quotes of the videos that it held out; its `map` is not the published mAP."""
    values = {metric.name: quoted.get(metric.key) for metric in metrics.all() if metric.key != "map"}
    return Figures(CHOICE, step, _metric_values(values), quoted.get("videos"))


def _metric_values(values: Mapping[str, Any]) -> dict[str, float]:
    """The metrics among the entries of a JSON object, such as a line of metrics.jsonl; only finite numbers count."""
    return {
        name: float(value)
        for name, value in values.items()
        if name not in _NOT_METRICS and isinstance(value, int | float) and math.isfinite(value)
    }


def rank(value: float | None, metric: str) -> tuple[bool, float]:
    """A sort key for the values of a metric: the best first, None last."""
    lower_is_better = any(built_in.name == metric and not built_in.higher_is_better for built_in in metrics.all())
    return (value is None, 0.0 if value is None else value if lower_is_better else -value)
