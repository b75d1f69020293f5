"""Checks the content of records: id, labels, ratings, and the types, sizes and values of features.

A record without a problem is one that the TensorFlow readers (`yt8m.readers`) accept; property tests compare both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from yt8m.records import shards
from yt8m.records.data_format import DataFormat
from yt8m.records.shards import LATEST_START, Feature, Record, id_text


class DeepCheck:
    """Checks the content of records, one at a time.

    Args:
      sizes: {feature: number of values per frame, or per video at video level} that every record must have; if empty,
        the sizes are those in the manifest of a shard, or else those of its first record.
      num_classes: labels must be below this number; None for the number in the manifest. If the manifest has none
        either, all labels from 0 on are allowed.

    Attributes:
      positive, annotated: in the sound records of the shard so far, the number of ratings above 0, and of segments in
        which every class is rated.
    """

    def __init__(self, sizes: Mapping[str, int], num_classes: int | None = None) -> None:
        self._required_sizes, self._required_classes = dict(sizes), num_classes
        self.positive = self.annotated = 0
        self._places: dict[bytes, str] = {}  # {id: shard and number of the first record that has it}
        self.begin_shard()

    def begin_shard(self, declared: DataFormat | None = None) -> None:
        """Forgets the format of the previous shard's records, but not their ids, which must not be repeated.

        Callers must call it before the records of each shard.

        Args:
          declared: the format of the records in the shard's manifest; None if there is no manifest.
        """
        features = declared.features if declared else ()
        self._level = declared and declared.level
        self._sizes = dict(self._required_sizes) or (declared.sizes() if declared else {})
        self._kinds = {feature.name: "bytes" if feature.range else "float" for feature in features}
        self._num_classes = self._required_classes or (declared and declared.num_classes)
        self._segment_size = (declared and declared.segment_size) or shards.SEGMENT_SIZE
        self.positive = self.annotated = 0

    def problems(self, payload: bytes, where: str) -> list[str]:
        """The problems of one record, none if it is sound; a text begins with `video ID: ` if the record has an id.

        Args:
          payload: the serialized record.
          where: shard and number of the record, for the message about a later record that has the same id.
        """
        try:
            record = shards.parse(payload)
        except ValueError as error:
            return [f"{shards.NO_PROTO}: {error}"]
        return self.problems_of(record, where)

    def problems_of(self, record: Record, where: str) -> list[str]:
        """The problems of a parsed record; the result and `where` are as for `problems`."""
        problems = [
            *self._id_problems(record, where),
            *label_problems(record, self._num_classes),
            *rating_problems(record),
            *_annotation_problems(record),
        ]
        problems += self._feature_problems(record)
        if not problems:
            self.positive += sum(score > 0 for score in record.values("segment_scores"))
            self.annotated += record.annotated_segments(self._segment_size)
        name = id_text(record.id())
        return [f"video {name}: {problem}" if name else problem for problem in problems]

    def _id_problems(self, record: Record, where: str) -> Iterator[str]:
        """Yields the problems of a record's id, such as that an earlier record has the same id; see `problems`."""
        for key in ("id", "video_id"):
            feature = record.context.get(key, _ABSENT)
            if feature.kind and (feature.kind != "bytes" or len(feature.value) != 1):
                yield f"{key} holds {len(feature.value)} values of type {feature.kind}; expected one of type bytes"
        name = record.id()
        if not name:
            yield "it has no id: neither 'id' nor 'video_id' is there"
        elif self._places.setdefault(name, where) != where:
            yield f"its id is that of {self._places[name]} too"

    def _feature_problems(self, record: Record) -> Iterator[str]:
        """Yields the problems of a record's level, and of the types, sizes, values and frame counts of its features."""
        features, level = record.features(), "frame" if record.lists else "video"
        self._level = self._level or level
        if self._level != level:
            yield f"it is a {level}-level record, expected {self._level} level"
        self._note_format(features)
        for name, size in self._sizes.items():
            if name not in features:
                yield f"feature {name} is missing"
            else:
                yield from _wrong_values(name, features[name], size, self._kinds.get(name, "float"))
        lengths = {name: len(record.lists[name]) for name in self._sizes if name in record.lists}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{count} of {name}" for name, count in lengths.items())
            yield f"unequal numbers of frames: {counts}"

    def _note_format(self, features: Mapping[str, list[Feature]]) -> None:
        """Expects the sizes and types of this record in later ones, as far as no argument or manifest declares them.

        Training without a manifest does the same.
        """
        frames = {name: steps[0] for name, steps in features.items() if steps}
        types = ("bytes", "float") if self._level == "frame" else ("float",)
        if not self._sizes:
            # An entry of another type (timestamps, say) is no feature, unless YouTube-8M has a feature of its name.
            self._sizes = {
                name: len(frame.numbers())
                for name, frame in frames.items()
                if frame.kind in types or name in _PUBLISHED_FEATURES
            }
        for name in self._sizes.keys() & frames.keys() - self._kinds.keys():
            self._kinds[name] = frames[name].kind if frames[name].kind in types else types[0]


