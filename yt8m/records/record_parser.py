"""Parses records of a known format into NumPy arrays.

Records in the usual encoding are parsed by `yt8m.records.wire`, and others by protobuf, which is slower.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import quantity
from yt8m.records import data_format, shards, wire
from yt8m.records.data_format import PUBLISHED, DataFormat, FeatureFormat
from yt8m.records.deep_check import DeepCheck
from yt8m.records.shards import DamagedError, id_text

Raw = tuple[bytes, str, int]  # a serialized record, its file, and its number in that file


@dataclass(frozen=True, eq=False, repr=False)
class NumpyBatch:
    """A batch of B videos.

    Attributes:
      ids: the id of each video, as text; control characters and bytes that are not UTF-8 are escaped as `\\xHH`.
      features: {name of a feature: its values}. At video level float32 [B, size]; at frame level [B, T, size], uint8 if
        the records hold bytes, else float32. T is the number of frames of the longest video; shorter ones are padded
        with 0.
      num_frames: int32 [B], the number of frames of each video; 1 at video level.
      labels: bool [B, C], whether each video has each class as a label.
      ranges: {name of a uint8 feature: (low, high), the smallest and largest value, as in `data_format.dequantized`};
        a uint8 feature that is missing here has YouTube-8M's range, -2..2.
    """

    ids: Sequence[str]
    features: Mapping[str, NDArray[Any]]
    num_frames: NDArray[np.int32]
    labels: NDArray[np.bool_]
    ranges: Mapping[str, data_format.Range] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        features = ", ".join(f"{name} {value.dtype} {list(value.shape)}" for name, value in self.features.items())
        return f"<batch of {quantity(len(self), 'video')}: {features}; labels {list(self.labels.shape)}>"

    def dequantize(self) -> NumpyBatch:
        """The same batch with bytes converted to float32; the padding after the end of a video stays 0."""
        return dataclasses.replace(self, features={name: self._floats(name) for name in self.features}, ranges={})

    def without_labels(self) -> NumpyBatch:
        """The same batch with labels bool [B, 0]."""
        return dataclasses.replace(self, labels=np.zeros((len(self), 0), np.bool_))

    def take(self, rows: NDArray[np.integer]) -> NumpyBatch:
        """The batch of the videos in these rows, which may repeat."""
        return dataclasses.replace(
            self,
            ids=[self.ids[row] for row in rows.tolist()],
            features={name: values[rows] for name, values in self.features.items()},
            num_frames=self.num_frames[rows],
            labels=self.labels[rows],
        )

    def joined_means(self) -> NDArray[np.float32]:
        """float32 [B, D], the features of each video, concatenated to D values; frames are averaged over the video."""
        frames = np.maximum(self.num_frames, 1)[:, np.newaxis]
        means = [
            values if values.ndim == 2 else values.sum(axis=1, dtype=np.float32) / frames
            for values in self.dequantize().features.values()
        ]
        return np.asarray(np.concatenate(means, axis=1), np.float32)

    def _floats(self, name: str) -> NDArray[np.float32]:
        """The values of a feature as float32; the padding after the end of a video is 0."""
        values = self.features[name]
        if values.dtype != np.uint8:
            return values
        floats = data_format.dequantized(values, self.ranges.get(name, PUBLISHED))
        floats[np.arange(values.shape[1]) >= self.num_frames[:, np.newaxis]] = 0
        return floats


class _Layout(NamedTuple):
    """Where the values are in a video-level record.

    Two records of the same length have the same layout if they agree in all bytes that are not part of a value.

    Attributes:
      video_id, labels, features: the offsets at which the id, the packed labels and the values of each feature begin
        and end.
      fixed: the offsets of all other bytes.
    """

    video_id: wire.Span
    labels: wire.Span
    features: Sequence[wire.Span]
    fixed: NDArray[np.int64]


class RecordParser:
    """Parses records of one format into batches.

    Args:
      data: the format of the records; if its `num_classes` is None, no labels are read, and C is 0.
      max_frames: largest number of frames that are read of a video, from its start; None for all.
      allows_unfit: whether values that are NaN, infinite or too large are returned as they are, not refused.

    Attributes:
      format: the argument `data`.
    """

    def __init__(self, data: DataFormat, max_frames: int | None = 300, *, allows_unfit: bool = False) -> None:
        self.format, self._max_frames, self._allows_unfit = data, max_frames, allows_unfit
        self._features = [(feature.name.encode(), feature) for feature in data.features]
        self._classes = data.num_classes or 0

    def batch(self, raws: Sequence[Raw]) -> NumpyBatch:
        """Parses records into a batch with one row for each, in the same order.

        Args:
          raws: the records: (serialized record, its file, its number in the file).

        Raises:
          DamagedError: a record is damaged or does not have the format; the message names file and record.
        """
        videos = _Videos(self, raws) if self.format.level == "video" else _Frames(self, raws, self._max_frames)
        for values in () if self._allows_unfit else videos.features.values():
            for row in unfit_rows(values):
                self.refuse_damage(raws[row])
        ranges = {
            feature.name: feature.range
            for feature in self.format.features
            if feature.range and self.format.level == "frame"
        }
        return NumpyBatch(_id_texts(videos.ids), videos.features, videos.num_frames, self._labels(videos, raws), ranges)

    def _labels(self, videos: _Parsed, raws: Sequence[Raw]) -> NDArray[np.bool_]:
        """The labels of parsed records, bool [B, C]; raises `DamagedError` if a class is not one of the format's."""
        if self.format.num_classes is None:
            return np.zeros((len(raws), 0), np.bool_)
        rows, classes = (np.concatenate([np.zeros(0, np.int64), *arrays]) for arrays in (videos.rows, videos.classes))
        for row in rows[(classes < 0) | (classes >= self._classes)]:
            self.refuse_damage(raws[row])
        labels = np.zeros((len(raws), self._classes), np.bool_)
        labels[rows, classes] = True
        return labels

    def ratings(self, raw: Raw) -> list[NDArray[Any]]:
        """What a record says of its segments, the lists of `shards.SEGMENT_LISTS`.

        They are the starts (int64), classes (int64) and scores (float32) of ratings, and the starts and ends (int64) of
        annotated ranges.

        Raises:
          DamagedError: the lists differ in length or have values that are not allowed, or the record is damaged.
        """
        try:
            context = shards.parse(raw[0], with_lists=False)
            starts, classes, scores, first, last = (
                np.array(context.values(name), kind) for name, kind in shards.SEGMENT_LISTS.items()
            )
            if len(starts) == len(classes) == len(scores) and len(first) == len(last):
                latest = shards.LATEST_START
                limits = ((starts, latest), (classes, self._classes - 1), (scores, 1), (first, latest), (last, latest))
                if all(((values >= 0) & (values <= limit)).all() for values, limit in limits) and (first < last).all():
                    return [starts, classes, scores, first, last]
        except ValueError:
            pass
        self.refuse_damage(raw)
        raise DamagedError(*raw[1:], "its ratings cannot be read")

    def layout(self, record: bytes) -> _Layout:
        """The layout of a serialized video-level record; raises one of `_UNUSUAL` if only protobuf can parse it."""
        entries = wire.entries(record)
        video_id, labels = self._id_and_labels(record, entries)
        features = [_vector_span(record, entries.context[name], feature) for name, feature in self._features]
        is_fixed = np.ones(len(record), np.bool_)
        for span in (video_id, labels, *features):
            is_fixed[slice(*span)] = False
        return _Layout(video_id, labels, features, np.flatnonzero(is_fixed))

    def _id_and_labels(self, record: bytes, entries: wire.FeatureSpans) -> tuple[wire.Span, wire.Span]:
        """The spans of the id and of the packed labels of a record whose features are at `entries`."""
        video_id = wire.bytes_value(record, entries.context.get(b"id") or entries.context[b"video_id"])
        if video_id[0] == video_id[1]:
            raise wire.OtherEncodingError
        labels = entries.context.get(b"labels")
        return video_id, wire.numbers_value(record, labels) if labels else (0, 0)

    def frames(self, record: bytes) -> Example:
        """Parses a serialized frame-level record by `wire`; raises one of `_UNUSUAL` if only protobuf can parse it."""
        entries = wire.entries(record)
        video_id, packed = self._id_and_labels(record, entries)
        values = [
            (wire.byte_frames if feature.range else wire.float_frames)(record, entries.lists[name], feature.size)
            for name, feature in self._features
        ]
        if len(set(map(len, values))) > 1:
            raise wire.OtherEncodingError
        _, labels = wire.numbers(np.frombuffer(record, np.uint8)[slice(*packed)][np.newaxis])
        return Example(record[slice(*video_id)], labels, values)

    def example(self, raw: Raw) -> Example:
        """Parses a frame-level record, by `wire` or else by protobuf; raises like `batch`."""
        try:
            return self.frames(raw[0])
        except _UNUSUAL:
            return self.by_protobuf(raw)

    def by_protobuf(self, raw: Raw) -> Example:
        """Parses a record of either level by protobuf; raises `DamagedError` if it is damaged or has another format."""
        self.refuse_damage(raw)
        record = shards.parse(raw[0])
        frames = record.features()
        values = [
            np.array([frame.numbers() for frame in frames[feature.name]]).reshape(-1, feature.size)
            for feature in self.format.features
        ]
        return Example(record.id(), np.array(record.values("labels"), np.int64), values)

    def refuse_damage(self, raw: Raw) -> None:
        """Raises a `DamagedError` that names file and record, if a check of the whole record finds a problem."""
        check = DeepCheck({}, self._classes)
        check.begin_shard(self.format)
        problems = check.problems(raw[0], "")
        if self._allows_unfit:
            problems = [problem for problem in problems if not problem.endswith(shards.UNFIT)]
        if problems:
            raise DamagedError(*raw[1:], problems[0])


