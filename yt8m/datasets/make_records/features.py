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
from yt8m.datasets.make_records.rows import BadRowError, BadRows, TableVideos, second_in
from yt8m.datasets.make_records.tables import NAMELESS, Rows, Table, bomb_in
from yt8m.errors import RunError, UsageError
from yt8m.records import data_format, encoding, shards
from yt8m.records.data_format import FeatureFormat, Range
from yt8m.records.record_parser import unfit_rows

Arrays = dict[str, NDArray[Any]]
_FILES_AT_ONCE = 8192  # rows whose paths are in memory together
LEARNED = "learned"  # a range that the values of the training videos give


@dataclass(frozen=True)
class FrameRule:
    """How to make a record from the frames of a video.

    Attributes:
      level: `video` stores the mean of the frames, `frame` the frames themselves.
      max_frames: at frame level, the largest number of frames; later ones are cut off.
      per_second: frames per second, to convert the start and the end of a row from seconds to frame numbers.
    """

    level: str
    max_frames: int
    per_second: float


class FeatureReader:
    """Reads the features of rows in the form in which the records store them.

    Args:
      table: the table.
      names: features to read, in this order; by default all features of the first video.
      rule: how to make a record from the frames.
      bad: collects the bad rows.

    Attributes:
      formats: the names and sizes of the features, and the ranges of those stored as bytes.
      in_table: the features to read from the table; none if each video has a file.
      values_in_memory: how many values of a video are in memory at once, of all features together.
    """

    values_in_memory = 0
    formats: tuple[FeatureFormat, ...] = ()

    def __init__(self, table: Table, names: Sequence[str], rule: FrameRule, bad: BadRows) -> None:
        self._table, self._rule, self._bad, self._names = table, rule, bad, tuple(names)
        self._folder = os.path.dirname(table.path)
        self._is_cut = not {"start", "end"}.isdisjoint(table.columns)
        self.in_table = self._choose(table.features, table.path) if table.features else ()

    def _choose(self, names: Iterable[str], where: str) -> tuple[str, ...]:
        """The features to read, out of the arrays `names`.

        An array without a name gets the name that the user gave.
        """
        names = tuple(names)
        if names == (NAMELESS,):
            if len(self._names) > 1:
                raise UsageError(
                    f"{where} holds one array, but --feature_names has {len(self._names)} names; give one name."
                )
            return names
        missing = set(self._names) - set(names)
        if missing:
            raise UsageError(f"{where} has no feature {min(missing)!r}; it has: {', '.join(names) or 'none'}.")
        return self._names or names

    def learn_formats(self, batches: Iterable[TableVideos]) -> None:
        """Finds the names and sizes of the features in the first video that can be read.

        Raises:
          UsageError: the video does not have the features that the user named.
          RunError: no row can be read.
        """
        for batch in batches:
            for place in batch.places:
                arrays = self._unless_bad(batch.rows, int(place), lambda read_arrays: read_arrays)
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
        """The paths of the videos' files, as far as the table names files that may be read."""
        for rows in () if self.in_table else self._table.batches(_FILES_AT_ONCE):
            for written in rows.cells["path"]:
                with contextlib.suppress(BadRowError):
                    yield self._path(str(written))

    def matrices(self, batch: TableVideos, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
        """The vectors of video-level records, one per video.

        Args:
          batch: the rows.
          places: the positions in the batch of the wanted rows.

        Returns:
          The positions of the good rows, and for each feature float32 [rows of the batch, size], where only the
          values of good rows are meaningful.
        """
        stored = [batch.rows.arrays[name] for name in self.in_table]
        if stored and not self._is_cut and all(values.ndim == 2 for values in stored):
            return self._of_table(batch.rows, places, stored)
        means = [np.zeros((batch.rows.size, feature.size), np.float32) for feature in self.formats]
        good = []
        for place in places.tolist():
            vectors = self._unless_bad(batch.rows, place, self._mean)
            if vectors is not None:
                good.append(place)
                for values, vector in zip(means, vectors, strict=True):
                    values[place] = vector
        return np.array(good, np.int64), means

    def _of_table(
        self, rows: Rows, places: NDArray[np.int64], stored: Sequence[NDArray[Any]]
    ) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
        """`matrices` for features in the table, where all rows are computed at once."""
        for values, feature in zip(stored, self.formats, strict=True):
            if values.shape[1] != feature.size:  # a Parquet list of another length
                for place in places.tolist():
                    self._bad.add(rows.first + place, _wrong_size(feature, values.shape[1]))
                return places[:0], []
        matrices = list(map(_floats, stored))
        for values, feature in zip(matrices, self.formats, strict=True):
            unfit = np.intersect1d(unfit_rows(values), places)
            for place in unfit.tolist():
                self._bad.add(rows.first + place, _unfit(feature, values[place]))
            places = np.setdiff1d(places, unfit) if len(unfit) else places
        return places, matrices

    def frames(self, batch: TableVideos, places: NDArray[np.int64]) -> Iterator[tuple[int, list[NDArray[Any]], bool]]:
        """Yields, for each good row at frame level: its position, float32 [T, size] per feature, whether it was cut."""
        for place in places.tolist():
            arrays = self._unless_bad(batch.rows, place, self._frames)
            if arrays is not None:
                longest = self._rule.max_frames
                yield place, [values[:longest] for values in arrays], len(arrays[0]) > longest

    def stored(self, values: Sequence[NDArray[Any]]) -> Arrays:
        """{name: the values as the record stores them}; uint8 if the feature has a range, else float32."""
        return {
            feature.name: data_format.quantized(part, feature.range) if feature.range else part
            for feature, part in zip(self.formats, values, strict=True)
        }

    def stored_rows(self, values: Sequence[NDArray[Any]], places: NDArray[np.int64]) -> Arrays:
        """`stored` for the rows at `places` of values, float32 [n, size]; valid until this thread calls it again."""
        taken = [
            encoding.scratch(f"feature {place}", (len(places), part.shape[1]), np.float32)
            for place, part in enumerate(values)
        ]
        for part, rows in zip(values, taken, strict=True):
            np.take(part, places, axis=0, out=rows, mode="clip")  # the other modes make a copy
        return self.stored(taken)

    def values(self, batch: TableVideos, places: NDArray[np.int64]) -> Iterator[list[NDArray[Any]]]:
        """Yields the values of a few rows at a time, not quantised yet: [n, size] for each feature."""
        if self._rule.level == "video":
            good, arrays = self.matrices(batch, places)
            yield [values[good] for values in arrays]
        else:
            yield from (arrays for _, arrays, _ in self.frames(batch, places))

    def _unless_bad(self, rows: Rows, place: int, use: Callable[[Arrays], Any]) -> Any:
        """The result of `use` on the arrays of a row. If the row is bad, records that and returns None."""
        try:
            return use(self._arrays(rows, place))
        except BadRowError as error:
            self._bad.add(rows.first + place, str(error))
            return None

    def _mean(self, arrays: Arrays) -> list[NDArray[Any]]:
        return [
            values if values.ndim == 1 else values.mean(axis=0, dtype=np.float64).astype(np.float32)
            for values in self._checked(arrays)
        ]

    def _frames(self, arrays: Arrays) -> list[NDArray[Any]]:
        checked = self._checked(arrays)
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

    def _checked(self, arrays: Arrays) -> list[NDArray[Any]]:
        """The arrays as float32, after a check of their sizes and values."""
        checked = [_floats(values) for values in arrays.values()]
        for values, feature in zip(checked, self.formats, strict=True):
            if values.shape[-1] != feature.size:
                raise BadRowError(_wrong_size(feature, values.shape[-1]))
            if len(unfit_rows(values[np.newaxis])):
                raise BadRowError(_unfit(feature, values))
        return checked

    def _arrays(self, rows: Rows, place: int) -> Arrays:
        """{name: [size] or [T, size]} of a row; only the frames between its start and its end."""
        if self.in_table:
            arrays = {name: rows.arrays[name][place] for name in self.in_table}
        else:
            arrays = self._of_file(str(rows.cells["path"][place]))
        for name, values in arrays.items():
            if values.ndim not in (1, 2) or 0 in values.shape or values.dtype.kind not in "fiu":
                raise BadRowError(
                    f"array {name} is {values.dtype} {list(values.shape)}; expected numbers, [size] or [T, size]"
                )
        return self._cut(arrays, rows, place) if self._is_cut else arrays

    def _of_file(self, written: str) -> Arrays:
        path = self._path(written)
        if storage.is_special(path):
            raise BadRowError(f"{path} is no file but a pipe or a device")
        try:
            with storage.open_read(path) as file:
                loaded = np.load(file, allow_pickle=False)
                if isinstance(loaded, np.ndarray):
                    arrays: Arrays = {NAMELESS: loaded}
                else:
                    if problem := bomb_in(loaded.zip):
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

    def _path(self, written: str) -> str:
        if not written.strip():
            raise BadRowError("the path is empty")
        if storage.is_remote(written):
            relative = written.removeprefix(self._folder + "/") if storage.is_remote(self._folder) else os.pardir
            relative = os.pardir if storage.is_remote(relative) else os.path.normpath(relative)
        elif os.path.isabs(written):
            relative = os.path.relpath(written, self._folder or ".")
        else:
            relative = os.path.normpath(written)
        if relative.split(os.sep)[0] == os.pardir:
            raise BadRowError(f"the path {written!r} leads out of the table's folder; move the file into that folder")
        return storage.join(self._folder, relative) if self._folder else relative

    def _cut(self, arrays: Arrays, rows: Rows, place: int) -> Arrays:
        start, end = (self._frame(rows, name, place) for name in ("start", "end"))
        first = 0 if start is None else start
        for name, values in arrays.items():
            if values.ndim == 1:
                raise BadRowError(f"the row has a start or an end, but feature {name} has no frames")
            if not first < (len(values) if end is None else min(end, len(values))):
                raise BadRowError(
                    f"the video has no frame between the start and the end: feature {name} has {len(values)} frames"
                )
        return {name: values[first:end] for name, values in arrays.items()}

    def _frame(self, rows: Rows, column: str, place: int) -> int | None:
        """The number of the first frame at or after the time (in seconds) in a cell; None for an empty cell."""
        second = second_in(rows.cells, column, place)
        return None if second is None else math.ceil(second * self._rule.per_second)


def _check_names(names: Sequence[str]) -> None:
    """Refuses names that records use themselves, and names that cannot be given in a comma-separated list."""
    for name in names:
        problem = ""
        if name in shards.NOT_FEATURES:
            problem = "is taken: records keep ids and labels under such names"
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


def parse_ranges(written: tuple[str, ...], count: int, usual: Sequence[Range | None] = ()) -> list[Any]:
    """The ranges that the user gives: one for each of `count` features, or one for all.

    Args:
      written: the value of `--ranges`.
      count: number of features.
      usual: what the word `usual` stands for, for each feature; without them that word is refused.

    Returns:
      `LEARNED`, None (the feature stays floats), or (low, high) for each.

    Raises:
      UsageError: a range is neither `low:high` nor one of the words, or their number is wrong.
    """
    flag = "--ranges=" + ",".join(written)
    if len(written) not in (1, count):
        raise UsageError(
            f"{flag} has {len(written)} ranges for {count} features; "
            "give one range for each feature, or one range for all."
        )
    parsed = []
    for place, text in enumerate(written * (count // len(written))):
        words = {LEARNED: LEARNED, "floats": None} | ({"usual": usual[place]} if usual else {})
        parsed.append(words[text] if text in words else _range(text, flag, words))
    return parsed


def _range(text: str, flag: str, words: Iterable[str]) -> Range:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low = high = 0.0
    if not -math.inf < low < high < math.inf:
        choices = ", or ".join(words)
        raise UsageError(f"{flag}: {text!r} is not a range; expected LOW:HIGH, such as -2:2, or {choices}.")
    return low, high


def learn_ranges(ranges: Sequence[Any], values: Iterable[Sequence[NDArray[Any]]]) -> list[Range | None]:
    """The ranges, in which that of its values, from the smallest to the largest, replaces each `LEARNED`."""
    lows, highs = [math.inf] * len(ranges), [-math.inf] * len(ranges)
    for arrays in values:
        for index, part in enumerate(arrays):
            if part.size:
                lows[index] = min(lows[index], float(part.min()))
                highs[index] = max(highs[index], float(part.max()))
    # A constant feature gets a small range around its value; one without values gets the published range.
    learned = [
        (low, high) if low < high else (low - 1, low + 1) if low == high else data_format.PUBLISHED
        for low, high in zip(lows, highs, strict=True)
    ]
    return [
        learned_range if requested == LEARNED else requested
        for requested, learned_range in zip(ranges, learned, strict=True)
    ]
