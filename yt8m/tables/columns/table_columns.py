"""The columns of a table: what is known of each, which are free for a meaning, and the numbers in their cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.columns.facts import Facts
from yt8m.tables.sources.source import Source
from yt8m.tables.words import forms, normalized, word_set
from yt8m.tables.words.meanings import INVENTED, JOIN, meaning_of
from yt8m.tables.words.time_columns import is_length_of_video, says_length

FEATURE_NAMES = word_set("feature features feat feats embedding embeddings emb vector vectors frames rgb audio")
_ROW_OF_NUMBERS = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?([\s;]+[+-]?[\d.]+(e[+-]?\d+)?)+", re.ASCII | re.IGNORECASE)
_KEYED = re.compile(r"([\w.\-]+[=:])(?!//).*", re.DOTALL)  # as in `id=a` and `id:a`


class TableColumns:
    """The columns of a source.

    Args:
      chosen: {meaning: column} as the user or the form of the file names them.
      reserved: columns that are used otherwise.
      known_names: the names of the vocabulary, if there is one.

    Attributes:
      set_aside: the columns that the user says mean nothing.
    """

    def __init__(
        self,
        source: Source,
        facts: Mapping[str, Facts],
        chosen: Mapping[str, str],
        reserved: Collection[str],
        known_names: Collection[str] = (),
    ) -> None:
        self.source, self.facts, self.chosen = source, facts, {**source.hints, **chosen}
        self.names, self.path = source.columns, source.path
        self._sign_of_groups = forms.sign_of_groups(self.names)
        self._reserved, self.known_names = set(reserved), known_names
        unused = self.chosen.get("unused", "")
        self.set_aside = [unused] if unused in self.names else [name for name in unused.split(JOIN) if name]
        self.taken: set[str] = set()
        self.set_aside += self._submissions()

    def facts_of(self, name: str) -> Facts:
        """What is known of a column; of one that was not looked at, what is known of a column without cells."""
        return self.facts.get(name) or Facts()

    def is_free(self, name: str) -> bool:
        """Whether a column has no meaning yet."""
        return name not in self.taken and name not in self._reserved

    def with_meaning(self, meaning: str) -> list[str]:
        """The free columns with a meaning by their names, the surest first."""
        ranked = []
        for place, name in enumerate(self.names):
            meaning_and_rank = meaning_of(name) or meaning_of(forms.question_of(name, self._sign_of_groups))
            if meaning_and_rank and meaning_and_rank[0] == meaning and self.is_free(name):
                ranked.append((meaning_and_rank[1], place, name))
        return [name for _, _, name in sorted(ranked)]

    def _submissions(self) -> list[str]:
        """The columns that name the answers to a form beside the videos: of a video there may be several."""
        chosen = {name for text in self.chosen.values() for name in (text, *text.split(JOIN))}
        columns = [name for name in self.names if name in forms.SUBMISSIONS and name not in chosen]
        has_others = not forms.SUBMISSIONS.issuperset(self.with_meaning("id")) or "id" in self.chosen
        others = [name for name in forms.columns_about_answers(self.names) if name not in chosen]
        if self._sign_of_groups:  # when the form was opened and closed
            others += [name for name in forms.MOMENTS if self.facts_of(name).has_dates and name not in chosen]
        return [*(columns if self._sign_of_groups and has_others else []), *others]

    def invented(self) -> list[str]:
        """The columns of a table without a header."""
        return [name for name in self.names if name.startswith(INVENTED)]

    def names_lengths_as_end(self, start: str, are_spans: bool) -> bool:
        """Whether the column that the user names as the end has the lengths of spans, as its name says.

        Args:
          start: the column of the starts; empty if there is none.
        """
        end = self.chosen.get("end", "")
        if not (start and end and says_length(normalized(end))):
            return False
        if are_spans and not is_length_of_video(normalized(end)):
            return True
        raise UsageError(
            f'{self.path}: the name of "{end}" says that it has lengths, but --columns=end={end} takes it for ends '
            f'beside the starts "{start}". Write the ends into a column called end.'
        )

    def refuse_keyed_cells(self) -> None:
        """Refuses lines of logfmt and LTSV, `id=a label=cat`, each of whose cells has the name of its column."""
        keys = [self._key_of_cells(name) for name in self.names]
        meaning = meaning_of(keys[0][:-1]) if keys and keys[0] else None
        if len(keys) < 2 or not all(keys[:2]) or (meaning or ("",))[0] not in ("id", "path"):
            return
        raise UsageError(
            f"{self.path}: each cell has the name of its column before it, such as {keys[0]} and {keys[1]}, as logfmt "
            f"and LTSV write it. Write a header of {keys[0][:-1]} and {keys[1][:-1]}, and the values below it, or "
            f'JSON lines such as {{"{keys[0][:-1]}": "a", "{keys[1][:-1]}": ["cat"]}}.'
        )

    def _key_of_cells(self, name: str) -> str:
        """The word with `=` or `:` that begins all cells of a column without a header; empty for other columns."""
        cells = map(str, self.facts_of(name).filled)
        texts = [*cells, *([] if name.startswith(INVENTED) else [name])]
        keys = {match[1] if (match := _KEYED.fullmatch(text)) else "" for text in texts}
        return keys.pop() if len(keys) == 1 else ""

    def is_empty(self, name: str) -> bool:
        """Whether no cell of a column has a value."""
        return name in self.facts and not self.facts[name].filled

    def has_numbers(self, name: str) -> bool:
        """Whether a column holds lists of numbers, or of lists of numbers."""
        if name in self.source.arrays:
            return True
        values = self.facts_of(name).filled[:100]
        if values and normalized(name) in FEATURE_NAMES and all(map(_is_row_of_numbers, values)):
            return True
        if not values or not all(map(_is_list_of_numbers, values)):
            return False
        return normalized(name) in FEATURE_NAMES or "." in str(values)

    def unused(self) -> list[str]:
        """The free columns that have a value."""
        return [name for name in self.names if self.is_free(name) and not self.is_empty(name)]

    def list_names(self) -> str:
        """The names of all columns, for a message."""
        return (", ".join(self.names) or "none")[:300]


def _is_row_of_numbers(value: Any) -> bool:
    """Whether a text has several numbers with blanks or semicolons between them, and some with a fraction."""
    return isinstance(value, str) and "." in value and _ROW_OF_NUMBERS.fullmatch(value.strip()) is not None


def _is_list_of_numbers(value: Any) -> bool:
    if isinstance(value, str):
        return bool(re.fullmatch(r"\[[\s\d.,eE+\-\[\]]*\d[\s\d.,eE+\-\[\]]*\]", value))
    if not isinstance(value, tuple) or not value:
        return False
    return all(isinstance(item, int | float) or _is_list_of_numbers(item) for item in value)
