"""Lists of words between blanks that are no CSV: those of fastText, and of attributes as CelebA has them."""

from __future__ import annotations

import itertools

from yt8m.errors import UsageError
from yt8m.tables.sources import encodings
from yt8m.tables.sources.source import MemorySource

_PREFIX = "__label__"
_LOOKED_AT = 20  # lines from which the form is known
_ANSWERS = frozenset(("-1", "0", "1"))


def read_word_list(path: str) -> MemorySource | None:
    """The rows of a list of words; None for other files."""
    with encodings.open_text(path, encodings.detect(path).name) as file:
        start = [line.strip() for line in itertools.islice(file, _LOOKED_AT)]
    if _is_fasttext([line for line in start if line]):
        return _read_fasttext(path)
    return _read_attributes(path) if _first_row_of_attributes(start) else None


def _is_fasttext(lines: list[str]) -> bool:
    """Whether each line has a label of fastText, and only some words beside those."""
    return (
        bool(lines)
        and all(any(word.startswith(_PREFIX) for word in line.split()) for line in lines)
        and not any(sign in line for line in lines for sign in ",;\t")
    )


def _read_fasttext(path: str) -> MemorySource:
    """Lines such as `__label__cat __label__dog v00.mp4`: the word that is no label is the id."""
    ids, labels, numbers = list[str](), list[list[str]](), list[int]()
    for number, line in enumerate(encodings.read_text(path).splitlines(), 1):
        texts = [word for word in line.split() if not word.startswith(_PREFIX)]
        if not line.strip():
            continue
        if len(texts) != 1:
            raise UsageError(
                f"{path}, line {number}: beside its labels, a line of fastText needs the id of a video, of one word; "
                f"it has {' '.join(texts)[:60]!r}. Save the table as CSV with a header such as id and labels."
            )
        ids.append(texts[0])
        labels.append([word.removeprefix(_PREFIX) for word in line.split() if word.startswith(_PREFIX)])
        numbers.append(number)
    return MemorySource(path, {"id": ids, "labels": labels}, "fastText", {"id": "id", "labels": "labels"}, numbers)


def _first_row_of_attributes(lines: list[str]) -> int:
    """The number of the line below the names of attributes, which no name of an id stands before; 0 for other files."""
    header = 1 if lines and lines[0].isdecimal() else 0
    if len(lines) < header + 2:
        return 0
    names, rows = lines[header].split(), [line.split() for line in lines[header + 1 :] if line]
    fits = all(len(row) == len(names) + 1 and _ANSWERS.issuperset(row[1:]) for row in rows)
    return header + 1 if rows and len(names) > 1 and fits and not _ANSWERS.issuperset(names) else 0


def _read_attributes(path: str) -> MemorySource:
    """A line of names of attributes, perhaps below the number of rows, and rows of an id and 1 or -1 for each."""
    lines = [line.split() for line in encodings.read_text(path).splitlines()]
    first = _first_row_of_attributes([" ".join(line) for line in lines[:_LOOKED_AT]])
    names = lines[first - 1]
    numbered = [(number, row) for number, row in enumerate(lines[first:], first + 1) if row]
    for number, row in numbered:
        if len(row) != len(names) + 1:
            raise UsageError(
                f"{path}, line {number}: the row has {len(row)} words; expected an id and {len(names)} values, one for "
                "each name of an attribute in the header."
            )
    columns = zip(*(row for _, row in numbered), strict=True)
    cells = dict(zip(["id", *names], map(list, columns), strict=True))
    return MemorySource(path, cells, "a list of attributes", {"id": "id"}, [number for number, _ in numbered])
