"""Spans that a trained model finds: the scores of cells, joined by the rule that was chosen on validation.

`yt8m eval --spans` scores the cells of records, chooses thresholds and a rule on them, and writes both to
`eval/spans.json` of the run; `yt8m predict --spans` joins by them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import UsageError, quantity
from yt8m.eval_util.arrays import Floats64
from yt8m.eval_util.span_joining import JoinRule, join_cells
from yt8m.records import shards, span_rules
from yt8m.records.batches import read_records
from yt8m.records.film_windows import WINDOWS_AT_ONCE
from yt8m.records.opened_data import OpenedData
from yt8m.records.rated_cells import Cells
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.records.span_files import FoundSpan
from yt8m.scoring.scorer import Scorer

_ROUNDING = 1e-6
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
        return self.as_spans(join_cells(scores, self.thresholds, self.rule), seconds)

    def as_spans(self, joined: Sequence[NDArray[Any]], seconds: float) -> list[FoundSpan]:
        """Spans in seconds, by their starts, of what `join_cells` returns."""
        cell = self.cells.seconds
        return sorted(
            FoundSpan(first * cell, min(last * cell, seconds), number, score)
            for number, first, last, score in zip(*(column.tolist() for column in joined), strict=True)
        )


def joining_for(scorer: Scorer, path: str = "", per_second: float = 0.0) -> Joining:
    """How to join the cells of a model: as `yt8m eval --spans` chose, or else where a score reaches 0.5.

    Args:
      path: the file that it wrote; by default that of the model.
      per_second: frames per second of the features of video files; 0 for other data.
    """
    if path:
        storage.refuse_missing(path, "spans_from", "`yt8m eval --spans` writes it")
        text = storage.read_text(path)
    else:
        text, path = scorer.span_rule()
    if not text:
        logging.info(
            "%s has no %s, so a class is shown where its score reaches 0.5; yt8m eval --spans chooses better",
            *(scorer.path, span_rules.NAME),
        )
        return default_joining(scorer, per_second)
    rule = span_rules.parse(text, path)
    joining = Joining(
        *(rule.segment_size, rule.frames_per_second, np.array(rule.thresholds, np.float64)),
        *(JoinRule(rule.rule["hysteresis"], int(rule.rule["gap"]), int(rule.rule["least"])), rule.segment_context),
    )
    _refuse_other(scorer, joining, path, per_second)
    if 0 not in (scorer.step, rule.step) and scorer.step != rule.step:
        logging.warning(
            "%s was chosen at step %d, and the weights are of step %d: choose again by yt8m eval --spans",
            *(path, rule.step, scorer.step),
        )
    if rule.is_usual:
        logging.warning(
            "%s was written before how spans are joined was chosen: a class is shown where its score reaches 0.5. Name "
            "the eval/spans.json of the run by --spans_from, or export the run again after yt8m eval --spans",
            path,
        )
    logging.info("spans are joined as %s says", path)
    return joining


def _refuse_other(scorer: Scorer, joining: Joining, path: str, per_second: float) -> None:
    """Refuses a file that is for other classes, cells or features than those of a model."""
    remedy = "name the file of the model by --spans_from, or write it again by `yt8m eval --spans`."
    if joining.thresholds.size != scorer.num_classes:
        raise UsageError(
            f"{path} is for {quantity(joining.thresholds.size, 'class')}, and the model has {scorer.num_classes}: "
            f"{remedy}"
        )
    if scorer.training_data.segment_labels:
        trained_joining = default_joining(scorer)
        for noun, number, trained in (
            ("cells of {:g} frames", joining.frames, trained_joining.frames),
            ("cells with {:g} frames before and after (--segment_context)", joining.context, trained_joining.context),
            ("features of {:g} frames per second", joining.per_second, trained_joining.per_second),
        ):
            if abs(number - trained) > _ROUNDING * trained:
                own_text = f"the model was trained on {noun.format(trained)}"
                raise UsageError(f"{path} is for {noun.format(number)}, but {own_text}: {remedy}")
    if per_second and abs(joining.per_second - per_second) > _ROUNDING * per_second:
        raise UsageError(
            f"{path} is for features of {joining.per_second:g} frames per second, but the extractors compute "
            f"{per_second:g}: {remedy}"
        )


def default_joining(scorer: Scorer, per_second: float = 0.0) -> Joining:
    """The cells of the training, of which those whose score reaches 0.5 are joined; `per_second` as in `joining_for`.

    Records of whole videos do not say how many frames there are in a second, but the extractors of their features do.
    """
    data, thresholds = scorer.training_data, np.full(scorer.num_classes, span_rules.USUAL_THRESHOLD)
    rates = [float(entry["frames_per_second"]) for entry in scorer.takes.extractors if "frames_per_second" in entry]
    rate = per_second or next(iter(rates), data.frames_per_second)
    return Joining(data.segment_size, rate, thresholds, JoinRule(), data.segment_context)


def write(folder: str, joining: Joining, step: int, others: Mapping[str, Any]) -> None:
    """Writes the file of a run, and that of its export of this step.

    Args:
      others: what the figures are, and on which videos the rule was chosen.
    """
    grid = joining.frames, joining.context, joining.per_second
    rule = span_rules.SpanRule(step, *grid, joining.rule._asdict(), joining.thresholds.tolist())
    text = span_rules.text_of(rule, others)
    storage.makedirs(storage.join(folder, "eval"))
    storage.write(span_rules.path_in_run(folder), text)
    export = storage.join(folder, "export", str(step), span_rules.NAME)
    if storage.exists(export):  # the training wrote it before anything was chosen
        storage.write(export, text)


def score_cells(scorer: Scorer, frames: NDArray[np.float32], joining: Joining) -> NDArray[np.float32]:
    """The scores of the cells of a video, float32 [cells, C]; `frames` are its joined features, float32 [T, D]."""
    count = len(joining.cells.parts(len(frames)))
    groups = [np.zeros((0, scorer.num_classes), np.float32)]
    for first in range(0, count, WINDOWS_AT_ONCE):
        rows = np.arange(first, min(first + WINDOWS_AT_ONCE, count))
        windows, counts = joining.cells.windows(frames, rows, joining.context)
        batch = scorer.takes.batch_of_frames([window[:number] for window, number in zip(windows, counts, strict=True)])
        groups.append(scorer.scores(batch, are_cells=True)[1])
    return np.concatenate(groups)


def refuse_other_rate(data: OpenedData, joining: Joining) -> None:
    """Refuses records whose manifest says another number of frames per second: their spans would get wrong times."""
    discovered = data.format
    if discovered is None:
        return
    rates = [discovered.format.frames_per_second, *(entry.get("frames_per_second") for entry in discovered.extractors)]
    rate = next((float(rate) for rate in rates if rate), joining.per_second)
    if abs(rate - joining.per_second) > _ROUNDING * joining.per_second:
        raise UsageError(
            f"{data.pattern}: the records have {rate:g} frames per second, as {discovered.source} says, but the model "
            f"finds spans in features of {joining.per_second:g} frames per second. Make the records with "
            f"--frames_per_second={joining.per_second:g}, or train a model on records like these."
        )


def refuse_stated_rate(stated: str | float, joining: Joining) -> None:
    """Refuses features that are said to have another number of frames per second than those of the model."""
    try:
        rate = float(stated)
    except ValueError:
        raise UsageError(f"frames_per_second is {str(stated)[:40]!r}; expected a number.") from None
    if not abs(rate - joining.per_second) <= _ROUNDING * joining.per_second:
        raise UsageError(
            f"frames_per_second={rate:g}: the model finds spans in features of {joining.per_second:g} frames per "
            "second; compute the features at that rate, or train a model on such features."
        )


def refuse_unfit_records(scorer: Scorer, data: OpenedData, joining: Joining) -> None:
    """Refuses records in which a model cannot find spans, before any of them is read."""
    if not scorer.takes.has_frames or scorer.takes.has_own_reader:
        raise UsageError(f"{scorer.path} takes no records of frames as they are stored, so it cannot find spans.")
    refuse_other_rate(data, joining)


def frames_of_records(
    scorer: Scorer, data: OpenedData, joining: Joining, nan_policy: str = "refuse"
) -> Iterator[tuple[str, NDArray[np.float32], Raw]]:
    """Yields (id, joined features float32 [T, D], record) of each video in records of frames, of the rate of `joining`.

    Values that are NaN, infinite or too large count as 0 if `nan_policy` or that of the training is "zero".
    """
    refuse_unfit_records(scorer, data, joining)
    records = read_records(data, batch_size=1, num_classes=scorer.num_classes, max_frames=_MOST_FRAMES)
    zeroes_unfit = "zero" in (nan_policy, scorer.training_data.nan_policy)
    records = dataclasses.replace(records, allows_unfit=zeroes_unfit)
    scorer.check(records)
    for raws in records.serialized():
        ((name, frames),) = frames_of_batch(scorer, records.parsed(raws))
        yield name, np.where(np.abs(frames) <= shards.LARGEST, frames, 0) if zeroes_unfit else frames, raws[0]


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