# The errors that parsing by `wire` raises if a record does not have the usual encoding, or lacks a feature.
_UNUSUAL = (wire.OtherEncodingError, KeyError)


def _vector_span(record: bytes, span: wire.Span, feature: FeatureFormat) -> wire.Span:
    """The span of the values of a video-level feature.

    Args:
      record: the serialized record.
      span: the span of the Feature.
      feature: the format of the feature: its values are stored as bytes if it has a range, else as float32.

    Raises:
      OtherEncodingError: the Feature has another type, size or encoding.
    """
    if not feature.range:
        return wire.floats_value(record, span, feature.size)
    start, end = wire.bytes_value(record, span)
    if end - start != feature.size:
        raise wire.OtherEncodingError
    return start, end


class Example(NamedTuple):
    """One parsed record.

    Attributes:
      video_id: the id.
      labels: int64 [n], the classes of the video.
      values: for each feature its values, uint8 or float32 [T, size]; T, the number of frames, is 1 at video level.
    """

    video_id: bytes
    labels: NDArray[np.int64]
    values: Sequence[NDArray[Any]]


class _Parsed:
    """The values of B parsed records, before they become a `NumpyBatch`.

    Args:
      count: B.

    Attributes:
      ids: the id of each record, as bytes.
      features, num_frames: as in `NumpyBatch`.
      rows: int64 arrays with one entry for each label of each record: the row of the record.
      classes: int64 arrays, parallel to `rows`: the class of the label.
    """

    features: Mapping[str, NDArray[Any]]

    def __init__(self, count: int) -> None:
        self.ids: list[bytes] = [b""] * count
        self.num_frames = np.ones(count, np.int32)
        self.rows: list[NDArray[np.int64]] = []
        self.classes: list[NDArray[np.int64]] = []

    def add(self, row: int, example: Example) -> None:
        """Stores the id and the labels of the record in row `row`."""
        self.ids[row] = example.video_id
        self.rows.append(np.full(len(example.labels), row))
        self.classes.append(example.labels)


