"""A table whose columns and labels are understood: rows of an id, labels, and perhaps a path, a split and times."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from yt8m.errors import UsageError, quantity, refusing
from yt8m.tables import merging, span_rows, summaries
from yt8m.tables.cells import odd_labels, separators
from yt8m.tables.cells.label_forms import find_form
from yt8m.tables.cells.label_lists import NotAListError
from yt8m.tables.cells.splitting import LabelForm
from yt8m.tables.columns import class_columns, denials, doubtful_times, garbled_ids, side_columns
from yt8m.tables.columns.facts import Facts, examine, refuse_remarks, refuse_types
from yt8m.tables.columns.roles import RoleFinder, Roles
from yt8m.tables.columns.table_columns import TableColumns
from yt8m.tables.exports import label_studio_spans
from yt8m.tables.opening import open_source
from yt8m.tables.shapes import ava, ends_alone, own_tables, span_ranges, span_shapes, turned
from yt8m.tables.sources import footers
from yt8m.tables.sources.arrow_source import as_arrays
from yt8m.tables.sources.csv_source import CsvSource
from yt8m.tables.sources.rewritten import delimiter_of, place_of
from yt8m.tables.sources.source import ROWS_AT_ONCE, Rows, Source, odd_table
from yt8m.tables.sources.text_columns import TextColumn, filled
from yt8m.tables.table_flags import SPANS as SPANS
from yt8m.tables.table_flags import VIDEOS as VIDEOS
from yt8m.tables.table_flags import TableFlags as TableFlags
from yt8m.tables.table_flags import parse_columns
from yt8m.tables.words.class_names import NameCleaner
from yt8m.tables.words.meanings import plain_meaning, split_name
from yt8m.tables.words.numbers import matrix, number_list

_MOST_CACHED = 1 << 17  # different cells whose labels are kept
_NO_LABELS: tuple[str, ...] = ()


def understand(flag: str, path: str, flags: TableFlags) -> UnderstoodTable:
    """Opens a table, and finds what its columns mean and how its labels are written."""
    column_names = [word.partition("=")[2] for word in flags.columns]
    control = next((word.partition("=")[2] for word in flags.columns if word.startswith("labels=")), "")
    source = open_source(flag, path, column_names, control)
    with refusing(functools.partial(odd_table, path)):
        source = own_tables.as_written(source, are_labels_chosen=bool(control))
        return _understand(flag, path, source, flags, control)


def _understand(flag: str, path: str, source: Source, flags: TableFlags, control: str) -> UnderstoodTable:
    if not flags.rows and flags.can_have_spans and getattr(source, "means_spans", False):
        flags = dataclasses.replace(flags, rows=SPANS)
    source = ava.without_boxes(source, flags.rows == SPANS, flags.columns)
    source = label_studio_spans.by_spans(source, flags.rows == SPANS, flags.frame_rate)
    names_control = control and "labels" in source.hints
    words = [word for word in flags.columns if not (names_control and word.startswith("labels="))]
    chosen = parse_columns(words, source.columns, path)
    source, chosen = span_shapes.reshaped(source, chosen, flags.rows == SPANS, flags.frame_rate)
    for column in flags.extra_columns:
        if column not in source.columns:
            raise UsageError(f"{flag}={path} has no column {column!r}; it has: {', '.join(source.columns)}.")
    labels = chosen.get("labels", "").split("+")
    features = [name for name in source.arrays if plain_meaning(name) != "labels" and name not in labels]
    facts = examine(source, left_out=features)
    if not (chosen or features or flags.rows or flags.extra_columns):
        source, facts = turned.by_video(source, facts)
    if flags.rows == SPANS or (flags.can_have_spans and not flags.rows):
        firsts = {name: column.filled[:1] for name, column in facts.items()}
        label_studio_spans.refuse_small_exports(path, firsts)
    columns = TableColumns(source, facts, chosen, flags.extra_columns, flags.vocabulary)
    finder = RoleFinder(columns, flags.path_endings, flags.splits, flags.rows == SPANS, flags.frame_rate > 0)
    roles = finder.find(flags.needs_labels)
    odd_labels.refuse_replaced(roles.classes, path)
    span_ranges.refuse_unclear(source, roles.labels)
    doubtful_times.refuse_unclear_hours(source, facts, [roles.start, roles.end])
    doubtful_times.refuse_dates(path, facts, roles.start, roles.end, are_spans=flags.rows == SPANS)
    refuse_types(path, facts, [roles.id, *roles.labels[:1]])
    garbled_ids.refuse_garbled(path, roles, facts, chosen)
    side_columns.refuse_lost_labels(source, roles.labels, facts, may_be_merged=not chosen and flags.rows != SPANS)
    denials.refuse_named_denials(source, roles, facts)
    if "labels" not in chosen:
        denials.refuse_ids_with_classes(source, roles, facts)
    return UnderstoodTable(source, roles, facts, flags)


class UnderstoodTable:
    """The rows of a source by the meanings of its columns; see `Table`.

    The cells of `labels` are sequences of names as they are written, which `clean_label` makes the names of classes;
    those of `split` are the names that --splits has by default.

    Attributes:
      are_clips: whether spans seem to be clips of longer videos, which nobody has seen to their end.
    """

    def __init__(self, source: Source, roles: Roles, facts: Mapping[str, Facts], flags: TableFlags) -> None:
        self.path, self._roles, self._flags, self._facts = source.path, roles, flags, facts
        self._original = source
        self.form = self._find_form()
        if not any(word.startswith("labels=") for word in flags.columns):
            side_columns.refuse_unread_labels(source.path, roles, facts, self._label_names)
        self.is_scattered, self._rows_of_one_video, self._spans = False, 0, 0
        self._has_spans = flags.rows == SPANS
        self.are_clips, self.videos_in_parts = False, 0
        source = self._merged(source)
        self._source = source
        times = {"spans": "spans"} if self._has_spans else {"start": roles.start, "end": roles.end}
        meanings = {"path": roles.path, "split": roles.split, **times}
        has_labels = bool(roles.labels or roles.classes)
        self.columns: Sequence[str] = [
            "id",
            *(["labels"] if has_labels else []),
            *(name for name, column in meanings.items() if column),
            *flags.extra_columns,
        ]
        self.source_columns: Sequence[str] = source.columns
        self.features: Sequence[str] = [*roles.families, *roles.lists]
        self._names = NameCleaner(self.form.has_whole_floats, flags.vocabulary)
        self._labels_of: dict[Any, tuple[Any, ...]] = {}

    def _find_form(self) -> LabelForm:
        names = self._roles.labels
        counts: Counter[Any] = Counter()
        for name in names:
            if name in self._facts:
                counts.update(self._facts[name].counts)
        listed = ", ".join(f'"{name}"' for name in names)
        where = f"{self.path}, column {listed}"
        self._let_last_join(True)
        if names and (joined := self._joined_counts()):
            counts = joined
        form = LabelForm("", lambda cell: (cell,))
        if names:
            form = find_form(counts, self._flags.separator, self._flags.vocabulary, where)
        self._let_last_join(form.separator == self._delimiter() or "list" in form.description)
        self._refuse_remarks(form, counts)
        return form

    def _refuse_remarks(self, form: LabelForm, counts: Mapping[Any, int]) -> None:
        """Refuses a column of remarks, unless the user or the vocabulary says that they are labels."""
        names, is_chosen = self._roles.labels, any(word.startswith("labels=") for word in self._flags.columns)
        if len(names) == 1 and form.is_plain and not (form.separator or is_chosen or self._flags.vocabulary):
            refuse_remarks(self._original, names[0], self._facts[names[0]], counts)

    def _delimiter(self) -> str:
        return delimiter_of(self._original)

    def _let_last_join(self, joins: bool) -> None:
        """Lets a CSV file whose last column has the labels join the fields that a delimiter in a list has cut."""
        source = self._original
        if isinstance(source, CsvSource) and not source.dialect.is_headerless:
            is_last = list(self._roles.labels[-1:]) == [source.dialect.header[-1]]
            source.joins_last = joins and is_last

    def _joined_counts(self) -> Counter[Any]:
        """The cells of the labels with what a delimiter has cut from them; empty if none was cut."""
        source = self._original
        if not (isinstance(source, CsvSource) and source.joins_last and source.has_long_rows):
            return Counter()
        return examine(self._original, set(self._original.columns) - set(self._roles.labels))[
            self._roles.labels[-1]
        ].counts

    def _merged(self, source: Source) -> Source:
        """The source with one row for each video, if it has one for each label."""
        if self._has_spans:
            flags = self._flags
            rate = span_rows.rate_of(source, flags.frame_rate)
            read_classes = self._read_classes if self._roles.classes else None
            reading = span_rows.Reading(self._label_names, rate, self._has_thousands, read_classes)
            spans = span_rows.merge_spans(source, self._roles, flags.extra_columns, reading)
            self.is_scattered, self._rows_of_one_video, self._spans = spans.is_scattered, spans.rows, spans.spans
            self.are_clips, self.videos_in_parts = spans.are_clips, spans.in_parts
            if self._has_bare_ends():
                ends_alone.refuse_lengths(self.path, self._roles.end, span_rows.spans_of_videos(spans.source))
            if not span_rows.is_own_table(source):
                denials.refuse_denials(source, self._roles, self._facts)
            return spans.source
        facts = self._facts.get(self._roles.id)
        is_repeated = facts is not None and len(facts.counts) < facts.rows
        if not self._roles.labels or not (is_repeated or self._roles.value):
            return source
        flags = self._flags
        may_be_spans = flags.can_have_spans and not flags.rows
        merged = merging.merge(source, self._roles, flags.extra_columns, self._label_names, may_be_spans=may_be_spans)
        if merged is None:
            return source
        self.is_scattered, self._rows_of_one_video = merged.is_scattered, merged.rows
        if is_repeated:
            denials.refuse_denials(source, self._roles, self._facts)
        return merged.source

    @functools.cached_property
    def _has_thousands(self) -> bool:
        """Whether commas in the columns of times stand between thousands."""
        names = [name for name in (self._roles.start, self._roles.end) if name in self._facts]
        columns, has_commas = {name: self._facts[name].counts for name in names}, self._delimiter() == ";"
        return span_rows.have_thousands(self.path, columns, self._flags.frame_rate, has_commas)

    def _has_bare_ends(self) -> bool:
        """Whether nothing but the name of a column says that it has ends, and not lengths."""
        is_chosen = any(word.startswith("end=") for word in self._flags.columns)
        return not (is_chosen or self._roles.has_durations or getattr(self._original, "has_seconds", False))

    def _label_names(self, cell: Any) -> tuple[str, ...]:
        names = NameCleaner(self.form.has_whole_floats, self._flags.vocabulary)
        return tuple(name for name in (names[part] for part in self.form.split(cell)) if name)

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        roles = self._roles
        families = [column for name in features for column in roles.families.get(name, ())]
        lists = [name for name in features if name in roles.lists]
        in_source = [name for name in lists if name in self._source.arrays]
        cells = [*self._cell_columns, *families, *(name for name in lists if name not in in_source)]
        for rows in self._source.batches(size, skip, list(dict.fromkeys(cells)), in_source):
            with refusing(functools.partial(odd_table, self.path)):
                arrays = {name: self._array(rows, name) for name in features}
                understood = self._understand(rows)._replace(arrays=arrays)
            yield understood

    @property
    def _cell_columns(self) -> list[str]:
        """The columns of the rows whose cells are read; merged rows have their labels in a column of its own."""
        roles, extra = self._roles, self._flags.extra_columns
        if self._source is self._original:
            return [*roles.cell_columns, *extra]
        if self._has_spans:
            others: tuple[str, ...] = (roles.id, roles.path, roles.split, *span_rows.COLUMNS)
        else:
            others = (roles.id, roles.path, roles.split, roles.start, roles.end)
        return [*filter(None, others), *extra, merging.LABELS]

    def label_cells(self) -> Iterator[tuple[Any, list[Any]]]:
        """Yields the id and the cells of the labels of each row as the file has them, also where rows are merged."""
        names = [self._roles.id, *self._roles.labels, *self._roles.classes]
        for rows in self._original.batches(ROWS_AT_ONCE, 0, list(dict.fromkeys(names))):
            yield from ((video, cells) for video, *cells in zip(*(rows.cells[name] for name in names), strict=True))

    def clean_label(self, name: Any) -> str:
        """The name of the class that a name in a cell means; empty for what says that there is none."""
        return self._names[name]

    def line_of(self, row: int) -> int:
        """The line of a row in the file; 0 if the file has no lines."""
        return self._source.line_of(row)

    def where(self, row: int) -> str:
        """The number of a row in the file, and its line, for a message."""
        return place_of(self._source, row)

    def _understand(self, rows: Rows) -> Rows:
        """The rows with cells by meaning."""
        roles, bad = self._roles, dict(rows.bad)
        cells: dict[str, Sequence[Any]] = {"id": filled(rows.cells[roles.id])}
        if roles.labels or roles.classes:
            has_columns = roles.classes and self._source is self._original
            cells["labels"] = self._read_classes(rows, bad) if has_columns else self._read_labels(rows, bad)
        if roles.path:
            cells["path"] = filled(rows.cells[roles.path])
        meanings = {word.partition("=")[0] for word in self._flags.columns}
        garbled_ids.refuse_in_rows(self.path, roles, self._facts, meanings, cells["id"], cells.get("path", ()))
        if roles.split:
            cells["split"] = [split_name(roles.split, cell) for cell in rows.cells[roles.split]]
        if self._has_spans:
            cells |= {"spans": rows.cells[span_rows.SPANS], "seconds": rows.cells[span_rows.SECONDS]}
            bad |= {row: why for row, why in enumerate(rows.cells[span_rows.PROBLEMS], rows.first) if why}
        else:
            cells |= span_rows.times_of_videos(rows.cells, roles, self._has_thousands)
        cells |= {name: filled(rows.cells[name]) for name in self._flags.extra_columns}
        footers.mark_odd_rows(rows, [roles.id, *(name for name in roles.labels if name in rows.cells)], bad)
        return Rows(rows.first, cells, {}, bad)

    def _read_labels(self, rows: Rows, bad: dict[int, str]) -> Sequence[Sequence[str]]:
        if self._source is not self._original:  # merged rows have their names already
            return rows.cells[merging.LABELS]
        columns = [self._read_column(rows.cells[name], rows.first, name, bad) for name in self._roles.labels]
        if len(columns) == 1:
            return columns[0]
        return [tuple(name for names in cells for name in names) for cells in zip(*columns, strict=True)]

    def _read_column(
        self, cells: Sequence[Any], first: int, column: str, bad: dict[int, str]
    ) -> Sequence[Sequence[str]]:
        """The names in each cell of a column; a cell that does not fit to the form makes its row bad."""
        if fast := self._read_texts(cells):
            return fast
        cached_labels, read = self._labels_of, list[Sequence[str]]()
        for number, cell in enumerate(cells, first):
            try:
                read.append(cached_labels[cell])
            except (KeyError, TypeError):
                read.append(self._read_cell(cell, number, column, bad))
        return read

    def _read_texts(self, cells: Sequence[Any]) -> Sequence[Sequence[str]]:
        """The names in each cell of a column of texts that are names, perhaps with a separator; [] for other cells."""
        separator = self.form.separator
        if not self.form.is_plain:
            return []
        if isinstance(cells, TextColumn) and separator != " ":
            return cells.split(separator)
        try:
            if separator:
                separator_or_blanks = None if separator == " " else separator
                return [text.split(separator_or_blanks) for text in cells]
        except AttributeError:  # a cell is no text
            return []
        return [[text] for text in cells] if set(map(type, cells)) == {str} else []

    def _read_cell(self, cell: Any, number: int, column: str, bad: dict[int, str]) -> tuple[str, ...]:
        if cell is None or cell == "":
            return _NO_LABELS
        try:
            names = tuple(self.form.split(cell))
        except (NotAListError, TypeError):
            bad.setdefault(number, f"the cell of {column} is {str(cell)[:60]!r}; expected {self._expected()}")
            return _NO_LABELS
        if isinstance(cell, str):
            if len(self._labels_of) > _MOST_CACHED:
                self._labels_of.clear()
            self._labels_of[cell] = names
        return names

    def _expected(self) -> str:
        return f"labels as {self.form.description}" if self.form.description else "the name of a class"

    def _read_classes(self, rows: Rows, bad: dict[int, str]) -> list[tuple[str, ...]]:
        return class_columns.read_classes(rows, self._roles.classes, self._facts, bad)

    def _array(self, rows: Rows, name: str) -> NDArray[Any]:
        if name in rows.arrays:
            return rows.arrays[name]
        if name in self._roles.families:
            return matrix([rows.cells[column] for column in self._roles.families[name]], self._delimiter() != ",")
        return as_arrays([number_list(cell) for cell in rows.cells[name]])

    def describe(self) -> list[str]:
        """The parts of the summary: what the file is, and what was taken from which column."""
        merged = f", {self._rows_of_one_video} rows of one label each" if self._rows_of_one_video else ""
        described_form = f", {self.form.description}" if self.form.description else ""
        count = described_form + (f", {quantity(self._spans, 'span')}" if self._has_spans else merged)
        rate = self._flags.frame_rate if self._has_spans else 0.0
        return summaries.describe(self._original, self._roles, self._facts, count, self._has_spans, rate)

    def refuse_combinations(self, names: Collection[str]) -> None:
        """Raises `UsageError` if one of all labels is garbled, or several; the last check, after all rows were read."""
        odd_labels.refuse_garbled(names, self._flags.vocabulary, self.path)
        if self._flags.separator == separators.AUTO and self._roles.labels:
            listed = ", ".join(f'"{name}"' for name in self._roles.labels)
            cached_labels = {*self.form.checked, *self._flags.vocabulary}
            separators.refuse_combinations(names, cached_labels, f"{self.path}, column {listed}")
