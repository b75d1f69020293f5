"""Finds the classes of a vocabulary in another one by their names; some classes may have been renamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from yt8m import storage
from yt8m.errors import UsageError, suggestion
from yt8m.records.vocabulary import Vocabulary
from yt8m.tables.reading import open_columns

_HEADER = ["old", "new"]


class Matching(NamedTuple):
    """Where the classes of a new vocabulary are in an old one.

    Attributes:
      sources: for each class of the new vocabulary its index in the old one, or -1 if the old one lacks the class.
    """

    sources: tuple[int, ...]
    num_classes_there: int
    gone: tuple[str, ...]
    renamed: int

    @property
    def is_same(self) -> bool:
        """Whether both vocabularies have the same classes in the same order."""
        return not self.gone and self.sources == tuple(range(len(self.sources)))

    def summary(self) -> str:
        """A text such as `3 kept (1 renamed), 2 new, 0 gone`, with the numbers of classes."""
        new = self.sources.count(-1)
        renamed = f" ({self.renamed} renamed)" if self.renamed else ""
        return f"{len(self.sources) - new} kept{renamed}, {new} new, {len(self.gone)} gone"


def match_classes(old: Vocabulary, new: Vocabulary, renames: Mapping[str, str]) -> Matching:
    """Finds each class of `new` in `old` by its name.

    Args:
      renames: {name in `old`: name in `new`} of the classes whose name differs.
    """
    for which, names in (("old", old.names), ("new", new.names)):
        _refuse_repeated(names, f"--init_from: classes are found by name, but the {which} vocabulary has the name")
    for name, later in renames.items():
        for word, names, which in ((name, old.names, "old"), (later, new.names, "new")):
            if word not in names:
                raise UsageError(f"--rename: no class of the {which} vocabulary is {word!r}{suggestion(word, names)}")
        if later in old.names and later not in renames:
            raise UsageError(
                f"--rename: {name!r} becomes {later!r}, but the old vocabulary has a class {later!r} too. Rename that "
                f"class as well, or do not rename {name!r}."
            )
    old_index = {renames.get(name, name): index for index, name in enumerate(old.names)}  # {new name: index in `old`}
    new_names = set(new.names)
    gone = tuple(old.names[index] for name, index in old_index.items() if name not in new_names)
    return Matching(tuple(old_index.get(name, -1) for name in new.names), len(old), gone, len(renames))


def read_renames(path: str) -> dict[str, str]:
    """The renames {old name: new name} in a CSV file with the columns `old,new`."""
    storage.refuse_missing(path, "rename", "expected a CSV file with the columns old,new")
    expected = f"--rename={path}: expected the header {','.join(_HEADER)} and two names on each line"
    table = open_columns("--rename", path, _HEADER)
    if len(table.source_columns) != len(_HEADER):
        raise UsageError(f"{expected}; the columns are {', '.join(table.source_columns)}.")
    rows = [[row.cells[name].strip() for name in _HEADER] for row in table.rows()]
    if not all(map(all, rows)):
        raise UsageError(f"{expected}; a name is empty.")
    for column in zip(*rows, strict=True):
        _refuse_repeated(column, f"--rename={path}: a class is renamed once, but the file has")
    return dict(rows)


def _refuse_repeated(names: Iterable[str], reason: str) -> None:
    """Raises a `UsageError` if a name is repeated; `reason` is the start of the message, before `NAME COUNT times`."""
    name, count = next(iter(Counter(names).most_common(1)), ("", 0))
    if count > 1:
        raise UsageError(f"{reason} {name!r} {count} times.")
