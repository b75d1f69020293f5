"""Runs made by hand for the tests of the page, with names that want to break out of it."""

from __future__ import annotations

import json
import pathlib

import numpy as np
from evaluated_videos import by_metrics, drawn, kept_videos

from yt8m.eval_util import EvaluationMetrics, eval_samples, metrics
from yt8m.eval_util.eval_samples import EvalSamples
from yt8m.eval_util.evaluation_metrics import best_f1
from yt8m.records import vocabulary
from yt8m.records.thresholds import OperatingPoints
from yt8m.records.vocabulary import Vocabulary

HOSTILE = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>&amp; $x^{$ _"
VIDEOS, CLASSES = 80, 12
# Names that look like numbers, like nothing, or like a part of another name.
ODD_NAMES = [
    "Guitar",
    "2 cats",
    "1e2",
    "Bass guitar",
    "NaN",
    "—",
    "10 dogs",
    "3",
    "class 10",
    "class 2",
    "0x10",
    "newt",
]
_USUAL = vocabulary.load()


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores that differ by `seed`, and labels that do not; one class has no positive."""
    scores, labels = drawn(7, VIDEOS, CLASSES)
    labels[:, 11] = False
    noise = np.random.default_rng(seed).normal(scale=0.05, size=scores.shape)
    return (0.15 + 0.7 * scores + 0.7 * noise).astype(np.float32), labels


def make_run(
    folder: pathlib.Path, seed: int, seen: int = VIDEOS, labelled: bool = True, num_classes: int = 3862
) -> None:
    """A folder with an evaluation and with curves, its last line cut short; 12 of its classes have labels."""
    scores, labels = data(seed)
    labels &= labelled
    found = by_metrics(scores, labels, CLASSES)
    rows = zip(*(found[name].tolist() for name in ("aps_class", "aps", "aps_positives")), strict=True)
    figures = {
        "checkpoint": f"{folder}/model.ckpt-90",
        "global_step": 90,
        "model": f"MoeModel{HOSTILE}",
        "num_examples": seen,
        **{name: found[name] for name in ("hit_at_one", "perr", "gap")},
        "map": found["map"] if labelled else None,
        "loss": None,
        "classes": [{"class": number, "average_precision": ap, "positives": count} for number, ap, count in rows],
        "versions": {"yt8m": "0"},
        "metrics": [metric.description()._asdict() for metric in metrics.load()],
    }
    videos = kept_videos(scores, labels, CLASSES)
    videos.ids[0] = HOSTILE.encode()
    eval_samples.write(
        str(folder), EvalSamples(figures, videos, num_classes, seen, points_of(scores, labels, num_classes))
    )
    lines = [{"step": step, "loss": 900 / step + seed, "GAP": step / 100, HOSTILE: 1} for step in range(1, 91)]
    text = "\n".join(map(json.dumps, [*lines, {"step": 5, "loss": 7.0}, {"step": 6, "loss": None}]))
    (folder / "metrics.jsonl").write_text(f'{text}\n{{"step": 91, "lo')


def points_of(scores: np.ndarray, labels: np.ndarray, num_classes: int) -> OperatingPoints:
    """The thresholds; classes beyond those of `scores` have neither labels nor predictions."""
    metrics = EvaluationMetrics(CLASSES, CLASSES)
    metrics.accumulate(scores, labels)
    counts = np.zeros(num_classes, np.int64)
    counts[:CLASSES] = labels.sum(0)
    return best_f1(metrics._entries.all(), counts, min_positives=5)


def hostile_vocabulary() -> Vocabulary:
    """The usual classes, the first two with other names, and the first with another vertical."""
    names = (HOSTILE, "</td></table>", *_USUAL.names[2:])
    return Vocabulary(names, _USUAL.counts, (HOSTILE, *_USUAL.verticals[1:]))
