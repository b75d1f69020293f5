"""Worlds of several kinds, in which `yt8m audit` is judged beside cleanlab: `python -m benchmarks.labels --worlds=2`.

A world is a set of videos whose labels have errors that are known. 5,000 videos show 40 classes, on average 4.6 of
them; neighbouring classes look alike. The features are noisy, so that the classes are hard to tell apart; in the worlds
`easy` they are clear, and in `spread` some classes are much clearer than others. The scores are those of logistic
regressions that have not seen the video (five parts), so they are right about the labels as they are given. The share
of errors is 3 or 15 % of the true labels of a class; in the kinds by class, it is twice that for half of the classes
and half for the others. The kinds of errors are:

    uniform      a true label is replaced by any class
    by class     the same, more often in some classes
    alike        a true label is replaced by the class that looks alike, more often in some classes
    removed      a true label is removed
    added        no true label is touched; classes are added to videos
    mixed        a true label is removed, or replaced by the class that looks alike: each for half of the errors
    cyclic       every other class is taken for the next but two
    frequent     a true label is replaced by one of the three most frequent classes

With an interpreter of an environment with cleanlab 2.9, self-confidence and the normalized margin are cleanlab's own.
Without it, self-confidence is computed here: the model's chance of a label, or of no label.
"""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from yt8m.eval_util.average_precision import AveragePrecisionCalculator
from yt8m.eval_util.top_k import top_k
from yt8m.labels import findings, folds
from yt8m.labels.folds import FoldScores
from yt8m.labels.label_noise import LabelNoise
from yt8m.labels.score_counts import ScoreCounts, log_odds

FOLDS = 5
KINDS = ("uniform", "by class", "alike", "removed", "added")
CHECKED_KINDS = (*KINDS, "mixed", "cyclic", "frequent")
NOISE, CLEAR = 0.8, 0.25  # standard deviation of the features' noise, if that of the mean of a class is a third
_CHECKED_SIZES, _FIRST_CHECKED = ((40, 5000), (12, 3000)), 201  # (classes, videos); the first seed
_RIDGE, _NEWTON_STEPS = 1.0, 6
_LEAST_CHANCE = 1e-6
_CONFIDENCE = "self-confidence"
_CLEANLAB = """
import sys, numpy as np
from cleanlab.rank import get_label_quality_scores
data = np.load(sys.argv[1])
labels, chances = data["labels"], data["chances"]
for method, adjusted in (("self_confidence", False), ("normalized_margin", True)):
    settings = dict(method=method, adjust_pred_probs=adjusted)
    pairs = ((labels[:, k].astype(int), chances[:, k]) for k in range(labels.shape[1]))
    quality = [get_label_quality_scores(given, np.stack([1 - p, p], 1), **settings) for given, p in pairs]
    np.save(f"{sys.argv[1]}.{method}.npy", np.stack(quality, 1))
"""


class WorldConfig(NamedTuple):
    """What a world is like.

    Attributes:
      kind: one of KINDS.
      rate: the share of errors among the true labels.
      noise: standard deviation of the noise of the features.
      is_spread: whether some classes are much clearer than others.
      videos, classes: their numbers.
      seed: seed of all draws.
    """

    kind: str
    rate: float
    noise: float = NOISE
    is_spread: bool = False
    videos: int = 5000
    classes: int = 40
    seed: int = 0

    def __str__(self) -> str:
        clear = ", easy" * (self.noise == CLEAR) + ", spread" * self.is_spread
        return f"{self.kind} {self.rate:.0%}{clear}, seed {self.seed}"


class World(NamedTuple):
    """Videos and labels: features [N, D]; the others are bool [N, C].

    Attributes:
      features: what the models see.
      truth: the classes that the videos show.
      labels: the labels, with errors.
    """

    features: np.ndarray
    truth: np.ndarray
    labels: np.ndarray


def worlds(seeds: int) -> Iterator[WorldConfig]:
    """All worlds of the table in docs/users/labels.md."""
    for seed in range(seeds):
        for rate in (0.03, 0.15):
            yield from (WorldConfig(kind, rate, seed=seed) for kind in KINDS)
            yield from (WorldConfig(kind, rate, is_spread=True, seed=seed) for kind in KINDS[:2])
        yield from (WorldConfig(kind, 0.15, noise=CLEAR, seed=seed) for kind in KINDS[:4])


