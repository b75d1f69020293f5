"""Which column of a table means what: by the user's words, by its name, or by its cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.columns import missing_ids, side_columns
from yt8m.tables.columns.label_columns import LabelFinder
from yt8m.tables.columns.table_columns import TableColumns
from yt8m.tables.columns.time_roles import TimeFinder
from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.meanings import (
    INVENTED,
    JOIN,
    NUMBERED,
    SPLIT_WORDS,
    columns_flag,
    is_label_word,
    is_of_labels,
    meaning_of,
)
from yt8m.tables.words.numbers import WRITTEN_NUMBER
from yt8m.tables.words.side_words import DUBLIN_CORE, SELECTION, VALUE_NAMES
from yt8m.tables.words.time_columns import END, START

GENERIC = "features"  # the name of a feature in columns such as f0, f1, which --feature_names may replace
_GENERIC_PREFIXES = word_set(
    "f feat feats feature features x v dim d e emb embed embedding embeddings pc col c component value values"
)
_FEWEST_WITHOUT_HEADER = 8  # columns of numbers that are a feature in a table whose header does not say so
_ID_WITH_LABEL = re.compile(r"([^\s:]+)(?: |: ?)(.+)")  # as in `v00 cat`, `v00: cat`
_SPARSE_VECTOR = re.compile(r"(?:\d+ )?\d+:[-+\d.eE]+(?: \d+:[-+\d.eE]+)*")
_MOST_OF = 0.9
_ONE_WORD, _MOST_WORDS_OF_ID = re.compile(r"\S+"), 2
_NO_NAME = re.compile(
    r"\s|\d:\d\d|^\d+[-/.]\d+[-/.]\d+|[;,|]"
)  # what names of files hardly hold, but times and lists do
_KIND_OF_LABEL = "label_type"
_OBSERVATION = "observation_id"
_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}$|^\S*[/\\]\S*$")  # the ending of a file, or a path


@dataclass(frozen=True)
class Roles:
    """What the columns of a table mean; an empty name stands for none.

    Attributes:
      classes: {column: class}, if there is a column for each class instead.
      families: {feature: its columns}, of features with a column for each value.
      has_durations: whether the column `end` has the lengths of spans instead.
      value: the column that says whether the video has the label of a row.
      set_aside: the columns that the user says mean nothing; they are among the unused ones.
      clock_times: columns that may be starts and ends; they are not used, but rows that differ in them are not merged.
    """

    id: str = ""
    path: str = ""
    split: str = ""
    start: str = ""
    end: str = ""
    labels: tuple[str, ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    value: str = ""
    families: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lists: Sequence[str] = ()
    unused: Sequence[str] = ()
    clock_times: Sequence[str] = ()
    has_durations: bool = False
    set_aside: Sequence[str] = ()

    @property
    def cell_columns(self) -> list[str]:
        """The columns whose cells are read for every row."""
        single = [self.id, self.path, self.split, self.start, self.end, self.value]
        return list(dict.fromkeys(name for name in [*single, *self.labels, *self.classes] if name))


class RoleFinder:
    """Finds the roles of columns.

    Args:
      are_spans: whether a row is a span of a video, so that ids repeat.
      counts_frames: whether the user says that times count frames.
    """

    def __init__(
        self,
        columns: TableColumns,
        path_endings: Sequence[str],
        split_names: Collection[str],
        are_spans: bool = False,
        counts_frames: bool = False,
    ) -> None:
        self._facts, self._chosen, self._names, self._path = columns.facts, columns.chosen, columns.names, columns.path
        self._columns, self._endings, self._split_names = columns, tuple(path_endings), set(split_names)
        self._are_spans, self._times = are_spans, TimeFinder(columns, are_spans, counts_frames)

    def find(self, needs_labels: bool = True) -> Roles:
        """The roles of all columns."""
        columns = self._columns
        columns.refuse_keyed_cells()
        columns.taken.update([*columns.set_aside, columns.chosen.get("present", "")])
        roles = self._take(Roles(set_aside=columns.set_aside), "split", self._find_split())
        for meaning, column in zip((START, END), self._times.find(), strict=True):
            roles = self._take(roles, meaning, column)
        roles = self._with_durations(roles)
        roles = replace(roles, clock_times=self._times.clock_times() if not roles.start and not roles.end else ())
        roles = replace(roles, families=self._find_families())
        columns.taken.update(name for names in roles.families.values() for name in names)
        roles = self._take(roles, "path", self._find_path())
        roles = self._take(roles, "id", self._find_id(roles.path))
        roles = self._take(roles, "value", self._find_denial())
        labels, classes = LabelFinder(columns).find(needs_labels)
        roles = replace(roles, labels=labels, classes=classes)
        columns.taken.update([*labels, *classes])
        roles = self._take(roles, "value", roles.value or self._find_value(bool(labels)))
        lists = [name for name in columns.unused() if columns.has_numbers(name)]
        columns.taken.update(lists)
        return replace(roles, lists=lists, unused=[*columns.unused(), *columns.set_aside])

    def _take(self, roles: Roles, meaning: str, column: str) -> Roles:
        self._columns.taken.update({column} - {""})
        changes: dict[str, Any] = {meaning: column}
        return replace(roles, **changes)

    def _find_split(self) -> str:
        if "split" in self._chosen:
            return self._chosen["split"]
        words = set(SPLIT_WORDS) | {name.lower() for name in self._split_names}
        for name in self._columns.with_meaning("split"):
            values = self._columns.facts_of(name).spellings - {""}
            is_flag = normalized(name).startswith(("is_", "in_")) or normalized(name) == "valid"
            fits = self._facts[name].is_binary if is_flag and name in self._facts else values <= words
            if normalized(name) in ("split", "subset") or (values and fits):
                return name
        for name in self._columns.invented():  # of a table without a header
            values = self._columns.facts_of(name).spellings
            if len(values) > 1 and values <= words:
                return name
        return ""

    def _with_durations(self, roles: Roles) -> Roles:
        """The roles with lengths of spans for their ends: if there is no end, or if the user names lengths as it."""
        if self._are_spans and roles.start and not roles.end and "end" not in self._chosen:
            roles = self._take(roles, END, self._times.find_duration(self._times.units[roles.start]))
            return replace(roles, has_durations=bool(roles.end))
        return replace(roles, has_durations=self._columns.names_lengths_as_end(roles.start, self._are_spans))

    def _find_families(self) -> dict[str, list[str]]:
        """{feature: its columns}: columns with one name and successive numbers, whose cells are numbers."""
        families: dict[str, dict[int, str]] = {}
        for name in self._names:
            match = NUMBERED.fullmatch(name)
            if match and self._columns.is_free(name) and self._columns.facts_of(name).is_numeric:
                families.setdefault(match[1], {})[int(match[2])] = name
        columns_found = {}
        for prefix, columns in families.items():
            numbers = sorted(columns)
            fewest = _FEWEST_WITHOUT_HEADER if prefix == INVENTED.strip() else 2
            is_whole = len(numbers) >= fewest and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            if is_whole and not is_label_word(prefix) and self._are_features(prefix, list(columns.values())):
                columns_found[prefix] = [columns[number] for number in numbers]
        if len(columns_found) == 1 and normalized(next(iter(columns_found))) in _GENERIC_PREFIXES | {""}:
            return {GENERIC: next(iter(columns_found.values()))}
        return {prefix.strip("_.- ") or GENERIC: columns for prefix, columns in columns_found.items()}

    def _are_features(self, prefix: str, columns: Sequence[str]) -> bool:
        has_labels = bool(self._columns.with_meaning("labels")) or "labels" in self._chosen
        is_generic = normalized(prefix) in _GENERIC_PREFIXES
        return not all(self._facts[name].is_binary for name in columns) or (is_generic and has_labels)

    def _find_path(self) -> str:
        if "path" in self._chosen:
            return self._chosen["path"]
        if candidates := self._columns.with_meaning("path"):
            return candidates[0]
        candidates = self._columns.with_meaning("id") + self._columns.invented() + self._named_names()
        return next((name for name in candidates if self._holds_files(name)), "")

    def _holds_files(self, name: str) -> bool:
        values = [str(value).lower() for value in self._columns.facts_of(name).filled[:1000]]
        return bool(values) and all(value.endswith(self._endings) for value in values)

    def _find_id(self, path: str) -> str:
        if self._chosen.get("id"):
            return self._chosen["id"]
        candidates = self._id_candidates(path)
        texts = [name for name in candidates if not self._facts[name].has_lists]
        candidates = texts or candidates
        repeated = [name for name in candidates if not self._facts[name].is_unique]
        if repeated:  # a video may have several observations, each with an id of its own
            candidates = [n for n in candidates if normalized(n) != _OBSERVATION or n in repeated]
        unique = [name for name in candidates if self._facts[name].is_unique]
        names = [name for name in unique if not self._facts[name].is_counter]
        first = next(iter(names or unique or candidates), "")
        if self._are_spans and repeated:  # a column of unique ids, beside one of repeated ids, names the spans
            first, unique = repeated[0], []
        if candidates and candidates[0] in unique and not self._facts[candidates[0]].is_counter:
            first = candidates[0]
        first = first or path or self._column_of_names()
        if first:
            if first in self._facts and self._facts[first].has_lists:
                raise UsageError(
                    f'{self._path}: the cells of "{first}" are lists or objects, so that they are no ids. Name '
                    f"the column of the ids, as in --columns=id=COLUMN; it has: {self._columns.list_names()}."
                )
            side_columns.refuse_records(self._columns, first)
            return first
        return self._id_by_cells()

    def _id_candidates(self, path: str) -> list[str]:
        """The columns whose names say that they have ids; those of Dublin Core are less sure than all others."""
        candidates = [name for name in self._columns.with_meaning("id") if name in self._facts]
        sure = [name for name in candidates if not normalized(name).startswith(DUBLIN_CORE)]
        return sure if sure or path or self._column_of_names() else candidates

    def _column_of_names(self) -> str:
        """A column `name` or `title` of each row; less sure than others, since a class has a name too."""
        name = next((name for name in self._named_names() if self._facts[name].is_unique), "")
        texts = list(map(str, self._facts[name].filled)) if name else []
        if 2 * sum(bool(_FILE.search(text)) for text in texts) < len(texts):
            side_columns.refuse_titled(self._columns, name)
        return name

    def _named_names(self) -> list[str]:
        return [name for name in self._names if normalized(name) in ("name", "title") and self._columns.is_free(name)]

    def _id_by_cells(self) -> str:
        """The id of a table without a header, or whose first column R or pandas has left without a name."""
        self._refuse_sparse_vectors()
        for place, name in enumerate(self._columns.invented()):
            facts = self._facts.get(name)
            if facts and self._columns.is_free(name) and facts.is_unique and (place == 0 or not facts.is_numeric):
                self._refuse_program_text(texts := list(map(str, facts.filled)))
                self._refuse_id_with_label(texts)
                self._refuse_sentences(name, texts)
                return name
        names = [name for name in self._names if self._names_files(name)]
        if len(names) == 1 and not missing_ids.are_sightings(self._columns):
            return names[0]
        if not self._columns.names:
            raise UsageError(f"{self._columns.path} is empty. Expected a table with a row for each video.")
        remedy = missing_ids.remedy(self._columns)
        if self._are_spans and self._columns.invented():
            remedy = "Write a header, or name all columns, as in --columns='"
            remedy += ",".join(map("{}=column {}".format, ("id", "labels", "start", "end"), range(1, 5))) + "'"
        raise UsageError(f"{self._path} has no column 'id'; it has: {self._columns.list_names()}. {remedy}.")

    def _refuse_program_text(self, texts: Sequence[str]) -> None:
        """Refuses fields such as `INSERT INTO t VALUES ('v00'`, which a delimiter has cut out of brackets."""
        if texts and all(text.count("(") > text.count(")") or text.count("{") > text.count("}") for text in texts):
            raise UsageError(
                f"{self._path}: the first fields, such as {texts[0][:60]!r}, are cut within brackets, as in "
                "the text of a program or of SQL. Save the table as CSV, with a header such as id and labels."
            )

    def _refuse_sparse_vectors(self) -> None:
        """Refuses lines of libsvm, `1,3 1:0.5 7:0.25`: labels, and the values of features by their numbers."""
        for name in self._columns.invented():
            texts = list(map(str, self._columns.facts_of(name).filled))
            if texts and all(map(_SPARSE_VECTOR.fullmatch, texts)):
                raise UsageError(
                    f"{self._path}: lines such as those with {texts[0][:60]!r} are of libsvm, without ids. "
                    "Read it by sklearn.datasets.load_svmlight_file(FILE, multilabel=True), and save an NPZ file with "
                    "the arrays id, labels (0/1 vectors) and the features."
                )

    def _refuse_sentences(self, name: str, texts: Sequence[str]) -> None:
        """Refuses texts of several words in a table without a header if another column has ids of one word each."""
        others = [
            other
            for other in self._columns.invented()
            if other != name and self._names_files(other) and all(map(_ONE_WORD.fullmatch, self._texts(other)))
        ]
        if others and all(len(text.split()) > _MOST_WORDS_OF_ID for text in texts):
            raise UsageError(
                f'{self._path} has no header, and "{name}" may name the videos, or "{others[0]}": each cell of both '
                f"differs from the others. Choose by {columns_flag('id', [name])} or {columns_flag('id', others[:1])}."
            )

    def _texts(self, name: str) -> list[str]:
        return list(map(str, self._columns.facts_of(name).filled))

    def _refuse_id_with_label(self, texts: Sequence[str]) -> None:
        """Refuses fields such as `v00 cat`, an id and a label, where a comma stands between the labels."""
        pairs = [match.groups() for text in texts if (match := _ID_WITH_LABEL.fullmatch(text))]
        ids, labels = {part for part, _ in pairs}, {label for _, label in pairs}
        if len(pairs) > _MOST_OF * len(texts) and len(ids) == len(pairs) > 1 and 2 * len(labels) <= len(pairs):
            raise UsageError(
                f"{self._path}: the first fields, such as {texts[0][:60]!r}, seem to be an id and a label. "
                "Write a tab between the id and the labels, and a header such as id and labels above them."
            )

    def _names_files(self, name: str) -> bool:
        """Whether a column may name the videos: different texts of one word, which are neither numbers nor times."""
        facts = self._facts.get(name)
        if facts is None or not self._columns.is_free(name) or not facts.is_unique or facts.has_lists:
            return False
        if is_of_labels(name):
            return False
        texts = [str(value) for value in facts.filled]
        numbers = list(filter(WRITTEN_NUMBER.fullmatch, texts))
        if 2 * len(numbers) >= len(texts) or meaning_of(texts[0]):  # or there is a second header
            return False
        return not any(map(_NO_NAME.search, texts))

    def _find_denial(self) -> str:
        """A column that says by 1 and -1 whether a span shows the class of a column of labels, as in HACS."""
        if not self._are_spans or "present" in self._chosen:
            return ""
        names = self._columns.with_meaning("labels")
        names = names + [name for name in self._names if normalized(name) == _KIND_OF_LABEL and name not in names]
        names = [name for name in names if name in self._facts and self._columns.is_free(name)]
        labels = self._chosen.get("labels", "").split(JOIN)
        denials = [name for name in names if self._facts[name].denies and name not in labels]
        return denials[0] if len(denials) == 1 < len(names) else ""

    def _find_value(self, has_labels: bool) -> str:
        if column := self._chosen.get("present", ""):
            if not has_labels:
                raise UsageError(
                    f"{self._path} has a column for each class, whose cells say themselves whether a video has "
                    f"it; {columns_flag('present', [column])} is for tables with a row for each label."
                )
            return column
        if "present" in self._chosen or not has_labels or set(map(normalized, self._names)) >= SELECTION:
            return ""
        for name in self._names:
            facts = self._facts.get(name)
            if facts and self._columns.is_free(name) and normalized(name) in VALUE_NAMES and facts.is_binary:
                return name
        return ""
