"""Reads ids, labels and splits of videos from the rows of a table, and finds bad rows.

The table is read twice. `RowReader.scan` reads the rows without the features: it finds bad rows and repeated ids,
counts the videos of each split, and collects the names of the labels. Then `RowReader.videos` reads the rows again,
with the features.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.config.data_config import MOST_CLASSES
from yt8m.datasets.make_records.classes import CLASS_NUMBER, Classes, DataSetFlags, find_vocabulary, look_alike
from yt8m.errors import RunError, UsageError, suggestion
from yt8m.records.groups import Groups, hashes
from yt8m.records.groups import digests as digests_of
from yt8m.tables.sources.source import Rows, Table
from yt8m.tables.sources.text_columns import NameLists, TextColumn
from yt8m.tables.words.class_names import clean_name
from yt8m.tables.words.times import NotATimeError, parse_time

_ROWS_AT_ONCE = 8192  # number of rows that `RowReader.scan` reads at a time
# A character that ids, labels, and paths of video files found by a pattern must not hold.
CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
SURROGATE = re.compile("[\ud800-\udfff]")  # what a byte that is not UTF-8 becomes in the name of a file
# Any number. A label that matches but is no `CLASS_NUMBER`, such as -1 or 2.0, is refused, because it is hardly a name.
_ANY_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_SPLIT_NAME = re.compile(r"[\w-]+")  # a name that --splits may give to a split


class BadRowError(Exception):
    """No record can be made from a row; the text says why."""


def parse_seconds(cells: Mapping[str, Sequence[Any]], column: str, index: int) -> float | None:
    """Parses the time in a cell, in seconds; returns None if the cell is empty or there is no such column.

    Args:
      cells: {column: one value for each row of a batch}.
    """
    cell = cells[column][index] if column in cells else ""
    if cell in ("", None):
        return None
    try:
        return parse_time(cell)
    except NotATimeError as error:
        raise BadRowError(f"the {column} is {error}") from error


class BadRows:
    """Collects bad rows, and stops the command if there are too many.

    Args:
      where: the place of a row in the file, for messages, by its number.

    Attributes:
      problems: {number of a bad row, from 1: what is wrong with it}.
    """

    def __init__(
        self,
        path: str,
        max_bad_rows: int,
        where: Callable[[int], str] = "row {}".format,
        remedy: str = ", or leave out up to N such rows by --max_bad_rows=N",
    ) -> None:
        self._path, self._max_bad_rows, self._where, self._remedy = path, max_bad_rows, where, remedy
        self.problems: dict[int, str] = {}

    def add(self, number: int, problem: str) -> None:
        """Adds a bad row; if the row was added before, keeps the earlier problem.

        Args:
          number: number of the row, from 1.
        """
        self.problems.setdefault(number, problem)
        if len(self.problems) > self._max_bad_rows:
            earlier_rows = f" ({len(self.problems) - 1} earlier rows are bad too)" if self._max_bad_rows else ""
            raise RunError(
                f"{self._path}, {self._where(number)}: {problem}{earlier_rows}. Correct the row{self._remedy}."
            )


class Splits:
    """The splits of a data set, such as train, validate and test.

    If neither the row of a video nor another row of its group names a split, a hash of the video's id, or of its group,
    draws the split. The draw depends on nothing else, so a video stays in its split when other videos are added.

    Args:
      shares: `name:share` of each split, as in --splits.

    Attributes:
      training: the name of the split for training: `train`, or the first split if none has that name.
    """

    def __init__(self, shares: Sequence[str]) -> None:
        share_of = _parse_shares(shares)
        self.names = tuple(share_of)
        self.training = "train" if "train" in share_of else self.names[0]
        self._ends = np.cumsum(list(share_of.values()))
        # The last split with a share has no upper end, because rounding may have left the sum slightly below 1.
        self._ends[np.flatnonzero(list(share_of.values()))[-1] :] = np.inf

    def draw(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Draws a split for each hash, uint64 [n]; returns the indices of the splits in `names`, int64 [n]."""
        return np.searchsorted(self._ends, hashes / 2.0**64, side="right")


