"""What an evaluation tells: a line in the log, a table, eval/report.json and summaries for TensorBoard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging
from rich.console import Console
from rich.table import Table

from yt8m import config_file, storage, vocabulary
from yt8m.config import TrainConfig
from yt8m.eval_util.rated_pairs import MOST
from yt8m.graph import plugin_summaries
from yt8m.lazy import tf
from yt8m.runner.event_file import EventFile

if TYPE_CHECKING:
    from yt8m.jobs.evaluation import Evaluated

FOLDER = "eval"
AT_N = f"MAP@{MOST}"  # over rated segments, as the 2019 challenge has it
_SHOWN = 5  # best and worst classes in the table


def write(train_dir: str, done: Evaluated, run: TrainConfig) -> None:
    """Gives out the figures of one checkpoint, in every form."""
    logging.info("%s", summary_line(done.step, done.figures))
    if not len(done.figures["aps"]):
        logging.warning("no example has a label (a test split?): these figures say nothing of the model")
    print_table(done, run.data.num_classes)
    folder = storage.join(train_dir, FOLDER)
    with storage.write_atomic(storage.join(folder, "report.json"), "w") as file:
        json.dump(report(done, run), file, indent=2, ensure_ascii=False, allow_nan=False)
    _write_summaries(folder, done)


def summary_line(step: int, figures: dict[str, Any]) -> str:
    """The published line; `num_classes` counts the classes that have a positive in these data."""
    rated = f"| {AT_N}: {figures['map_at_n']:.3f} " if "map_at_n" in figures else ""
    return (
        f"epoch/eval number {step} | Avg_Hit@1: {figures['avg_hit_at_one']:.3f} "
        f"| Avg_PERR: {figures['avg_perr']:.3f} | MAP: {figures['map']:.3f} | GAP: {figures['gap']:.3f} "
        f"{rated}| Avg_Loss: {figures['avg_loss']:.6f} | num_classes: {len(figures['aps'])}"
    )


def report(done: Evaluated, run: TrainConfig) -> dict[str, Any]:
    """All figures as JSON has them; a figure that is not defined on these data is null."""
    figures = done.figures
    return {
        "checkpoint": done.checkpoint,
        "global_step": done.step,
        "model": run.model.model,
        "num_examples": done.num_examples,
        "num_classes_with_positives": len(figures["aps"]),
        **{name: _number(figures[key]) for name, key in _FIGURES},
        **({"map_at_n": _number(figures["map_at_n"])} if "map_at_n" in figures else {}),
        "classes": [
            {"class": index, "name": name, "average_precision": ap, "positives": positives}
            for index, name, ap, positives in _classes(figures, run.data.num_classes)
        ],
        "versions": config_file.versions(),
    }


_FIGURES = (
    ("hit_at_one", "avg_hit_at_one"),
    ("perr", "avg_perr"),
    ("gap", "gap"),
    ("map", "map"),
    ("loss", "avg_loss"),
)


def print_table(done: Evaluated, num_classes: int) -> None:
    """The figures and the best and worst of the run's classes, on standard output."""
    table = Table(title=f"step {done.step}, {done.num_examples} examples")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for title, key in zip(("Hit@1", "PERR", "GAP", "mAP", "loss"), [key for _, key in _FIGURES], strict=True):
        table.add_row(title, f"{float(done.figures[key]):.4f}")
    if "map_at_n" in done.figures:
        table.add_row(f"{AT_N}, rated pairs", f"{done.figures['map_at_n']:.4f}")
    ranked = sorted(_classes(done.figures, num_classes), key=lambda row: (-row[2], row[0]))
    for title, rows in (("best", ranked[:_SHOWN]), ("worst", ranked[_SHOWN:][-_SHOWN:])):
        table.add_section()
        for index, name, ap, _ in rows:
            table.add_row(f"{title}: {name} ({index})", f"{ap:.4f}")
    Console(soft_wrap=True).print(table)


def _classes(figures: dict[str, Any], num_classes: int) -> list[tuple[int, str, float, int]]:
    names = vocabulary.of(num_classes)
    found = zip(figures["aps_class"], figures["aps"], figures["aps_positives"], strict=True)
    return [(int(index), names.name(int(index)), float(ap), int(count)) for index, ap, count in found]


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _write_summaries(folder: str, done: Evaluated) -> None:
    """The published tags and a precision-recall curve over all classes, at the step of the checkpoint."""
    titles = ("Avg_Hit@1", "Avg_PERR", "GAP", "MAP", "Avg_Loss")
    tags = list(zip(titles, [key for _, key in _FIGURES], strict=True))
    if "map_at_n" in done.figures:
        tags = [*tags, (AT_N, "map_at_n")]
    values = [
        tf.Summary.Value(tag=f"Epoch/Eval_{tag}", simple_value=float(done.figures[key])) for tag, key in tags
    ]
    events = EventFile(folder)
    events.add(tf.Summary(value=values), done.step)
    curve = plugin_summaries.precision_recall("Epoch/Eval_PR", done.figures["threshold_counts"])
    events.add(curve, done.step)
    events.close()
