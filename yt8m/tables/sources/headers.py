"""Where the header of a table is: below titles, below the names of groups of columns, or nowhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import count_known, meaning_of, plain_meaning

MOST_TITLE_LINES = 10
PARTS = re.compile(r"[;,|/#+\s]+")
PATH = re.compile(r"[^\s/\\]\.[A-Za-z][A-Za-z0-9]{1,4}$|/")  # the name of a file, or a path


def find_header(rows: Sequence[Sequence[str]], column_names: Collection[str] = ()) -> tuple[list[str], int]:
    """(the names of the columns, number of rows up to the header); ([], 0) if the first row is no header.

    A header has names with a known meaning, perhaps below a few titles. Other names are a header too, unless the first
    row looks like the others: it has a path, a field that another row has in the same column, or one like theirs.
    """
    if levels := _below_numbers_of_questions(rows) or _two_levels(rows):
        return levels
    known_names = set(map(normalized, column_names))
    for number, row in enumerate(rows[:MOST_TITLE_LINES]):
        if count_known(list(row)) >= 2 or not known_names.isdisjoint(map(normalized, row)):
            return list(row), number + 1
    names = [name for name in rows[0] if name]
    has_groups = len(set(names)) < len(names) or len(names) < len(rows[0])
    if has_groups and len(rows) > 2 and all(rows[1]) and _names_ids_alone(rows[1:]):
        return list(rows[1]), 2  # below names of groups, as pandas writes columns of two levels, or in merged cells
    if _names_ids_alone(rows) or _numbers_rows(rows):
        return list(rows[0]), 1
    different = [
        rows[0],
        *(row for row in rows[1:] if row != rows[0]),
    ]  # files that were joined have their header again
    if _looks_like_others(different) or (not count_known(list(rows[0])) and _has_paths(rows)):
        return [], 0
    return list(rows[0]), 1


def _two_levels(rows: Sequence[Sequence[str]]) -> tuple[list[str], int] | None:
    """The header of columns of two levels, as pandas and programs for forms write them; None for other tables.

    Its first line repeats a name, as in `id,labels,labels`, or stands above merged cells, as in `id,labels,`; the
    second has the names below it, as in `,cat,dog`. A third one may name the index alone.
    """
    if len(rows) < 3 or len(rows[0]) != len(rows[1]) or _has_values_below(rows[0], rows[1]):
        return None
    if all(rows[0]) and not any(rows[1][1:]) and plain_meaning(rows[1][0]) == "id":
        return [rows[1][0], *rows[0][1:]], 2  # a line with the name of the index alone
    groups = _filled_groups(rows[0], rows[1])
    repeated = {name for name, count in Counter(filter(None, groups)).items() if count > 1}
    places = [place for place, group in enumerate(groups) if group in repeated]
    below = [rows[1][place] for place in places]
    if not below or not all(below) or len(set(below)) < len(below):
        return None
    for place in places:  # a column of a form may repeat its name
        others = {name for name in below if name != rows[1][place]}
        if any(row[place] in others for row in rows[2:] if place < len(row)):
            return None
    header = [
        name if place in places else _better_name(group, name)
        for place, (group, name) in enumerate(zip(groups, rows[1], strict=True))
    ]
    if rows[2][0] and not any(rows[2][1:]) and not header[0]:
        return [rows[2][0], *header[1:]], 3
    return header, 2


def _below_numbers_of_questions(rows: Sequence[Sequence[str]]) -> tuple[list[str], int] | None:
    """The header of a table of Qualtrics: numbers of questions, questions, and a line of objects; None for others."""
    if len(rows) < 3 or len(rows[0]) != len(rows[1]) or not all(cell.startswith('{"ImportId"') for cell in rows[2]):
        return None
    return [_better_name(name, question) for question, name in zip(rows[1], rows[0], strict=True)], 3


def _has_values_below(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the second line is a row of data: it has other texts below the names of its first column or of labels."""
    if not second[0]:
        return False
    texts = zip(first, second, strict=True)
    below = {name for group, name in texts if name and name != group and meaning_of(group) and first.count(group) == 1}
    below |= {second[0]} if first[0] and second[0] != first[0] else set()
    return any(name and not meaning_of(name) for name in below)


def _filled_groups(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The names of a first line, also above the empty cells that follow each, if the second line is no row of data."""
    if second[0] and not meaning_of(second[0]) and any(first[1:]):
        return list(first)
    groups: list[str] = []
    for group, name in zip(first, second, strict=True):
        groups.append(group or (groups[-1] if groups and name else ""))
    return groups


def _better_name(group: str, name: str) -> str:
    return group if group and (not name or (meaning_of(group) and not meaning_of(name))) else name


def _names_ids_alone(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is a header such as `id,0,1,2`: a name for ids above others, and different names."""
    meaning = meaning_of(rows[0][0])
    is_alone = all(row[0] != rows[0][0] for row in rows[1:]) and len(set(rows[0])) == len(rows[0])
    return meaning is not None and meaning[0] == "id" and is_alone and len(rows) > 1 and len(rows[0]) > 2


def _numbers_rows(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is a header such as `#,video,cat,dog`, above numbers or signs that differ."""
    numbers = [row[0].strip() for row in rows if row]
    return numbers[0] == "#" and 1 < len(numbers) == len(set(numbers))


def _has_paths(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has a path, unless no other row has one in its column, as below `State/Province`."""
    places = [place for place, field in enumerate(rows[0]) if PATH.search(field)]
    others = [row[place] for place in places for row in rows[1:] if place < len(row)]
    return bool(places) and (not others or any(map(PATH.search, others)))


def _looks_like_others(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a field of the first row is a field of another row in the same column, or consists of such fields.

    The first field may also have the shape of most others: `v00` above `v01` and `v02`.
    """
    names_are_known = bool(count_known(list(rows[0])))
    for column, field in enumerate(map(str.strip, rows[0])):
        others = {row[column].strip() for row in rows[1:] if column < len(row)} - {""}
        pieces = [part for part in PARTS.split(field) if part]
        is_joined = len(pieces) > 1 and others.issuperset(pieces) and not names_are_known  # such as `AP/PA`
        if field and (field in others or is_joined):
            return True
        shapes = [form_of(other) for other in others] if column == 0 and re.search(r"\d", field) else []
        if shapes and shapes.count(form_of(field)) > len(shapes) / 2:
            return True
    return False


def form_of(text: str) -> str:
    """A text with `a` for each letter and 0 for each number."""
    return re.sub(r"[^\W\d]", "a", re.sub(r"\d+", "0", text))
