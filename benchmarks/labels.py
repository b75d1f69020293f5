"""How well `yt8m audit` finds planted errors of labels: `python -m benchmarks.labels --noise=0.5 --cleanlab=PYTHON`.

The data are generated: 20,000 videos of 200 classes; normal noise on the features makes them harder. 20 % of the labels
are removed, and 5 % are replaced by another class, drawn by frequency. With `--frames=N`, a video has N frames, each
with noise of its own, as bytes. PYTHON is an interpreter of an environment with
cleanlab 2.9; it ranks the same scores. `labels_to_check` is the rule of that file, on the same scores. With
`--worlds=SEEDS`, the worlds of label_worlds.py are judged instead.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from typing import Any, NamedTuple

import numpy as np

from benchmarks import label_worlds
from benchmarks.auditing import found_copies
from yt8m.command_line import flags
from yt8m.datasets.sample_data import synthetic_videos
from yt8m.eval_util.average_precision import AveragePrecisionCalculator
from yt8m.labels import findings, folds
from yt8m.labels.folds import FoldScores, join_folds, read_scores
from yt8m.labels.label_audit import LabelAudit
from yt8m.records import manifest, shards, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat, quantized
from yt8m.reports.worst_videos import MISSING_SCORE, WRONG_SCORE

VIDEOS, CLASSES, COPIES = 20_000, 200, 500
WRONG, MISSING = 0.05, 0.2
_FRAME_NOISE, _RANGE = 0.5, (-4.0, 4.0)
_SHARDS = 10
_BEST = folds.BEST


class Planted(NamedTuple):
    """Features [N, D], true labels [N, C] and labels with errors [N, C]."""

    features: np.ndarray
    truth: np.ndarray
    labels: np.ndarray


def plant(noise: float, seed: int) -> Planted:
    """Generated videos and their labels with errors; the last COPIES videos are near copies of the first ones."""
    rng = np.random.default_rng(seed)
    videos = list(synthetic_videos.videos(seed, 0, VIDEOS - COPIES, CLASSES))
    features = np.stack([synthetic_videos.mean_features(video) for video in videos])
    truth = np.zeros((VIDEOS, CLASSES), np.bool_)
    for row, video in enumerate(videos):
        truth[row, video.labels] = True
    features += np.float32(noise) * rng.standard_normal(features.shape, np.float32)
    copied = features[:COPIES] + np.float32(0.05) * rng.standard_normal((COPIES, features.shape[1]), np.float32)
    truth[-COPIES:] = truth[:COPIES]
    labels, (rows, classes) = truth.copy(), np.nonzero(truth)
    order = rng.permutation(len(rows))
    missing, wrong = int(MISSING * len(rows)), int(WRONG * len(rows))
    labels[rows[order[:missing]], classes[order[:missing]]] = False
    for place in order[missing : missing + wrong].tolist():
        labels[rows[place], classes[place]] = False
        free = np.flatnonzero(~truth[rows[place]] & ~labels[rows[place]])
        weights = truth.sum(0)[free]
        labels[rows[place], rng.choice(free, p=weights / weights.sum())] = True
    return Planted(np.concatenate([features, copied]), truth, labels)


def write(folder: pathlib.Path, planted: Planted, frames: int = 0) -> str:
    """Writes the videos as records of so many frames, or of one vector each if it is 0; returns their pattern."""
    size, written = planted.features.shape[1], {}
    for shard in range(_SHARDS):
        rows = range(shard, VIDEOS, _SHARDS)
        path = str(folder / "train" / f"train{shard}.tfrecord")
        written[path] = manifest.write_shard(path, (_record(planted, row, frames) for row in rows))
    feature = FeatureFormat("mean", size, _RANGE if frames else None)
    data = DataFormat("frame" if frames else "video", (feature,), num_classes=CLASSES, max_frames=frames or None)
    manifest.write(str(folder / "train" / manifest.NAME), written, data)
    vocabulary.write(str(folder / vocabulary.NAME), vocabulary.of_names([f"class {k}" for k in range(CLASSES)]))
    return str(folder / "train" / "*.tfrecord")


def _record(planted: Planted, row: int, frames: int) -> bytes:
    labels = np.flatnonzero(planted.labels[row]).tolist()
    context = {"id": shards.bytes_feature(b"v%05d" % row), "labels": shards.int64_feature(labels)}
    vector = planted.features[row]
    if not frames:
        return shards.example(context | {"mean": shards.float_feature(vector)})
    noise = _FRAME_NOISE * np.random.default_rng(row).standard_normal((frames, len(vector)), np.float32)
    return shards.sequence_example(context, {"mean": shards.frame_features(quantized(vector + noise, _RANGE))})


def average_precision(ranking: np.ndarray, errors: np.ndarray) -> float:
    """AP of the errors, ranked by the largest values."""
    calculator = AveragePrecisionCalculator()
    calculator.accumulate(ranking, errors)
    return float(calculator.peek_ap_at_n())


def precision(ranking: np.ndarray, errors: np.ndarray) -> float:
    """The share of errors among as many of the first pairs as there are errors."""
    return float(errors[np.argsort(-ranking, kind="stable")[: int(errors.sum())]].mean())


def audit(pattern: str, folder: pathlib.Path, model: str) -> tuple[FoldScores, np.ndarray]:
    """The scores of all classes, and the number of each video."""
    folds.BEST = CLASSES  # so that other rankings get all scores
    config, training, data = flags.audit_config([f"--data={pattern}", f"--out={folder}", f"--model={model}"])
    LabelAudit(config, training, data).run()
    videos = folds.read_videos(str(folder / ".work" / "videos.npz"))
    parts = ((videos.of_fold(k), read_scores(str(folder / ".work" / f"scores{k}.npz"))) for k in range(config.folds))
    return join_folds(parts), np.array([int(video[1:]) for video in videos.ids])


def rankings(scores: FoldScores, dense: np.ndarray, labels: np.ndarray, cleanlab: str) -> dict[str, np.ndarray]:
    """{name: [N, C], larger for pairs that are more likely in error}."""
    issues = findings.find_issues(scores, findings.estimate_noise(scores))
    ours = np.zeros(labels.shape)
    ours[issues.videos, issues.classes] = np.arange(len(issues.videos), 0, -1)
    chances = 1 / (1 + np.exp(-dense.astype(np.float64)))
    parts = -np.log(np.where(labels, chances, 1 - chances) + 1e-5)
    listed = np.where(labels, chances <= WRONG_SCORE, chances >= MISSING_SCORE)
    found = {"yt8m audit": ours, "labels_to_check": np.where(listed, parts, 0)}
    if cleanlab:
        quality = label_worlds.cleanlab_quality(chances, labels, cleanlab)
        found |= {f"cleanlab, {name}": -values for name, values in quality.items()}
    return found


def print_figures(planted: Planted, labels: np.ndarray, scores: FoldScores, ranked: dict[str, np.ndarray]) -> None:
    """Prints precision, AP and calibration."""
    errors = planted.truth != planted.labels
    for kind, pairs in (("wrong", labels), ("missing", ~labels), ("wrong or missing", np.ones_like(labels))):
        print(f"{kind}: {int(errors[pairs].sum())} planted")
        for name, ranking in ranked.items():
            figures = precision(ranking[pairs], errors[pairs]), average_precision(ranking[pairs], errors[pairs])
            print(f"  {name:28s} precision at the number planted {figures[0]:.3f}, AP {figures[1]:.3f}")
    issues = findings.find_issues(scores, findings.estimate_noise(scores), 0.1)
    right = errors[issues.videos, issues.classes]
    print("estimated chance and share of errors, in ten equal groups of the listed labels:")
    groups = np.array_split(np.arange(len(right)), 10)
    print("  " + "  ".join(f"{issues.chances[group].mean():.2f} {right[group].mean():.2f}" for group in groups))


def print_copies(path: pathlib.Path) -> None:
    """Prints how many of the planted copies are listed, and how many other pairs."""
    planted = {frozenset((f"v{row:05}", f"v{VIDEOS - COPIES + row:05}")) for row in range(COPIES)}
    recall, false_pairs = found_copies(path, planted, VIDEOS).values()
    print(f"copies: recall {recall:.3f}, false pairs in a million {false_pairs:.2f}")


def main() -> None:
    """Plants, audits and prints."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.labels", description=__doc__)
    parser.add_argument("--noise", type=float, default=0.5, help="standard deviation of the noise on the features")
    parser.add_argument("--frames", type=int, default=0, help="frames of a video; 0: one vector")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cleanlab", default="", help="interpreter of an environment with cleanlab")
    parser.add_argument("--worlds", type=int, default=0, help="so many seeds of the worlds of label_worlds.py instead")
    parser.add_argument("--other_worlds", type=int, default=0, help="so many seeds of the worlds that only check")
    arguments = parser.parse_args()
    if arguments.worlds or arguments.other_worlds:
        configs = [*label_worlds.worlds(arguments.worlds), *label_worlds.other_worlds(arguments.other_worlds)]
        label_worlds.print_table(configs, arguments.cleanlab)
        return
    planted = plant(arguments.noise, arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = "FrameLevelLogisticModel" if arguments.frames else "LogisticModel"
        scores, order = audit(write(folder / "data", planted, arguments.frames), folder / "audit", model)
        in_order = Planted(planted.features[order], planted.truth[order], planted.labels[order])
        dense = np.empty(planted.labels.shape, np.float32)
        np.put_along_axis(dense, scores.best.astype(np.int64), scores.best_scores, 1)
        kept = scores._replace(best=scores.best[:, :_BEST], best_scores=scores.best_scores[:, :_BEST])
        ranked = rankings(kept, dense, in_order.labels, arguments.cleanlab)
        print_figures(in_order, in_order.labels, kept, ranked)
        print_copies(folder / "audit" / "copies.csv")


if __name__ == "__main__":
    main()
