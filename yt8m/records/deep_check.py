"""Checks the content of records: id, labels, ratings, and the sizes and values of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from yt8m.records import shards
from yt8m.records.data_format import DataFormat
from yt8m.records.shards import Feature, Record, id_text


class DeepCheck:
    """Checks the content of records, one at a time.

    Args:
      sizes: {feature: number of values per frame} that every record must have; if empty, those in the manifest of a
          shard, or else those of its first record.
      num_classes: labels must be below this number; None for the number in the manifest. If there is no number, all
          labels from 0 on are allowed.
    """

    def __init__(self, sizes: Mapping[str, int], num_classes: int | None = None) -> None:
        self._given = dict(sizes), num_classes
        self._seen: dict[bytes, str] = {}
        self.begin_shard()

    def begin_shard(self, said: DataFormat | None = None) -> None:
        """Call this before each shard, since its records may have another format than those of the last one.

        Args:
          said: the format of the records in the shard's manifest; None if there is none.
        """
        sizes, num_classes = self._given
        self._level = said and said.level
        self._sizes = dict(sizes) or (said.sizes() if said else {})
        self._num_classes = num_classes or (said and said.num_classes)

    def problems(self, payload: bytes, where: str) -> list[str]:
        """The problems of one record; each text begins with the id of the record, if it has one.

        Args:
          payload: the record.
          where: shard and number of the record, for the message if a later record has the same id.
        """
        try:
            record = shards.parse(payload)
            found = [*self._id(record, where), *self._labels(record), *_ratings(record), *self._features(record)]
        except ValueError as error:
            return [f"{shards.NO_PROTO}: {error}"]
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
            for label in record.values(name):
                if not isinstance(label, int):
                    yield f"{name} holds {label!r}; expected whole numbers"
                elif label < 0 or (self._num_classes is not None and label >= self._num_classes):
                    end = "" if self._num_classes is None else f"..{self._num_classes - 1}"
                    yield f"{name} has {label}; expected 0{end or ' or more'}"

    def _features(self, record: Record) -> Iterator[str]:
        there, level = record.features(), "frame" if record.lists else "video"
        if self._level not in (None, level):
            yield f"it is a {level}-level record, but the manifest says {self._level} level"
        if not self._sizes:
            self._sizes = {name: len(frames[0].numbers()) for name, frames in there.items() if frames}
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
    """Yields problems of one feature: the first frame of a wrong size, and the number of invalid values."""
    arrays = [frame.numbers() for frame in frames]
    for index, values in enumerate(arrays):
        if len(values) != size:
            place = f", frame {index}," if len(arrays) > 1 else ""
            yield f"feature {name}{place} has {len(values)} values, expected {size}"
            break
    count = sum(shards.unfit_values(values) for values in arrays)
    if count:
        yield f"feature {name} has {count} values that are {shards.UNFIT}"


def _ratings(record: Record) -> Iterator[str]:
    counts = {name: len(record.values(name)) for name in shards.RATING_LISTS}
    if len(set(counts.values())) > 1:
        yield "; ".join(f"{count} {name}" for name, count in counts.items()) + "; these numbers must be equal"