def other_worlds(seeds: int) -> Iterator[WorldConfig]:
    """Worlds that only check what was found in those of `worlds`: other rates, confusions, numbers of classes."""
    for seed, (classes, videos) in itertools.product(range(_FIRST_CHECKED, _FIRST_CHECKED + seeds), _CHECKED_SIZES):
        base = WorldConfig("", 0.08, videos=videos, classes=classes, seed=seed)
        for rate in (0.03, 0.08, 0.25):
            yield from (base._replace(kind=kind, rate=rate) for kind in CHECKED_KINDS)
            yield from (base._replace(kind=kind, rate=rate, is_spread=True) for kind in KINDS[:2])
        yield from (base._replace(kind=kind, noise=CLEAR) for kind in CHECKED_KINDS)


def make(config: WorldConfig) -> World:
    """Draws a world."""
    draw, size = np.random.default_rng(config.seed), config.classes + 8
    frequencies = np.clip(0.5 / np.arange(1, config.classes + 1) ** 0.7, 0.02, 0.4)
    centres = draw.normal(size=(config.classes, size))
    centres[1::2] = 0.8 * centres[: 2 * (config.classes // 2) : 2] + 0.6 * centres[1::2]
    if config.is_spread:
        centres *= draw.permutation(np.geomspace(0.3, 2.5, config.classes))[:, np.newaxis]
    truth = draw.random((config.videos, config.classes)) < frequencies
    first = draw.choice(config.classes, config.videos, p=frequencies / frequencies.sum())
    truth[np.arange(config.videos), first] = True
    features = (truth @ centres + 3 * config.noise * draw.normal(size=(config.videos, size))) / np.sqrt(size)
    return World(features, truth, _with_errors(truth, config, draw))


def _with_errors(truth: np.ndarray, config: WorldConfig, draw: np.random.Generator) -> np.ndarray:
    """The labels of a world, from its truth."""
    if config.kind == "added":
        return truth | (draw.random(truth.shape) < config.rate * truth.mean())
    if config.kind == "cyclic":
        hit = truth & (draw.random(truth.shape) < 2 * config.rate * (np.arange(config.classes) % 2 == 0))
        return _replaced(truth, hit, (np.nonzero(hit)[1] + 3) % config.classes)
    by_class = np.where(np.arange(config.classes) % 4 < 2, 2.0, 0.5)
    rates = config.rate * (by_class if config.kind in ("by class", "alike") else np.ones(config.classes))
    hit = truth & (draw.random(truth.shape) < rates)
    if config.kind == "removed":
        return truth & ~hit
    classes = np.nonzero(hit)[1]
    if config.kind == "mixed":
        return _replaced(truth, hit, np.where(draw.random(len(classes)) < 0.5, classes, classes ^ 1)) & ~hit
    if config.kind == "alike":
        return _replaced(truth, hit, classes ^ 1)
    return _replaced(truth, hit, draw.integers(3 if config.kind == "frequent" else config.classes, size=len(classes)))


def _replaced(truth: np.ndarray, hit: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The labels if each of the labels `hit`, bool [N, C], is replaced by the class at its place in `other`."""
    labels = truth & ~hit
    labels[np.nonzero(hit)[0], other] = True
    return labels


def chances(world: World, seed: int) -> np.ndarray:
    """The chance of each label, [N, C], by logistic regressions that have not seen the video."""
    fold = np.random.default_rng(seed).integers(FOLDS, size=len(world.labels))
    inputs = np.c_[world.features, np.ones(len(world.features))]
    made = np.empty(world.labels.shape)
    for number in range(FOLDS):
        seen, held_out = fold != number, fold == number
        for column, labels in enumerate(world.labels[seen].T.astype(float)):
            made[held_out, column] = _sigmoid(inputs[held_out] @ _logistic_regression(inputs[seen], labels))
    return np.clip(made, _LEAST_CHANCE, 1 - _LEAST_CHANCE)


def _logistic_regression(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weights of a logistic regression with a ridge penalty, by Newton's method."""
    weights = np.zeros(inputs.shape[1])
    for _ in range(_NEWTON_STEPS):
        predictions = _sigmoid(inputs @ weights)
        variances = np.maximum(predictions * (1 - predictions), 1e-4)
        curvature = (inputs * variances[:, np.newaxis]).T @ inputs + _RIDGE * np.eye(len(weights))
        weights -= np.linalg.solve(curvature, inputs.T @ (predictions - labels) + _RIDGE * weights)
    return weights


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def fold_scores(given: np.ndarray, labels: np.ndarray) -> FoldScores:
    """What an audit keeps of the chances [N, C] that models give."""
    scores = log_odds(given.astype(np.float32))
    counts = ScoreCounts.of_classes(labels.shape[1])
    counts.add(scores, labels)
    rows, classes = np.nonzero(labels)
    top, lengths = top_k(scores, folds.BEST), labels.sum(1, dtype=np.int32)
    return FoldScores(lengths, classes.astype(np.int32), scores[rows, classes], top.classes, top.scores, counts)


class Ranking(NamedTuple):
    """AP of the planted errors, ranked by how suspicious pairs are: both kinds in one list, and each by itself."""

    both: float
    wrong: float
    missing: float


class Judged(NamedTuple):
    """The result in one world: the estimate of the audit, and the ranking of each method."""

    noise: LabelNoise
    rankings: dict[str, Ranking]


def judge(config: WorldConfig, cleanlab: str = "") -> Judged:
    """Makes a world and ranks its errors by all methods, among the labels and the 20 best classes of each video."""
    world = make(config)
    given = chances(world, config.seed)
    scores = fold_scores(given, world.labels)
    noise = findings.estimate_noise(scores)
    issues = findings.find_issues(scores, noise)
    pairs = issues.videos, issues.classes
    errors = (world.truth != world.labels)[pairs]
    quality = _quality(given, world.labels, cleanlab)
    ranked = {"audit": -np.arange(len(errors), dtype=float)} | {
        name: -values[pairs] for name, values in quality.items()
    }
    planted = world.truth != world.labels
    totals = planted.sum(), (planted & world.labels).sum(), (planted & ~world.labels).sum()
    kinds = np.ones(len(errors), np.bool_), ~issues.is_missing, issues.is_missing
    return Judged(
        noise,
        {
            name: Ranking(
                *(average_precision(values[kind], errors[kind], n) for kind, n in zip(kinds, totals, strict=True))
            )
            for name, values in ranked.items()
        },
    )


def _quality(given: np.ndarray, labels: np.ndarray, cleanlab: str) -> dict[str, np.ndarray]:
    """{method: [N, C], how good the label, or its absence, seems}."""
    return cleanlab_quality(given, labels, cleanlab) if cleanlab else {_CONFIDENCE: np.where(labels, given, 1 - given)}


def cleanlab_quality(given: np.ndarray, labels: np.ndarray, interpreter: str) -> dict[str, np.ndarray]:
    """{method: [N, C], how good cleanlab finds the label, or its absence}, by an interpreter that has cleanlab.

    Args:
      given: [N, C], the chances that models give.
      labels: bool [N, C].
      interpreter: its path.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/scores.npz"
        np.savez(path, labels=labels, chances=given)
        subprocess.run([interpreter, "-c", _CLEANLAB, path], check=True)
        methods = {_CONFIDENCE: "self_confidence", "normalized margin": "normalized_margin"}
        return {name: np.load(f"{path}.{method}.npy") for name, method in methods.items()}


def average_precision(ranking: np.ndarray, errors: np.ndarray, total: int) -> float:
    """AP of the errors, ranked by the largest values; `total` counts those that are not ranked too. nan without any."""
    if not total:
        return float("nan")
    calculator = AveragePrecisionCalculator()
    calculator.accumulate(ranking, errors, num_positives=int(total))
    return float(calculator.peek_ap_at_n())


def print_table(configs: Iterable[WorldConfig], cleanlab: str) -> None:
    """Prints the result in each world, for the table in docs/users/labels.md.

    Args:
      configs: the worlds.
      cleanlab: an interpreter of an environment with cleanlab, or an empty string.
    """
    print(
        "AP of both kinds in one list, of wrong labels, of missing ones; shares by the curves, by the confident joint"
    )
    for config in configs:
        noise, rankings = judge(config, cleanlab)
        cells = [f"{name} " + " ".join(f"{value:.3f}" for value in row) for name, row in rankings.items()]
        wrong, missing = ((noise.wrong, noise.joint.wrong), (noise.missing, noise.joint.missing))
        shares = "wrong {:.3f} {:.3f}, missing {:.3f} {:.3f}".format(*wrong, *missing)
        print(f"{config!s:26s} | " + " | ".join([*cells, shares]), flush=True)
