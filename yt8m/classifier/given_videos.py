"""The argument `X` of the classifier: the features of videos, in the forms in which people have them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError
from yt8m.python_api.data_errors import DataError
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.shards import LARGEST
from yt8m.scoring.table_input import holds_arrays, holds_masked, index_difference, index_of

FEATURE = "features"  # the name of the feature if X is one array
# A feature of all videos: float32 [N, size], or for each video its frames, float32 [T, size].
Values = NDArray[np.float32] | Sequence[NDArray[np.float32]]
_NO_VIDEOS = (".tfrecord", ".csv", ".npy", ".npz", ".parquet", ".json", ".pkl")
_AT_ONCE = 256  # videos of a batch
_AT_ONCE_OF_FRAMES = 32


@dataclass(frozen=True, eq=False)
class GivenVideos:
    """The features of N videos.

    Attributes:
      features: {name: its values}; either all are of whole videos, or all are of frames.
      columns: the names of the columns if X is a DataFrame of numbers; else None.
    """

    features: Mapping[str, Values]
    columns: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.features.values())))

    @property
    def has_frames(self) -> bool:
        """Whether the values are of frames."""
        return not isinstance(next(iter(self.features.values())), np.ndarray)

    def sizes(self) -> dict[str, int]:
        """{feature: number of its values, of a video or of a frame}."""
        return {name: int(values[0].shape[-1]) for name, values in self.features.items()}

    def lengths(self) -> NDArray[np.int32]:
        """int32 [N], the number of frames of each video; 1 if the values are of whole videos."""
        first = next(iter(self.features.values()))
        return np.array([len(frames) for frames in first] if self.has_frames else np.ones(len(first)), np.int32)

    def take(self, rows: NDArray[np.int64]) -> GivenVideos:
        """The videos in these rows."""
        if self.has_frames:
            return GivenVideos({name: [values[row] for row in rows] for name, values in self.features.items()})
        features = {name: np.asarray(values)[rows] for name, values in self.features.items()}
        return GivenVideos(features, self.columns)

    def format(self, positives: Sequence[int], *, one_class: bool = False) -> DataFormat:
        """The format of records of these videos.

        Args:
          positives: [C], number of videos with each class.
          one_class: whether each video has exactly one class.
        """
        lengths, features = self.lengths(), tuple(FeatureFormat(*item) for item in self.sizes().items())
        data = DataFormat(
            *("video", features),
            num_classes=len(positives),
            positives=tuple(positives),
            columns=self.columns,
            one_class=one_class or None,
        )
        if not self.has_frames:
            return data
        median = int(np.median(lengths))
        return data._replace(level="frame", max_frames=int(lengths.max()), video_frames=(median, int(lengths.max())))

    def batches(self) -> Iterator[tuple[NumpyBatch, int]]:
        """Yields batches without labels, and the number of rows that a model should compute for each.

        That number is the same for all batches, so that the scores of a video do not depend on the other videos.
        """
        size = _AT_ONCE_OF_FRAMES if self.has_frames else _AT_ONCE
        for start in range(0, len(self), size):
            part = self.take(np.arange(start, min(start + size, len(self))))
            ids = list(map(str, range(start, start + len(part))))
            arrays = {name: _padded(values) for name, values in part.features.items()}
            yield NumpyBatch(ids, arrays, part.lengths(), np.zeros((len(ids), 0), np.bool_)), size


def _padded(values: Values) -> NDArray[np.float32]:
    """Values of frames as float32 [N, T, size], with 0 after the end of a video; other values as they are."""
    if isinstance(values, np.ndarray):
        return values
    padded = np.zeros((len(values), max(map(len, values)), values[0].shape[-1]), np.float32)
    for row, frames in enumerate(values):
        padded[row, : len(frames)] = frames
    return padded


def refuse_masked(values: Any, name: str) -> None:
    """Refuses arrays with masked values, whose masks would be lost."""
    if holds_masked(values):
        raise DataError(f"{name} has masked values, which are not supported: fill them, as by {name}.filled(0).")


def refuse_other_rows(X: Any, *others: tuple[str, Any], name: str = "X") -> None:
    """Refuses tables whose index is not that of X: their rows would be taken for those of other videos."""
    _refuse_other_orders(X)
    for other, values in others:
        if difference := index_difference(X, values, name=name, other=other):
            raise DataError(difference)
        refuse_masked(values, other)


def _refuse_other_orders(X: Any) -> None:
    """Refuses a dict of tables whose rows have different indices."""
    try:
        index_of(X)
    except UsageError as error:
        raise DataError(str(error)) from error


def paths_of(X: Any) -> list[str] | None:
    """The paths of videos, if X is a list of paths; else None."""
    if isinstance(X, str | os.PathLike):
        _refuse_records([os.fspath(X)])
        raise DataError(f"X is {os.fspath(X)!r}, one path: give a list of the paths of videos, or arrays.")
    if isinstance(X, Mapping) or not (isinstance(X, Sequence) or hasattr(X, "tolist")):
        return None
    if isinstance(X, np.ndarray) and X.dtype.kind not in "UO":
        return None
    items = list(X.tolist() if hasattr(X, "tolist") else X)
    if not items or not all(isinstance(item, str | os.PathLike) for item in items):
        return None
    paths = [os.fspath(item) for item in items]
    _refuse_records(paths)
    return paths


def _refuse_records(paths: Sequence[str]) -> None:
    """Refuses files of records, on this machine or in a bucket, and other files that are no videos."""
    for path in paths:
        if path.endswith(_NO_VIDEOS) or "*" in path:
            raise DataError(
                f"X has {path!r}: a classifier takes arrays, or the paths of videos, one by one. Records, also those "
                "in a bucket (gs://) or of a cluster, are trained on by yt8m.fit(train_data_pattern=...) or `yt8m "
                "train --data=...`; load other files into arrays first."
            )


def videos_of(X: Any, names: Sequence[str] = ()) -> GivenVideos:
    """Reads X; see `Classifier.fit`.

    Args:
      names: the features that the classifier knows already; an array stands for the only one.
    """
    if isinstance(X, GivenVideos):
        return X
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        X = _of_frame(X)
        if isinstance(X, GivenVideos):
            return X
    if not isinstance(X, Mapping) or hasattr(X, "toarray"):  # one kind of sparse matrix is a dict
        X = {names[0] if len(names) == 1 else FEATURE: X}
    if not X:
        raise DataError("X is an empty dict: give {feature: array}.")
    _refuse_other_orders(X)
    features = {str(name): _values_of(values, f"X[{name!r}]" if len(X) > 1 else "X") for name, values in X.items()}
    _refuse_unequal(features)
    return GivenVideos(features)


def _of_frame(frame: Any) -> Any:
    """A DataFrame of numbers as `GivenVideos`; one of arrays as {column: list of arrays}."""
    columns = list(frame.columns)
    arrays = [name for name in columns if holds_arrays(frame[name])]
    if arrays:
        if len(arrays) < len(columns):
            other = next(name for name in columns if name not in arrays)
            raise DataError(f"the column {other!r} of X has no arrays, but {arrays[0]!r} has: leave one of them out.")
        return {name: frame[name].to_list() for name in columns}
    _refuse_texts(frame)
    values = _values_of(frame.to_numpy(), "X")
    names = tuple(columns) if all(isinstance(name, str) for name in columns) else None
    return GivenVideos({FEATURE: values}, names)


def _refuse_texts(frame: Any) -> None:
    """Refuses columns of texts, such as the ids of the videos, by their names."""
    for name, cell in zip(frame.columns, frame.head(1).to_numpy().ravel().tolist(), strict=False):
        if isinstance(cell, str) and not _is_number(cell):
            raise DataError(
                f"the column {name!r} of X has {cell!r} in row 0, which is no number: leave the column out, as in "
                f"X.drop(columns={name!r}), or write its texts as numbers."
            )


def _is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        float(text)
        return True
    return False


def _values_of(values: Any, name: str) -> Values:
    """The values of one feature of all videos."""
    refuse_masked(values, name)
    if values is None:
        raise DataError(f"{name} is None: give the features of the videos, [videos, values], or their paths.")
    if hasattr(values, "toarray"):
        raise DataError(f"{name} is a sparse matrix, which is not supported: give {name}.toarray().")
    values = values.to_list() if hasattr(values, "to_list") else values  # a Series
    array = _as_array(values, name)
    if array is None:
        return [_frames_of(frames, f"{name}[{row}]") for row, frames in enumerate(values)]
    if array.ndim == 3:
        return list(_checked(array, name, 3))
    return _checked(array, name, 2)


def _frames_of(values: Any, name: str) -> NDArray[np.float32]:
    """The frames of one video, float32 [T, size]."""
    if 0 in np.shape(values):
        raise DataError(f"{name} is {list(np.shape(values))}: at least 1 frame and 1 value are required.")
    return _checked(_floats(values, name), name, 2)


def _as_array(values: Any, name: str) -> NDArray[np.float32] | None:
    """All values as one array; None if the videos differ in their number of frames."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return _floats(values, name)
    items = values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
    shapes = {np.shape(item) for item in items} if isinstance(items, list | tuple) and len(items) < 10**6 else set()
    if len(shapes) > 1 and all(len(shape) == 2 for shape in shapes):
        return None
    return _floats(items, name)


