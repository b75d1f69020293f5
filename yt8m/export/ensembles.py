"""`yt8m ensemble`: joins prediction files into one file, or several runs into one exported model."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from yt8m import options, storage
from yt8m.config.of_run import OfCheckpoint, same_as
from yt8m.datasets import ground_truth
from yt8m.errors import UsageError
from yt8m.eval_util.arrays import Floats64
from yt8m.export import joined_files
from yt8m.options import option
from yt8m.records import prediction_files
from yt8m.registry import TRUST_HELP


@dataclass(frozen=True)
class EnsembleConfig(options.Checked):
    """The flags of `yt8m ensemble`."""

    predictions: tuple[str, ...] = option((), "prediction files of the same videos", is_path=True)
    train_dir: tuple[str, ...] = option(
        (),
        "in place of files: folders of runs that become one exported model",
        flag="model",
        aliases=("train_dir", "runs"),
        is_path=True,
    )
    weights: tuple[str, ...] = option((), "one number above 0 for each file or run; by default equal weights")
    mean: str = option("score", "what is averaged: scores, or ranks", choices=("score", "rank"))
    fit_on: str = option(
        "", "records with the videos' labels, to fit the weights on", flag="data", aliases=("fit_on",), is_path=True
    )
    out: str = option(
        "",
        "file for the joined predictions (CSV), or folder for the exported model of several runs",
        aliases=("output_file", "export_dir"),
        is_path=True,
    )
    output_model_tgz: str = option(
        "", "pack the model of several runs into this .tgz, for inference", needs="train_dir", is_path=True
    )
    output_onnx: str = option(
        "", "write the model of several runs as this ONNX file (NAME.onnx)", needs="train_dir", is_path=True
    )
    num_classes: int | None = option(
        None, "number of classes [as many as the vocabulary by the records of --data has, else 3862]", minimum=1
    )
    top_k: int = option(20, "predictions listed per video", minimum=1)
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    trust_code: bool = option(False, TRUST_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.predictions) == bool(self.train_dir):
            raise UsageError("give either --predictions, to join files, or --model, to join the models of runs.")
        members = len(self.predictions or self.train_dir)
        if members < 2:
            raise UsageError("an ensemble needs at least two members.")
        if self.weights and len(self.weights) != members:
            raise UsageError(f"--weights has {len(self.weights)} numbers for {members} members; give one for each.")
        if self.weights and self.fit_on:
            raise UsageError("--weights and --data both set the weights; give one of them.")
        if self.train_dir and (self.fit_on or self.mean == "rank"):
            raise UsageError("--data and --mean=rank are for --predictions.")
        if not (self.out or self.output_model_tgz or self.output_onnx or self.fit_on):
            other_outputs = (
                "--output_onnx or --output_model_tgz" if self.train_dir else "records with labels, to fit on, as --data"
            )
            raise UsageError(f"no output is named: give --out, or {other_outputs}.")
        if self.output_onnx and not self.output_onnx.endswith(".onnx"):
            raise UsageError(f"--output_onnx={self.output_onnx}: the name of an ONNX file ends in .onnx.")
        self.normalised_weights()

    def normalised_weights(self) -> list[float]:
        """The weights of the members, scaled to add up to 1.

        Raises:
          UsageError: a weight is not a number above 0.
        """
        try:
            numbers = [float(word) for word in self.weights] or [1.0] * len(self.predictions or self.train_dir)
        except ValueError:
            numbers = [0.0]
        if not all(0 < number < float("inf") for number in numbers):
            raise UsageError(f"--weights={','.join(self.weights)}: expected numbers above 0.")
        return [number / sum(numbers) for number in numbers]


def join_files(config: EnsembleConfig) -> None:
    """Joins prediction files: fits the weights if asked, and writes the means.

    Raises:
      UsageError: there is no such file.
      RunError: a line of a file is damaged.
    """
    num_classes = ground_truth.class_count(config.num_classes, config.fit_on)
    weights = _fit(config, num_classes) if config.fit_on else np.array(config.normalised_weights())
    if config.out:
        count = _write(config, weights, num_classes)
        print(f"{count} predictions are in {config.out}", file=sys.stderr)


def _fit(config: EnsembleConfig, num_classes: int) -> Floats64:
    """Fits weights on one half of the videos and prints the GAP of the printed weights on the other half."""
    truth = ground_truth.video_labels(config.fit_on, num_classes)
    videos = joined_files.side_by_side(config.predictions, num_classes)
    fit_half, held_out = joined_files.halves(videos, truth, config.mean == "rank", config.top_k)
    # Use the rounded weights that are printed: --weights with them then gives the same file and the same GAP.
    words = [f"{max(weight, 0.0001):.4f}" for weight in joined_files.fit(fit_half, config.top_k)]
    numbers = [float(word) for word in words]
    weights = np.array([number / sum(numbers) for number in numbers])
    alone = [held_out.gap(only_this, config.top_k) for only_this in np.eye(len(weights))]
    for path, gap in zip(config.predictions, alone, strict=True):
        print(f"GAP of {path}: {gap:.5f}")
    equal = held_out.gap(np.full(len(weights), 1 / len(weights)), config.top_k)
    fitted = held_out.gap(weights, config.top_k)
    print(f"GAP with equal weights: {equal:.5f}")
    print(f"GAP with fitted weights: {fitted:.5f} (gain over equal weights {fitted - equal:+.5f}, over the best")
    print(f"  single file {fitted - max(alone):+.5f}), on {len(held_out.hits)} videos that were not fitted on")
    print(f"--weights={','.join(words)}")
    return weights


def _write(config: EnsembleConfig, weights: Floats64, num_classes: int) -> int:
    """Writes the joined file; returns the number of its videos."""
    count = 0
    with storage.write_atomic(config.out, "w") as file:
        file.write(prediction_files.HEADER_LINE)
        for rows in joined_files.side_by_side(config.predictions, num_classes):
            classes, scores = joined_files.aligned(rows, config.mean == "rank", config.top_k)
            mean = scores @ weights
            count += 1
            best = np.lexsort((classes, -mean))[: config.top_k]
            pairs = zip(classes[best].tolist(), mean[best].tolist(), strict=True)
            file.write(prediction_files.prediction_line(rows[0].video_id, pairs))
    return count
