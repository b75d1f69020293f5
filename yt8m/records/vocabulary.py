"""Reads, writes, compares and matches vocabularies, the names of classes; has the vocabulary of YouTube-8M itself.

    index,name,vertical,count
    0,cat,Animals,120
    1,dog,Animals,97

The column `index` counts from 0; the columns `vertical` (a coarse category) and `count` (the number of training videos)
may be missing. YouTube-8M's own file (`Index,TrainVideoCount,...,Name,...,Vertical1,...`) can be read too.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
import io
import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, suggestion
from yt8m.records import prediction_files, vocabulary_forms
from yt8m.tables.sources import encodings
from yt8m.tables.sources.dialects import parse_rows

NAME = "vocabulary.csv"
_RENAMES = ["old", "new"]  # the columns of a file of --rename


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The names of the classes of data or of a model.

    `names`, `counts` and `verticals` have one entry for each class. A vocabulary without classes is empty: then
    `len(vocabulary)` is 0.

    Attributes:
      names: the name of each class; `class 123` for the few classes of YouTube-8M without a name.
      counts: int64 [C], the number of training videos with each class; 0 if it is unknown.
      verticals: the first vertical (a coarse category) of each class; an empty string if it is unknown.
      path: the file that the names come from; empty if there is none.
    """

    names: tuple[str, ...]
    counts: NDArray[np.int64]
    verticals: tuple[str, ...]
    path: str = ""

    def __len__(self) -> int:
        return len(self.names)

    def name(self, index: int) -> str:
        """The name of a class; `class 5000` for a class that is not in the vocabulary."""
        return self.names[index] if 0 <= index < len(self.names) else f"class {index}"

    def vertical(self, index: int) -> str:
        """The first vertical of a class; empty if it is unknown, or the class is not in the vocabulary."""
        return self.verticals[index] if 0 <= index < len(self.verticals) else ""

    @property
    def is_youtube8m(self) -> bool:
        """Whether these are all classes of YouTube-8M, or the first n of them for any n from 1 on."""
        return len(self) > 0 and self.first_difference(load()) in (None, len(self))

    def first_difference(self, other: Vocabulary) -> int | None:
        """The index of the first class that has another name in `other`, or that only one of the two has.

        None if both have the same names in the same order.
        """
        pairs = enumerate(itertools.zip_longest(self.names, other.names))
        return next((index for index, (name, other_name) in pairs if name != other_name), None)

    def shown(self, num_classes: int | None) -> Vocabulary:
        """The vocabulary whose names programs show for data or a model of `num_classes` classes, None if unknown.

        It is this one. If this one is empty, it is that of YouTube-8M for 3862 classes; for any other number it is an
        empty one, so that class 7 is shown as `class 7`.
        """
        return self or (load() if num_classes == len(load()) else self)

    def class_counts(self, num_classes: int) -> NDArray[np.int64] | None:
        """int64 [C], the number of training videos of the first C = `num_classes` classes; None if it is not known."""
        return self.counts[:num_classes] if self.counts.any() and len(self) >= num_classes else None

    def refuse_count(self, num_classes: int | None) -> None:
        """Raises a `UsageError` if --num_classes, None if it is not given, is not the number of these classes."""
        if self and num_classes not in (None, len(self)):
            raise UsageError(
                f"--num_classes={num_classes}, but {self.path} names {len(self)} classes; leave the flag out, "
                "or name another file by --vocabulary."
            )

    def refuse_other(self, other: Vocabulary, where: str, other_place: str, remedy: str) -> None:
        """Refuses a vocabulary that differs from this one."""
        index = self.first_difference(other)
        if index is not None:
            raise UsageError(
                f"class {index} is {_class_text(self, index)} in {where}, and {_class_text(other, index)} in "
                f"{other_place}. {remedy}"
            )


def of_names(names: Sequence[str]) -> Vocabulary:
    """A vocabulary of names, without verticals and counts."""
    return Vocabulary(tuple(names), np.zeros(len(names), np.int64), ("",) * len(names))


def read(path: str) -> Vocabulary:
    """Reads a vocabulary from a CSV file, or from another form in which people write the names of classes."""
    return parse(vocabulary_forms.as_csv(path, storage.read_bytes(path)), path)


