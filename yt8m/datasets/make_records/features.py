"""Reads the features of the rows from one file per video or from the table; averages, cuts and quantises them."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.datasets.make_records.rows import BadRowError, BadRows, TableVideos, parse_seconds
from yt8m.datasets.make_records.table_features import NAMELESS
from yt8m.errors import RunError, UsageError, first_line
from yt8m.records import data_format, encoding, shards
from yt8m.records.data_format import FeatureFormat, Range
from yt8m.records.record_parser import unfit_rows
from yt8m.tables.sources.array_source import as_array, describe_no_array, describe_zip_bomb
from yt8m.tables.sources.source import Rows, Table, folder_of

Arrays = dict[str, NDArray[Any]]  # {name of a feature: its values}
_ROWS_AT_ONCE = 8192  # number of rows whose paths are read at a time
LEARNED = "learned"  # stands for a range that is computed from the values of the training videos


@dataclass(frozen=True)
class FrameRule:
    """How to make a record from the frames of a video.

    Attributes:
      max_frames: at frame level, the largest number of frames; later frames are left out.
      per_second: frames per second, to convert the start and the end of a row from seconds to frame numbers.
    """

    level: str
    max_frames: int
    per_second: float


class FeatureReader:
    """Reads the features of rows, and converts them to the form in which records store them.

    Args:
      names: features to read, in this order; by default all features of the first video.

    Attributes:
      formats: the names and sizes of the features, and the ranges of those stored as bytes; empty before
        `learn_formats`.
      in_table: the names of the features to read from the table; empty if each video has a file of features.
      values_in_memory: the largest number of values, over all features, of a video in memory; 0 before `learn_formats`.
    """

    values_in_memory = 0
    formats: tuple[FeatureFormat, ...] = ()

    def __init__(self, table: Table, names: Sequence[str], rule: FrameRule, bad: BadRows) -> None:
        self._table, self._rule, self._bad, self._names = table, rule, bad, tuple(names)
        self._folder = folder_of(table.path)
        self._has_times = not {"start", "end"}.isdisjoint(table.columns)
        self.in_table = self._choose_features(table.features, table.path) if table.features else ()

    def _choose_features(self, names: Iterable[str], source: str) -> tuple[str, ...]:
        """The features to read: those that the user named, or else all of `names`.

        The array of a .npy file is called `NAMELESS` here, and gets the user's name in `learn_formats`.
        """
        names = tuple(names)
        if names == (NAMELESS,):
            if len(self._names) > 1:
                raise UsageError(
                    f"{source} holds one array, but --feature_names has {len(self._names)} names; give one name."
                )
            return names
        missing = set(self._names) - set(names)
        if missing:
            raise UsageError(f"{source} has no feature {min(missing)!r}; it has: {', '.join(names) or 'none'}.")
        return self._names or names

    def learn_formats(self, batches: Iterable[TableVideos]) -> None:
        """Sets `formats` and `values_in_memory` from the features of the first video that can be read."""
        for batch in batches:
            for index in batch.indices:
                arrays = self._use_arrays(batch.rows, int(index), lambda arrays_of_row: arrays_of_row)
                if arrays is not None:
                    names = self._names or tuple(arrays)
                    _check_names(names)
                    sizes = [values.shape[-1] for values in arrays.values()]
                    self.formats = tuple(map(FeatureFormat, names, sizes))
                    self.values_in_memory = self._count_values(batch.rows)
                    return
        raise RunError(
            f"{self._table.path}: no row is good, so no video has features that can be read; correct the rows."
        )

    def _count_values(self, rows: Rows) -> int:
        """The largest number of values of a video that are in memory at once; `rows` has the first video."""
        frames = self._rule.max_frames if self._rule.level == "frame" else 1
        # A row of the table may hold all frames of a video, even if the records get only their mean.
        in_table = int(sum(rows.arrays[name][0].size for name in self.in_table))
        return max(in_table, frames * sum(feature.size for feature in self.formats))

    def files(self) -> Iterator[str]:
        """Yields the paths of the files with features; leaves out paths that are not valid."""
        for rows in () if self.in_table else self._table.batches(_ROWS_AT_ONCE):
            for path_in_table in rows.cells["path"]:
                with contextlib.suppress(BadRowError):
                    yield self._resolve_path(str(path_in_table))

    def matrices(
        self, batch: TableVideos, indices: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[NDArray[Any]], NDArray[np.int64]]:
        """Reads the vectors of video-level records, one for each video and feature.

        Args:
          indices: int64 [n], the indices of the rows to read in the batch.

        Returns:
          The indices of the good rows, and for each feature float32 [rows of the batch, size], in which only the values
          of good rows are meaningful; and int64 [rows of the batch], the number of frames that were averaged, 0 for a
          row without frames.
        """
        lengths = np.zeros(batch.rows.size, np.int64)
        arrays_in_table = [batch.rows.arrays[name] for name in self.in_table]
        if arrays_in_table and not self._has_times and all(values.ndim == 2 for values in arrays_in_table):
            return *self._matrices_of_table(batch.rows, indices, arrays_in_table), lengths
        means = [np.zeros((batch.rows.size, feature.size), np.float32) for feature in self.formats]
        good_indices = []
        for index in indices.tolist():
            averaged = self._use_arrays(batch.rows, index, self._average_frames)
            if averaged is not None:
                vectors, lengths[index] = averaged
                good_indices.append(index)
                for values, vector in zip(means, vectors, strict=True):
                    values[index] = vector
        return np.array(good_indices, np.int64), means, lengths

    def _matrices_of_table(
        self, rows: Rows, indices: NDArray[np.int64], arrays: Sequence[NDArray[Any]]
    ) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
        """`matrices` if the table has one vector per video and feature: converts and checks all rows at once.

        Args:
          arrays: [rows of the batch, size] for each feature.
        """
        for values, feature in zip(arrays, self.formats, strict=True):
            if values.shape[1] != feature.size:  # the lists of a Parquet table have another length in this batch
                for index in indices.tolist():
                    self._bad.add(rows.first + index, _describe_wrong_size(feature, values.shape[1]))
                return indices[:0], []
        matrices = list(map(_to_float32, arrays))
        for values, feature in zip(matrices, self.formats, strict=True):
            unfit = np.intersect1d(unfit_rows(values), indices)
            for index in unfit.tolist():
                self._bad.add(rows.first + index, _describe_unfit_values(feature, values[index]))
            indices = np.setdiff1d(indices, unfit) if len(unfit) else indices
        return indices, matrices

    def frames(self, batch: TableVideos, indices: NDArray[np.int64]) -> Iterator[tuple[int, list[NDArray[Any]], bool]]:
        """Reads the frames of frame-level records; rows that turn out to be bad are left out.

        Args:
          indices: int64 [n], the indices of the rows to read in the batch.

        Returns:
          An iterator over (index of the row, float32 [T, size] for each feature, whether later frames were cut off).
        """
        for index in indices.tolist():
            arrays = self._use_arrays(batch.rows, index, self._check_frames)
            if arrays is not None:
                longest = self._rule.max_frames
                yield index, [values[:longest] for values in arrays], len(arrays[0]) > longest

    def quantize(self, values: Sequence[NDArray[Any]]) -> Arrays:
        """Converts values to what the records store: uint8 if the feature has a range; otherwise they stay float32.

        Args:
          values: float32 [..., size] for each feature.

        Returns:
          {name of the feature: uint8 or float32 [..., size]}.
        """
        return {
            feature.name: data_format.quantized(floats, feature.range) if feature.range else floats
            for feature, floats in zip(self.formats, values, strict=True)
        }

    def quantize_rows(self, values: Sequence[NDArray[Any]], indices: NDArray[np.int64]) -> Arrays:
        """`quantize` for some rows of the values. The next call in the same thread overwrites the result.

        Args:
          values: float32 [N, size] for each feature.
          indices: int64 [n], the indices of the rows.
        """
        selected = [
            encoding.scratch(f"feature {index}", (len(indices), matrix.shape[1]), np.float32)
            for index, matrix in enumerate(values)
        ]
        for matrix, rows in zip(values, selected, strict=True):
            np.take(matrix, indices, axis=0, out=rows, mode="clip")  # the default mode would buffer `out`
        return self.quantize(selected)

    def values(self, batch: TableVideos, indices: NDArray[np.int64]) -> Iterator[list[NDArray[Any]]]:
        """Yields the values before quantisation, float32 [n, size] for each feature, of a few rows at a time."""
        if self._rule.level == "video":
            good_indices, arrays, _ = self.matrices(batch, indices)
            yield [values[good_indices] for values in arrays]
        else:
            yield from (arrays for _, arrays, _ in self.frames(batch, indices))

    def _use_arrays(self, rows: Rows, index: int, use: Callable[[Arrays], Any]) -> Any:
        """Returns `use(arrays)` for the arrays of a row. For a bad row, adds it to the bad rows, and returns None."""
        try:
            return use(self._read_arrays(rows, index))
        except BadRowError as error:
            self._bad.add(rows.first + index, str(error))
            return None

    def _average_frames(self, arrays: Arrays) -> tuple[list[NDArray[Any]], int]:
        """The mean of the frames of each feature, float32 [size], and the number of frames, 0 if there are none.

        A feature that is one vector is returned as it is.
        """
        checked = self._check_arrays(arrays)
        means = [
            values if values.ndim == 1 else values.mean(axis=0, dtype=np.float64).astype(np.float32)
            for values in checked
        ]
        return means, max(len(values) if values.ndim == 2 else 0 for values in checked)

    def _check_frames(self, arrays: Arrays) -> list[NDArray[Any]]:
        """Returns the frames of each feature, float32 [T, size]."""
        checked = self._check_arrays(arrays)
        for values, feature in zip(checked, self.formats, strict=True):
            if values.ndim == 1:
                raise BadRowError(
                    f"feature {feature.name} is one vector of {len(values)} values; --level=frame needs frames, "
                    "[T, size]. Use --level=video"
                )
            if len(values) != len(checked[0]):
                first = self.formats[0].name
                raise BadRowError(
                    f"feature {first} has {len(checked[0])} frames, but feature {feature.name} has {len(values)}"
                )
        return checked

    def _check_arrays(self, arrays: Arrays) -> list[NDArray[Any]]:
        """Returns the arrays as float32; raises `BadRowError` if a size or a value is wrong."""
        checked = [_to_float32(values) for values in arrays.values()]
        for values, feature in zip(checked, self.formats, strict=True):
            if values.shape[-1] != feature.size:
                raise BadRowError(_describe_wrong_size(feature, values.shape[-1]))
            if len(unfit_rows(values[np.newaxis])):
                raise BadRowError(_describe_unfit_values(feature, values))
        return checked

    def _read_arrays(self, rows: Rows, index: int) -> Arrays:
        """Reads {name: [size] or [T, size]} of a row: the frames from the row's start to its end, by default all."""
        if self.in_table:
            arrays = {name: rows.arrays[name][index] for name in self.in_table}
        else:
            arrays = self._load_file(str(rows.cells["path"][index]))
        for name, values in arrays.items():
            if values.ndim not in (1, 2) or 0 in values.shape or values.dtype.kind not in "fiu":
                raise BadRowError(
                    f"array {name} is {values.dtype} {list(values.shape)}; expected integers or floats of shape [size] "
                    "or [frames, size], not empty"
                )
        return self._cut_frames(arrays, rows, index) if self._has_times else arrays

    def _load_file(self, path_in_table: str) -> Arrays:
        """Loads {name: array} of the features from a .npy or .npz file; raises `BadRowError` if that is impossible."""
        path = self._resolve_path(path_in_table)
        if storage.is_special(path):
            raise BadRowError(f"{path} is a pipe or a device; expected a file")
        arrays = _load_arrays(path)
        if not self.formats:  # `learn_formats` reads the first video, to learn the features of all videos
            return {name: arrays[name] for name in self._choose_features(arrays, path)}
        names = [feature.name for feature in self.formats]
        if arrays.keys() == {NAMELESS} and len(names) == 1:
            return arrays
        if set(names) - arrays.keys():
            raise BadRowError(f"{path} holds {', '.join(arrays)}; expected {', '.join(names)}, as in the first video")
        return {name: arrays[name] for name in names}

    def _resolve_path(self, path_in_table: str) -> str:
        """The path of a file that the table names relative to its own folder, or by an absolute path in that folder."""
        if not path_in_table.strip():
            raise BadRowError("the path is empty")
        if storage.is_remote(path_in_table):  # `..` stands for a path that is not in the folder
            relative = path_in_table.removeprefix(self._folder + "/") if storage.is_remote(self._folder) else os.pardir
            relative = os.pardir if storage.is_remote(relative) else os.path.normpath(relative)
        elif os.path.isabs(path_in_table):
            relative = os.path.relpath(path_in_table, self._folder or ".")
        else:
            relative = os.path.normpath(path_in_table)
        if relative.split(os.sep)[0] == os.pardir:
            raise BadRowError(f"the path {path_in_table!r} leads out of the table's folder; move the file into it")
        return storage.join(self._folder, relative) if self._folder else relative

    def _cut_frames(self, arrays: Arrays, rows: Rows, index: int) -> Arrays:
        """The frames from the start to the end that a row names; raises `BadRowError` if there are none.

        Args:
          arrays: {feature: all frames of the video, [T, size]}.
        """
        start, end = (self._frame_number(rows, name, index) for name in ("start", "end"))
        if start is None and end is None:
            return arrays
        first = 0 if start is None else start
        for name, values in arrays.items():
            if values.ndim == 1:
                raise BadRowError(f"the row has a start or an end, but feature {name} has no frames")
            if not first < (len(values) if end is None else min(end, len(values))):
                raise BadRowError(
                    f"the video has no frame between the start and the end: feature {name} has {len(values)} frames"
                )
        return {name: values[first:end] for name, values in arrays.items()}

    def _frame_number(self, rows: Rows, column: str, index: int) -> int | None:
        """The number of the first frame that is not before the time in a cell; None for an empty cell."""
        second = parse_seconds(rows.cells, column, index)
        # The product may be slightly above the number of the frame at this time: 0.28 s are frame 7 at 25 per second.
        return None if second is None else math.ceil(second * self._rule.per_second - 1e-6)


