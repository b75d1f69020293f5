"""How many labels `yt8m select` saves: `python -m benchmarks.selecting --noise=0.3`.

16,000 generated videos are chosen from, and 4,000 test the models; there are 200 classes, the rarest in 0.3 % of the
videos. At first 200 random videos have labels. In each round a model of the labelled videos is trained, which gives the
mAP on the test videos, and then 100 more videos are chosen, until random choice has 1,400. The model is a logistic
regression in NumPy on 192 of the features' values; the choice is that of the command. For each number of random labels,
the table has the share of them with which the other ways reach the same mAP, interpolated between rounds. For
comparison, one way knows the labels of all videos and takes those with the most labels of rare classes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from yt8m.datasets.sample_data import synthetic_videos
from yt8m.eval_util import AveragePrecisionCalculator
from yt8m.eval_util.top_k import top_k
from yt8m.labels.batch_selection import LabelledVideos, SelectConfig, UnlabelledVideos, select

POOL, TEST, CLASSES, SIZE = 16_000, 4_000, 200, 192
FIRST, BATCH, ROUNDS = 200, 100, 12
KNOWN = "known labels"
WAYS = ("random", "uncertainty", "all", KNOWN)
_SCALE, _STEPS, _RATE, _DECAY = np.float32(16), 80, 0.1, 1.0


class Videos(NamedTuple):
    """Directions float32 [N, SIZE] and labels float32 [N, CLASSES]."""

    features: np.ndarray
    labels: np.ndarray


def make(seed: int, split: int, count: int, noise: float) -> Videos:
    """Generated videos with normal noise of this standard deviation on their features."""
    videos = list(synthetic_videos.videos(seed, split, count, CLASSES))
    features = np.stack([synthetic_videos.mean_features(video)[:SIZE] for video in videos])
    labels = np.zeros((count, CLASSES), np.float32)
    for row, video in enumerate(videos):
        labels[row, video.labels] = 1
    features += np.float32(noise) * np.random.default_rng([seed, split, 9]).standard_normal(features.shape, np.float32)
    return Videos(features / np.linalg.norm(features, axis=1, keepdims=True), labels)


def train(videos: Videos) -> np.ndarray:
    """Weights and biases [SIZE + 1, CLASSES] of a logistic regression, by Adam on all videos at once."""
    inputs = np.pad(videos.features * _SCALE, ((0, 0), (0, 1)), constant_values=1)
    weights = np.zeros((inputs.shape[1], CLASSES), np.float32)
    share = np.clip(videos.labels.mean(0), 0.5 / (len(inputs) + 1), 0.5)
    weights[-1] = np.log(share / (1 - share))
    mean, square = np.zeros((2, *weights.shape), np.float32)
    for step in range(1, _STEPS + 1):
        gradient = inputs.T @ (_sigmoid(inputs @ weights) - videos.labels) / len(inputs)
        gradient[:-1] += _DECAY / len(inputs) * weights[:-1]
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        rate = _RATE if step < 0.6 * _STEPS else 0.2 * _RATE
        weights -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return weights


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-values)), np.float32)


def predict(weights: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Probabilities float32 [N, CLASSES]."""
    return _sigmoid(features * _SCALE @ weights[:-1] + weights[-1])


def mean_average_precision(scores: np.ndarray, labels: np.ndarray) -> float:
    """The mean AP of the classes that have a label."""
    found = []
    for number in np.flatnonzero(labels.any(0)).tolist():
        calculator = AveragePrecisionCalculator()
        calculator.accumulate(scores[:, number], labels[:, number])
        found.append(calculator.peek_ap_at_n())
    return float(np.mean(found))


def curve(by: str, pool: Videos, test: Videos, seed: int) -> list[float]:
    """The mAP after each round."""
    labelled, found = np.random.default_rng(seed).permutation(POOL)[:FIRST], []
    for number in range(ROUNDS + 1):
        known = Videos(pool.features[labelled], pool.labels[labelled])
        weights = train(known)
        found.append(mean_average_precision(predict(weights, test.features), test.labels))
        free = np.setdiff1d(np.arange(POOL), labelled)
        config = SelectConfig("run", "data", "out.csv", BATCH, by if by != KNOWN else "all", seed=1000 * seed + number)
        scores = predict(weights, pool.features[free])
        indices = by_labels(known, pool.labels[free]) if by == KNOWN else by_command(known, pool, free, scores, config)
        labelled = np.concatenate([labelled, free[indices]])
    return found


def by_command(known: Videos, pool: Videos, free: np.ndarray, scores: np.ndarray, config: SelectConfig) -> np.ndarray:
    """The indices of the videos that `yt8m select` chooses of the free ones."""
    labelled = LabelledVideos(len(known.labels), known.labels.sum(0).astype(np.int64), known.features)
    mean_scores = scores.mean(0, dtype=np.float64)
    candidates = UnlabelledVideos(list(map(str, free)), top_k(scores, 20), mean_scores, pool.features[free])
    return select(candidates, labelled, config).indices


def by_labels(known: Videos, labels: np.ndarray) -> np.ndarray:
    """The indices of the videos whose labels add most, if a label counts 1 / (1 + labels of its class so far)."""
    counts, indices, left = known.labels.sum(0), list[int](), labels.copy()
    for _ in range(BATCH):
        indices.append(int(np.argmax(left @ (1 / (1 + counts)))))
        counts = counts + labels[indices[-1]]
        left[indices[-1]] = 0
    return np.array(indices)


def shares(reference: Sequence[float], reached: Sequence[float]) -> np.ndarray:
    """Labels that are needed for each mAP of the reference, as a share of those of the reference; nan if never."""
    counts = FIRST + BATCH * np.arange(ROUNDS + 1)
    needed = np.interp(reference, np.maximum.accumulate(reached), counts, right=np.nan)
    return np.asarray(needed / counts)


def main() -> None:
    """Prints the shares of each seed, and the means."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selecting", description=__doc__)
    parser.add_argument("--noise", type=float, default=0.3, help="standard deviation of the noise on the features")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    print("labels of random choice   " + "".join(f"{FIRST + BATCH * number:7d}" for number in range(1, ROUNDS + 1)))
    every: dict[str, list[np.ndarray]] = {by: [] for by in WAYS[1:]}
    for seed in range(arguments.seeds):
        pool, test = (make(seed, split, count, arguments.noise) for split, count in ((0, POOL), (1, TEST)))
        curves = {by: curve(by, pool, test, seed) for by in WAYS}
        for by, found in curves.items():
            print(f"seed {seed}, mAP, {by:12s}" + "".join(f"{value:7.3f}" for value in found[1:]), flush=True)
        for by, of_seeds in every.items():
            of_seeds.append(shares(curves["random"], curves[by])[1:])
    for by, of_seeds in every.items():
        for name, of_all in (("mean", np.mean), ("largest", np.max)):
            print(f"share, {by}, {name}".ljust(26) + "".join(f"{value:7.2f}" for value in of_all(of_seeds, axis=0)))


if __name__ == "__main__":
    main()
