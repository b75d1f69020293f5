"""What one shard holds, gathered record by record."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from yt8m import record_reader, storage
from yt8m.errors import RunError
from yt8m.record_reader import Feature, Record, id_text
from yt8m.vocabulary import Vocabulary

_SHOWN_IDS, _SHOWN_LABELS, _SHOWN_DAMAGE = 5, 10, 20
_RATINGS = ("segment_start_times", "segment_labels", "segment_scores")
_KNOWN = {"id", "video_id", "labels", "segment_end_times", *_RATINGS}


class FeatureSummary:
    """One feature over all records: its type, how many values it has at a time, and their range."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.sizes: Counter[int] = Counter()
        self.low, self.high = float("inf"), float("-inf")
        self.not_finite = 0

    def add(self, features: list[Feature]) -> None:
        """Adds the frames of a record, or its one feature."""
        for one in features:
            values = _numbers(one)
            self.kinds.add("uint8" if one.kind == "bytes" else one.kind or "empty")
            self.sizes[len(values)] += 1
            finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
            self.not_finite += len(values) - len(finite)
            if len(finite):
                self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "type": "/".join(sorted(self.kinds)),
            "sizes": {str(size): count for size, count in sorted(self.sizes.items())},
            "range": [self.low, self.high] if self.low <= self.high else None,
            "not_finite": self.not_finite,
        }


def _numbers(feature: Feature) -> np.ndarray[Any, Any]:
    values = feature.values()
    if feature.kind == "bytes":
        return np.frombuffer(b"".join(values), np.uint8)  # type: ignore[arg-type]
    return np.array(values, np.float32 if feature.kind == "float" else np.int64)


class ShardSummary:
    """One shard: level, features, ids, labels, frames, ratings and damage.

    Args:
      path: of the shard.
    """

    def __init__(self, path: str) -> None:
        self.path, self.size, self.records = path, storage.size(path), 0
        self.features: dict[str, FeatureSummary] = {}
        self.levels: Counter[str] = Counter()
        self.ids: list[str] = []
        self.labels: Counter[int] = Counter()
        self.unlabelled = 0
        self.frames: list[int] = []
        self.ratings: Counter[int] = Counter()
        self.segments, self.positive = 0, 0
        self.damage: list[str] = []

    def read(self) -> ShardSummary:
        """Reads the whole shard; what is damaged is noted, and a shard is read as far as it can be."""
        try:
            for number, payload in enumerate(record_reader.read_shard(self.path)):
                self.records += 1
                try:
                    self._add(record_reader.parse(payload), number)
                except ValueError as error:
                    self.damage.append(f"record {number}: {error}")
        except RunError as error:
            self.damage.append(str(error).removeprefix(f"{self.path}: "))
        twice = [name for name, count in Counter(self.ids).items() if count > 1]
        self.damage += [f"the id {name} is there {self.ids.count(name)} times" for name in twice]
        return self

    def _add(self, record: Record, number: int) -> None:
        name = id_text(record.id())
        self.ids.append(name)
        if not name:
            self.damage.append(f"record {number}: it has no id")
        self._add_labels(record)
        self._add_ratings(record, f"record {number} ({name})")
        rated = "segment_labels" in record.context
        self.levels["segment" if rated else "frame" if record.lists else "video"] += 1
        for key, frames in record.lists.items():
            self._feature(key).add(frames)
        for key, feature in record.context.items():
            if key not in _KNOWN:
                self._feature(key).add([feature])
        lengths = {key: len(frames) for key, frames in record.lists.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{count} of {key}" for key, count in sorted(lengths.items()))
            self.damage.append(f"record {number} ({name}): unequal numbers of frames: {told}")
        if lengths:
            self.frames.append(max(lengths.values()))

    def _feature(self, name: str) -> FeatureSummary:
        return self.features.setdefault(name, FeatureSummary())

    def _add_labels(self, record: Record) -> None:
        feature = record.context.get("labels")
        values = feature.values() if feature else []
        self.labels.update(int(value) for value in values)
        self.unlabelled += not values

    def _add_ratings(self, record: Record, where: str) -> None:
        starts, classes, scores = (
            record.context[name].values() if name in record.context else [] for name in _RATINGS
        )
        if not len(starts) == len(classes) == len(scores):
            self.damage.append(
                f"{where}: {len(starts)} segment starts, {len(classes)} classes, {len(scores)} scores"
            )
            return
        self.ratings.update(int(value) for value in classes)
        self.segments += len(set(starts))
        self.positive += sum(float(score) > 0 for score in scores)

    def told(self, names: Vocabulary) -> dict[str, Any]:
        """As JSON has it, the classes by these names."""
        return {
            "path": self.path,
            "bytes": self.size,
            "level": "/".join(sorted(self.levels)) or "empty",
            "records": self.records,
            "features": {name: feature.told() for name, feature in self.features.items()},
            "ids": self.ids[:_SHOWN_IDS],
            "frames": _spread(self.frames),
            "labels": {**_named(self.labels, names), "records_without": self.unlabelled},
            "ratings": {**_named(self.ratings, names), "segments": self.segments, "positive": self.positive},
            "damage": self.damage[:_SHOWN_DAMAGE],
            "damages": len(self.damage),
        }


def _spread(values: list[int]) -> dict[str, float] | None:
    if not values:
        return None
    return {"least": min(values), "mean": sum(values) / len(values), "most": max(values)}


def _named(counts: Counter[int], names: Vocabulary) -> dict[str, Any]:
    """How many there are, of how many classes, and the most frequent with their names."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_LABELS]
    return {
        "count": sum(counts.values()),
        "classes": len(counts),
        "range": [min(counts), max(counts)] if counts else None,
        "most_frequent": [
            {"class": number, "name": names.name(number), "count": count} for number, count in ranked
        ],
    }