def _check_names(names: Sequence[str]) -> None:
    """Checks the names of features."""
    for name in names:
        problem = ""
        if name in shards.NOT_FEATURES:
            problem = "is reserved: records store ids and labels under such names"
        elif names.count(name) > 1:
            problem = "is given twice"
        elif not name.isprintable() or "," in name or name != name.strip() or not name:
            problem = "is empty, or holds a comma, a control character, or spaces around it"
        if problem:
            raise UsageError(
                f"the feature name {name[:60]!r} {problem}. Give the array another name, by --feature_names=NAME if it "
                "has none in its file."
            )


def _to_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # a value that is too large becomes infinity, which the callers refuse
        return np.asarray(values, np.float32)


def _describe_wrong_size(feature: FeatureFormat, size: int) -> str:
    return f"feature {feature.name} has {size} values, expected {feature.size} as in the first video"


def _describe_unfit_values(feature: FeatureFormat, values: NDArray[np.float32]) -> str:
    return f"feature {feature.name} has {shards.unfit_values(values)} values that are {shards.UNFIT}"


def parse_ranges(texts: tuple[str, ...], count: int, usual: Sequence[Range | None] = ()) -> list[Any]:
    """Parses the ranges that the user gives: one for each of `count` features, or one for all.

    Args:
      usual: the range of each feature that the word `usual` stands for; if empty, that word is refused.

    Returns:
      `LEARNED`, None (the feature stays floats), or (low, high) for each.
    """
    flag = "--ranges=" + ",".join(texts)
    if len(texts) not in (1, count):
        raise UsageError(
            f"{flag} has {len(texts)} ranges for {count} features; "
            "give one range for each feature, or one range for all."
        )
    parsed = []
    for index, text in enumerate(texts * (count // len(texts))):
        words = {LEARNED: LEARNED, "floats": None} | ({"usual": usual[index]} if usual else {})
        parsed.append(words[text] if text in words else _parse_range(text, flag, words))
    return parsed


def _parse_range(text: str, flag: str, words: Iterable[str]) -> Range:
    """Parses `LOW:HIGH`."""
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low = high = 0.0
    if not -math.inf < low < high < math.inf:
        choices = ", or ".join(words)
        raise UsageError(f"{flag}: {text!r} is not a range; expected LOW:HIGH, such as -2:2, or {choices}.")
    return low, high


def learn_ranges(ranges: Sequence[Any], values: Iterable[Sequence[NDArray[Any]]]) -> list[Range | None]:
    """Replaces each `LEARNED` by the range from the smallest to the largest value of the feature.

    A feature whose only value is v gets v - 1 to v + 1; a feature without values gets the range of YouTube-8M.

    Args:
      ranges: for each feature `LEARNED`, (low, high), or None if it stays float.

    Returns:
      For each feature (low, high) or None.
    """
    lows, highs = [math.inf] * len(ranges), [-math.inf] * len(ranges)
    for arrays in values:
        for index, array in enumerate(arrays):
            if array.size:
                lows[index] = min(lows[index], float(array.min()))
                highs[index] = max(highs[index], float(array.max()))
    learned = [
        (low, high) if low < high else (low - 1, low + 1) if low == high else data_format.PUBLISHED
        for low, high in zip(lows, highs, strict=True)
    ]
    return [
        learned_range if requested == LEARNED else requested
        for requested, learned_range in zip(ranges, learned, strict=True)
    ]


def _load_arrays(path: str) -> Arrays:
    """Loads {name: array} of a .npy or .npz file; raises `BadRowError` if that is impossible."""
    try:
        with storage.open_read(path) as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {NAMELESS: as_array(loaded)}
            if problem := describe_zip_bomb(loaded.zip):
                raise BadRowError(f"{path} {problem}")
            return {name: as_array(loaded[name]) for name in loaded.files}
    except (BadRowError, OSError):
        raise
    except MemoryError as error:
        raise BadRowError(f"{path} cannot be read: {first_line(error)}") from error
    except (RunError, UsageError) as error:
        raise BadRowError(str(error)) from error
    except Exception as error:  # whatever a damaged file makes a parser raise
        raise BadRowError(describe_no_array(path)) from error
