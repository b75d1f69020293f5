"""The separator between the labels in a cell, found from all cells.

A text such as `Animal, domestic` may be one name, and `cat, dog` two. So a separator is taken only if the parts of its
cells are labels of their own elsewhere: `cat` and `dog` alone, or in many other combinations. If the cells say neither
that nor the contrary, there are two readings, and the user chooses one of them by --label_separator.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.cells import fixed_places
from yt8m.tables.words import words

NONE = "none"  # the value of --label_separator for cells that hold one name each
AUTO = "auto"
# Separators that hardly ever belong to a name, then those that may, in the order in which they are tried.
_STRONG = (";#", ";", "|", "\n", "\t")
_WORDS = tuple(f" {word} " for word in words("and und et y e och og en oraz i ve"))
# Commas of other scripts, Arabic marks, bullets and dots.
_SIGNS_OF_LISTS = (",", *"\u3001\uff0c\uff1b\u060c\u061b\u2022\u00b7\u30fb", "/", "#", "+")
_INNER = words("\\ > - _ .")  # signs inside of names: where they seem to stand between labels, the user chooses
_BREAKS = ("<br>", "<br/>", "<br />")
_WEAK = (*_SIGNS_OF_LISTS, *words("& :: // : ~ ^"), " - ", *_WORDS, " ", *_BREAKS, *_INNER)
USUAL = (*_STRONG, *_SIGNS_OF_LISTS)  # separators that are looked for in all names of a table
_NAMES = {"\n": "line breaks", "\t": "tabs", " ": "blanks"}
_SPOKEN = ("&", ":", " - ", *_WORDS, " ")  # separators that many names have
_CONTROL = ("\n", "\t")  # what no name has, so that cells with them are split or refused later
_MOST_OF = 0.9  # share of the cells with a separator whose parts must be labels of their own
_FEW_OF = 1 / 3  # below this share, the cells are names
_FEWEST_CELLS, _ENOUGH_CELLS = 2, 3  # different cells that prove a separator: of nearly all cells, or of some
_MOST_WORDS = 12  # of a text in which words between labels are looked for
_UNUSUAL = 0.1  # share of the cells that may be names, where others prove a separator
_SIGNS = re.compile(r"(?<=[\w)\s])(?:<br ?/?>|__+|[^\w\s]+)(?=[\w(\s])")  # between words
_TOPICS = re.compile(r"/[mtg]/\w+(?:\s*,\s*/[mtg]/\w+)*", re.ASCII)  # ids of AudioSet and Freebase, which have no comma
_ABBREVIATION = re.compile(r"(?<=\s)\w/")  # as in `cat w/ dog`
_NUMBER, _NUMBERS = re.compile(r"\d{1,18}", re.ASCII), re.compile(r"[\d\s;|,]+", re.ASCII)


class SeparatorVerdict(NamedTuple):
    """What the cells say of a separator."""

    kind: str
    example: str = ""


def show(separator: str) -> str:
    """A separator as people write it, for a message."""
    return _NAMES.get(separator, f'"{separator}"')


def flag_value(separator: str) -> str:
    """The value of --label_separator that stands for a separator."""
    return repr(separator) if separator not in "\n\t" else {"\n": r"'\n'", "\t": r"'\t'"}[separator]


def parse_flag(text: str) -> str:
    """The separator that a value of --label_separator names: `\\t` and `\\n` stand for a tab and a line break."""
    return {r"\t": "\t", r"\n": "\n"}.get(text, text)


def split(text: str, separator: str) -> list[str]:
    """The parts of a cell, without the blanks around them and without empty ones."""
    pieces = text.split() if separator == " " else text.split(separator)
    return [part for part in map(str.strip, pieces) if part]


def cuts(text: str) -> Iterator[list[str]]:
    """Yields the parts of a text for each usual separator that it has."""
    for separator in USUAL:
        if separator in text:
            yield split(text, separator)


def find_separator(cells: Mapping[str, int], known_names: Collection[str], source: str) -> str:
    """The separator between labels; empty if each cell is one name.

    Args:
      cells: {text of a cell: number of cells with this text}, without empty ones.
    """
    if separator_of_numbers := _between_numbers(cells):
        return separator_of_numbers
    if all(map(_TOPICS.fullmatch, cells)) and any("," in text for text in cells):
        return ","
    chosen, unclear = "", list[tuple[str, SeparatorVerdict]]()
    for separator in (*_STRONG, *_WEAK):
        verdict = judge(separator, cells, known_names)
        if verdict.kind == "split":
            if chosen:
                raise _mixed(source, chosen, separator, verdict.example)
            chosen = separator
            cells = _parts(cells, separator, known_names)
        elif verdict.kind == "unclear":
            unclear.append((separator, verdict))
    if not chosen:
        _refuse_attributes(cells, known_names, source)
    for separator, first_verdict in unclear:
        verdict = judge(separator, cells, known_names) if chosen else first_verdict
        if verdict.kind != "names":
            raise two_readings(source, separator, verdict.example, chosen)
    _refuse_unlisted(cells, known_names, source, chosen)
    _refuse_words(set(cells) - set(known_names), {*cells, *known_names}, source, chosen)
    if not chosen and (example := fixed_places.find_joined(set(cells) - set(known_names))):
        raise UsageError(
            f"{source}: {example[0][:60]!r} may be one name, or the labels {' and '.join(map(repr, example[1:]))} "
            f"without a separator. Choose by --label_separator={NONE} (one name), or write a separator between labels."
        )
    return chosen


def _refuse_attributes(cells: Collection[str], known_names: Collection[str], source: str) -> None:
    """Raises `UsageError` if the cells, in which no separator is proven, are combinations of attributes."""
    texts = sorted(set(cells) - set(known_names))
    for separator in (*_STRONG, *_WEAK):
        is_everywhere = bool(texts) and all(separator in text for text in texts)
        if is_everywhere and fixed_places.are_combinations([split(text, separator) for text in texts]):
            raise two_readings(source, separator, texts[0], "")


def _refuse_unlisted(cells: Mapping[str, int], known_names: Collection[str], source: str, chosen: str) -> None:
    """Raises `UsageError` if a sign that is no usual separator cuts cells into labels that stand alone elsewhere."""
    alone = set(cells) | set(known_names)
    examples: dict[str, list[str]] = {}
    for text in alone - set(known_names):
        for sign in set(_SIGNS.findall(text)) - {*_STRONG, *_WEAK}:
            pieces = split(text, sign)
            if len(pieces) > 1 and alone.issuperset(pieces):
                examples.setdefault(sign, []).append(text)
    for sign, texts in examples.items():
        if len(texts) >= _FEWEST_CELLS:
            raise two_readings(source, sign, min(texts), chosen)


def _refuse_words(texts: Collection[str], alone: Collection[str], source: str, chosen: str) -> None:
    """Raises `UsageError` if a word such as `with` stands between labels that stand alone elsewhere."""
    examples: dict[str, list[str]] = {}
    for text in texts:
        pieces = text.split(" ")
        for place in range(1, min(len(pieces), _MOST_WORDS) - 1):
            if " ".join(pieces[:place]) in alone and " ".join(pieces[place + 1 :]) in alone:
                examples.setdefault(f" {pieces[place]} ", []).append(text)
    for word, texts_with_word in examples.items():
        count = sum(word in text for text in texts)
        if len(texts_with_word) >= _FEWEST_CELLS and 2 * len(texts_with_word) >= count:
            raise two_readings(source, word, min(texts_with_word), chosen)


def refuse_combinations(names: Collection[str], checked: Collection[str], source: str) -> None:
    """Raises `UsageError` if one of all names of a table seems to be several names with a separator between them."""
    everything = set(names)
    for name in sorted(everything - set(checked)):
        for separator in USUAL:
            pieces = split(name, separator) if separator in name else []
            if len(pieces) > 1 and everything.issuperset(pieces):
                raise two_readings(source, separator, name, "")


def refuse_unused(separator: str, cells: Mapping[str, int], known_names: Collection[str], source: str) -> None:
    """Raises `UsageError` if no cell has the separator that the user named, but the cells prove another one."""
    if any(separator in text for text in cells):
        return
    for other in (*_STRONG, *_WEAK):
        verdict = judge(other, cells, known_names)
        if verdict.kind == "split":
            raise UsageError(
                f"{source}: no cell has the --label_separator={flag_value(separator)}, but {show(other)} stands "
                f"between labels, as in {verdict.example[:60]!r}. Choose by --label_separator={flag_value(other)}, or "
                f"--label_separator={NONE} if each cell is one name."
            )


def _between_numbers(cells: Mapping[str, int]) -> str:
    """The separator between whole numbers, which are no names with blanks; empty if there are other cells."""
    if not all(map(_NUMBERS.fullmatch, cells)):
        return ""
    for separator in (" ", ";", "|", ","):
        pieces = [split(text, separator) for text in cells]
        if any(len(numbers) > 1 for numbers in pieces) and all(
            _NUMBER.fullmatch(number) for numbers in pieces for number in numbers
        ):
            return separator if separator != "," or len({len(numbers) for numbers in pieces}) > 1 else ""
    return ""


def judge(separator: str, cells: Mapping[str, int], known_names: Collection[str]) -> SeparatorVerdict:
    """What the cells say of a separator; see the beginning of this module."""
    combined = {text: pieces for text in cells if len(pieces := _cut(text, separator)) > 1 and text not in known_names}
    if not combined:
        return SeparatorVerdict("names")
    evidence = _Evidence(separator, cells, known_names, combined)
    if separator in _INNER:
        is_doubtful = not evidence.uncut and evidence.is_split()
        return SeparatorVerdict("unclear" if is_doubtful else "names", evidence.example)
    if evidence.uncut:
        # `C++` is a name, so that `+` can hardly stand between names.
        return SeparatorVerdict("unclear", evidence.uncut) if len(evidence.proving) > 1 else SeparatorVerdict("names")
    if evidence.is_split():
        return SeparatorVerdict("split", evidence.proving[0])
    kind = "names" if evidence.is_name() else "unclear"
    if separator in _STRONG:
        kind = evidence.judge_strong()
    if kind == "unclear" and separator in _CONTROL:
        kind = "names"
    return SeparatorVerdict(kind, evidence.example)


class _Evidence:
    """What speaks for and against a separator.

    A part is a label of its own if it stands alone in a cell, or is in several cells at different places: as `dog` in
    `cat, dog` and `dog, fox`, but not as `Animal` in `Animal, wild` and `Animal, domestic`.

    Attributes:
      uncut: a cell that has the separator, but an empty part; empty if there is none.
    """

    def __init__(
        self,
        separator: str,
        cells: Mapping[str, int],
        known_names: Collection[str],
        combined: Mapping[str, Sequence[str]],
    ) -> None:
        self._separator, self._cells, self._known, self._combined = separator, cells, set(known_names), combined
        self._alone = {text for text in cells if text not in combined} | set(known_names)
        self.uncut = next((text for text in cells if text not in combined and _is_uncut(text, separator)), "")
        self._shared, moving = _recurring_parts(combined)
        own_labels = self._alone if separator == " " else self._alone | moving
        self.proving = [text for text, pieces in combined.items() if own_labels.issuperset(pieces)]
        self.touching = [text for text, pieces in combined.items() if not own_labels.isdisjoint(pieces)]
        tokens = [part for pieces in combined.values() for part in pieces]
        self._own_share = sum(part in own_labels for part in tokens) / len(tokens)
        self._moving_share = sum(part in moving for part in tokens) / len(tokens)
        self._has_alone = not self._alone.isdisjoint(tokens)
        doubtful = set(combined) - set(self.proving)
        self.example = next((text for text in combined if text in doubtful), next(iter(combined)))

    def is_split(self) -> bool:
        """Whether the cells prove the separator."""
        count, proving = len(self._combined), set(self.proving)
        if all(self._known.issuperset(pieces) for pieces in self._combined.values()):
            return True
        if len(proving) >= (_FEWEST_CELLS if self._has_alone else _ENOUGH_CELLS) and len(proving) >= _MOST_OF * count:
            doubtful = [text for text in self._combined if text not in proving]
            styles = _styles(self.proving, self._separator)
            return set(doubtful) <= set(self.touching) and _styles(doubtful, self._separator) <= styles
        touching = set(self.touching)
        names = [text for text in self._combined if text not in touching and self._cells[text] > _FEWEST_CELLS]
        is_proven = len(proving) >= _ENOUGH_CELLS and 2 * len(touching) >= count and self._own_share >= 0.5
        return self._separator != " " and is_proven and len(names) <= _UNUSUAL * count

    def is_name(self) -> bool:
        """Whether the cells are names, as classes are: they recur as a whole, and their parts do not recombine."""
        count = len(self._combined)
        if self._separator in _SPOKEN:
            return len(self.proving) < _FEW_OF * count and self._moving_share < _FEW_OF
        is_usual = self._separator == "/" or (self._separator == "," and self._has_blanks())
        is_repeated = is_usual and sum(self._cells[text] for text in self._combined) >= 2 * count
        is_rare = 5 * count <= len(self._cells)
        is_apart = not self.proving and len(self.touching) <= _UNUSUAL * count
        return is_apart and (is_repeated or is_rare)

    def _has_blanks(self) -> bool:
        """Whether there is a blank after each separator, as after the commas of names."""
        return all(style != style.rstrip() for style in _styles(list(self._combined), self._separator))

    def judge_strong(self) -> str:
        """The kind of verdict on a separator that hardly ever belongs to a name, if it is not proven.

        Without blanks around it, it is enough if most cells have a part that stands alone or in other cells too.
        """
        is_tight = _styles(list(self._combined), self._separator) == {self._separator}
        own_labels = self._alone | self._shared
        touching = sum(not own_labels.isdisjoint(pieces) for pieces in self._combined.values())
        if is_tight and 2 * touching > len(self._combined):
            return "split"
        is_repeated = not is_tight and all(self._cells[text] > 2 for text in self._combined) and len(self._cells) > 1
        return "names" if is_repeated and not touching else "unclear"


def _recurring_parts(combined: Mapping[str, Sequence[str]]) -> tuple[set[str], set[str]]:
    """(the parts of several cells, those of them that are at different places)."""
    places: dict[str, set[int]] = {}
    count: Counter[str] = Counter()
    for pieces in combined.values():
        count.update(set(pieces))
        for place, part in enumerate(pieces):
            places.setdefault(part, set()).add(place)
    shared = {part for part, number in count.items() if number > 1}
    return shared, {part for part in shared if len(places[part]) > 1}


def _cut(text: str, separator: str) -> list[str]:
    """The parts of a cell with a separator; the cell alone if it has none, or only where a name may have it."""
    if separator not in text or (separator == "/" and _ABBREVIATION.search(text)):
        return [text]
    pieces = [part.strip() for part in (text.split() if separator == " " else text.strip().split(separator))]
    if separator in (";#", ";", ",", "|", "\n", "\t"):
        pieces = [part for part in pieces if part]
    return pieces if all(pieces) and pieces else [text]


def _is_uncut(text: str, separator: str) -> bool:
    """Whether a cell holds the separator, but has an empty part, so that it cannot be cut."""
    return (
        separator in text and separator != " " and len(split(text, separator)) >= 1 and _cut(text, separator) == [text]
    )


def _styles(texts: Sequence[str], separator: str) -> set[str]:
    return {match[0] for text in texts for match in re.finditer(rf"\s*{re.escape(separator)}\s*", text)}


def _parts(cells: Mapping[str, int], separator: str, known_names: Collection[str]) -> dict[str, int]:
    """{label: number of cells}, of cells that are split."""
    counts: Counter[str] = Counter()
    for text, count in cells.items():
        for part in [text] if text in known_names else split(text, separator):
            counts[part] += count
    return dict(counts)


def two_readings(source: str, separator: str, example: str, chosen: str) -> UsageError:
    """The error for a text that is one name, or several with a separator between them."""
    pieces = " and ".join(repr(part[:40]) for part in split(example, separator)[:3])
    other = f"--label_separator={flag_value(chosen) if chosen else NONE}"
    return UsageError(
        f"{source}: {example[:60]!r} may be one name, or the labels {pieces} with {show(separator)} between them. "
        f"Choose by {other} (one name), or --label_separator={flag_value(separator)} (several labels)."
    )


def _mixed(source: str, first: str, second: str, example: str) -> UsageError:
    return UsageError(
        f"{source}: some labels have {show(first)} between them, and others {show(second)}, such as {example[:60]!r}. "
        f"Write all with one separator, or choose by --label_separator={flag_value(first)} or "
        f"--label_separator={flag_value(second)}."
    )
