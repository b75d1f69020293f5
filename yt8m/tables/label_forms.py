"""How labels are written in the cells of a column: names, names with a separator, lists, 0/1 vectors, numbers.

The form is found from the cells, and then each cell is read by it. A cell that does not fit is an error of its row.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables import label_lists, odd_labels, separators
from yt8m.tables.class_names import WHOLE_FLOAT, is_nothing
from yt8m.tables.label_lists import NotAListError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_PAIRS_WITH_SCORES = re.compile(r"(\S+ [01]?\.\d+\s*)+", re.ASCII)  # as in the prediction files of YouTube-8M
_TIMED = re.compile(r"(\S+) \d+(?:\.\d*)? \d+(?:\.\d*)?")  # a label with its start and end, as in Charades
_BINARY = re.compile("0?b([01]+)")  # as Python writes the bits of a number
_WHOLE_NUMBERS = re.compile(r"[\d ]+", re.ASCII)
# What may stand around each label of a cell: quotes, as Python writes bytes, and the marks of lists in lines.
_QUOTES = tuple(
    map(
        re.compile,
        (r'"(.+)"', r"'(.+)'", "[\u201c\u201e](.+)[\u201d\u201c]", "\u00ab(.+)\u00bb", r"b'(.+)'", r'b"(.+)"'),
    )
)
_BULLETS = re.compile(r"(?:[-*\u2022\u2013]|\d{1,2}[.)])\s+(.+)")

Split = Callable[[Any], Sequence[str]]


class LabelForm(NamedTuple):
    """How the labels of a column are written.

    Attributes:
      description: the words for the summary, such as `separated by ","`; empty for one name in each cell.
      separator: the separator between labels in a text; empty for another form.
      has_whole_floats: whether the numbers of classes are written as 3.0.
      vector_size: the number of classes, if each cell says 0 or 1 of each; else 0.
      has_times: whether each label has its start and end, which `split` leaves out.
    """

    description: str
    split: Split
    separator: str = ""
    has_whole_floats: bool = False
    checked: frozenset[str] = frozenset()
    vector_size: int = 0
    has_times: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether each text is a name, or is cut at each separator, whatever its parts are."""
        return self.split is _whole or (isinstance(self.split, _Splitter) and not self.split.whole)


def find_form(counts: Mapping[Any, int], flag: str, known_names: Collection[str], source: str) -> LabelForm:
    """Finds how the labels of a column are written.

    Args:
      counts: {cell: number of rows}; lists are tuples here.
      known_names: the names of the vocabulary, if there is one.
    """
    known_names = {unicodedata.normalize("NFC", name) for name in known_names}
    filled = {cell: count for cell, count in counts.items() if not is_nothing(cell)}
    if flag != separators.NONE:
        odd_labels.refuse_lost_labels((cell if isinstance(cell, str | tuple) else str(cell) for cell in filled), source)
    if flag not in (separators.AUTO, separators.NONE):
        return _with_separator(filled, separators.parse_flag(flag), known_names, source)
    if any(isinstance(cell, tuple | label_object) for cell in filled):
        return _structured(filled, known_names, source)
    texts = {str(cell).strip(): count for cell, count in filled.items()}
    lists = [text for text in texts if label_lists.looks_like_list(text)]
    if lists and flag == separators.AUTO and (form := _of_lists(texts, lists, known_names, source)):
        return form
    if texts and flag == separators.AUTO and all(_BINARY.fullmatch(text) for text in texts):
        _refuse_digits({text.partition("b")[2]: count for text, count in texts.items()}, source)
    if texts and all(_NUMBER.fullmatch(text) for text in texts):
        if flag == separators.AUTO:
            _refuse_digits(texts, source)
        return _of_numbers(texts)
    if flag == separators.NONE:
        return LabelForm("", _whole, checked=frozenset(texts))
    if _are_timed(texts):
        return LabelForm("each with its start and end", _timed_names, has_times=True)
    return _of_texts(texts, known_names, source)