_ABSENT = Feature("", ())  # stands for a Feature that a record lacks
# The names of the features in the records of YouTube-8M.
_PUBLISHED_FEATURES = {"mean_rgb", "mean_audio", "rgb", "audio"}


def _wrong_values(name: str, frames: list[Feature], size: int, kind: str) -> Iterator[str]:
    """Yields the problems of one feature: its first frame of a wrong type or size, and the number of invalid values.

    Args:
      kind: the expected type, `bytes` or `float`.
    """
    arrays = [frame.numbers() for frame in frames]
    for index, (frame, values) in enumerate(zip(frames, arrays, strict=True)):
        place = f", frame {index}," if len(arrays) > 1 else ""
        if frame.kind not in ("", kind):
            yield f"feature {name}{place} holds values of type {frame.kind}, expected {kind}"
            return
        if len(values) != size:
            yield f"feature {name}{place} has {len(values)} values, expected {size}"
            break
        if kind == "bytes" and len(frame.value) != 1:
            yield f"feature {name}{place} has {len(frame.value)} strings of bytes, expected 1"
            break
    count = sum(shards.unfit_values(values) for values in arrays)
    if count:
        yield f"feature {name} has {count} values that are {shards.UNFIT}"


def label_problems(record: Record, num_classes: int | None) -> Iterator[str]:
    """Yields the problems of a record's labels and segment labels.

    Args:
      num_classes: labels must be from 0 to this number minus 1; None allows all labels from 0 on.
    """
    for name in ("labels", "segment_labels"):
        if (kind := record.context.get(name, _ABSENT).kind) not in ("", "int64"):
            text = f", such as {str(record.values(name)[0])[1:40]}" if kind == "bytes" else ""
            hint = "; `yt8m make-records` and `yt8m extract` number the names of classes" if text else ""
            yield f"{name} holds values of type {kind}{text}; expected whole numbers{hint}"
            continue
        for label in record.values(name):
            if label < 0 or (num_classes is not None and label >= num_classes):
                end = "" if num_classes is None else f"..{num_classes - 1}"
                yield f"{name} has {label}; expected 0{end or ' or more'}"


def rating_problems(record: Record) -> Iterator[str]:
    """Yields the problems of a record's rated segments: lists of unequal lengths, and wrong starts or scores."""
    counts = {name: len(record.values(name)) for name in shards.RATING_LISTS}
    if len(set(counts.values())) > 1:
        yield "; ".join(f"{count} {name}" for name, count in counts.items()) + "; these numbers must be equal"
    for name, kind, below in (("segment_start_times", "int64", LATEST_START), ("segment_scores", "float", 1)):
        feature = record.context.get(name, _ABSENT)
        if feature.kind not in ("", kind):
            yield f"{name} holds values of type {feature.kind}, expected {kind}"
        elif wrong := [value for value in feature.value if not 0 <= value <= below]:
            yield f"{name} has {wrong[0]}; expected 0 to {below}"


def _annotation_problems(record: Record) -> Iterator[str]:
    """Yields the problems of a record's annotated ranges: lists of unequal lengths, and ranges that are none."""
    kinds = {record.context.get(name, _ABSENT).kind for name in shards.ANNOTATED_LISTS}
    if kinds - {"", "int64"}:
        yield f"{' and '.join(shards.ANNOTATED_LISTS)} hold values of type {max(kinds)}, expected int64"
        return
    starts, ends = map(record.values, shards.ANNOTATED_LISTS)
    if len(starts) != len(ends):
        yield f"{len(starts)} annotated_start_times; {len(ends)} annotated_end_times; these numbers must be equal"
    for start, end in zip(starts, ends, strict=False):
        if not 0 <= start < end <= LATEST_START:
            yield f"an annotated range is {start} to {end}; expected frames from 0, and an end after the start"
            return
