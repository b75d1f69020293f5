"""Rows of a table, whatever its file: a batch of rows, and what every kind of file offers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line

ROWS_AT_ONCE = 8192  # rows of a batch, where nothing speaks for another number


class Rows(NamedTuple):
    """A batch of successive rows of a table.

    Attributes:
      first: number of the first row, from 1.
      cells: {column: one value per row}; a value is a text, a number, None, or a list of texts or numbers.
      arrays: {feature: [n, ...]}, for the features in the table itself or beside it.
      bad: {number of a row: what is wrong with it}; the cells of such a row are empty.
    """

    first: int
    cells: Mapping[str, Sequence[Any]]
    arrays: Mapping[str, NDArray[Any]]
    bad: Mapping[int, str]

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(next(iter(self.cells.values())))

    @property
    def labels(self) -> Sequence[Any]:
        """The cells of labels of the rows of a `Table`; no labels if it has no such column."""
        return self.cells["labels"] if "labels" in self.cells else [()] * self.size


class Source(Protocol):
    """The rows of one file, before anybody has decided what its columns mean.

    Attributes:
      form: a few words on the file, such as `CSV separated by ";", in cp1252`.
      hints: {meaning: column}, if the form of the file says which column means what.
    """

    path: str
    columns: Sequence[str]
    arrays: Sequence[str]
    form: str
    hints: Mapping[str, str]

    def batches(
        self, size: int, skip: int = 0, columns: Sequence[str] = (), arrays: Sequence[str] = ()
    ) -> Iterator[Rows]:
        """Yields the rows after the first `skip`, at most `size` at a time, with these columns."""

    def line_of(self, row: int) -> int:
        """The number of the line of a row in the file, both from 1; 0 if the file has no lines."""

    def lines(self) -> Iterator[int]:
        """Yields the number of the line of each row; nothing if the file has no lines."""


class Table(Protocol):
    """A table with a row for each video."""

    path: str
    columns: Sequence[str]
    features: Sequence[str]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """Yields the rows after the first `skip`, in batches.

        Args:
          size: largest number of rows of a batch.
        """

    def clean_label(self, name: Any) -> str:
        """The name of the class that a name in the cells of `labels` means; empty for none."""


class MemorySource:
    """Rows that are held in memory: those of a workbook, of JSON, or of an export of another program.

    Args:
      cells: {column: one value per row}.
      lines: the line of each row; empty if there are none.

    Attributes:
      by_spans: makes the rows of the spans of an export from its frames per second (0 if not known); None if the export
        has none.
      cells_without_name: gives the texts in each column without a name, by its number; None if all have names.
      means_spans: whether the labels of the export are spans alone.
      has_seconds: whether the starts and ends are seconds, whatever the user says of frames.
      is_workbook: whether the program of the file took what people typed as 1:12 for 01:12:00.
      seen_parts: {video: (start, end) of the parts of it that alone people have looked at}, of rows that are spans.
      lengths: {video: its seconds}, where the export has them.
      places: where each row is in the export, such as `task 3`; empty if its number says it.
    """

    by_spans: Callable[[float], MemorySource] | None = None
    cells_without_name: Callable[[], Mapping[int, Collection[str]]] | None = None
    means_spans = has_seconds = is_workbook = False
    seen_parts: Mapping[str, Sequence[tuple[float, float]]] = {}
    lengths: Mapping[str, float] = {}
    places: Sequence[str] = ()

    def __init__(
        self,
        path: str,
        cells: Mapping[str, Sequence[Any]],
        form: str,
        hints: Mapping[str, str] | None = None,
        lines: Sequence[int] = (),
    ) -> None:
        self.path, self._cells, self.form, self.hints, self._lines = path, cells, form, hints or {}, lines
        self.columns: Sequence[str] = list(cells)
        self.arrays: Sequence[str] = ()

    def batches(
        self, size: int, skip: int = 0, columns: Sequence[str] = (), arrays: Sequence[str] = ()
    ) -> Iterator[Rows]:
        """See `Source`."""
        total = len(next(iter(self._cells.values()), ()))
        for start in range(skip, total, size):
            yield Rows(start + 1, {name: self._cells[name][start : start + size] for name in columns}, {}, {})

    def line_of(self, row: int) -> int:
        """See `Source`."""
        return self._lines[row - 1] if self._lines else 0

    def lines(self) -> Iterator[int]:
        """See `Source`."""
        return iter(self._lines)

    def with_spans(self, spans: MemorySource) -> MemorySource:
        """This source of whole videos with the rows of their spans, which all of its labels have."""
        self.by_spans, self.means_spans = lambda _: spans, True
        return self


def source_of_spans(
    path: str, form: str, rows: Iterable[Sequence[Any]], columns: Sequence[str] = ("id", "labels", "start", "end")
) -> MemorySource:
    """A row for each span, whose cells are in the order of the columns; its start and end are seconds."""
    rows = list(rows)
    cells = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    source = MemorySource(path, cells, form, {name: name for name in columns})
    source.has_seconds = True
    return source


class LinelessSource:
    """A file without lines of text."""

    hints: Mapping[str, str] = {}

    def line_of(self, row: int) -> int:
        """See `Source`."""
        return 0

    def lines(self) -> Iterator[int]:
        """See `Source`."""
        return iter(())


def with_numbers(columns: Sequence[str], is_numbered: Callable[[str], bool]) -> tuple[str, ...]:
    """The names of columns with numbers behind those that recur, as in `label`, `label.1`, if they may be numbered."""
    counts: Counter[str] = Counter()
    names = list[str]()
    for name in columns:
        names.append(f"{name}.{counts[name]}" if counts[name] and name and is_numbered(name) else name)
        counts[name] += 1
    return tuple(names)


def refuse_repeated_columns(path: str, columns: Sequence[str]) -> None:
    """Raises `UsageError` if two of the columns of the table at `path` have the same name."""
    names = [name for name in columns if name]
    if len(set(names)) < len(names):
        raise UsageError(f"{path} names a column twice: {','.join(columns)[:200]}; give each its own name.")


def odd_table(path: str, error: Exception) -> UsageError:
    """The error for a table in which a reader met what it did not expect."""
    reason = f"{type(error).__name__}: {first_line(error)}"
    return UsageError(f"{path}: the file is damaged, or has cells of a form that is not known ({reason}).")


def folder_of(path: str) -> str:
    """The folder in which relative paths of a table begin: its own; of a shell's pipe the current one, so empty."""
    folder = os.path.dirname(path)
    return "" if folder in ("/dev", "/dev/fd") else folder


def refuse_unreadable(flag: str, path: str) -> None:
    """Raises `UsageError` if there is no file at `path`, the value of `flag`, or if it is a device."""
    if not storage.exists(path):
        raise UsageError(f"{flag}={path}: there is no such file.")
    if storage.is_special(path):
        try:
            storage.read_start(path, 0)
        except RunError as error:
            raise UsageError(f"{flag}: {error}") from error
