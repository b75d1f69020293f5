"""`yt8m ensemble` on prediction files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yt8m import options, storage
from yt8m.errors import UsageError
from yt8m.options import option
from yt8m.registry import TRUST_HELP
from yt8m.tools import ground_truth, prediction_lists
from yt8m.tools.ensemble import fitting
from yt8m.tools.ensemble.mixing import aligned, best, normalised
from yt8m.tools.ensemble.rows import side_by_side


@dataclass(frozen=True)
class EnsembleConfig:
    """What `yt8m ensemble` is asked for."""

    predictions: tuple[str, ...] = option((), "prediction files of the same videos")
    runs: tuple[str, ...] = option((), "in place of files: folders of runs that become one exported model")
    weights: tuple[str, ...] = option((), "one number a file or run, above 0; all alike where none are given")
    mean: str = option("score", "what is averaged: scores, or places in the lists", choices=("score", "rank"))
    fit_on: str = option("", "records with the videos' labels, to fit the weights on")
    output_file: str = option("", "where the joined predictions go (CSV)")
    export_dir: str = option("", "folder for the exported model of several runs")
    output_model_tgz: str = option("", "pack the model of several runs into this .tgz, for inference")
    num_classes: int = option(3862, "number of classes", minimum=1)
    top_k: int = option(20, "predictions listed per video", minimum=1)
    trust_code: bool = option(False, TRUST_HELP)

    def __post_init__(self) -> None:
        options.check(self)
        if bool(self.predictions) == bool(self.runs):
            raise UsageError("give either --predictions, files to join, or --runs, whose models become one.")
        members = len(self.predictions or self.runs)
        if members < 2:
            raise UsageError("an ensemble needs two members at least.")
        if self.weights and len(self.weights) != members:
            raise UsageError(
                f"--weights has {len(self.weights)} numbers for {members} members; give one each."
            )
        if self.weights and self.fit_on:
            raise UsageError("--weights and --fit_on both say the weights; give one of them.")
        self._check_outputs()
        self.numbers()

    def _check_outputs(self) -> None:
        if self.predictions and (self.export_dir or self.output_model_tgz):
            raise UsageError("--export_dir and --output_model_tgz are for --runs; name an --output_file.")
        if self.runs and (self.output_file or self.fit_on or self.mean == "rank"):
            raise UsageError("--output_file, --fit_on and --mean=rank are for --predictions.")
        if self.runs and not (self.export_dir or self.output_model_tgz):
            raise UsageError("name where the model goes: --export_dir or --output_model_tgz.")
        if self.predictions and not (self.output_file or self.fit_on):
            raise UsageError("name an --output_file for the joined predictions, or labels to --fit_on.")

    def numbers(self) -> tuple[float, ...]:
        """The weights as numbers.

        Raises:
          UsageError: one is none, or not above 0.
        """
        try:
            found = tuple(float(word) for word in self.weights)
        except ValueError as error:
            raise UsageError(f"--weights={','.join(self.weights)}: expected numbers.") from error
        if not all(0 < number < float("inf") for number in found):
            raise UsageError(f"--weights={','.join(self.weights)}: each must be above 0.")
        return found


def run(config: EnsembleConfig) -> int:
    """Joins prediction files; returns the exit status.

    Raises:
      UsageError, RunError: see `side_by_side` and `fitting`.
    """
    weights = normalised(config.numbers(), len(config.predictions))
    if config.fit_on:
        weights = _fitted(config)
    if config.output_file:
        _write(config, weights)
    return 0


def _fitted(config: EnsembleConfig) -> npt.NDArray[np.float64]:
    """Fits on one half of the videos, tells the gain on the other."""
    truth = ground_truth.video_labels(config.fit_on, config.num_classes, "fit_on")
    videos = side_by_side(config.predictions, config.num_classes)
    fit_half, held_out = fitting.halves(videos, truth, config.mean == "rank", config.top_k)
    weights = fitting.fit(fit_half, config.top_k)
    alone = np.eye(len(weights))
    for path, one in zip(config.predictions, alone, strict=True):
        print(f"GAP of {path}: {held_out.gap(one, config.top_k):.5f}")
    equal = held_out.gap(normalised((), len(weights)), config.top_k)
    fitted = held_out.gap(weights, config.top_k)
    best_alone = max(held_out.gap(one, config.top_k) for one in alone)
    print(f"GAP with equal weights: {equal:.5f}")
    print(
        f"GAP with fitted weights: {fitted:.5f} (gain over equal weights {fitted - equal:+.5f}, over the best"
    )
    print(
        f"  single file {fitted - best_alone:+.5f}), on {len(held_out.hits)} videos that were not fitted on"
    )
    print(f"--weights={','.join(f'{weight:.4f}' for weight in weights)}")
    return weights


def _write(config: EnsembleConfig, weights: npt.NDArray[np.float64]) -> None:
    with storage.write_atomic(config.output_file, "w") as file:
        file.write(prediction_lists.HEADER_LINE)
        for rows in side_by_side(config.predictions, config.num_classes):
            classes, scores = aligned(rows, config.mean == "rank", config.top_k)
            pairs = zip(*best(classes, scores @ weights, config.top_k), strict=True)
            file.write(prediction_lists.written(rows[0].video_id, pairs))