class _Videos(_Parsed):
    """Parses video-level records.

    Records of equal length are parsed together, since most of them have the same layout.
    """

    def __init__(self, parser: RecordParser, raws: Sequence[Raw]) -> None:
        super().__init__(len(raws))
        self._parser, self._raws, formats = parser, raws, parser.format.features
        self._stored = [
            np.empty((len(raws), feature.size), np.uint8 if feature.range else "<f4") for feature in formats
        ]
        groups: dict[int, list[int]] = {}
        for row, (payload, _, _) in enumerate(raws):
            groups.setdefault(len(payload), []).append(row)
        for size, rows in groups.items():
            joined = b"".join([raws[row][0] for row in rows])
            self._parse_group(np.frombuffer(joined, np.uint8).reshape(len(rows), size), np.array(rows))
        self.features = {
            feature.name: data_format.dequantized(values, feature.range) if feature.range else values
            for feature, values in zip(formats, self._stored, strict=True)
        }

    def _parse_group(self, records: NDArray[np.uint8], rows: NDArray[np.int64]) -> None:
        """Parses records of equal length: those with the layout of the first one together, then the rest likewise.

        Args:
          records: uint8 [N, length], the serialized records.
          rows: int64 [N], the row of the batch of each.
        """
        while len(rows):
            raw = self._raws[rows[0]]
            try:
                layout = self._parser.layout(raw[0])
                is_alike = (records[:, layout.fixed] == records[0, layout.fixed]).all(axis=1)
                self._store_group(records if is_alike.all() else records[is_alike], rows[is_alike], layout)
                rows, records = rows[~is_alike], records[~is_alike]
            except _UNUSUAL:
                self._store_one(rows[0], self._parser.by_protobuf(raw))
                rows, records = rows[1:], records[1:]

    def _store_group(self, records: NDArray[np.uint8], rows: NDArray[np.int64], layout: _Layout) -> None:
        """Stores ids, labels and values of records that have this layout.

        Args:
          records: uint8 [N, length], the serialized records.
          rows: int64 [N], the row of the batch of each.
          layout: the layout of all of them.

        Raises:
          OtherEncodingError: a label is negative or cut short.
        """
        start, end = layout.video_id
        labels = wire.numbers(records[:, slice(*layout.labels)])
        joined, width = records[:, start:end].tobytes(), end - start
        for index, row in enumerate(rows.tolist()):
            self.ids[row] = joined[index * width : (index + 1) * width]
        self.rows.append(rows[labels[0]])
        self.classes.append(labels[1])
        for values, span in zip(self._stored, layout.features, strict=True):
            values.view(np.uint8)[rows] = records[:, slice(*span)]

    def _store_one(self, row: int, example: Example) -> None:
        """Stores one parsed record as row `row` of the batch."""
        self.add(row, example)
        for values, value in zip(self._stored, example.values, strict=True):
            values[row] = value[0]


