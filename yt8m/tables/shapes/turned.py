"""Tables that are turned: a row for each class with the ids of its videos, or a column for each video."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.cells.label_lists import NotAListError, flatten, looks_like_list, parse_text
from yt8m.tables.columns.facts import Facts, examine
from yt8m.tables.sources.source import MemorySource, Source
from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.class_names import TRUE_WORDS, is_nothing
from yt8m.tables.words.meanings import INVENTED, columns_flag, is_label_word, plain_meaning

_ALL = 1 << 62
_MOST_CLASSES = 100_000  # a table by class has no more rows
_SEPARATORS = ("|", ";", "\n", ",", " ")
_MEMBERS = word_set("videos clips files images samples recordings movies items members ids video_ids clip_ids ids")
_COUNTS = word_set("count n num number total videos_count n_videos num_videos")
_FEWEST_COLUMNS = 3
_FEWEST_NUMBERED = 8  # columns that are called like videos, below a name for ids
_FILE = re.compile(r".*\.[A-Za-z][A-Za-z0-9]{1,4}")
_HINTS = {"id": "id", "labels": "labels"}


def by_video(source: Source, facts: dict[str, Facts]) -> tuple[Source, dict[str, Facts]]:
    """The rows by video of a table that is turned, and what is known of its columns; any other table as it is."""
    if not facts or source.hints or source.arrays or next(iter(facts.values())).rows > _MOST_CLASSES:
        return source, facts
    turned_source = _from_classes(source, facts) or _from_columns(source, facts)
    return (turned_source, examine(turned_source)) if turned_source else (source, facts)


def _meaning(name: str) -> str:
    return plain_meaning(name)


def _from_classes(source: Source, facts: Mapping[str, Facts]) -> MemorySource | None:
    """The videos of a table such as `label,videos` with rows such as `cat,v1|v4`; None for others."""
    filled = [name for name in source.columns if facts[name].filled and normalized(name) not in _COUNTS]
    labels = [name for name in filled if _meaning(name) == "labels"]
    members = [name for name in filled if _meaning(name) == "id" or normalized(name) in _MEMBERS]
    if len(filled) != 2 or len(labels) != 1 or len(members) != 1 or not facts[labels[0]].is_unique:
        return None
    (rows,) = source.batches(_ALL, 0, [labels[0], members[0]])
    cells = rows.cells[members[0]]
    videos = _lists_of_ids(cells) or _texts_with_ids(source.path, labels[0], members[0], cells)
    if not videos:
        return None
    classes: dict[str, list[str]] = {}
    for label, ids in zip(rows.cells[labels[0]], videos, strict=True):
        for name in dict.fromkeys(ids):
            classes.setdefault(name, []).append(str(label).strip())
    return _source(source, classes, f"a row for each class, with its {members[0]}")


def _lists_of_ids(cells: Sequence[Any]) -> list[list[str]]:
    """The ids in cells that are all lists, or texts of lists; empty for others."""
    lists = list[list[str]]()
    for cell in cells:
        is_text = isinstance(cell, str) and looks_like_list(cell.strip())
        if not is_text and not isinstance(cell, list):
            return []
        try:
            lists.append([str(item) for item in (parse_text(cell.strip()) if is_text else flatten(cell))])
        except NotAListError:
            return []
    return lists


def _texts_with_ids(path: str, label: str, column: str, cells: Sequence[Any]) -> list[list[str]]:
    """The ids in texts with a separator, whose parts recur or are alike; empty if each text is one id."""
    texts = ["" if is_nothing(cell) else str(cell) for cell in cells]
    for separator in _SEPARATORS:
        pieces = [[part.strip() for part in text.split(separator) if part.strip()] for text in texts]
        several = [names for names in pieces if len(names) > 1]
        if 2 * len(several) < len(texts) or not several:
            continue
        ids = [name for names in pieces for name in names]
        if _are_alike(ids) or (separator in "|;\n" and len(set(ids)) < len(ids)):
            return pieces
        if separator in "|;":
            raise UsageError(
                f'{path}: each row has a "{label}" of its own, and cells of "{column}" such as {texts[0][:60]!r} seem '
                "to be the ids of several videos. Write a row for each video, with its labels; or, if each cell is one "
                f"id, choose --columns=id={column}."
            )
    return []


def _are_alike(names: Sequence[str]) -> bool:
    """Whether names are those of files, or differ in their numbers alone, as `v1` and `v12` do."""
    shapes = {re.sub(r"\d+", "0", name) for name in names}
    return all(map(_FILE.fullmatch, names)) or (len(shapes) == 1 and "0" in next(iter(shapes)))


def _from_columns(source: Source, facts: Mapping[str, Facts]) -> MemorySource | None:
    """The videos of a table with a column for each of them and a row for each class; None for others."""
    first, *videos = source.columns
    if len(videos) < 2 or not facts[first].is_unique:
        return None
    if _meaning(first) == "id" and any(_meaning(str(value)) == "labels" for value in facts[first].filled):
        return _transposed(source) if _are_alike(videos) else None
    are_answers = all(facts[name].is_binary or not facts[name].filled for name in videos)
    if not are_answers or not _are_alike(videos) or _are_alike([str(value) for value in facts[first].filled]):
        return None
    is_named = _meaning(first) == "labels"
    if _meaning(first) == "id" and _have_rows_of_classes(videos, facts[first]):
        raise UsageError(
            f'{source.path}: either each row is a video, as "{first}" says, and each of the {len(videos)} columns a '
            f"class, or, since these are called {', '.join(videos[:3])}, each column is a video and each row a class. "
            f"Choose by {columns_flag('id', [first])}, or write class in place of {first}."
        )
    if not is_named and (len(videos) < _FEWEST_COLUMNS or not _has_no_name(first) or any(_has_digits(facts[first]))):
        return None
    if not is_named:
        raise UsageError(
            f"{source.path}: either each row is a video and each column a class, or, since the columns are called "
            f"{', '.join(videos[:3])}, each column is a video and each row a class. Write a name above the first "
            "column: id, if it has the videos, or class, if it has the classes."
        )
    (rows,) = source.batches(_ALL, 0, source.columns)
    classes = {
        name: [
            str(label).strip()
            for label, cell in zip(rows.cells[first], rows.cells[name], strict=True)
            if str(cell).strip().lower() in TRUE_WORDS
        ]
        for name in videos
    }
    return _source(source, classes, "a column for each video")


def _have_rows_of_classes(columns: Sequence[str], ids: Facts) -> bool:
    """Whether many columns are called like videos, and the few cells of the first column have no numbers."""
    fewest = max(_FEWEST_NUMBERED, 2 * ids.rows)
    return (
        len(columns) > fewest and not any(_has_digits(ids)) and not is_label_word(re.sub(r"[\W\d_]+.*", "", columns[0]))
    )


def _has_no_name(column: str) -> bool:
    return column.startswith((INVENTED, "Unnamed:")) or not column


def _has_digits(facts: Facts) -> list[bool]:
    return [any(map(str.isdigit, str(value))) for value in facts.filled]


def _transposed(source: Source) -> MemorySource:
    """The table with its rows as columns, whose names are the cells of the first column."""
    (rows,) = source.batches(_ALL, 0, source.columns)
    first, *videos = source.columns
    cells: dict[str, Sequence[Any]] = {first: videos}
    cells |= {str(name): [rows.cells[video][place] for video in videos] for place, name in enumerate(rows.cells[first])}
    return MemorySource(source.path, cells, f"{source.form}, a column for each video")


def _source(source: Source, classes: Mapping[str, list[str]], finding: str) -> MemorySource:
    cells: dict[str, Sequence[Any]] = {"id": list(classes), "labels": list(classes.values())}
    return MemorySource(source.path, cells, f"{source.form}, {finding}", _HINTS)