class label_object(dict[str, Any]):  # noqa: N801 - it stands for a JSON object, in a form that can be a key
    """A JSON object in a cell, so that it can be a key of a dictionary."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(str(self))


def hashable(value: Any) -> Any:
    """A cell as a key of a dictionary: lists become tuples."""
    if isinstance(value, list):
        return tuple(map(hashable, value))
    return label_object(value) if isinstance(value, dict) else value


def _whole(cell: Any) -> Sequence[str]:
    if isinstance(cell, list | tuple | dict):
        if cell:
            raise NotAListError(str(cell))
        return ()
    return (cell,)


def _with_separator(cells: Mapping[Any, int], separator: str, known_names: Collection[str], source: str) -> LabelForm:
    """The form with the separator that the user named."""
    texts = {str(cell): count for cell, count in cells.items() if not isinstance(cell, tuple | dict)}
    separators.refuse_unused(separator, texts, known_names, source)
    return LabelForm(f"separated by {separators.show(separator)}", _Splitter(separator), separator)


class _Splitter:
    """Splits texts by a separator; a list has its labels already."""

    def __init__(self, separator: str, whole: Collection[str] = ()) -> None:
        self._separator, self.whole = None if separator == " " else separator, frozenset(whole)

    def __call__(self, cell: Any) -> Sequence[str]:
        if isinstance(cell, list):
            return [str(name) for name in label_lists.flatten(cell) if name is not None]
        text = str(cell)
        return [text] if text in self.whole else text.split(self._separator)


class _Undecorated:
    """Splits texts, and takes away what stands around each label."""

    def __init__(self, split: Split, pattern: re.Pattern[str]) -> None:
        self._split, self._pattern = split, pattern

    def __call__(self, cell: Any) -> Sequence[str]:
        names = [str(name).strip() for name in self._split(cell)]
        return [match[1] if (match := self._pattern.fullmatch(name)) else name for name in names]


def _decoration(pieces: Sequence[Sequence[str]], separator: str) -> re.Pattern[str] | None:
    """The quotes or bullets around the labels of the cells that have several, or of all; None if there are none.

    Some programs write quotes around most names alone, such as those with blanks.
    """
    several = [names for names in pieces if len(names) > 1] or pieces
    patterns = (*_QUOTES, _BULLETS) if separator == "\n" else _QUOTES
    names_in_cells = [name for names in several for name in names]
    for pattern in patterns:
        count = sum(pattern.fullmatch(name) is not None for name in names_in_cells)
        if count and (count == len(names_in_cells) or (pattern is not _BULLETS and 2 * count > len(names_in_cells))):
            return pattern
    return None


def _decorated(pattern: re.Pattern[str], separator: str, pieces: Sequence[Sequence[str]]) -> LabelForm:
    """The form of labels with quotes or bullets around each."""
    marks = "with bullets" if pattern is _BULLETS else "in quotes"
    separated = f", separated by {separators.show(separator)}" if separator else ""
    split = _Undecorated(_Splitter(separator) if separator else _whole, pattern)
    checked = frozenset(name for names in pieces for name in split(separator.join(names)))
    return LabelForm(f"{marks}{separated}", split, separator, checked=checked)


def _of_texts(texts: Mapping[str, int], known_names: Collection[str], source: str) -> LabelForm:
    """The form of texts that are names, perhaps with a separator."""
    if _are_hashtags(texts):
        return LabelForm("as hashtags", _hashtags)
    if texts and all(map(_PAIRS_WITH_SCORES.fullmatch, texts)):
        odd_labels.refuse_scores(texts, source, always=True)
    odd_labels.refuse_scores(
        {part.strip(" {}[]") for text in texts for part in re.split(r"[,;|\n]", text) if part.strip()}, source
    )
    separator = separators.find_separator(texts, known_names, source)
    odd_labels.refuse_scores({part for text in texts for part in separators.split(text, separator or "\n")}, source)
    pieces = [separators.split(text, separator) if separator else [text] for text in texts]
    odd_labels.refuse_odd_names({name for names in pieces for name in names}, known_names, source)
    is_known = not set(known_names).isdisjoint(part for names in pieces for part in names)
    if (pattern := _decoration(pieces, separator)) and not is_known:
        return _decorated(pattern, separator, pieces)
    if not separator:
        return LabelForm("", _whole, checked=frozenset(texts) | frozenset(known_names))
    if vector := _vector_form(pieces, source):
        return vector(_Splitter(separator), f" separated by {separators.show(separator)}")
    checked = frozenset(part for names in pieces for part in names) | frozenset(known_names)
    has_floats = all(_NUMBER.fullmatch(name) for name in checked)
    whole = [name for name in known_names if separator in name]
    description = f"separated by {separators.show(separator)}"
    return LabelForm(description, _Splitter(separator, whole), separator, has_floats, checked)


def _of_numbers(texts: Mapping[str, int]) -> LabelForm:
    """The form of numbers, which pandas writes as 3.0 if some are missing."""
    is_float = any(map(WHOLE_FLOAT.fullmatch, texts))
    has_whole_floats = is_float and all(WHOLE_FLOAT.fullmatch(text) or text.isdigit() for text in texts)
    return LabelForm("", _whole, has_whole_floats=has_whole_floats, checked=frozenset(texts))


def _refuse_digits(texts: Mapping[str, int], source: str) -> None:
    """Refuses `0010`, which may be one class, or say of each of four classes whether the video has it."""
    if {len(text) for text in texts} == {max(map(len, texts))} and len(next(iter(texts))) > 2:
        example = next((text for text in texts if text.startswith("0")), "")
        if example and set("".join(texts)) == {"0", "1"}:
            raise UsageError(
                f"{source}: {example[:60]!r} may be the name of one class, or a 0/1 vector. Choose by "
                f"--label_separator={separators.NONE} (one name), or write a blank between the 0 and 1 of a vector."
            )


def _are_hashtags(texts: Mapping[str, int]) -> bool:
    """Whether each label begins with `#`, as in `#cat #dog`."""
    return bool(texts) and all(re.fullmatch(r"(#[^#]*[^#\s][^#]*)+", text) for text in texts)


def _hashtags(cell: Any) -> Sequence[str]:
    return str(cell).split("#")


def _are_timed(texts: Collection[str]) -> bool:
    """Whether each label has its start and end; whole numbers alone, as in `0 1 1`, are labels or a vector of them."""
    labels = {part.strip() for text in texts for part in text.split(";") if part.strip()}
    return bool(labels) and all(map(_TIMED.fullmatch, labels)) and not all(map(_WHOLE_NUMBERS.fullmatch, labels))


def _timed_names(cell: Any) -> Sequence[str]:
    matches = [_TIMED.fullmatch(part.strip()) for part in str(cell).split(";") if part.strip()]
    if None in matches:
        raise NotAListError(str(cell))
    return [match[1] for match in matches if match]


def _of_lists(
    texts: Mapping[str, int], lists: Sequence[str], known_names: Collection[str], source: str
) -> LabelForm | None:
    """The form of texts of which some are lists; None if they are names in brackets."""
    items: dict[str, list[Any]] = {}
    for text in lists:
        try:
            items[text] = label_lists.parse_text(text)
        except label_lists.ObjectError as error:
            raise _no_labels(error, source) from error
        except NotAListError:
            continue
    others = [text for text in texts if text not in items]
    if not items:
        return None
    if len(items) == len(lists) == len(texts) and (vector := _vector_form(list(items.values()), source)):
        return vector(_list_items)
    label_lists.refuse_odd_vectors(list(items.values()), others, source)
    if inner := _inside_lists(items, others, known_names, source):
        return inner
    if joined := _joined_in_lists(items, others, known_names, source):
        return joined
    names = {str(item).strip() for pieces in items.values() for item in pieces} | set(known_names)
    if any(text in names for text in lists) or (others and not _may_stand_alone(items, others, names)):
        example = next((text for text in others if text not in names), lists[0])
        raise UsageError(
            f"{source}: some cells are lists, such as {lists[0][:60]!r}, and others are not, such as {example[:60]!r}. "
            f"Write all as lists, or choose --label_separator={separators.NONE} if each cell is one name."
        )
    checked = frozenset(map(str.strip, map(str, names)))
    odd_labels.refuse_odd_names(checked, known_names, source)
    has_floats = all(_NUMBER.fullmatch(name) for name in checked)
    return LabelForm("lists", _list_items, has_whole_floats=has_floats, checked=checked)


def _inside_lists(
    items: Mapping[str, Sequence[Any]], others: Sequence[str], known_names: Collection[str], source: str
) -> LabelForm | None:
    """The form of lists such as `[cat dog]`, whose labels have neither commas nor quotes; None for other lists."""
    if others or not all(len(pieces) == 1 and text[1:-1] == pieces[0] for text, pieces in items.items()):
        return None
    separator = separators.find_separator({str(pieces[0]): 1 for pieces in items.values()}, known_names, source)
    if not separator:
        return None
    splitter = _Splitter(separator)
    checked = frozenset(name for pieces in items.values() for name in splitter(pieces[0])) | frozenset(known_names)
    description = f"lists of labels separated by {separators.show(separator)}"
    return LabelForm(description, lambda cell: splitter(str(cell).strip()[1:-1]), separator, checked=checked)


def _joined_in_lists(
    items: Mapping[str, Sequence[Any]], others: Sequence[str], known_names: Collection[str], source: str
) -> LabelForm | None:
    """The form of lists such as `["cat;dog"]`, whose only item has several labels; None for other lists."""
    counts = Counter(str(item).strip() for pieces in items.values() for item in pieces)
    for separator in separators.USUAL:
        verdict = separators.judge(separator, counts, known_names)
        if verdict.kind != "split":
            continue
        if others or not all(len(pieces) == 1 for pieces in items.values()):
            raise separators.two_readings(source, separator, verdict.example, "")
        splitter = _Splitter(separator)
        checked = frozenset(name for item in counts for name in separators.split(item, separator))
        description = f"lists of texts separated by {separators.show(separator)}"
        split = functools.partial(_split_items, splitter)
        return LabelForm(description, split, separator, checked=checked | frozenset(known_names))
    return None


def _split_items(splitter: _Splitter, cell: Any) -> Sequence[str]:
    return [name for item in _list_items(cell) for name in splitter(item)]


def _may_stand_alone(items: Mapping[str, Sequence[Any]], others: Sequence[str], names: set[str]) -> bool:
    """Whether texts beside lists are single labels, as Label Studio writes them: lists then have two labels or more."""
    if any(label_lists.looks_like_list(text) for text in others):
        return False
    if any(len(pieces) > 1 and names >= set(pieces) for text in others for pieces in separators.cuts(text)):
        return False
    known_names = sum(text in names for text in others)
    return 2 * known_names > len(others) or all(len(pieces) > 1 for pieces in items.values())


def _list_items(cell: Any) -> Sequence[Any]:
    """The items of a list in a text; a text that is no list is one name."""
    text = str(cell).strip()
    return label_lists.parse_text(text) if label_lists.looks_like_list(text) else (text,)


def _structured(cells: Mapping[Any, int], known_names: Collection[str], source: str) -> LabelForm:
    """The form of cells that are lists or objects, as in Parquet and JSON."""
    items, texts = list[Sequence[Any]](), dict[str, int]()
    for cell, count in cells.items():
        if isinstance(cell, tuple | dict):
            items.append(_flattened(cell, source))
        else:
            texts[str(cell).strip()] = count
    if not texts and (vector := _vector_form(items, source)):
        return vector(label_lists.flatten)
    names = frozenset(str(item).strip() for pieces in items for item in pieces)
    if texts and (inner := find_form(texts, separators.AUTO, names | set(known_names), source)).description:
        raise UsageError(
            f"{source}: some cells are lists, and others texts with several labels ({inner.description}), such as "
            f"{next(iter(texts))[:60]!r}; write all as lists."
        )
    # A list may hold whole cells such as `["cat,dog"]`; then its items have a separator.
    single = {str(pieces[0]): count for pieces, count in zip(items, cells.values(), strict=False) if len(pieces) == 1}
    if single and not texts and len(single) == len(items):
        separators_found = separators.find_separator(single, known_names, source)
        if separators_found:
            splitter = _Splitter(separators_found)
            return LabelForm(
                f"lists of texts separated by {separators.show(separators_found)}",
                lambda cell: [part for item in label_lists.flatten(cell) for part in splitter(item)],
                separators_found,
            )
    odd_labels.refuse_odd_names(names, known_names, source)
    return LabelForm("lists", label_lists.flatten, has_whole_floats=True, checked=names | frozenset(known_names))


def _flattened(cell: Any, source: str) -> Sequence[Any]:
    try:
        return label_lists.flatten(cell)
    except NotAListError as error:
        raise _no_labels(error, source) from error


def _no_labels(error: NotAListError, source: str) -> UsageError:
    why = error.why if isinstance(error, label_lists.ObjectError) else "no names of classes can be told in it"
    return UsageError(
        f"{source}: a cell holds {str(error)[:80]}: {why}. Write the names of the classes that a video has, as a list "
        'such as ["cat", "dog"].'
    )


def _vector_form(items: Sequence[Sequence[Any]], source: str) -> Callable[..., LabelForm] | None:
    """A function that makes, of a splitter, the form of 0/1 vectors; None if the cells are no such vectors.

    A vector repeats 0 or 1, which a list of classes does not.
    """
    label_lists.refuse_odd_vectors(items, (), source)
    sizes = {len(pieces) for pieces in items}
    if len(sizes) != 1 or not all(map(label_lists.is_vector, items)):
        return None
    (size,) = sizes
    if all(len({str(part) for part in pieces}) == size for pieces in items):
        raise UsageError(
            f"{source}: each cell has a 0 and a 1; either the classes 0 and 1, or for each of two classes whether the "
            "video has it. Write the names or the numbers of the classes."
        )

    def with_splitter(split: Split, separated: str = "") -> LabelForm:
        def places(cell: Any) -> Sequence[str]:
            pieces = [part for part in split(cell) if str(part).strip()]
            if len(pieces) != size or not label_lists.is_vector(pieces):
                raise NotAListError(str(cell))
            return label_lists.on_places(pieces)

        return LabelForm(f"0/1 vectors{separated}", places, vector_size=size)

    return with_splitter