def split_names(shares: Sequence[str]) -> list[str]:
    """The names of the splits in the texts `name:share`."""
    return [text.partition(":")[0] for text in shares]


def _parse_shares(shares: Sequence[str]) -> dict[str, float]:
    """{name of a split: its share} from the texts `name:share`; raises `UsageError` as `Splits` does."""
    flag = "--splits=" + ",".join(shares)
    expected = "expected names with shares that add up to 1, as in --splits=train:0.8,validate:0.1,test:0.1"
    pairs = [text.partition(":")[::2] for text in shares]
    try:
        share_of = {name: float(share) for name, share in pairs}
    except ValueError as error:
        raise UsageError(f"{flag}: a share is missing or is not a number; {expected}.") from error
    if len(share_of) < len(pairs):
        raise UsageError(f"{flag}: a name is repeated; {expected}.")
    if not all(0 <= share <= 1 for share in share_of.values()):
        raise UsageError(f"{flag}: a share is not in 0..1; {expected}.")
    total = sum(share_of.values())
    if abs(total - 1) > 1e-6:
        raise UsageError(f"{flag}: the shares add up to {total:g}; {expected}.")
    if not all(map(_SPLIT_NAME.fullmatch, share_of)):
        raise UsageError(
            f"{flag}: the name of a split becomes the name of a folder; expected only letters, digits, - and _."
        )
    return share_of


class Labels(NamedTuple):
    """The labels of a batch of rows, as pairs (row, label), sorted and without duplicates.

    Attributes:
      rows: int64 [n], the row of each pair, as an index into the batch; ascending.
      codes: int64 [n], the label of each pair, as an index into `RowReader.names` or as a class; ascending within a
        row.
    """

    rows: NDArray[np.int64]
    codes: NDArray[np.int64]

    def only(self, is_kept: Sequence[bool] | NDArray[np.bool_]) -> Labels:
        """The labels of a mask."""
        mask = np.array(is_kept, bool)
        return Labels(self.rows[mask], self.codes[mask])

    def recode(self, codes: NDArray[np.int64]) -> Labels:
        """The labels with `codes[code]` in place of each code, sorted, each once; new codes must be 0 or more."""
        bits = int(codes.max(initial=0)).bit_length()
        pairs = np.sort(self.rows << bits | codes[self.codes])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        return Labels(pairs >> bits, pairs & (1 << bits) - 1)


class TableVideos(NamedTuple):
    """The videos in a batch of rows: what `RowReader` reads from the good rows.

    Attributes:
      indices: int64 [n], the indices of the good rows in the batch.
      splits: int16 [rows], the index of each row's split in `Splits.names`; -1 for a bad row.
    """

    rows: Rows
    indices: NDArray[np.int64]
    ids: Sequence[bytes]
    labels: Labels
    splits: NDArray[np.int16]


class Scan(NamedTuple):
    """The result of the first pass over the table.

    Attributes:
      splits: int16 [rows of the table], the index of each row's split in `Splits.names`; -1 for a bad row.
      videos: number of videos of each split, in the order of `Splits.names`.
      names: {label, spelt as in the table: number of videos that have it}.
      unlabelled: number of good rows without a label.
      groups: which videos belong together; None without --group_by.
    """

    splits: NDArray[np.int16]
    videos: tuple[int, ...]
    names: Counter[str]
    unlabelled: int
    groups: Groups | None = None


class _SplitsOfRows(NamedTuple):
    """The splits of some rows, before all rows of a group are put into one split."""

    splits: NDArray[np.int16]
    named: NDArray[np.int16]
    groups: NDArray[np.void]


