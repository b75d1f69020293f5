"""The videos that a trained model takes, in all forms: files, records, batches of arrays, and arrays by name."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError
from yt8m.records.batches import Records
from yt8m.records.data_format import PUBLISHED, DataFormat
from yt8m.records.opened_data import OpenedData
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.scoring.table_input import holds_masked, ids_of, of_table

if TYPE_CHECKING:
    from yt8m.config.data_config import DataConfig

# What `Scorer.batches` turns into batches: files, records, batches, or arrays by the names of the features.
Data = (
    str | os.PathLike[str] | OpenedData | Records | NumpyBatch | Iterable[NumpyBatch] | Mapping[str, Any] | NDArray[Any]
)
# Videos as a scorer takes them: serialized records, parsed arrays, or numbers of `GraphScorer.cached_records`.
Videos = Sequence[Raw] | NumpyBatch | NDArray[np.int64]
# The kinds of input for which a scorer has graphs: serialized records, the arrays of parsed records (serialized ones
# instead, if only a custom reader can parse them), or float arrays.
InputKind = Literal["records", "parsed records", "floats"]
Types = tuple[np.dtype[Any], ...] | None  # the type of each feature; None if the input is not arrays
OTHER_RANGES = (
    "the features of these records were stored as bytes with another range of values than those of the training data, "
    "so the model would read wrong values: write the records again with the range of the training data."
)
_ROWS_AT_ONCE = 256  # arrays by name are divided into batches of this number of rows


@dataclass(frozen=True)
class ModelInput:
    """What a model takes as input.

    Attributes:
      format: level, features (names, sizes, ranges) in the order of the model, and number of classes.
      extractors: the extractors of the features, as manifests describe them; empty if they are unknown.
    """

    folder: str
    format: DataFormat
    extractors: Sequence[Mapping[str, Any]]
    is_own: bool
    has_own_reader: bool

    @property
    def num_classes(self) -> int:
        """Number of classes, C."""
        return self.format.num_classes or 0

    @property
    def has_frames(self) -> bool:
        """Whether the model takes frames."""
        return self.format.level == "frame"

    @property
    def width(self) -> int:
        """D, the number of values of all features together."""
        return sum(feature.size for feature in self.format.features)

    @property
    def max_frames(self) -> int:
        """Largest number of frames of a record that the model uses, from the start of the video."""
        return self.format.max_frames or Records.max_frames

    def check(self, data: Records) -> None:
        """Refuses records of another level or without a feature of the model; raises `UsageError`.

        A model with a custom reader accepts all records here, because it reads them itself.
        """
        sizes = data.format.sizes()
        fits = all(sizes.get(feature.name) == feature.size for feature in self.format.features)
        if not self.has_own_reader and not (fits and data.format.level == self.format.level):
            raise UsageError(
                f"the model takes {_describe_format(self.format)}; these records are {_describe_format(data.format)}. "
                "Give records with the format of the model."
            )

    def reads(self, data: Records) -> bool:
        """Whether the model's own graph can parse the records.

        It can if the model has a custom reader, or if the bytes of the records stand for the same ranges of values as
        those of the training data.
        """
        ranges = {feature.name: feature.range for feature in data.format.features}
        return self.has_own_reader or all(ranges[feature.name] == feature.range for feature in self.format.features)

    def types_of(self, kind: InputKind) -> Types:
        """The types of the features in a batch that `arranged` makes of such input.

        Returns:
          The types, in the order of the features; None if the model gets serialized records, because `kind` is
          `records` or the model has a custom reader.
        """
        if kind == "records" or self.has_own_reader:
            return None
        are_usual = all(feature.range in (None, PUBLISHED) for feature in self.format.features)
        has_bytes = kind == "parsed records" and self.has_frames and are_usual
        return tuple(np.dtype("u1" if has_bytes and feature.range else "f4") for feature in self.format.features)

    def by_name(self, data: Any) -> Any:
        """An array, a list of arrays or a DataFrame by the name of the only feature; other data as they are."""
        refuse_masked(data, "the data")
        ids = ids_of(data)
        if not _is_array(data):
            return data if ids is None or not isinstance(data, Mapping) else ArraysWithIds(data, ids)
        names = list(self.format.sizes())
        if hasattr(data, "columns") and not isinstance(data := of_table(data, self.format.columns), np.ndarray):
            return data
        if len(names) != 1:
            arrays = ", ".join(f"{name!r}: array" for name in names)
            raise UsageError(
                f"the model takes {_describe_format(self.format)}; one array does not say which feature it is: give "
                f"{{{arrays}}}."
            )
        return {names[0]: data} if ids is None else ArraysWithIds({names[0]: data}, ids)

    def arranged(self, batch: NumpyBatch) -> NumpyBatch:
        """Returns a batch with the arrays that `Scorer.scores` takes.

        They are the features of the model, in its order, as uint8 if the batch has bytes with the range of YouTube-8M,
        else as float32. A batch without labels gets labels that are all false.
        """
        features = batch.features
        if any(batch.ranges.get(name, PUBLISHED) != PUBLISHED for name in features):
            batch = batch.dequantize()
        rank = 3 if self.has_frames else 2
        for name, size in self.format.sizes().items():
            if name not in features or features[name].ndim != rank or features[name].shape[-1] != size:
                shapes = ", ".join(f"{key} {list(value.shape)}" for key, value in features.items())
                remedy = _one_video(features.get(name), rank, size)
                raise UsageError(f"the model takes {_describe_format(self.format)}; this batch has {shapes}{remedy}.")
        arrays = {feature.name: _as_fed(batch.features[feature.name]) for feature in self.format.features}
        shape = (len(batch), self.num_classes)
        labels = batch.labels if batch.labels.size else np.zeros(shape, np.bool_)
        if labels.shape != shape:
            raise UsageError(f"the labels of this batch are {list(labels.shape)}, expected {list(shape)}.")
        return NumpyBatch(batch.ids, arrays, np.asarray(batch.num_frames, np.int32), labels)

    def batch_of_frames(self, videos: Sequence[NDArray[np.float32]]) -> NumpyBatch:
        """Makes a batch, without labels, of the frames of videos.

        Args:
          videos: for each video float32 [T, D], all features of its T frames side by side, in the model's order.

        Returns:
          A batch with one row for each video, in which ids are the numbers of the rows. Shorter videos are padded with
          0; for a video-level model a row is the mean of the video's frames.
        """
        counts = np.array([len(frames) for frames in videos], np.int32)
        if self.has_frames:
            joined = np.zeros((len(videos), counts.max(), self.width), np.float32)
            for row, frames in enumerate(videos):
                joined[row, : len(frames)] = frames
        else:
            joined = np.stack([frames.mean(axis=0, dtype=np.float64) for frames in videos]).astype(np.float32)
            counts = np.ones_like(counts)
        sizes = self.format.sizes()
        columns = np.split(joined, np.cumsum(list(sizes.values()))[:-1], axis=-1)
        labels = np.zeros((len(videos), self.num_classes), np.bool_)
        return NumpyBatch(list(map(str, range(len(videos)))), dict(zip(sizes, columns, strict=True)), counts, labels)


def input_of(data: DataConfig, folder: str, *, is_own: bool) -> ModelInput:
    """Describes the input of the model of a run."""
    from yt8m.config.data_fit import Takes  # slow to import, and only a run has such a config

    return ModelInput(folder, Takes(data).format, data.extractors, is_own, bool(data.reader))


class ArraysWithIds(dict[str, Any]):
    """{feature: values} of videos whose table names them.

    Attributes:
      ids: the id of each video, from the index of the table.
    """

    def __init__(self, arrays: Mapping[str, Any], ids: list[str]) -> None:
        super().__init__(arrays)
        self.ids = ids


def refuse_masked(values: Any, name: str) -> None:
    """Refuses arrays with masked values, whose masks would be lost."""
    if holds_masked(values):
        raise UsageError(f"{name} has masked values, which are not supported: fill them, as by array.filled(0).")


def batches_of(data: Any) -> Iterable[NumpyBatch]:
    """Turns a batch, an iterable of batches, or a dict of arrays by the names of the features into batches."""
    if isinstance(data, ArraysWithIds):
        return _with_ids(_split_arrays(data), data.ids)
    if isinstance(data, Mapping):
        return _split_arrays(data)
    is_batch_or_unfit = isinstance(data, NumpyBatch) or not isinstance(data, Iterable)
    return [_refuse_other_type(data)] if is_batch_or_unfit else map(_refuse_other_type, data)


def _with_ids(batches: Iterable[NumpyBatch], ids: list[str]) -> Iterator[NumpyBatch]:
    start = 0
    for batch in batches:
        yield dataclasses.replace(batch, ids=ids[start : start + len(batch)])
        start += len(batch)


def _is_array(data: Any) -> bool:
    """Whether data are an array, a DataFrame, or a list with an array, or a list of numbers, for each video."""
    if isinstance(data, Mapping | NumpyBatch | str | os.PathLike):
        return False
    if hasattr(data, "__array__"):
        return True
    return isinstance(data, list | tuple) and bool(data) and all(_is_rows(item) for item in data)


def _is_rows(item: Any) -> bool:
    return not isinstance(item, str | bytes | NumpyBatch) and (
        hasattr(item, "__array__") or isinstance(item, list | tuple)
    )


def types_of(videos: Videos) -> Types:
    """The types of the features of parsed videos; None for serialized records, and for numbers of cached records."""
    return tuple(values.dtype for values in videos.features.values()) if isinstance(videos, NumpyBatch) else None


def padded(videos: Videos, rows: int) -> Any:
    """Repeats the last video until there are `rows` videos; returns `videos` itself if there are so many or more."""
    missing_rows = rows - len(videos)
    if missing_rows <= 0:
        return videos
    if isinstance(videos, np.ndarray):
        return np.append(videos, np.repeat(videos[-1:], missing_rows))
    if not isinstance(videos, NumpyBatch):
        return [*videos, *[videos[-1]] * missing_rows]
    return videos.take(np.minimum(np.arange(rows), len(videos) - 1))


def told_from_cells(videos: NumpyBatch, frames_of_cell: int) -> NumpyBatch:
    """The videos, in which those with as many frames as a cell and its context have each frame twice.

    Then a model that sees the windows beside a cell takes none of them for one; see `yt8m.models.windows`.
    """
    is_as_long = videos.num_frames == frames_of_cell
    if not frames_of_cell or not is_as_long.any():
        return videos
    total = max(len(values[0]) for values in videos.features.values())
    numbers = np.arange(max(total, 2 * frames_of_cell))
    num_frames = np.where(is_as_long, 2, 1).astype(np.int32) * videos.num_frames
    places = np.minimum(np.where(is_as_long[:, np.newaxis], numbers // 2, numbers), total - 1)
    is_real = (numbers < num_frames[:, np.newaxis])[:, :, np.newaxis]
    rows = np.arange(len(videos))[:, np.newaxis]
    features = {
        name: np.where(is_real, values[rows, places], np.zeros((), values.dtype))
        for name, values in videos.features.items()
    }
    return dataclasses.replace(videos, features=features, num_frames=num_frames)


def refuse_nan_in(videos: Videos) -> None:
    """Refuses arrays with NaN or an infinity; the message names the array and the video. Records are not checked."""
    if not isinstance(videos, NumpyBatch):
        return
    for name, values in videos.features.items():
        rows = (~np.isfinite(values)).reshape(len(values), -1).any(axis=1)
        if rows.any():
            row = int(rows.argmax())
            *frame, place = np.argwhere(~np.isfinite(values[row]))[0].tolist()
            where = f"{f'frame {frame[0]}, ' if frame else ''}value {place}"
            video = f"video {videos.ids[row]} (row {row})"
            raise UsageError(f"{name} of {video} holds NaN or an infinity, first in {where}; give finite values.")


def _as_fed(values: Any) -> Any:
    """Returns an array as a graph is fed with it: uint8 as it is, any other type as float32."""
    refuse_masked(values, "an array of the batch")
    return values if values.dtype == np.uint8 else np.asarray(values, np.float32)


def _split_arrays(arrays_by_name: Mapping[str, Any]) -> Iterator[NumpyBatch]:
    """Yields batches, without labels, of the rows of arrays; the id of a video is the number of its row.

    Args:
      arrays_by_name: {name of a feature: [videos, size] or [videos, frames, size], or for each video [frames, size]}.
    """
    if lengths_of_videos := _unequal_lengths(arrays_by_name):
        yield from _split_lists(arrays_by_name, lengths_of_videos)
        return
    arrays = {name: _as_array(values) for name, values in arrays_by_name.items()}
    shapes = {values.shape[:-1] for values in arrays.values() if values.dtype.kind in "fiu"}
    shape = shapes.pop() if len(shapes) == 1 else ()
    if len(shape) not in (1, 2) or any(values.shape[:-1] != shape for values in arrays.values()):
        listed = ", ".join(f"{name} {values.dtype} {list(values.shape)}" for name, values in arrays.items())
        raise UsageError(
            "expected arrays of numbers, [videos, size] or [videos, frames, size], with as many videos and frames in "
            f"each; found {listed or 'none'}. If the videos differ in length, give yt8m.NumpyBatch with num_frames."
        )
    for start in range(0, shape[0], _ROWS_AT_ONCE):
        rows = {name: values[start : start + _ROWS_AT_ONCE] for name, values in arrays.items()}
        ids = [str(row) for row in range(start, min(start + _ROWS_AT_ONCE, shape[0]))]
        lengths = np.full(len(ids), shape[1] if len(shape) == 2 else 1, np.int32)
        yield NumpyBatch(ids, rows, lengths, np.zeros((len(ids), 0), np.bool_))


def _unequal_lengths(arrays_by_name: Mapping[str, Any]) -> list[int]:
    """The numbers of frames of the videos, if they differ and are the same in each feature; else nothing."""
    lengths = set[tuple[int, ...]]()
    for values in arrays_by_name.values():
        if not isinstance(values, list | tuple) or not all(np.ndim(frames) == 2 for frames in values):
            return []
        lengths.add(tuple(map(len, values)))
    return list(lengths.pop()) if len(lengths) == 1 and len(set(next(iter(lengths)))) > 1 else []


def _split_lists(frames_by_name: Mapping[str, Any], lengths: Sequence[int]) -> Iterator[NumpyBatch]:
    """Yields batches of videos of different lengths, padded with 0."""
    for start in range(0, len(lengths), _ROWS_AT_ONCE):
        counts = np.array(lengths[start : start + _ROWS_AT_ONCE], np.int32)
        features = {}
        for name, videos in frames_by_name.items():
            rows = [np.asarray(frames) for frames in videos[start : start + _ROWS_AT_ONCE]]
            if len({frames.shape[1] for frames in rows}) > 1:
                raise UsageError(f"{name}: the frames of different videos differ in their number of values.")
            dtype = np.result_type(*(frames.dtype for frames in rows))  # whole numbers may stand beside fractions
            features[name] = np.zeros((len(rows), counts.max(), rows[0].shape[1]), dtype)
            for row, frames in enumerate(rows):
                features[name][row, : len(frames)] = frames
        ids = [str(start + row) for row in range(len(counts))]
        yield NumpyBatch(ids, features, counts, np.zeros((len(ids), 0), np.bool_))


def _as_array(values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:  # NumPy makes no array of lists that differ in length
        return np.array(None)  # the caller refuses this array, which has no numbers


def _refuse_other_type(batch: Any) -> NumpyBatch:
    """Returns `batch`; raises `UsageError` if it is no `NumpyBatch`."""
    if not isinstance(batch, NumpyBatch):
        raise UsageError(
            f"expected a file pattern, what read_records gives, batches of yt8m.NumpyBatch, an array [videos, size] or "
            f"[videos, frames, size], or arrays by the names of the features; found a {type(batch).__name__}."
        )
    return batch


def _one_video(array: NDArray[Any] | None, rank: int, size: int) -> str:
    """What to do with the array of a single video, which lacks the axis of videos; empty for any other array."""
    if array is None or array.ndim != rank - 1 or array.shape[-1] != size:
        return ""
    shape = [1, *array.shape]
    return f"; the first axis counts videos, so if this is one video, give {shape}, as array[np.newaxis] is"


def _describe_format(data_format: DataFormat) -> str:
    return (
        f"{data_format.level} level with {', '.join(f'{name} of {size}' for name, size in data_format.sizes().items())}"
    )
