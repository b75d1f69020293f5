"""Several prediction files read side by side, video by video, in bounded memory.

`yt8m ensemble` on prediction files.

Prediction files joined into one: weighted mean or rank mean, the weights given or fitted.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from yt8m import options, storage
from yt8m.commands import ground_truth
from yt8m.commands.ensemble import fitting
from yt8m.commands.ensemble.fitting import aligned, best, normalised
from yt8m.config.registry import TRUST_HELP
from yt8m.errors import RunError, UsageError
from yt8m.options import option
from yt8m.records import prediction_files
from yt8m.records.prediction_files import PredictionRow


def side_by_side(paths: Sequence[str], num_classes: int) -> Iterator[list[PredictionRow]]:
    """The rows of each video in all files, in the order of the first one.

    Files in the same order are read through once. Of a file in another order the place of each row that was
    passed over is kept, not the row.

    Raises:
      RunError: a line is damaged, or the files are not of the same videos; the line or video is named.
    """
    with contextlib.ExitStack() as stack:
        others = [_Seeking(path, stack.enter_context(storage.open_read(path)), num_classes) for path in paths[1:]]
        for row in prediction_files.read_predictions(paths[0], num_classes):
            yield [row, *(other.find(row) for other in others)]
        for other in others:
            other.refuse_rest(paths[0])


class _Seeking:
    """A file whose rows are asked for by video.

    Args:
      path: of the file.
      file: it, open.
      num_classes: C.
    """

    def __init__(self, path: str, file: BinaryIO, num_classes: int) -> None:
        self._path, self._file, self._num_classes = path, file, num_classes
        self._number = self._end = 0
        self._passed: dict[str, tuple[int, int]] = {}  # video: number and place of its line

    def find(self, wanted: PredictionRow) -> PredictionRow:
        """The row of the same video."""
        if wanted.video_id in self._passed:
            number, place = self._passed.pop(wanted.video_id)
            self._file.seek(place)
            line = prediction_files.checked(self._path, number, self._file.readline())
            self._file.seek(self._end)
            return prediction_files.parse_prediction(line, self._num_classes)
        for video_id, line, place in self._on():
            if video_id == wanted.video_id:
                return prediction_files.parse_prediction(line, self._num_classes)
            if self._passed.setdefault(video_id, (line.number, place)) != (line.number, place):
                line.refuse(f"video {video_id!r} stands in an earlier line already.")
        raise RunError(
            f"{self._path} has no video {wanted.video_id!r}, which {wanted.where}, has; give predictions for "
            "the same files."
        )

    def refuse_rest(self, first: str) -> None:
        """Raises `RunError` where there are videos that nobody asked for, or that stand there again."""
        passed = ((name, number) for name, (number, _) in self._passed.items())
        unread = ((name, line.number) for name, line, _ in self._on())
        rest = next(itertools.chain(passed, unread), None)
        if rest is None:
            return
        name, number = rest
        earlier = self._first_line_of(name)
        if earlier < number:
            raise RunError(f"{self._path}, line {number}: video {name!r} stands in line {earlier} already.")
        raise RunError(
            f"{self._path}, line {number}: {first} has no video {name!r}; give predictions for the same files."
        )

    def _first_line_of(self, wanted: str) -> int:
        """From the beginning, since the lines of videos that were asked for are not kept."""
        self._file.seek(0)
        self._number = self._end = 0
        return next(line.number for video_id, line, _ in self._on() if video_id == wanted)

    def _on(self) -> Iterator[tuple[str, prediction_files.TextLine, int]]:
        """(video, line, place) of the rows not yet seen."""
        while text := self._file.readline():
            place, self._end = self._end, self._end + len(text)
            self._number += 1
            line = prediction_files.checked(self._path, self._number, text)
            if line.text and not (self._number == 1 and line.text == prediction_files.PREDICTIONS_HEADER):
                yield prediction_files.fields(line)[0], line, place


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
            raise UsageError(f"--weights has {len(self.weights)} numbers for {members} members; give one each.")
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
    print(f"GAP with fitted weights: {fitted:.5f} (gain over equal weights {fitted - equal:+.5f}, over the best")
    print(f"  single file {fitted - best_alone:+.5f}), on {len(held_out.hits)} videos that were not fitted on")
    print(f"--weights={','.join(f'{weight:.4f}' for weight in weights)}")
    return weights


def _write(config: EnsembleConfig, weights: npt.NDArray[np.float64]) -> None:
    with storage.write_atomic(config.output_file, "w") as file:
        file.write(prediction_files.HEADER_LINE)
        for rows in side_by_side(config.predictions, config.num_classes):
            classes, scores = aligned(rows, config.mean == "rank", config.top_k)
            pairs = zip(*best(classes, scores @ weights, config.top_k), strict=True)
            file.write(prediction_files.written(rows[0].video_id, pairs))


__all__ = ["EnsembleConfig", "run"]