class RowReader:
    """Reads the ids, labels and splits of a table, and finds bad rows."""

    def __init__(self, table: Table, flags: DataSetFlags, bad: BadRows) -> None:
        self._table, self._flags, self._bad, self.splits = table, flags, bad, Splits(flags.splits)
        vocabulary = find_vocabulary(flags)
        self._known_names = set(map(clean_name, vocabulary.names)) if vocabulary else set()
        self.names: list[str] = []
        self._index_of = {"": -1}  # {label, as cells have it or clean: its index in `names`}; -1 for no label
        self._problems: dict[int, str] = {}  # {index in `names`: what is wrong with the label}
        self._class_numbers = np.zeros(0, np.int64)  # the class of each of the first `names`; -1 if it has none

    def scan(self, on_ids: Callable[[Sequence[bytes]], None] = lambda _: None) -> Scan:
        """Reads all rows without their features; only about 20 bytes of each row stay in memory."""
        digests: list[NDArray[np.void]] = []
        splits: list[_SplitsOfRows] = []
        counts, labelled = np.zeros(0, np.int64), list[NDArray[np.bool_]]()
        for rows in self._table.batches(_ROWS_AT_ONCE):
            for number, problem in rows.bad.items():
                self._bad.add(number, problem)
            ids, labels = _encode_ids(rows), self._read_labels(rows)
            on_ids(ids)
            digests.append(self._digests_of_ids(rows, ids))
            for index, code in zip(labels.rows.tolist(), labels.codes.tolist(), strict=True) if self._problems else ():
                if code in self._problems:
                    self._bad.add(rows.first + index, self._problems[code])
            splits.append(self._read_splits(rows, digests[-1]))
            batch_counts = np.bincount(labels.codes[splits[-1].splits[labels.rows] >= 0], minlength=len(self.names))
            labelled.append(np.bincount(labels.rows, minlength=rows.size) > 0)
            counts = batch_counts + np.pad(counts, (0, len(batch_counts) - len(counts)))
            if len(self.names) > MOST_CLASSES:
                raise RunError(f"{self._table.path} has more than {MOST_CLASSES} labels; is --label_separator right?")
        if not digests:
            raise RunError(f"{self._table.path} has no row; expected one for each video.")
        splits_of_rows = _SplitsOfRows(*map(np.concatenate, zip(*splits, strict=True)))
        all_splits, all_digests = self._splits_by_group(splits_of_rows), np.concatenate(digests)
        for first, row in _find_repeated(all_digests):
            self._bad.add(row + 1, f"row {first + 1} has the same id")
            all_splits[row] = -1
        videos = np.bincount(all_splits[all_splits >= 0], minlength=len(self.splits.names))
        names = {name: count for name, count in zip(self.names, counts.tolist(), strict=True) if count}
        unlabelled = int(((all_splits >= 0) & ~np.concatenate(labelled)).sum())
        groups = Groups.from_digests(all_digests, splits_of_rows.groups) if self._flags.group_by else None
        return Scan(all_splits, tuple(videos.tolist()), Counter(names), unlabelled, groups)

    def videos(self, scan: Scan, size: int, features: Sequence[str] = ()) -> Iterator[TableVideos]:
        """Yields the videos of the rows, in batches of rows.

        Args:
          size: largest number of rows of a batch.
        """
        for rows in self._table.batches(size, 0, features):
            splits = scan.splits[rows.first - 1 :][: rows.size]
            yield TableVideos(rows, np.flatnonzero(splits >= 0), _encode_ids(rows), self._read_labels(rows), splits)

    def number_labels(self, batch: TableVideos, classes: Classes) -> tuple[Labels, NDArray[np.int64]]:
        """Replaces the labels of a batch by their classes. A row with a label that has no class becomes a bad row.

        Returns:
          (the labels, whose codes are classes, sorted by row and class; the indices of the good rows in the batch).
        """
        labels, indices = batch.labels, batch.indices
        if len(self._class_numbers) < len(self.names):
            self._class_numbers = np.array([classes.number.get(name, -1) for name in self.names], np.int64)
        is_known = self._class_numbers[labels.codes] >= 0
        if is_known.all():
            return labels.recode(self._class_numbers), indices
        unknown, first = np.unique(labels.rows[~is_known], return_index=True)
        for index, code in zip(unknown.tolist(), labels.codes[~is_known][first].tolist(), strict=True):
            if batch.splits[index] >= 0:
                self._bad.add(batch.rows.first + index, classes.describe_unknown(self.names[code]))
        known_labels = Labels(labels.rows[is_known], labels.codes[is_known])
        return known_labels.recode(self._class_numbers), indices[~np.isin(indices, unknown)]

    def _digests_of_ids(self, rows: Rows, ids: Sequence[bytes]) -> NDArray[np.void]:
        """The digest of each id; a row whose id is empty or has a control character becomes a bad row."""
        if not (b"".join(ids).decode("utf-8", "replace").isprintable() and all(ids)):
            for number, text in enumerate(ids, rows.first):
                if not text:
                    self._bad.add(number, "the id is empty")
                elif CONTROL_CHARACTER.search(text.decode("utf-8", "replace")):
                    id_shown = repr(text.decode("utf-8", "replace")[:60])
                    self._bad.add(number, f"the id {id_shown} holds a line break or another control character")
        return digests_of(ids)

    def _read_splits(self, rows: Rows, digests: NDArray[np.void]) -> _SplitsOfRows:
        """The split that each row names, or else one that is drawn by the row's group or id."""
        splits_in_table = self._named_splits(rows)
        groups = self._digests_of_groups(rows) if self._flags.group_by else digests[:0]
        drawing = hashes(groups if self._flags.group_by else digests)
        splits = np.where(splits_in_table >= 0, splits_in_table, self.splits.draw(drawing)).astype(np.int16)
        for number in self._bad.problems:
            if rows.first <= number < rows.first + rows.size:
                splits[number - rows.first] = -1
        return _SplitsOfRows(splits, splits_in_table, groups)

    def _named_splits(self, rows: Rows) -> NDArray[np.int16]:
        """The split that each row names in its cell `split`, -1 for none; an unknown name makes the row bad."""
        names = self.splits.names
        if "split" not in rows.cells:
            return np.full(rows.size, -1, np.int16)
        numbers = {name: index for index, name in enumerate(names)} | {"": -1}
        cells = [str(cell).strip() for cell in rows.cells["split"]]
        for row, name in enumerate(cells, rows.first) if not set(cells) <= numbers.keys() else ():
            if name not in numbers:
                problem = f"its split is {name[:60]!r}, and --splits names {', '.join(names)}"
                remedy = "name the splits of the column there, or draw splits without it by --columns=split="
                self._bad.add(row, f"{problem} ({remedy})")
        return np.fromiter((numbers.get(name, -1) for name in cells), np.int16, rows.size)

    def _digests_of_groups(self, rows: Rows) -> NDArray[np.void]:
        """The digest of each row's cell in the column --group_by; a row whose cell is empty becomes a bad row."""
        groups = [str(cell) for cell in rows.cells[self._flags.group_by]]
        for number, group in enumerate(groups, rows.first) if not all(groups) else ():
            if not group:
                self._bad.add(
                    number, f"its {self._flags.group_by} is empty, but --group_by needs it to choose the split"
                )
        return digests_of([group.encode("utf-8", "surrogateescape") for group in groups])

    def _splits_by_group(self, rows: _SplitsOfRows) -> NDArray[np.int16]:
        """The split of each row. If a row of a group names a split, all rows of the group get that split.

        If rows of a group name different splits, the first name counts, and the rows with other names become bad rows.
        """
        splits, splits_in_table, digests = rows
        if not len(digests):
            return splits
        _, groups = np.unique(digests.view("S16"), return_inverse=True)
        naming_rows = np.flatnonzero((splits >= 0) & (splits_in_table >= 0))
        first_rows = np.full(groups.max() + 1, -1)
        first_rows[groups[naming_rows[::-1]]] = naming_rows[::-1]
        group_splits = np.where(first_rows >= 0, splits_in_table[first_rows], -1)[groups]
        for row in naming_rows[splits_in_table[naming_rows] != group_splits[naming_rows]].tolist():
            self._add_divided_row(row, int(first_rows[groups[row]]), splits_in_table)
            splits[row] = -1
        return np.where((splits >= 0) & (group_splits >= 0), group_splits, splits).astype(np.int16)

    def _add_divided_row(self, row: int, first: int, splits_in_table: NDArray[np.int16]) -> None:
        """Adds a bad row: it names another split than row `first` of its group. Both rows are counted from 0."""
        group = str(next(self._table.batches(1, row)).cells[self._flags.group_by][0])[:60]
        split, other = (self.splits.names[splits_in_table[index]] for index in (row, first))
        observation = f"its split is {split}, and that of row {first + 1} is {other}"
        self._bad.add(
            row + 1,
            f"{observation}, though both are of the {self._flags.group_by} {group!r}, which --group_by keeps together",
        )

    def _describe_label_problem(self, name: str) -> str:
        """What is wrong with a label; empty if nothing is."""
        if CONTROL_CHARACTER.search(name):
            return f"the label {name[:60]!r} holds a control character"
        if not name.isascii() and SURROGATE.search(name):
            return f"the label {name[:60]!r} is not UTF-8 text, so no vocabulary can hold it; rename it"
        if CLASS_NUMBER.fullmatch(name) or name in self._known_names:
            return ""
        if self._flags.vocabulary:
            alike = next((other for other in self._known_names if look_alike(name, other)), "")
            if alike:
                return (
                    f"the label {name[:60]!a} is not in the --vocabulary, which encodes the letters in another way: "
                    f"{alike[:60]!a}; write both alike"
                )
            return f"the label {name[:60]!r} is not in the --vocabulary{suggestion(name, self._known_names)}"
        if self._flags.label_names is not True and _ANY_NUMBER.fullmatch(name):
            return (
                f"the label {name[:60]!r} is not a class number; expected names, or whole numbers from 0. If such "
                "numbers are names, add --label_names"
            )
        return ""

    def _read_labels(self, rows: Rows) -> Labels:
        """The labels of a batch of rows; new labels are appended to `names`."""
        cells = rows.labels
        if isinstance(cells, NameLists):
            codes, lengths = self._index_of_names(cells.distinct)[cells.codes], cells.lengths
        else:
            codes, lengths = self._codes_in_lists(cells), np.array(list(map(len, cells)), np.int64)
        indices = np.repeat(np.arange(rows.size), lengths)
        return Labels(indices[codes >= 0], codes[codes >= 0]).recode(np.arange(len(self.names)))

    def _index_of_names(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The index in `names` of each of some labels, -1 for none."""
        for name in names:
            self._add_name(name)
        return np.fromiter(map(self._index_of.__getitem__, names), np.int64, len(names))

    def _codes_in_lists(self, cells: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        try:
            return self._codes_of(cells)
        except KeyError:  # a label is new
            for name in dict.fromkeys(itertools.chain.from_iterable(cells)):
                self._add_name(name)
            return self._codes_of(cells)

    def _codes_of(self, cells: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        return np.fromiter(map(self._index_of.__getitem__, itertools.chain.from_iterable(cells)), np.int64)

    def _add_name(self, written: str) -> None:
        """Finds the index of a label as a cell has it; appends the label to `names` if it is new."""
        if written in self._index_of:
            return
        name = self._table.clean_label(written)
        if name not in self._index_of:
            if problem := self._describe_label_problem(name):
                self._problems[len(self.names)] = problem
            self._index_of[name] = len(self.names)
            self.names.append(name)
        self._index_of[written] = self._index_of[name]


def _encode_ids(rows: Rows) -> list[bytes]:
    cells = rows.cells["id"]
    if isinstance(cells, TextColumn):
        return cells.encoded()
    return [str(cell).encode("utf-8", "surrogateescape") for cell in cells]


def _find_repeated(digests: NDArray[np.void]) -> Iterator[tuple[int, int]]:
    """Yields (first row with the same digest, row) for each row that repeats the digest of an earlier row.

    Rows are counted from 0, and yielded in their order.
    """
    beginnings = np.sort(digests.view(np.uint64)[::2])
    if (beginnings[1:] != beginnings[:-1]).all():  # no digest repeats; this check is ten times as fast as what follows
        return
    _, first_rows, groups = np.unique(digests.view("S16"), return_index=True, return_inverse=True)
    firsts = first_rows[groups]
    rows = np.flatnonzero(firsts != np.arange(len(firsts)))
    yield from zip(firsts[rows].tolist(), rows.tolist(), strict=True)
