"""What was understood of a table, in one paragraph, before anything is written; and what is refused as not clear."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from yt8m.datasets.make_records.classes import (
    WHOLE,
    Classes,
    DataSetFlags,
    SpanFlags,
    find_vocabulary,
    refuse_unclear_labels,
)
from yt8m.datasets.make_records.rows import Scan, split_names
from yt8m.errors import UsageError, quantity
from yt8m.tables.cells import separators
from yt8m.tables.understood import TableFlags
from yt8m.tables.words.class_names import clean_name

_JOINER = ";"  # between labels in tables that the project writes
_RARE, _COMMON = 2, 3  # a class of at most `_RARE` videos may be a slip of one that has `_COMMON` times as many
_MOST_SHOWN = 4


class DescribedTable(Protocol):
    """A table that says how it was understood; see `UnderstoodTable`."""

    path: str
    columns: Sequence[str]
    are_clips: bool
    videos_in_parts: int

    def describe(self) -> list[str]:
        """The parts of the summary."""

    def refuse_combinations(self, names: Collection[str]) -> None:
        """Raises `UsageError` if one of all labels seems to be several."""


def table_flags(flags: DataSetFlags, **others: object) -> TableFlags:
    """What the flags of a command say of its table; `others` are further fields of `TableFlags`."""
    return TableFlags(
        columns=flags.columns,
        separator=flags.label_separator,
        vocabulary=known_names(flags),
        splits=split_names(flags.splits),
        extra_columns=[flags.group_by] if flags.group_by else [],
        rows=flags.rows,
        frame_rate=flags.frame_rate or 0.0,
        **others,  # type: ignore[arg-type]
    )


def describe(table: DescribedTable, scan: Scan, classes: Classes, flags: DataSetFlags, levels: Collection[str]) -> str:
    """What was understood, in one paragraph, for records of levels; refuses what is not clear.

    It is called after all rows were read.
    """
    check_labels(table, scan, classes, flags)
    if "spans" in table.columns:
        return describe_table(table, scan, classes) + describe_annotated(flags, table, scan, levels)
    refuse_flags_of_spans(flags, table.path)
    return describe_table(table, scan, classes)


def refuse_flags_of_spans(flags: DataSetFlags, table: str) -> None:
    """Refuses flags that only spans need, as the rows of a table are read as videos."""
    for option in dataclasses.fields(SpanFlags):
        value = getattr(flags, option.name)
        if option.name != "rows" and value != option.default:
            number = f"{value:g}" if isinstance(value, float) else value
            raise UsageError(
                f"--{option.name}={number} is for spans, but the rows of {table} are read as videos: add --rows=spans "
                "if each row is a span of a video, with a start and an end; or leave the flag out."
            )


def known_names(flags: DataSetFlags) -> frozenset[str]:
    """The names of the classes in the vocabulary of a command; empty if it has none."""
    vocabulary = find_vocabulary(flags)
    return frozenset(map(clean_name, vocabulary.names)) if vocabulary else frozenset()


def label_joiner(flags: DataSetFlags) -> str:
    """The text between labels in tables that the command writes."""
    is_named = flags.label_separator not in (separators.AUTO, separators.NONE)
    return separators.parse_flag(flags.label_separator) if is_named else _JOINER


def check_labels(table: DescribedTable, scan: Scan, classes: Classes, flags: DataSetFlags) -> None:
    """Refuses labels that are not clear, after all rows were read."""
    table.refuse_combinations(scan.names)
    refuse_unclear_labels(scan.names, classes, flags)


def describe_table(table: DescribedTable, scan: Scan, classes: Classes) -> str:
    """The paragraph that says what was understood: `312 videos, 41 classes; labels from "tags", ...`."""
    name, *phrases = table.describe()
    phrases = [f"{quantity(sum(scan.videos), 'video')}, {quantity(classes.size, 'class')}", *phrases]
    if scan.unlabelled:
        phrases.append(f"{quantity(scan.unlabelled, 'video')} without a label")
    if rare := list(_rare_names(scan.names)):
        rest_text = f" and {len(rare) - _MOST_SHOWN} more" if len(rare) > _MOST_SHOWN else ""
        phrases.append(f"rare: {', '.join(rare[:_MOST_SHOWN])}{rest_text}")
    return f"{name}: {'; '.join(phrases)}" if ":" not in name else f"{name}; {'; '.join(phrases)}"


def describe_annotated(flags: DataSetFlags, table: DescribedTable, scan: Scan, levels: Collection[str]) -> str:
    """What is known outside the spans; `flags` are those of a table of spans, for records of levels."""
    if "frame" not in levels:
        return "; spans become labels of whole videos: --level=frame stores their times"
    others = sum(scan.videos) - table.videos_in_parts  # the form of the export counts the videos seen in parts alone
    if others <= 0:
        return "; nothing is known outside the parts that people have seen"
    if flags.annotated == WHOLE:
        which = f" in the {quantity(others, 'other video')}" if table.videos_in_parts else ""
        return f"; a class is absent outside its spans{which} (--annotated=whole)"
    reason = "the rows seem to be clips of longer videos, so " if table.are_clips else ""
    return f"; {reason}nothing is known outside the spans (--annotated=spans)"


def _rare_names(names: Counter[str]) -> Iterator[str]:
    """Yields `Dgo (1 video, near "Dog")` for rare names that differ by one letter from a frequent one."""
    near: dict[str, list[str]] = {}
    for name, count in names.items():
        for variant in _variants(name) if count >= _COMMON else ():
            near.setdefault(variant, []).append(name)
    for name, count in sorted(names.items()):
        if count > _RARE or len(name) < 3:
            continue
        others = {other for variant in _variants(name) for other in near.get(variant, ())}
        others = {other for other in others if names[other] >= _COMMON * count and not _differ_in_digits(name, other)}
        if others:
            other = max(others, key=lambda name_of_class: (names[name_of_class], name_of_class))
            yield f'{name} ({quantity(count, "video")}, near "{other}")'


def _variants(name: str) -> set[str]:
    """The name, and what is left of it without one letter; two names that are a slip apart share one of these."""
    word = name.casefold()
    return {word, *(word[:place] + word[place + 1 :] for place in range(len(word)))}


def _differ_in_digits(first: str, second: str) -> bool:
    """Whether two names are alike but for their digits, such as `scene 1` and `scene 2`."""
    stems = ["".join(letter for letter in name.casefold() if not letter.isdigit()) for name in (first, second)]
    return stems[0] == stems[1] and first.casefold() != second.casefold()
