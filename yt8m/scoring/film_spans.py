"""Spans that a trained model finds: the scores of cells, joined by the rule that was chosen on validation.

`yt8m eval --spans` scores the cells of records, chooses thresholds and a rule on them, and writes both to
`eval/spans.json` of the run; `yt8m predict --spans` joins by them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, refusing
from yt8m.eval_util.arrays import Floats64
from yt8m.eval_util.span_joining import JoinRule, join_cells
from yt8m.records.batches import read_records
from yt8m.records.film_windows import WINDOWS_AT_ONCE
from yt8m.records.opened_data import OpenedData
from yt8m.records.rated_cells import Cells
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.records.span_files import FoundSpan
from yt8m.scoring.scorer import Scorer

NAME = "spans.json"
_USUAL_THRESHOLD = 0.5
_MOST_FRAMES = 100_000  # of a video


class Joining(NamedTuple):
    """How the cells of a model become spans.

    Attributes:
      frames: number of frames of a cell.
      per_second: frames per second of the features.
      context: number of frames before and after a cell that the model gets.
      thresholds: float64 [C].
    """

    frames: int
    per_second: float
    thresholds: Floats64
    rule: JoinRule
    context: int = 0

    @property
    def cells(self) -> Cells:
        """The grid of the model."""
        return Cells(self.frames, self.per_second)

    def spans(self, scores: NDArray[np.float32], seconds: float) -> list[FoundSpan]:
        """The spans of a video with the scores of its cells [T, C], by their starts."""
        joined = zip(*(column.tolist() for column in join_cells(scores, self.thresholds, self.rule)), strict=True)
        cell = self.cells.seconds
        return sorted(
            FoundSpan(first * cell, min(last * cell, seconds), number, score) for number, first, last, score in joined
        )


def path_of(folder: str) -> str:
    """The path of the file of a run."""
    return storage.join(folder, "eval", NAME)


def joining_for(scorer: Scorer, path: str = "", per_second: float = 0.0) -> Joining:
    """How to join the cells of a model: as `yt8m eval --spans` chose, or else where a score reaches 0.5.

    Args:
      path: the file that it wrote; by default that of the run.
      per_second: frames per second of the features of video files; 0 for other data.
    """
    if path:
        storage.refuse_missing(path, "spans_from", "`yt8m eval --spans` writes it")
    path = path or path_of(scorer.takes.folder or scorer.path)
    if not storage.exists(path):
        logging.info(
            "there is no %s, so a class is shown where its score reaches 0.5; yt8m eval --spans chooses better", path
        )
        return default_joining(scorer, per_second)
    with refusing(lambda error: RunError(f"{path} is damaged: {error}. Write it again by `yt8m eval --spans`.")):
        written = storage.read_json(path)
        rule = JoinRule(**written["rule"])
        joining = Joining(
            int(written["segment_size"]),
            float(written["frames_per_second"]),
            np.array(written["thresholds"], np.float64),
            JoinRule(float(rule.hysteresis), int(rule.gap), int(rule.least)),
            int(written.get("segment_context", 0)),
        )
        if (
            joining.thresholds.shape != (scorer.num_classes,)
            or min(joining.frames, joining.context + 1) < 1
            or not joining.per_second > 0
        ):
            raise ValueError(f"it is for {joining.thresholds.size} classes, and the model has {scorer.num_classes}")
    if per_second and abs(joining.per_second - per_second) > 1e-6 * per_second:
        raise UsageError(
            f"{path} is for features of {joining.per_second:g} frames per second, but the extractors compute "
            f"{per_second:g}: name the file of the model by --spans_from, or write it again by `yt8m eval --spans`."
        )
    logging.info("spans are joined as %s says", path)
    return joining


def default_joining(scorer: Scorer, per_second: float = 0.0) -> Joining:
    """The cells of the training, of which those whose score reaches 0.5 are joined; `per_second` as in `joining_for`.

    Records of whole videos do not say how many frames there are in a second, but the extractors of their features do.
    """
    data, thresholds = scorer.training_data, np.full(scorer.num_classes, _USUAL_THRESHOLD)
    rates = [float(entry["frames_per_second"]) for entry in scorer.takes.extractors if "frames_per_second" in entry]
    rate = per_second or next(iter(rates), data.frames_per_second)
    return Joining(data.segment_size, rate, thresholds, JoinRule(), data.segment_context)


def write(folder: str, joining: Joining, figures: dict[str, Any], step: int, chosen_on: dict[str, Any]) -> None:
    """Writes the file of a run; `chosen_on` says on which videos the rule was chosen."""
    content = {
        "step": step,
        "chosen_on": chosen_on,
        "segment_size": joining.frames,
        "segment_context": joining.context,
        "frames_per_second": joining.per_second,
        "rule": joining.rule._asdict(),
        "thresholds": joining.thresholds.tolist(),
        "figures": figures,
    }
    storage.makedirs(storage.join(folder, "eval"))
    storage.write(path_of(folder), json.dumps(content, indent=1) + "\n")


def score_cells(scorer: Scorer, frames: NDArray[np.float32], joining: Joining) -> NDArray[np.float32]:
    """The scores of the cells of a video, float32 [cells, C]; `frames` are its joined features, float32 [T, D]."""
    count = len(joining.cells.parts(len(frames)))
    groups = [np.zeros((0, scorer.num_classes), np.float32)]
    for first in range(0, count, WINDOWS_AT_ONCE):
        rows = np.arange(first, min(first + WINDOWS_AT_ONCE, count))
        windows, counts = joining.cells.windows(frames, rows, joining.context)
        batch = scorer.takes.batch_of_frames([window[:number] for window, number in zip(windows, counts, strict=True)])
        groups.append(scorer.scores(batch)[1])
    return np.concatenate(groups)


def frames_of_records(scorer: Scorer, data: OpenedData) -> Iterator[tuple[str, NDArray[np.float32], Raw]]:
    """Yields (id, joined features float32 [T, D], record) of each video in records of frames."""
    if not scorer.takes.has_frames or scorer.takes.has_own_reader:
        raise UsageError(f"{scorer.path} takes no records of frames as they are stored, so it cannot find spans.")
    records = read_records(data, batch_size=1, num_classes=scorer.num_classes, max_frames=_MOST_FRAMES)
    scorer.check(records)
    for raws in records.serialized():
        ((name, frames),) = frames_of_batch(scorer, records.parsed(raws))
        yield name, frames, raws[0]


def frames_of_batch(scorer: Scorer, batch: NumpyBatch) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yields (id, joined features float32 [T, D]) of each video in a batch of frames."""
    if not scorer.takes.has_frames:
        raise UsageError(
            f"{scorer.path} takes whole videos, and arrays of these have no times: give video files, or train a model "
            "on frames."
        )
    arranged = scorer.takes.arranged(batch).dequantize()
    for row, (name, count) in enumerate(zip(arranged.ids, arranged.num_frames.tolist(), strict=True)):
        features = [arranged.features[feature][row, :count] for feature in scorer.takes.format.sizes()]
        yield name, np.concatenate(features, axis=-1)
