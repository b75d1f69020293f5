"""Tables with a row for each label of a video: their rows become one row for each video."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.columns import denials
from yt8m.tables.columns.roles import Roles
from yt8m.tables.sources.rewritten import RewrittenSource, place_of
from yt8m.tables.sources.source import ROWS_AT_ONCE, MemorySource, Rows, Source
from yt8m.tables.words import normalized
from yt8m.tables.words.class_names import says_yes
from yt8m.tables.words.meanings import columns_flag
from yt8m.tables.words.side_words import BOXES, PEOPLE, SCORES, VERDICTS

LABELS = "labels of all rows"  # the column of the merged rows
_FEW = 0.1  # share of the rows that repeat an id; fewer, and not together, are a mistake rather than a form


class Merged(NamedTuple):
    """The merged rows.

    Attributes:
      source: a row for each video, in the order of their first rows; its column `LABELS` has the names.
    """

    source: MemorySource
    rows: int
    is_scattered: bool


def merge(
    source: Source,
    roles: Roles,
    extra_columns: Sequence[str],
    split_cell: Callable[[Any], tuple[str, ...]],
    *,
    may_be_spans: bool = False,
) -> Merged | None:
    """Merges the rows of each video; None if they seem to be repeated by mistake, which is an error of the row.

    Args:
      may_be_spans: whether rows of a video that have times may be meant as spans, though they have the same times.
    """
    merger = Merger(source, roles, [*extra_columns], may_be_spans)
    for rows in source.batches(ROWS_AT_ONCE, 0, merger.columns):
        merger.add(rows, split_cell)
    return merger.finish()


class Merger:
    """Collects the rows of each video."""

    def __init__(self, source: Source, roles: Roles, extra_columns: list[str], may_be_spans: bool = False) -> None:
        self._source, self._roles = source, roles
        self._doubtful_times = [name for name in (roles.start, roles.end, *roles.clock_times) if name and may_be_spans]
        others = [roles.path, roles.split, roles.start, roles.end, *roles.clock_times, *extra_columns]
        self._others = [name for name in dict.fromkeys(others) if name and name != roles.id]
        self._person = next((name for name in roles.unused if normalized(name) in PEOPLE), "")
        others = [name for name in roles.unused if name not in roles.set_aside]
        self._verdict = next((name for name in others if normalized(name) in VERDICTS), "")
        self._verdicts: set[str] = set()
        read = [roles.id, *self._others, *roles.labels, *filter(None, [roles.value, self._person, self._verdict])]
        self.columns = list(dict.fromkeys(read))
        self._has_times = bool(roles.start or roles.end)
        self._place: dict[str, int] = {}
        self._cells: dict[str, list[Any]] = {name: [] for name in [roles.id, *self._others]}
        self._labels: list[dict[str, None]] = []
        self._answers: list[dict[Any, set[str]]] = []  # of each video, {person: labels}
        self._numbers: list[int] = []
        self._bad: dict[int, str] = {}
        self._last, self._rows, self._repeats = "", 0, 0
        self._is_scattered = self._is_mistake = False
        self._repeats_labels = not BOXES.isdisjoint(map(normalized, roles.unused))

    def add(self, rows: Rows, split_cell: Callable[[Any], tuple[str, ...]]) -> None:
        """Adds rows; a bad one stays a row of its own."""
        cells = rows.cells
        self._bad |= rows.bad
        self._verdicts.update(map(str, cells[self._verdict]) if self._verdict else ())
        labels = zip(*(cells[name] for name in self._roles.labels), strict=True)
        values = cells[self._roles.value] if self._roles.value else [1] * len(cells[self._roles.id])
        for index, (cell_id, row, value) in enumerate(zip(cells[self._roles.id], labels, values, strict=True)):
            name, number = str(cell_id), rows.first + index
            if number in rows.bad:
                continue
            place = self.find_place(name, number, cells, index)
            counts = self._is_present(value, number)
            answer = self._answers[place].setdefault(cells[self._person][index] if self._person else "", set())
            for label in (label for cell in row if counts and cell not in (None, "") for label in split_cell(cell)):
                self._is_mistake |= label in answer and not self._repeats_labels
                answer.add(label)
                self._labels[place][label] = None
            self._last, self._rows = name, self._rows + 1

    def _is_present(self, cell: Any, number: int) -> bool:
        """Whether the cell of the column that says it says that the video has the label of the row."""
        if (counts := says_yes(cell)) is None:
            raise denials.unclear_answer(self._source, self._roles.value, cell, self.where(number))
        return counts

    def find_place(self, name: str, number: int, cells: Mapping[str, Sequence[Any]], index: int) -> int:
        """The place of the video of a row; a new one if the row is its first."""
        if cells[self._roles.id][index] in (None, ""):
            raise UsageError(
                f"{self._source.path}, {self.where(number)}: the id is empty; each row needs the id of its video, also "
                "where it goes on with the labels of the row above."
            )
        place = self._place.setdefault(name, len(self._labels))
        if place == len(self._labels):
            self._labels.append({})
            self._answers.append({})
            self._numbers.append(number)
            for column, values in self._cells.items():
                values.append(cells[column][index])
            return place
        self._repeats += 1
        self._is_scattered |= name != self._last
        for column in self._others:
            if self._cells[column][place] != cells[column][index]:
                self._refuse(name, column, number, place)
        for column in self._doubtful_times:
            if cells[column][index] not in (None, ""):
                self._refuse(name, column, number, place, is_repeated=True)
        return place

    def _refuse(self, name: str, column: str, number: int, place: int, *, is_repeated: bool = False) -> None:
        row, other = self.where(number), self.where(self._numbers[place])
        is_time = column in (self._roles.start, self._roles.end, *self._roles.clock_times)
        times = [f"{meaning}=" for meaning in ("start", "end") if getattr(self._roles, meaning) or not self._has_times]
        remedy = (
            "Either each row is a span of the video: then add --rows=spans; or it is a clip, which needs an id of its "
            f"own; or the labels are those of the whole video: then add --columns={','.join(times)}."
            if is_time
            else f"Rows of one video must agree in {column}."
        )
        if is_repeated:
            remedy += " If the rows have the labels of one clip, add --rows=videos."
        finding = "is given again, as in" if is_repeated else "differs from that in"
        raise UsageError(f"{self._source.path}, {row}: the {column} of {name[:60]!r} {finding} {other}. {remedy}")

    def where(self, number: int) -> str:
        """The row with a number, and its line, for a message."""
        return place_of(self._source, number)

    def finish(self) -> Merged | None:
        """The merged rows."""
        is_form = self._roles.value or not self._is_scattered or self._repeats >= _FEW * self._rows
        if self._is_mistake or not is_form:
            return None
        others = [name for name in self._roles.unused if name not in self._roles.set_aside]
        scores = [name for name in others if normalized(name) in SCORES]
        if scores and self._repeats:
            raise UsageError(
                f'{self._source.path} has several rows for a video, each with a "{scores[0]}" that is not 0 or 1; keep '
                f"only the rows whose labels count, and then add {columns_flag('unused', scores)}."
            )
        if self._repeats:
            self._refuse_verdicts()
        self._refuse_several_answers()
        merged = self.merged_source({LABELS: [tuple(names) for names in self._labels]})
        return Merged(merged, self._rows, self._is_scattered)

    def _refuse_verdicts(self) -> None:
        """Refuses a column that may say which rows are right, in words that are not known."""
        if len(self._verdicts) > 1:
            raise UsageError(
                f'{self._source.path} has several rows for a video, and "{self._verdict}" may say which labels '
                f"are right, as in {' and '.join(map(repr, sorted(self._verdicts)[:3]))}. {denials.ways(self._verdict)}"
                f"; or all labels count: {columns_flag('unused', [self._verdict])}."
            )

    def _refuse_several_answers(self) -> None:
        """Refuses the answers of several people for a video, unless all agree."""
        if not self._person:
            return
        for place, answers in enumerate(self._answers):
            if len(set(map(frozenset, answers.values()))) < 2:
                continue
            described = " and ".join(
                f"{', '.join(sorted(labels)) or 'nothing'} ({who})" for who, labels in answers.items()
            )
            video, row = str(self._cells[self._roles.id][place]), self.where(self._numbers[place])
            raise UsageError(
                f'{self._source.path} has the answers of several people, by "{self._person}", who do not agree: '
                f"{video[:60]!r}, from {row} on, has {described[:200]}. Keep the rows that count, such as those of the "
                f'majority. If all labels count, delete the column "{self._person}". An export of Label Studio as JSON '
                "is read by the majority."
            )

    def merged_source(self, columns: Mapping[str, Sequence[Any]]) -> MemorySource:
        """The rows of the videos, with further columns, and then the bad rows, which are empty."""
        cells = {name: [*values, *[_empty(values)] * len(self._bad)] for name, values in columns.items()}
        cells |= {name: [*values, *[""] * len(self._bad)] for name, values in self._cells.items()}
        return RewrittenSource(self._source, cells, [*self._numbers, *self._bad], self._bad)


def _empty(values: Sequence[Any]) -> Any:
    """What an empty cell of a column is: an empty text, or an empty sequence of labels or spans."""
    return type(values[0])() if values else ()
