"""Columns of texts that Arrow holds: they become Python's objects only when somebody asks for these."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray


class TextColumn(Sequence[str]):
    """The cells of a column of a table, as texts."""

    def __init__(self, column: Any) -> None:
        self._column = column  # an array of Arrow

    @functools.cached_property
    def _texts(self) -> list[str]:
        texts: list[str] = self._column.to_numpy(zero_copy_only=False).tolist()
        return texts

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, int) and "_texts" not in vars(self):  # a few cells are not worth all objects
            return str(self._column[index].as_py())
        return self._texts[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __contains__(self, text: object) -> bool:
        import pyarrow.compute

        return bool(pyarrow.compute.any(pyarrow.compute.equal(self._column, text)).as_py())

    def raw(self) -> bytes:
        """The texts in UTF-8, one directly after another."""
        _, offsets, data = self._column.buffers()
        kind = np.int64 if str(self._column.type).startswith("large") else np.int32
        bounds = np.frombuffer(offsets, kind)[self._column.offset : self._column.offset + len(self) + 1]
        return bytes(data[int(bounds[0]) : int(bounds[-1])]) if len(self) and data is not None else b""

    def encoded(self) -> list[bytes]:
        """The texts in UTF-8."""
        texts: list[bytes] = self._column.cast("binary").to_numpy(zero_copy_only=False).tolist()
        return texts

    def split(self, separator: str) -> NameLists:
        """The names in each cell; without a separator, the cell itself."""
        import pyarrow.compute

        if not separator:
            return NameLists(self._column, np.ones(len(self), np.int64))
        lists = pyarrow.compute.split_pattern(self._column, separator)
        return NameLists(lists.flatten(), np.diff(lists.offsets.to_numpy()))


class NameLists(Sequence[Sequence[str]]):
    """A list of names for each row, with each different name held once.

    Args:
      names: an array of Arrow, the names of all rows one after another.
      lengths: int64 [rows], how many of them each row has.

    Attributes:
      codes: int64 [names of all rows], the index of each name in `distinct`.
      distinct: the different names.
    """

    def __init__(self, names: Any, lengths: NDArray[np.int64]) -> None:
        encoded = names.dictionary_encode()
        self.lengths, self.codes = lengths, encoded.indices.to_numpy().astype(np.int64)
        self.distinct: list[str] = encoded.dictionary.to_pylist()

    @functools.cached_property
    def _lists(self) -> list[list[str]]:
        names = [self.distinct[code] for code in self.codes.tolist()]
        ends = np.cumsum(self.lengths).tolist()
        return [names[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> Sequence[str]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[str]]: ...

    def __getitem__(self, index: int | slice) -> Sequence[str] | Sequence[Sequence[str]]:
        return self._lists[index]

    def __iter__(self) -> Iterator[Sequence[str]]:
        return iter(self._lists)


def filled(cells: Sequence[Any]) -> Sequence[Any]:
    """The cells, with an empty text for null and NaN, by which JSON and pandas say that a cell is empty."""
    if isinstance(cells, TextColumn):
        return cells
    return ["" if cell is None or cell != cell else cell for cell in cells]