def write(path: str, vocabulary: Vocabulary) -> None:
    """Writes a vocabulary into a CSV file, atomically; an existing file is replaced."""
    content = content_of(vocabulary)
    parse(content, path)
    storage.write(path, content)


def content_of(vocabulary: Vocabulary) -> bytes:
    """The content of a vocabulary's file; the column of verticals or counts is left out if all of them are unknown."""
    columns: dict[str, Sequence[object]] = {"index": range(len(vocabulary)), "name": vocabulary.names}
    if any(vocabulary.verticals):
        columns["vertical"] = vocabulary.verticals
    if vocabulary.counts.any():
        columns["count"] = vocabulary.counts.tolist()
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([columns.keys(), *zip(*columns.values(), strict=True)])
    return text.getvalue().encode()


def _class_text(vocabulary: Vocabulary, index: int) -> str:
    """The quoted name of a class, or that the vocabulary lacks it, for the sentence `class 3 is ... in FILE`."""
    return (
        repr(vocabulary.names[index]) if index < len(vocabulary) else f"missing (the last one is {len(vocabulary) - 1})"
    )


class _VocabularyRow(NamedTuple):
    """One row of a vocabulary's file."""

    path: str
    line: int
    fields: Mapping[str, str]

    def refuse(self, problem: str) -> NoReturn:
        """Raises a `RunError` that names the file, the line and the `problem`."""
        raise RunError(f"{self.path}, line {self.line}: {problem}")


# The end of messages about a wrong header.
_COLUMNS = "expected a header with `index,name`, and optionally `vertical` and `count`"


@dataclass(frozen=True)
class _VocabularyContent:
    """The content of a vocabulary's file; equal contents are equal, whatever their paths, which only errors name."""

    content: bytes
    path: str = field(compare=False)


def parse(content: bytes, path: str) -> Vocabulary:
    """Parses the content of the vocabulary's file `path`."""
    return replace(_parse(_VocabularyContent(content, path)), path=path)


@functools.lru_cache(4)  # a training reads the vocabulary of its data, and copies it into the folder of the run
def _parse(source: _VocabularyContent) -> Vocabulary:
    names: list[str] = []
    counts: list[int] = []
    verticals: list[str] = []
    for index, row in enumerate(_rows(source.content, source.path)):
        if row.fields["index"] != str(index):
            _refuse_index(row, index)
        is_published = "trainvideocount" in row.fields  # a few classes in YouTube-8M's own file have no name
        name = _parse_name(row)
        if not name and not is_published:
            row.refuse(f"the name of class {index} is empty; give the class a name.")
        names.append(name or f"class {index}")
        counts.append(_parse_count(row))
        verticals.append(row.fields.get("vertical1" if is_published else "vertical", ""))
    if not names:
        raise RunError(f"{source.path} lists no class; expected a header, then a line `index,name` for each class.")
    array = np.array(counts, np.int64)
    array.flags.writeable = False  # copies of one file, as beside the shards of each level, share it
    return Vocabulary(tuple(names), array, tuple(verticals))


def _rows(content: bytes, path: str) -> Iterator[_VocabularyRow]:
    """Yields the rows after the header."""
    header, rows = parse_rows(encodings.decode(content, path), path, ("index", "name"))
    if not header:
        return
    _check_header(_VocabularyRow(path, 1, {}), header)
    for line, fields in rows:
        row = _VocabularyRow(path, line, dict(zip(header, map(str.strip, fields), strict=False)))
        if len(fields) != len(header):
            row.refuse(f"{len(fields)} fields, but the header has {len(header)}; put a name with a comma in quotes.")
        yield row


def _check_header(row: _VocabularyRow, header: Sequence[str]) -> None:
    if not {"index", "name"} <= set(header):
        row.refuse(f"the columns are {', '.join(header)[:80] or 'missing'}; {_COLUMNS}.")
    names = [name for name in header if name]
    if len(set(names)) != len(names):
        row.refuse(f"a column is repeated in {','.join(header)[:80]}; {_COLUMNS}.")


