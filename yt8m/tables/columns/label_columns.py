"""Which columns of a table have the labels: by their names, or by their cells; one, several, or one for each class."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.columns import class_columns, odd_answers, side_columns
from yt8m.tables.columns.facts import Facts
from yt8m.tables.columns.side_columns import is_constant, refuse_side_columns
from yt8m.tables.columns.table_columns import FEATURE_NAMES, TableColumns
from yt8m.tables.sources.source import ROWS_AT_ONCE
from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.class_names import FALSE_WORDS, TRUE_WORDS
from yt8m.tables.words.meanings import JOIN, NUMBERED, SPLIT_WORDS, VAGUE_RANK, columns_flag, is_remark, meaning_of
from yt8m.tables.words.side_words import BOOKKEEPING, DUBLIN_CORE, NO_VOTES, is_of_program

_MANY_LEFT_OUT = 3  # numbers of frames are fewer than their largest, divided by this
_MANY_FLAGS = 3  # columns of 0 and 1 beside one of labels: fewer may be facts of the videos
_OF_FACTS = ("is_", "has_")  # how names of facts of a video begin, as in Open Images' IsOccluded
_UNNAMED = re.compile(r"Unnamed: \d+|level_\d+|index|row_?names|X\.?", re.IGNORECASE)
_SURE_NAMES = word_set("labels label tags tag classes class target targets y")


class LabelColumns(NamedTuple):
    """The columns of the labels.

    Attributes:
      classes: {column: class}, if there is a column for each class instead.
    """

    labels: tuple[str, ...] = ()
    classes: Mapping[str, str] = {}


class LabelFinder:
    """Finds the columns of the labels among those that are free."""

    def __init__(self, columns: TableColumns) -> None:
        self._columns, self._facts, self._chosen = columns, columns.facts, columns.chosen
        self._names, self._path = columns.names, columns.path

    def find(self, is_needed: bool) -> LabelColumns:
        """The columns of the labels.

        Args:
          is_needed: whether a table without labels is refused.
        """
        if "labels" in self._chosen:
            text = self._chosen["labels"]
            names = [text] if text in self._names else [name for name in text.split(JOIN) if name]
            return self._as_classes(names)
        candidates = [name for name in self._columns.with_meaning("labels") if not self._is_feature(name)]
        subjects = [name for name in candidates if normalized(name).startswith(DUBLIN_CORE)]
        candidates = [name for name in candidates if name not in subjects]
        candidates = side_columns.filled_candidates(self._columns, candidates)
        candidates = side_columns.species_beside_ranks(self._columns, candidates)
        binary = [name for name in candidates if name in self._facts and self._facts[name].is_binary]
        if candidates and len(binary) == len(candidates) and len(columns := self._class_columns()) > 1:
            sure = [name for name in candidates if normalized(name) in _SURE_NAMES]
            if sure or (len(columns) == 2 and all(map(NUMBERED.fullmatch, columns))):
                raise self._class_or_number((sure or columns)[0], columns)
            return self._as_classes(self._surely_classes(columns))
        if candidates and (choices := class_columns.choices_of(self._columns, candidates[0])):
            return LabelColumns(classes=choices)
        if candidates and not binary:
            self._refuse_classes_beside(candidates[0])
        self._refuse_revised(candidates)
        if family := self._with_first(candidates):
            return self._as_classes(family)
        if "labels" in candidates or len(candidates) == 1:
            return self._as_classes(["labels"] if "labels" in candidates else candidates)
        if candidates:
            return self._as_classes(self._among(candidates))
        columns = self._class_columns()
        if len(columns) > 1:
            self._refuse_counts(columns)
            return self._as_classes(self._surely_classes(columns))
        columns = [name for name in self._names if self._repeats_its_name(name)]
        if len(columns) > 1:
            return LabelColumns(tuple(columns))
        if columns := side_columns.filled_candidates(self._columns, subjects) or side_columns.species_columns(
            self._columns, self._may_have_labels
        ):
            return self._as_classes(self._among(columns))
        return self._as_classes(self._by_cells()) if is_needed else LabelColumns()

    def _refuse_revised(self, candidates: Sequence[str]) -> None:
        """Refuses a column of labels beside one such as `labels_corrected`, whose cells are other labels."""
        for name in self._names:
            others = [other for other in candidates if other != name and self._columns.is_free(name)]
            is_doubtful = bool(others) and side_columns.is_revision(name, others[0], self._facts)
            if not is_doubtful and others and side_columns.is_other_reading(name, others[0], self._facts):
                is_doubtful = not self._say_the_same([others[0], name])
            if is_doubtful and not self._columns.is_empty(name):
                raise UsageError(
                    f'{self._path}: either "{others[0]}" has the labels, or "{name}". Choose by '
                    f"{columns_flag('labels', others[:1])} or {columns_flag('labels', [name])}."
                )

    def _refuse_counts(self, classes: Sequence[str]) -> None:
        """Refuses other numbers in a column between those of classes: votes such as 0, 2 and 3, doubts such as -1."""
        names = list(self._names)
        first, last = names.index(classes[0]), names.index(classes[-1])
        for name in names[max(first - 1, 0) : last + 2]:
            facts = self._facts.get(name)
            is_known = not facts or not self._columns.is_free(name) or facts.is_binary or normalized(name) in NO_VOTES
            if facts and not is_known and (others := facts.votes_or_doubts):
                raise UsageError(
                    f'{self._path}: beside the columns of 0 and 1, "{name}" has numbers such as {others[0]}. Write 1 '
                    "or 0 into all of them, or name the columns of the classes, as in "
                    f"{columns_flag('labels', classes[:3])}."
                )

    def _refuse_classes_beside(self, name: str) -> None:
        """Refuses a column of labels beside columns of 0 and 1 that may be classes: many, or named as its labels."""
        beside = [
            column
            for column in self._names
            if (facts := self._facts.get(column))
            and self._columns.is_free(column)
            and facts.is_binary
            and facts.spellings & TRUE_WORDS
            and not (is_constant(facts) or is_of_program(column))
            and not (is_remark(column) or _UNNAMED.fullmatch(column) or normalized(column) in SPLIT_WORDS)
            and not normalized(column).startswith(_OF_FACTS)
        ]
        labels = {str(value).strip() for value in self._columns.facts_of(name).filled}
        if len(beside) >= _MANY_FLAGS or (len(beside) > 1 and any(column in labels for column in beside)):
            raise UsageError(
                f'{self._path}: either "{name}" has the labels, or there is a column of 0 and 1 for each class: '
                f"{', '.join(beside)[:200]}. Choose by --columns=labels={name} or "
                f"--columns=labels={JOIN.join(beside[:3])}{f'{JOIN}...' if len(beside) > 3 else ''}."
            )

    def _class_or_number(self, name: str, columns: Sequence[str]) -> UsageError:
        return UsageError(
            f'{self._path}: the columns {", ".join(columns)} all hold 0 and 1. Either "{name}" has the number of each '
            f"class, or there is a column for each class. Choose by {columns_flag('labels', [name])} "
            f"or {columns_flag('labels', columns)}."
        )

    def _is_feature(self, name: str) -> bool:
        return name in self._columns.source.arrays and normalized(name) in FEATURE_NAMES

    def _as_classes(self, names: Sequence[str]) -> LabelColumns:
        """These columns as columns of labels, or as a column for each class if all say yes or no."""
        facts = [self._facts[name] for name in names if name in self._facts]
        if len(names) > 1 and all(column_facts.is_binary for column_facts in facts):
            return LabelColumns(classes=class_columns.class_names(names, set(self._columns.names) - set(names)))
        for name, column_facts in zip(names, facts, strict=False):
            if (
                len(names) > 1
                and column_facts.spellings - {""}
                and column_facts.spellings <= TRUE_WORDS | FALSE_WORDS | {""}
            ):
                raise UsageError(
                    f'{self._path}: the cells of "{name}" say yes or no, but those of other columns of labels do not: '
                    f"{', '.join(names)}. Choose one column by --columns=labels=COLUMN."
                )
        return LabelColumns(tuple(names))

    def _class_columns(self) -> list[str]:
        """The columns that say of one class each whether the video has it."""
        columns_found = []
        for name in self._names:
            facts = self._facts.get(name)
            if not facts or not self._columns.is_free(name) or _UNNAMED.fullmatch(name) or is_of_program(name):
                continue
            if not is_remark(name) and self._is_class(name, facts):
                if normalized(name) in SPLIT_WORDS:
                    raise UsageError(
                        f'{self._path}: the column "{name}" of 0 and 1 may say in which split a video is, or be a '
                        "class. Write a column split with train, validate and test in its place, or name the columns "
                        f"of the classes, as in --columns=labels=COLUMN{JOIN}COLUMN."
                    )
                columns_found.append(name)
        if all(is_constant(self._facts[name]) for name in columns_found):
            return []  # all that says yes of each video is a fact of the table
        return columns_found

    def _surely_classes(self, names: Sequence[str]) -> Sequence[str]:
        """The columns of classes; refused if they lack names, or if the user must say which are none."""
        if set(names) <= set(self._columns.invented()):
            raise UsageError(
                f"{self._path}: {len(names)} columns of 0 and 1 have no names, so that the classes have none. Write "
                "the names of all columns into a first line, as in id,cat,dog."
            )
        if "unused" not in self._chosen:
            refuse_side_columns(self._columns.source, names, self._facts, self._columns.known_names)
        odd_answers.refuse_odd_answers(self._columns, names)
        return names

    def _repeats_its_name(self, name: str) -> bool:
        """Whether the cells of a column have its name, or the option in it, or are empty: each names its class."""
        facts = self._facts.get(name)
        if not facts or not self._columns.is_free(name):
            return False
        return {str(value).strip() for value in facts.filled} in ({name.strip()}, {class_columns.option_in(name)})

    def _is_class(self, name: str, facts: Facts) -> bool:
        words = facts.spellings
        if facts.is_binary:
            return bool(facts.spellings & TRUE_WORDS)  # a count that is always 0 is no class
        if "" in words and words - {""} and words - {""} <= {"0", "0.0", "1", "1.0"}:
            raise UsageError(
                f'{self._path}: of the class "{name}", some cells are 0 or 1 and others are empty, which may mean no '
                "or not known. Write 0 or 1 into each cell."
            )
        return False

    def _among(self, candidates: Sequence[str]) -> list[str]:
        """The columns of labels among several whose names say so."""
        prefixes = {(NUMBERED.fullmatch(name) or ["", name])[1] for name in candidates}
        if len(prefixes) == 1 and all(NUMBERED.fullmatch(name) for name in candidates):
            return list(candidates)
        filled = [name for name in candidates if not self._columns.is_empty(name)] or list(candidates[:1])
        texts = [name for name in filled if not self._facts[name].is_numeric]
        if len(filled) == 1:
            return filled
        if self._say_the_same(filled):
            return [(texts or filled)[0]]
        ranks = [(meaning_of(name) or ("", VAGUE_RANK))[1] for name in filled]
        exact = [name for name, rank in zip(filled, ranks, strict=True) if rank < 2]
        kinds = {self._facts[name].is_binary for name in filled}  # a 0/1 beside names may say whether they count
        others_are_vague = all(rank < 2 or rank >= VAGUE_RANK for rank in ranks)  # such as `true_label`
        if len(kinds) == 1 and len(exact) == 1 and others_are_vague:
            return exact
        choices = " or ".join(columns_flag("labels", [name]) for name in filled[:4])
        raise UsageError(
            f"{self._path}: several columns may have the labels: {', '.join(filled)}. Choose by {choices}, or take "
            f"all by {columns_flag('labels', filled[:4])}."
        )

    def _with_first(self, candidates: Sequence[str]) -> list[str]:
        """The columns `label`, `label.1`, `label.2`, as pandas calls columns of one name; empty for others."""
        numbered = [match for name in candidates if (match := NUMBERED.fullmatch(name))]
        first = [name for name in candidates if not NUMBERED.fullmatch(name)]
        return list(candidates) if len(first) == 1 and {match[1] for match in numbered} == {first[0]} else []

    def _say_the_same(self, names: Sequence[str]) -> bool:
        """Whether each value of one column always stands beside the same value of the others."""
        pairs: set[tuple[Any, ...]] = set()
        for rows in self._columns.source.batches(ROWS_AT_ONCE, 0, names):
            pairs.update(zip(*(map(str, rows.cells[name]) for name in names), strict=True))
            if rows.first > 50_000:
                break
        return all(len({pair[place] for pair in pairs}) == len(pairs) for place in range(len(names)))

    def _by_cells(self) -> list[str]:
        """The only other column whose cells recur, as classes do."""
        columns = [name for name in self._names if self._may_have_labels(name)]
        columns = [name for name in columns if len(self._facts[name].counts) > 1] or columns
        headerless = [name for name in columns if name in self._columns.invented()]
        if len(columns) == 1 and headerless == columns and self._facts[columns[0]].spellings == {"1", "-1"}:
            raise UsageError(
                f"{self._path} has no header, and its labels are 1 and -1: either whether each video has one class, "
                "whose name is missing (write a header of id and the name of the class, and a column for each class), "
                f"or the classes 1 and -1 (--columns='labels={columns[0]}')."
            )
        if len(columns) == 1 and headerless and "split" in os.path.basename(self._path).lower():
            self._refuse_split(columns[0])
        if len(columns) == 1 or (headerless == columns and len(columns) > 1 and self._share_values(columns)):
            return columns
        if headerless == columns and (numbered := self._numbers_of_classes(columns)):
            return numbered
        problem = self._problem(columns)
        raise UsageError(
            f"{self._path} has no column 'labels'; it has: {self._columns.list_names()}, and {problem}. Name the "
            "column, as in --columns=labels=COLUMN; a column for each class needs cells of 0 and 1, or of yes and no."
        )

    def _refuse_split(self, name: str) -> None:
        """Refuses numbers without a header in a file that is called a split: they may be classes or splits."""
        if self._facts[name].is_numeric:
            raise UsageError(
                f"{self._path} has no header, and its name says split: the numbers in {name} may be the splits of the "
                f"videos, or classes (--columns='labels={name}'). Write a header, such as id,label,split."
            )

    def _numbers_of_classes(self, names: Sequence[str]) -> list[str]:
        """The column of `path frames label` that has the numbers of classes; empty if that is not sure.

        Numbers of classes begin with 0 or 1 and leave out few; other numbers are always the same, or leave out many.
        """
        if len(names) < 2 or not all(self._facts[name].is_numeric for name in names):
            return []
        texts = {name: [str(value) for value in self._facts[name].filled] for name in names}
        if not all(text.isdecimal() for values in texts.values() for text in values):
            return []
        numbers = {name: set(map(int, values)) for name, values in texts.items()}
        dense = [
            name
            for name, values in numbers.items()
            if len(values) > 1 and 2 * len(values) > max(values) and min(values) < 2
        ]
        others = [values for name, values in numbers.items() if name not in dense]
        if len(dense) != 1:
            return []
        fewest = _MANY_LEFT_OUT * len(numbers[dense[0]])  # frames differ from video to video, and classes recur
        are_frames = all(
            len(values) == 1 or (_MANY_LEFT_OUT * len(values) < max(values) and len(values) >= fewest)
            for values in others
        )
        return dense if are_frames else []

    def _problem(self, columns: Sequence[str]) -> str:
        """What is wrong with a table none of whose columns surely has the labels."""
        if columns and all(name in self._columns.invented() and self._facts[name].is_numeric for name in columns):
            return (
                f"{' and '.join(columns)} may be numbers of frames and the label (--columns='labels={columns[-1]}'), "
                f"or labels all of them (--columns='labels={JOIN.join(columns)}')"
            )
        if columns:
            return f"several columns may: {', '.join(columns)}"
        numeric = [name for name, facts in self._facts.items() if self._columns.is_free(name) and facts.is_numeric]
        binary = [name for name in numeric if self._facts[name].is_binary]
        if len(numeric) == len(binary) == 1:
            return (
                f'"{binary[0]}" alone has cells of 0 and 1: add a column for a second class, or choose '
                f"--columns=labels={binary[0]}, whose classes are 0 and 1"
            )
        if len(numeric) < 2:
            return "no column has a name or cells of labels"
        cells = sorted({str(cell) for name in numeric for cell in self._facts[name].filled[:9]})[:4]
        return (
            f"the cells of {', '.join(numeric[:4])} are numbers such as {', '.join(cells)}, which do not say whether a "
            "video has a class (scores, votes or unknown answers?): write 1 or 0"
        )

    def _may_have_labels(self, name: str) -> bool:
        facts = self._facts.get(name)
        if facts is None or not self._columns.is_free(name) or _UNNAMED.fullmatch(name):
            return False
        is_named = name not in self._columns.invented()
        is_other = facts.is_numeric or meaning_of(name) or normalized(name) in BOOKKEEPING
        if facts.is_unique or not facts.filled or (is_named and is_other):
            return False
        if is_named and facts.spellings - {""} <= set(SPLIT_WORDS) | TRUE_WORDS | FALSE_WORDS:
            return False
        return len(facts.counts) < facts.rows and not self._columns.has_numbers(name)

    def _share_values(self, names: Sequence[str]) -> bool:
        values = [set(map(str, self._facts[name].filled)) for name in names]
        return all(2 * len(column_facts & values[0]) > len(column_facts) for column_facts in values[1:])