class _Frames(_Parsed):
    """Parses frame-level records one by one: copying their frames takes most of the time, so grouping saves little."""

    def __init__(self, parser: RecordParser, raws: Sequence[Raw], max_frames: int | None) -> None:
        super().__init__(len(raws))
        examples = list(map(parser.example, raws))
        for row, example in enumerate(examples):
            self.add(row, example)
        lengths = [len(example.values[0][:max_frames]) for example in examples]
        self.num_frames = np.array(lengths, np.int32)
        self.features = {
            feature.name: _pad_frames([example.values[index] for example in examples], lengths)
            for index, feature in enumerate(parser.format.features)
        }


def _pad_frames(values: Sequence[NDArray[Any]], lengths: Sequence[int]) -> NDArray[Any]:
    """Copies the frames of one feature into an array [B, T, size], padded with 0.

    Args:
      values: for each video its frames, uint8 or float32 [frames, size].
      lengths: for each video the number of frames to copy. T is the largest of them, at least 1.
    """
    padded = np.empty((len(values), max(1, *lengths), values[0].shape[1]), values[0].dtype)
    for row, (frames, length) in enumerate(zip(values, lengths, strict=True)):
        padded[row, :length] = frames[:length]
        padded[row, length:] = 0
    return padded


def unfit_rows(values: NDArray[Any]) -> NDArray[np.int64]:
    """The indices of the rows of uint8 or float32 [B, ...] that have a NaN, infinite or too large value."""
    # The sum of squares takes less time than the exact test below; if it is small, every value is in range.
    flat = values.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype == np.uint8 or np.dot(flat, flat) < shards.LARGEST**2 / 4:
            return np.zeros(0, np.int64)
    return np.flatnonzero(~(np.abs(values) <= shards.LARGEST).reshape(len(values), -1).all(axis=1))


def first_unfit(values: NDArray[Any]) -> str:
    """Where the first of the `shards.unfit_values` of one vector [size], or of frames [T, size], is, and what it is."""
    *frame, place = np.argwhere(~(np.abs(values) <= shards.LARGEST))[0].tolist()
    where = f"frame {frame[0]}, value {place}" if frame else f"value {place}"
    return f"{where} is {values[*frame, place]:g}"


def _id_texts(ids: Sequence[bytes]) -> list[str]:
    """The text of each id, as `shards.id_text` returns it."""
    joined = b"\n".join(ids)  # one test of all ids together is faster than a test of each
    texts = joined.decode("ascii").split("\n") if shards.are_ordinary_ids(joined) else []
    return texts if len(texts) == len(ids) else [id_text(video_id) for video_id in ids]