def _floats(values: Any, name: str) -> NDArray[np.float32]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"{name}: the videos have different shapes. Expected an array [videos, values], or for each video an array "
            "[frames, values]."
        ) from error
    if array.dtype.kind == "c":
        raise DataError(f"{name} is complex. Complex data not supported: give real numbers.")
    if array.dtype == object and any(isinstance(item, Mapping) for item in array.ravel()[:1].tolist()):
        raise TypeError(f"{name} holds a dict: argument must be a string or a number.")
    try:
        with np.errstate(over="ignore"):
            return np.asarray(array, np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} holds values that are not numbers: {error}.") from error


def _checked(array: NDArray[np.float32], name: str, rank: int) -> NDArray[np.float32]:
    """The array, if it has the number of axes, values, and no NaN."""
    if array.ndim != rank:
        raise DataError(
            f"{name} has the shape {list(array.shape)}. Reshape your data to [videos, values], or to "
            "[videos, frames, values]."
        )
    if 0 in array.shape:
        kinds = ("sample(s)", "feature(s)") if rank == 2 else ("sample(s)", "frame(s)", "feature(s)")
        missing = kinds[array.shape.index(0)]
        raise DataError(f"{name}: 0 {missing} (shape={array.shape}) while a minimum of 1 is required.")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise DataError(f"{name} holds NaN or inf, first in row {row}: give finite values within float32.")
    if max(array.max(), -array.min()) > LARGEST:
        row = int(np.argwhere(np.abs(array) > LARGEST)[0][0])
        raise DataError(
            f"{name} holds {np.abs(array[row]).max():.3g} in row {row}, which is too large: give values up to "
            f"{LARGEST:.3g}, for example scaled ones."
        )
    return array


def _refuse_unequal(features: Mapping[str, Values]) -> None:
    """Refuses features of different numbers of videos or frames."""
    (first, values), *others = features.items()
    has_frames = not isinstance(values, np.ndarray)
    for name, other in others:
        if len(other) != len(values):
            raise DataError(f"{first} has {len(values)} videos and {name} has {len(other)}: give the same videos.")
        if isinstance(other, np.ndarray) == has_frames:
            raise DataError(f"one of {first} and {name} is of frames, and the other of whole videos: give one kind.")
        if has_frames and list(map(len, other)) != list(map(len, values)):
            raise DataError(f"{first} and {name} differ in the number of frames of a video.")
    for name, other in features.items() if has_frames else ():
        if len(sizes := {frames.shape[-1] for frames in other}) > 1:
            counts = " and ".join(map(str, sorted(sizes)))
            raise DataError(f"{name}: the frames of different videos have {counts} values; expected one number.")
