"""Applies decisions to the labels in shards; every byte of the features stays."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.datasets.make_records.classes import Classes
from yt8m.datasets.make_records.human_labels import MISSING, WRONG, Corrections, Decision, class_lookup
from yt8m.datasets.make_records.span_cells import Grid
from yt8m.datasets.relabel import cell_labels
from yt8m.datasets.relabel.cell_labels import CorrectedRecord
from yt8m.datasets.relabel.given_answers import GivenAnswers
from yt8m.datasets.relabel.given_spans import GivenSpans
from yt8m.records import shards, wire
from yt8m.records.shards import DamagedError


@dataclasses.dataclass
class Changes:
    """What the decisions have changed in some shards.

    Attributes:
      positives: int64 [C], the number of videos of each class.
      added, removed: numbers of labels, or of spans.
      without_segment: number of those added that no segment shows, though some segments are rated.
      seen: the ids of the videos for which there are decisions or answers.
      said: what is said of the spans of answers.
    """

    positives: NDArray[np.int64]
    videos: int = 0
    added: int = 0
    removed: int = 0
    without_segment: int = 0
    seen: set[bytes] = dataclasses.field(default_factory=set)
    said: Counter[str] = dataclasses.field(default_factory=Counter)

    def counts(self) -> dict[str, Any]:
        """The numbers by name, for summary.json."""
        return {
            "videos": self.videos,
            "labels": int(self.positives.sum()),
            "videos with decisions": len(self.seen),
            "labels added": self.added,
            "labels removed": self.removed,
            **({"spans": dict(self.said)} if self.said else {}),
        }


class Relabeller:
    """Applies answers, then decisions, to records.

    Args:
      answers, spans: those of whole videos, and those for the cells of records; one of them is empty.
      grid: the grid of the cells of the records; None for records whose labels have no times.
    """

    def __init__(
        self, corrections: Corrections, answers: GivenAnswers, spans: GivenSpans, classes: Classes, grid: Grid | None
    ) -> None:
        self._corrections, self._answers, self._spans = corrections, answers, spans
        self._classes, self._grid = classes, grid
        self._class_of = class_lookup(classes)

    def no_changes(self) -> Changes:
        """The counts of no shard, to be filled by `records`."""
        return Changes(np.zeros(self._classes.size, np.int64))

    def records(self, path: str, changes: Changes) -> Iterator[bytes]:
        """Yields the serialized records of a shard after the decisions, and counts them in `changes`."""
        for number, record in enumerate(shards.read_shard(path)):
            try:
                video, labels = _read_head(record)
                decisions = self._corrections.changes_of(video)
                answer = self._answers.by_video.get(video)
                is_changed = decisions or answer is not None or video in self._spans.by_video
                corrected = None
                if is_changed and self._grid:
                    corrected = self._correct_cells(shards.parse(record), self._grid, decisions, changes)
                elif is_changed:
                    corrected = self._correct(record, labels, answer, decisions)
            except ValueError as error:
                raise DamagedError(path, number, f"{shards.NO_PROTO}: {error}") from error
            if corrected:
                self._count(video, corrected, changes)
                labels, record = corrected.labels, _with_context(record, corrected)
            if labels and not 0 <= min(labels) <= max(labels) < self._classes.size:
                raise DamagedError(path, number, f"it has a class outside 0..{self._classes.size - 1}")
            changes.positives[list(set(labels))] += 1
            changes.videos += 1
            yield record

    def _count(self, video: bytes, corrected: CorrectedRecord, changes: Changes) -> None:
        changes.seen.add(video)
        changes.added, changes.removed = changes.added + corrected.added, changes.removed + corrected.removed
        changes.without_segment += corrected.without_segment
        self._corrections.idle.update(corrected.idle)
        self._corrections.without_cell.update(corrected.without_cell)

    def _correct_cells(
        self, record: shards.Record, grid: Grid, decisions: Sequence[Decision], changes: Changes
    ) -> CorrectedRecord:
        """What spans that people have marked, and decisions, make of a record with cells."""
        marked, said = self._spans.cells_of(record.id(), cell_labels.frames_of(record)) or (None, Counter[str]())
        changes.said.update(said)
        return cell_labels.correct(record, grid, marked, decisions, self._class_of)

    def _correct(
        self, record: bytes, labels: Sequence[int], answer: Sequence[int] | None, decisions: Sequence[Decision]
    ) -> CorrectedRecord:
        """What an answer, if there is one, and decisions make of a serialized record with these labels."""
        parsed = shards.parse(record, with_lists=False)
        ratings = [parsed.values(name) for name in shards.RATING_LISTS]
        rated = {number for _, number, score in zip(*ratings, strict=True) if score > 0.5}
        before, after = {*labels}, {*(labels if answer is None else answer)}
        for decision in decisions:
            change = after.add if decision.kind == MISSING else after.discard
            change(self._class_of(decision.label))
        wrong = {self._class_of(each.label) for each in decisions if each.kind == WRONG}
        wrong |= set() if answer is None else rated - after
        changed = (before ^ after) | (rated & wrong)
        idle = tuple(each for each in decisions if self._class_of(each.label) not in changed)
        features = {} if after == before else {"labels": shards.int64_feature(sorted(after))}
        if rated & wrong:  # else --segment_labels would still learn the class from them
            scores = [0.0 if number in wrong else score for _, number, score in zip(*ratings, strict=True)]
            features["segment_scores"] = shards.float_feature(scores)
        added = after - before
        without_segment = len(added - rated) if ratings[0] else 0
        removed = len(changed) - len(added)
        return CorrectedRecord(features, sorted(after), len(added), removed, idle, without_segment=without_segment)


def _with_context(record: bytes, corrected: CorrectedRecord) -> bytes:
    """A serialized record with the features that have other values now."""
    if not corrected.features:
        return record
    try:
        return wire.with_context(record, {name.encode(): value for name, value in corrected.features.items()})
    except wire.OtherEncodingError:  # of two entries of a name, protobuf takes the last one
        return record + shards.field(1, shards.entries(corrected.features))


def _read_head(record: bytes) -> tuple[bytes, Sequence[int]]:
    """The id and the labels of a serialized record."""
    try:
        context = wire.entries(record).context
        video = wire.bytes_value(record, context.get(b"id") or context[b"video_id"])
        packed = wire.numbers_value(record, context[b"labels"]) if b"labels" in context else (0, 0)
        _, labels = wire.numbers(np.frombuffer(record, np.uint8)[slice(*packed)][np.newaxis])
        return record[slice(*video)], labels.tolist()
    except (wire.OtherEncodingError, LookupError):
        parsed = shards.parse(record, with_lists=False)
        return parsed.id(), parsed.values("labels")
