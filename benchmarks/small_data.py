"""`yt8m train` without a flag on small data as people have them, beside scikit-learn with its usual steps.

`python -m benchmarks.small_data [NAME@SEED ...]` prints how mAP, GAP and Hit@1 of both differ on the split `test`, on
which nothing is chosen; classes without a video there are left out of mAP. scikit-learn is fitted on all other videos;
a fifth of them is the split `validate`. NAME is a set of `SETS`; SEED is another draw of it.
"""

from __future__ import annotations

import csv
import functools
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Measured, timed
from yt8m.command_line import cli
from yt8m.training.search.trial_figures import Ranked, TrialFigures


class SmallData(NamedTuple):
    """Features [N, D], the names of the labels of each video, and how many of the videos are not for the test."""

    features: np.ndarray
    labels: list[list[str]]
    training: int


def digits(seed: int, pictures: int = 2, videos: int = 3000, training: int = 2000) -> SmallData:
    """Real data: a video is some pictures of handwritten digits; largest and mean pixels."""
    from sklearn.datasets import load_digits

    draw, data = np.random.default_rng(seed), load_digits()
    rows = draw.integers(0, len(data.data), (videos, pictures))
    features = np.concatenate([data.data[rows].max(1), data.data[rows].mean(1)], 1) / 16
    return SmallData(features, [sorted({f"digit {data.target[i]}" for i in row}) for row in rows], training)


def long_tail(seed: int, classes: int = 100, size: int = 512, videos: int = 4000, training: int = 3000) -> SmallData:
    """Unit vectors as CLIP's: class k has the frequency k^-0.8, a video one to four labels."""
    draw = np.random.default_rng(seed)
    prototypes, shares = draw.normal(size=(classes, size)), 1 / np.arange(1, classes + 1) ** 0.8
    shares /= shares.sum()
    labels = [np.unique(draw.choice(classes, draw.integers(1, 5), p=shares)) for _ in range(videos)]
    vectors = np.stack([prototypes[row].mean(0) + 2.0 * draw.normal(size=size) for row in labels])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return SmallData(unit, [[f"class {k:03}" for k in row] for row in labels], training)


def counts(seed: int, classes: int = 30, size: int = 200, videos: int = 2500, training: int = 1700) -> SmallData:
    """Counts, as bags of words: the values have very different scales, and many are 0."""
    from sklearn.datasets import make_multilabel_classification

    features, labels = make_multilabel_classification(
        videos, size, n_classes=classes, n_labels=3, allow_unlabeled=False, random_state=seed
    )
    scales = np.random.default_rng(seed).lognormal(0, 2, size)
    return SmallData(features * scales, [[f"topic {k}" for k in np.flatnonzero(row)] for row in labels], training)