def _refuse_index(row: _VocabularyRow, expected: int) -> NoReturn:
    """Raises a `RunError` that says why the index of a row is not the expected one."""
    text = row.fields["index"]
    number = prediction_files.whole_number(text.encode())
    problem = f"{text[:40]!r} is not a class number" if number < 0 else f"the index is {text}"
    if 0 <= number < expected:
        problem = f"the index {number} is in an earlier line already"
    row.refuse(f"{problem}; expected {expected}: indexes count from 0, without gaps and in order.")


def has_control_character(name: str) -> bool:
    """Whether a name has a line break or another control character, which names of classes must not have."""
    return not name.isprintable() and any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in name)


def _parse_name(row: _VocabularyRow) -> str:
    name = row.fields["name"]
    if has_control_character(name):
        row.refuse(f"the name {name[:40]!r} holds a control character; remove it.")
    return name


def _parse_count(row: _VocabularyRow) -> int:
    text = row.fields.get("count", row.fields.get("trainvideocount", "")) or "0"
    count = prediction_files.whole_number(text.encode())
    if count < 0:
        row.refuse(f"the count {text[:40]!r} is not a number of videos; expected a whole number, or an empty field.")
    return count


def _read_packaged(name: str) -> bytes:
    """The content of a file in `yt8m/data`."""
    return (importlib.resources.files("yt8m") / "data" / name).read_bytes()


@functools.cache
def load() -> Vocabulary:
    """The 3862 classes of the 2018 version of YouTube-8M, which ship with the package."""
    return parse(_read_packaged(NAME), NAME)


@functools.cache
def segment_classes() -> NDArray[np.int64]:
    """int64 [1000], ascending: the numbers of the YouTube-8M classes for which segments are rated."""
    lines = _read_packaged("segment_label_ids.csv").decode("ascii").split()
    classes = np.sort(np.array(lines[1:], np.int64))
    classes.flags.writeable = False
    return classes


@functools.cache
def pca_eigenvalues() -> NDArray[np.float32]:
    """float32 [2048], descending: the eigenvalues of the PCA whose first 1024 components are YouTube-8M's `rgb`."""
    values: NDArray[np.float32] = np.load(io.BytesIO(_read_packaged("pca_eigenvals.npy"))).ravel()
    values.flags.writeable = False
    return values


def read_segment_classes(path: str = "") -> set[int]:
    """Reads the numbers of the classes for which segments are rated.

    Args:
      path: a file with a class number in each line, under the header `Index`, which may be missing; empty for the 1000
        classes that YouTube-8M publishes.
    """
    if not path:
        return set(segment_classes().tolist())
    from yt8m.tables.reading import csv_text  # imports the readers of all kinds of tables

    header, rows = parse_rows(csv_text("--segment_label_ids_file", path), path, ("index",))
    column = header.index("index") if "index" in header else 0
    has_header = bool(header) and prediction_files.whole_number(header[0].encode()) < 0
    fields_of_lines = rows if has_header else itertools.chain([(1, header)] if header else [], rows)
    classes: set[int] = set()
    for line, fields in fields_of_lines:
        name = fields[column].strip().encode("utf-8", "surrogateescape") if column < len(fields) else b""
        number = prediction_files.whole_number(name)
        if number < 0:
            problem = f"{prediction_files.shown(name)} is not a class number; expected one per line under `Index`."
            prediction_files.TextLine(path, line, name).refuse(problem)
        classes.add(number)
    if not classes:
        problem = "there is no class; expected one number per line under the header `Index`."
        prediction_files.TextLine(path, 1, b"").refuse(problem)
    return classes


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
    from yt8m.tables.reading import open_columns  # imports the readers of all kinds of tables

    storage.refuse_missing(path, "rename", "expected a CSV file with the columns old,new")
    expected = f"--rename={path}: expected the header {','.join(_RENAMES)} and two names on each line"
    table = open_columns("--rename", path, _RENAMES)
    if len(table.source_columns) != len(_RENAMES):
        raise UsageError(f"{expected}; the columns are {', '.join(table.source_columns)}.")
    rows = [[row.cells[name].strip() for name in _RENAMES] for row in table.rows()]
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
