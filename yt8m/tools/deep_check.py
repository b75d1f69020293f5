"""What is wrong inside of records: `yt8m verify --deep`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from yt8m import record_reader
from yt8m.record_reader import Feature, Record, id_text

_RATINGS = ("segment_start_times", "segment_labels", "segment_scores")
_KNOWN = {"id", "video_id", "labels", "segment_end_times", *_RATINGS}


class DeepCheck:
    """Checks one record after the other against what is expected.

    Args:
      sizes: values of each feature that every record must have; where empty, a shard's first record says.
      num_classes: labels must be below; None for any that are not negative.
    """

    def __init__(self, sizes: Mapping[str, int], num_classes: int | None = None) -> None:
        self._given, self._num_classes = dict(sizes), num_classes
        self._sizes = dict(sizes)
        self._seen: dict[bytes, str] = {}

    def begin_shard(self) -> None:
        """The records to come are another shard's, maybe of another level."""
        self._sizes = dict(self._given)

    def problems(self, payload: bytes, where: str) -> list[str]:
        """What is wrong with one record, each with the record's id in front.

        Args:
          payload: the record.
          where: shard and number of the record, to name it where its id comes again.
        """
        try:
            record = record_reader.parse(payload)
            found = [*self._id(record, where), *self._labels(record), *_ratings(record)]
            found += self._features(record)
        except ValueError as error:
            return [f"{record_reader.NO_PROTO}: {error}"]
        name = id_text(record.id())
        return [f"video {name}: {problem}" if name else problem for problem in found]

    def _id(self, record: Record, where: str) -> Iterator[str]:
        name = record.id()
        if not name:
            yield "it has no id: neither 'id' nor 'video_id' is there"
        elif self._seen.setdefault(name, where) != where:
            yield f"its id is that of {self._seen[name]} too"

    def _labels(self, record: Record) -> Iterator[str]:
        for name in ("labels", "segment_labels"):
            for label in _values(record, name):
                if not isinstance(label, int):
                    yield f"{name} holds {label!r}; expected whole numbers"
                elif label < 0 or (self._num_classes is not None and label >= self._num_classes):
                    end = "" if self._num_classes is None else f"..{self._num_classes - 1}"
                    yield f"{name} has {label}; expected 0{end or ' or more'}"

    def _features(self, record: Record) -> Iterator[str]:
        singles = {name: [feature] for name, feature in record.context.items() if name not in _KNOWN}
        there = singles | record.lists
        if not self._sizes:
            self._sizes = {name: len(_numbers(frames[0])) for name, frames in there.items() if frames}
        for name, size in self._sizes.items():
            if name not in there:
                yield f"feature {name} is missing"
            else:
                yield from _wrong_values(name, there[name], size)
        lengths = {name: len(record.lists[name]) for name in self._sizes if name in record.lists}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{count} of {name}" for name, count in lengths.items())
            yield f"unequal numbers of frames: {told}"


def _wrong_values(name: str, frames: list[Feature], size: int) -> Iterator[str]:
    """The first frame of another size, and how many values of all frames are not fit for a feature."""
    arrays = [_numbers(frame) for frame in frames]
    for index, values in enumerate(arrays):
        if len(values) != size:
            place = f", frame {index}," if len(arrays) > 1 else ""
            yield f"feature {name}{place} has {len(values)} values, expected {size}"
            break
    count = sum(record_reader.unfit_values(values) for values in arrays)
    if count:
        yield f"feature {name} has {count} values that are {record_reader.UNFIT}"


def _numbers(feature: Feature) -> np.ndarray[Any, Any]:
    values = feature.values()
    if feature.kind == "bytes":
        return np.frombuffer(b"".join(values), np.uint8)  # type: ignore[arg-type]
    return np.array(values, np.float32 if feature.kind == "float" else np.int64)


def _ratings(record: Record) -> Iterator[str]:
    counts = {name: len(_values(record, name)) for name in _RATINGS}
    if len(set(counts.values())) > 1:
        yield "; ".join(f"{count} {name}" for name, count in counts.items()) + "; they must be as many"


def _values(record: Record, name: str) -> list[Any]:
    return list(record.context[name].values()) if name in record.context else []