def rings(seed: int, videos: int = 1500, training: int = 1000) -> SmallData:
    """Classes that no linear model can tell apart: five rings in two of sixteen values."""
    draw = np.random.default_rng(seed)
    ring, angle = draw.integers(0, 5, videos), draw.uniform(0, 2 * np.pi, videos)
    radius = ring + 1 + 0.15 * draw.normal(size=videos)
    features = draw.normal(size=(videos, 16))
    features[:, 0], features[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    sides = [["right"] if np.cos(a) > 0 else [] for a in angle]
    return SmallData(features, [[f"ring {k}", *side] for k, side in zip(ring, sides, strict=True)], training)


SETS: dict[str, Callable[[int], SmallData]] = {
    "digits": digits,
    "long_tail": long_tail,
    "counts": counts,
    "rings": rings,
    "tiny": lambda seed: digits(seed + 5, 1, 260, 160),
}


def figures_of_peers(data: SmallData) -> dict[str, TrialFigures]:
    """{name: figures} of logistic regression (the best of three penalties by two folds), a random forest and an MLP."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def score(model: Any, features: np.ndarray, labels: np.ndarray) -> float:
        return Ranked(model.predict_proba(features), labels.astype(bool)).figures().map

    one = OneVsRestClassifier(LogisticRegression(max_iter=150))
    penalties = {"onevsrestclassifier__estimator__C": [0.003, 0.03, 0.3]}
    network = MLPClassifier((256,), early_stopping=True, max_iter=300, random_state=0)
    models = {
        "logistic regression": GridSearchCV(make_pipeline(StandardScaler(), one), penalties, cv=2, scoring=score),
        "random forest": RandomForestClassifier(300, random_state=0),
        "MLP": make_pipeline(StandardScaler(), network),
    }
    features, (_, labels) = data.features.astype(np.float32), _matrix(data)
    train, test = slice(data.training), slice(data.training, None)
    kept, found = labels[train].any(0), {}
    for name, model in models.items():
        model.fit(features[train], labels[train][:, kept].astype(int))
        predicted = model.predict_proba(features[test])
        if isinstance(predicted, list):
            columns = [p[:, -1] if p.shape[1] > 1 else np.zeros(len(p)) for p in predicted]
            predicted = np.stack(columns, 1)
        scores = np.zeros(labels[test].shape)
        scores[:, kept] = predicted
        found[name] = Ranked(scores.astype(np.float32), labels[test]).figures()
    return found


def make_records(data: SmallData, folder: pathlib.Path) -> str:
    """Makes records of the data; returns the pattern of the training files."""
    np.save(folder / "x.npy", data.features.astype(np.float32))
    with open(folder / "t.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "labels", "split"])
        for number, names in enumerate(data.labels):
            split = "test" if number >= data.training else "validate" if number % 5 == 4 else "train"
            table.writerow([f"v{number:05}", ";".join(names), split])
    words = [f"--table={folder}/t.csv", f"--array={folder}/x.npy", "--feature_names=clip"]
    assert cli.main(["make-records", *words, f"--out={folder}/data"]) == 0
    return f"{folder}/data/video/train/*.tfrecord"


def train(pattern: str, run: str) -> None:
    """Trains by `yt8m train` in a process of its own, without a flag."""
    command = [sys.executable, "-m", "yt8m", "train", f"--data={pattern}", f"--out={run}"]
    subprocess.run(command, check=True, capture_output=True)


def figures_of_run(data: SmallData, run: str) -> TrialFigures:
    """The figures of a run on the videos of `test`."""
    import yt8m

    names, labels = _matrix(data)
    scores = np.zeros((len(data.labels) - data.training, len(names)))
    with yt8m.load(run) as model:
        rows = model.predict({"clip": data.features[data.training :].astype(np.float32)}, top_k=len(names))
        for row, video in zip(scores, rows, strict=True):
            for scored in video.classes:
                row[names.index(scored.name)] = scored.score
    return Ranked(scores.astype(np.float32), labels[data.training :]).figures()


def compare(name: str, repeats: int = 1) -> Measured:
    """A row of the benchmarks: the seconds of a training without a flag, with the figures of both in the notes."""
    data = _named(name)
    with tempfile.TemporaryDirectory() as folder:
        pattern = make_records(data, pathlib.Path(folder))
        works = [timed(functools.partial(train, pattern, f"{folder}/run{number}")) for number in range(repeats)]
        measured = Measured(1, [work() for work in works])
        ours = figures_of_run(data, f"{folder}/run0")
    peers = figures_of_peers(data)
    best = max(peers, key=lambda peer: peers[peer].map)
    measured.notes.append(
        f"mAP {ours.map:.4f}, {ours.map - peers[best].map:+.4f} to {best}; GAP {ours.gap - peers[best].gap:+.4f}, "
        f"Hit@1 {ours.hit_at_one - peers[best].hit_at_one:+.4f}"
    )
    return measured


def _named(name: str) -> SmallData:
    base, _, seed = name.partition("@")
    return SETS[base](int(seed or 0))


def _matrix(data: SmallData) -> tuple[list[str], np.ndarray]:
    """The names of the classes, and the labels, bool [N, C]."""
    names = sorted({name for row in data.labels for name in row})
    return names, np.array([[name in row for name in names] for row in data.labels])


if __name__ == "__main__":
    for set_name in sys.argv[1:] or SETS:
        start = time.monotonic()
        print(set_name, *compare(set_name).notes, f"({time.monotonic() - start:.0f} s)", flush=True)
