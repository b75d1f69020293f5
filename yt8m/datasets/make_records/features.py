"""Reads the features of the rows from one file per video or from the table; averages, cuts and quantises them."""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.datasets.make_records.rows import BadRowError, BadRows, TableVideos, parse_seconds
from yt8m.datasets.make_records.tables import NAMELESS, Rows, Table, zip_bomb_problem
from yt8m.errors import RunError, UsageError
from yt8m.records import data_format, encoding, shards
from yt8m.records.data_format import FeatureFormat, Range
from yt8m.records.record_parser import unfit_rows

Arrays = dict[str, NDArray[Any]]
_FILES_AT_ONCE = 8192  # rows whose paths are in memory together
LEARNED = "learned"  # stands for a range that is computed from the values of the training videos


@dataclass(frozen=True)
class FrameRule:
    """How to make a record from the frames of a video.

    Attributes:
      level: `video` stores the mean of the frames, `frame` the frames themselves.
      max_frames: at frame level, the largest number of frames; later frames are left out.
      per_second: frames per second, to convert the start and the end of a row from seconds to frame numbers.
    """

    level: str
    max_frames: int
    per_second: float


class FeatureReader:
    """Reads the features of rows, and converts them to the form in which records store them.

    Args:
      table: the table.
      names: features to read, in this order; by default all features of the first video.
      rule: how to make a record from the frames.
      bad: collects the bad rows.

    Attributes:
      formats: the names and sizes of the features, and the ranges of those stored as bytes.
      in_table: the features to read from the table; empty if each video has a file.
      values_in_memory: how many values of a video, of all features, are in memory at once.
    """

    values_in_memory = 0
    formats: tuple[FeatureFormat, ...] = ()

    def __init__(self, table: Table, names: Sequence[str], rule: FrameRule, bad: BadRows) -> None:
        self._table, self._rule, self._bad, self._names = table, rule, bad, tuple(names)
        self._folder = os.path.dirname(table.path)
        self._has_times = not {"start", "end"}.isdisjoint(table.columns)
        self.in_table = self._choose(table.features, table.path) if table.features else ()

    def _choose(self, names: Iterable[str], source: str) -> tuple[str, ...]:
        """The features to read: those of `names` that the user chose, or all of them.

        An array without a name gets the user's name later, so its placeholder is returned.
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
        """Finds the names and sizes of the features in the first video that can be read.

        Raises:
          UsageError: the video does not have the features that the user named.
          RunError: no row can be read.
        """
        for batch in batches:
            for index in batch.indices:
                arrays = self._unless_bad(batch.rows, int(index), lambda read_arrays: read_arrays)
                if arrays is not None:
                    names = self._names or tuple(arrays)
                    _check_names(names)
                    sizes = [values.shape[-1] for values in arrays.values()]
                    self.formats = tuple(map(FeatureFormat, names, sizes))
                    self.values_in_memory = self._most_values(batch.rows)
                    return
        raise RunError(f"{self._table.path}: no video has features that can be read.")

    def _most_values(self, rows: Rows) -> int:
        frames = self._rule.max_frames if self._rule.level == "frame" else 1
        # A row of the table may hold all frames of a video, even if the records get only their mean.
        in_table = int(sum(rows.arrays[name][0].size for name in self.in_table))
        return max(in_table, frames * sum(feature.size for feature in self.formats))

    def files(self) -> Iterator[str]:
        """Yields the paths of the videos' files; leaves out paths that are not valid."""
        for rows in () if self.in_table else self._table.batches(_FILES_AT_ONCE):
            for path_in_table in rows.cells["path"]:
                with contextlib.suppress(BadRowError):
                    yield self._path(str(path_in_table))

    def matrices(self, batch: TableVideos, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
        """The vectors of video-level records, one per video.

        Args:
          batch: the rows.
          indices: the indices of the rows to read.

        Returns:
          The indices of the good rows, and for each feature float32 [rows of the batch, size], in which only the values
          of good rows are meaningful.
        """
        stored = [batch.rows.arrays[name] for name in self.in_table]
        if stored and not self._has_times and all(values.ndim == 2 for values in stored):
            return self._matrices_of_table(batch.rows, indices, stored)
        means = [np.zeros((batch.rows.size, feature.size), np.float32) for feature in self.formats]
        good_indices = []
        for index in indices.tolist():
            vectors = self._unless_bad(batch.rows, index, self._mean)
            if vectors is not None:
                good_indices.append(index)
                for values, vector in zip(means, vectors, strict=True):
                    values[index] = vector
        return np.array(good_indices, np.int64), means

    def _matrices_of_table(
        self, rows: Rows, indices: NDArray[np.int64], stored: Sequence[NDArray[Any]]
    ) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
        """`matrices` for features in the table: all rows are computed at once."""
        for values, feature in zip(stored, self.formats, strict=True):
            if values.shape[1] != feature.size:  # a Parquet list of another length
                for index in indices.tolist():
                    self._bad.add(rows.first + index, _wrong_size(feature, values.shape[1]))
                return indices[:0], []
        matrices = list(map(_floats, stored))
        for values, feature in zip(matrices, self.formats, strict=True):
            unfit = np.intersect1d(unfit_rows(values), indices)
            for index in unfit.tolist():
                self._bad.add(rows.first + index, _unfit(feature, values[index]))
            indices = np.setdiff1d(indices, unfit) if len(unfit) else indices
        return indices, matrices

    def frames(self, batch: TableVideos, indices: NDArray[np.int64]) -> Iterator[tuple[int, list[NDArray[Any]], bool]]:
        """Yields for each good row at frame level: its index, float32 [T, size] per feature, whether it was cut."""
        for index in indices.tolist():
            arrays = self._unless_bad(batch.rows, index, self._frames)
            if arrays is not None:
                longest = self._rule.max_frames
                yield index, [values[:longest] for values in arrays], len(arrays[0]) > longest

    def stored(self, values: Sequence[NDArray[Any]]) -> Arrays:
        """{name: the values as the record stores them}; uint8 if the feature has a range, else float32."""
        return {
            feature.name: data_format.quantized(part, feature.range) if feature.range else part
            for feature, part in zip(self.formats, values, strict=True)
        }

    def stored_rows(self, values: Sequence[NDArray[Any]], indices: NDArray[np.int64]) -> Arrays:
        """`stored` for some rows of the values, float32 [n, size]; valid until this thread calls it again."""
        selected = [
            encoding.scratch(f"feature {index}", (len(indices), part.shape[1]), np.float32)
            for index, part in enumerate(values)
        ]
        for part, rows in zip(values, selected, strict=True):
            np.take(part, indices, axis=0, out=rows, mode="clip")  # with another mode NumPy makes a copy
        return self.stored(selected)

    def values(self, batch: TableVideos, indices: NDArray[np.int64]) -> Iterator[list[NDArray[Any]]]:
        """Yields the values before quantisation, [n, size] for each feature, of a few rows at a time."""
        if self._rule.level == "video":
            good_indices, arrays = self.matrices(batch, indices)
            yield [values[good_indices] for values in arrays]
        else:
            yield from (arrays for _, arrays, _ in self.frames(batch, indices))

    def _unless_bad(self, rows: Rows, index: int, use: Callable[[Arrays], Any]) -> Any:
        """Returns `use(arrays)` for the arrays of a row; if the row is bad, records that and returns None."""
        try:
            return use(self._arrays(rows, index))
        except BadRowError as error:
            self._bad.add(rows.first + index, str(error))
            return None

    def _mean(self, arrays: Arrays) -> list[NDArray[Any]]:
        return [
            values if values.ndim == 1 else values.mean(axis=0, dtype=np.float64).astype(np.float32)
            for values in self._check_arrays(arrays)
        ]

    def _frames(self, arrays: Arrays) -> list[NDArray[Any]]:
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
        """The arrays as float32, after a check of their sizes and values."""
        checked = [_floats(values) for values in arrays.values()]
        for values, feature in zip(checked, self.formats, strict=True):
            if values.shape[-1] != feature.size:
                raise BadRowError(_wrong_size(feature, values.shape[-1]))
            if len(unfit_rows(values[np.newaxis])):
                raise BadRowError(_unfit(feature, values))
        return checked

    def _arrays(self, rows: Rows, index: int) -> Arrays:
        """{name: [size] or [T, size]} of a row, without the frames outside of its start and end."""
        if self.in_table:
            arrays = {name: rows.arrays[name][index] for name in self.in_table}
        else:
            arrays = self._load_file(str(rows.cells["path"][index]))
        for name, values in arrays.items():
            if values.ndim not in (1, 2) or 0 in values.shape or values.dtype.kind not in "fiu":
                raise BadRowError(
                    f"array {name} is {values.dtype} {list(values.shape)}; expected numbers, [size] or [T, size]"
                )
        return self._cut_frames(arrays, rows, index) if self._has_times else arrays

    def _load_file(self, path_in_table: str) -> Arrays:
        path = self._path(path_in_table)
        if storage.is_special(path):
            raise BadRowError(f"{path} is a pipe or a device; expected a file")
        try:
            with storage.open_read(path) as file:
                loaded = np.load(file, allow_pickle=False)
                if isinstance(loaded, np.ndarray):
                    arrays: Arrays = {NAMELESS: loaded}
                else:
                    if problem := zip_bomb_problem(loaded.zip):
                        raise BadRowError(f"{path} {problem}")
                    arrays = {name: loaded[name] for name in loaded.files}
        except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise BadRowError(f"{path} is not a .npy or .npz file of numbers, or is damaged") from error
        except RunError as error:
            raise BadRowError(str(error)) from error
        if not self.formats:  # the first video
            return {name: arrays[name] for name in self._choose(arrays, path)}
        names = [feature.name for feature in self.formats]
        if arrays.keys() == {NAMELESS} and len(names) == 1:
            return arrays
        if set(names) - arrays.keys():
            raise BadRowError(f"{path} holds {', '.join(arrays)}; expected {', '.join(names)}, as in the first video")
        return {name: arrays[name] for name in names}

    def _path(self, path_in_table: str) -> str:
        if not path_in_table.strip():
            raise BadRowError("the path is empty")
        if storage.is_remote(path_in_table):
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
        start, end = (self._frame_number(rows, name, index) for name in ("start", "end"))
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
        """The number of the first frame at or after the time in a cell, in seconds; None for an empty cell."""
        second = parse_seconds(rows.cells, column, index)
        return None if second is None else math.ceil(second * self._rule.per_second)


def _check_names(names: Sequence[str]) -> None:
    """Refuses names that records use themselves, and names that a comma-separated list cannot hold."""
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


def _floats(values: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # an overflow gives infinity, which is refused later
        return np.asarray(values, np.float32)


def _wrong_size(feature: FeatureFormat, size: int) -> str:
    return f"feature {feature.name} has {size} values, expected {feature.size} as in the first video"


def _unfit(feature: FeatureFormat, values: NDArray[np.float32]) -> str:
    return f"feature {feature.name} has {shards.unfit_values(values)} values that are {shards.UNFIT}"


def parse_ranges(texts: tuple[str, ...], count: int, usual: Sequence[Range | None] = ()) -> list[Any]:
    """Parses the ranges that the user gives: one for each of `count` features, or one for all.

    Args:
      texts: the value of `--ranges`.
      count: number of features.
      usual: the range of each feature that the word `usual` stands for; if empty, that word is refused.

    Returns:
      `LEARNED`, None (the feature stays floats), or (low, high) for each.

    Raises:
      UsageError: a range is neither `low:high` nor one of the words, or their number is wrong.
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
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low = high = 0.0
    if not -math.inf < low < high < math.inf:
        choices = ", or ".join(words)
        raise UsageError(f"{flag}: {text!r} is not a range; expected LOW:HIGH, such as -2:2, or {choices}.")
    return low, high


def learn_ranges(ranges: Sequence[Any], values: Iterable[Sequence[NDArray[Any]]]) -> list[Range | None]:
    """Replaces each `LEARNED` by the range of the feature's values, from the smallest to the largest."""
    lows, highs = [math.inf] * len(ranges), [-math.inf] * len(ranges)
    for arrays in values:
        for index, part in enumerate(arrays):
            if part.size:
                lows[index] = min(lows[index], float(part.min()))
                highs[index] = max(highs[index], float(part.max()))
    # A constant feature gets a small range around its value; a feature without values gets the published range.
    learned = [
        (low, high) if low < high else (low - 1, low + 1) if low == high else data_format.PUBLISHED
        for low, high in zip(lows, highs, strict=True)
    ]
    return [
        learned_range if requested == LEARNED else requested
        for requested, learned_range in zip(ranges, learned, strict=True)
    ]
