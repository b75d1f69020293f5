"""How labels are written in the cells of a column: names, names with a separator, lists, 0/1 vectors, numbers.

The form is found from the cells, and then each cell is read by it. A cell that does not fit is an error of its row.
"""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.cells import enclosed, fixed_places, label_lists, odd_labels, separators
from yt8m.tables.cells.label_lists import NotAListError
from yt8m.tables.cells.list_forms import form_of_lists, structured_form, vector_form
from yt8m.tables.cells.splitting import LabelForm, Splitter, has_entities, label_object, unescaped, whole_cell
from yt8m.tables.words.class_names import WHOLE_FLOAT, is_nothing
from yt8m.tables.words.numbers import NUMBER

_PAIRS_WITH_SCORES = re.compile(r"(\S+ [01]?\.\d+\s*)+", re.ASCII)  # as in the prediction files of YouTube-8M
_TIMED = re.compile(r"(\S+) \d+(?:\.\d*)? \d+(?:\.\d*)?")  # a label with its start and end, as in Charades
_BINARY = re.compile("0?b([01]+)")  # as Python writes the bits of a number
_WHOLE_NUMBERS = re.compile(r"[\d ]+", re.ASCII)


def find_form(counts: Mapping[Any, int], flag: str, known_names: Collection[str], source: str) -> LabelForm:
    """Finds how the labels of a column are written.

    Args:
      counts: {cell: number of rows}; lists are tuples here.
      known_names: the names of the vocabulary, if there is one.
    """
    known_names = {unicodedata.normalize("NFC", name) for name in known_names}
    odd_labels.refuse_replaced(set(counts) - known_names, source)
    if any(map(has_entities, counts)) and not any(map(has_entities, known_names)):
        return _of_entities(counts, flag, known_names, source)
    if flag == separators.AUTO and enclosed.are_quoted_whole(counts):
        return _without(enclosed.without_quotes, counts, flag, known_names, source)
    filled = {cell: count for cell, count in counts.items() if not is_nothing(cell)}
    if flag != separators.NONE:
        odd_labels.refuse_lost_labels((cell if isinstance(cell, str | tuple) else str(cell) for cell in filled), source)
    if flag not in (separators.AUTO, separators.NONE):
        return _with_separator(filled, separators.parse_flag(flag), known_names, source)
    if any(isinstance(cell, tuple | label_object) for cell in filled):
        return structured_form(filled, known_names, source, find_form)
    texts = {str(cell).strip(): count for cell, count in filled.items()}
    if flag == separators.AUTO and (form := enclosed.bracketed_form(texts)):
        odd_labels.refuse_odd_names({name for text in texts for name in form.split(text)}, known_names, source)
        return form
    lists = [text for text in texts if label_lists.looks_like_list(text)]
    if lists and flag == separators.AUTO and (form := form_of_lists(texts, lists, known_names, source)):
        return form
    if texts and flag == separators.AUTO and all(_BINARY.fullmatch(text) for text in texts):
        _refuse_digits({text.partition("b")[2]: count for text, count in texts.items()}, source)
    if texts and all(NUMBER.fullmatch(text) for text in texts):
        if flag == separators.AUTO:
            _refuse_digits(texts, source)
        return _of_numbers(texts)
    if flag == separators.NONE:
        return LabelForm("", whole_cell, checked=frozenset(texts))
    if _are_timed(texts):
        return LabelForm("each with its start and end", _timed_names, has_times=True)
    return _of_texts(texts, known_names, source)


def _of_entities(counts: Mapping[Any, int], flag: str, known_names: Collection[str], source: str) -> LabelForm:
    """The form of cells with entities of HTML, whose `;` is no separator."""
    return _without(unescaped, counts, flag, known_names, source)


def _without(
    change: Callable[[Any], Any], counts: Mapping[Any, int], flag: str, known_names: Collection[str], source: str
) -> LabelForm:
    """The form of cells that a function makes plain."""
    plain: Counter[Any] = Counter()
    for cell, count in counts.items():
        plain[change(cell)] += count
    form = find_form(plain, flag, known_names, source)
    return form._replace(split=lambda cell: form.split(change(cell)))


def _with_separator(cells: Mapping[Any, int], separator: str, known_names: Collection[str], source: str) -> LabelForm:
    """The form with the separator that the user named."""
    texts = {str(cell): count for cell, count in cells.items() if not isinstance(cell, tuple | dict)}
    separators.refuse_unused(separator, texts, known_names, source)
    _refuse_lists(texts, separator, known_names, source)
    odd_labels.refuse_denied([separators.split(text, separator) for text in texts], known_names, source)
    return LabelForm(f"separated by {separators.show(separator)}", Splitter(separator), separator)


def _refuse_lists(texts: Mapping[str, int], separator: str, known_names: Collection[str], source: str) -> None:
    """Refuses a separator that would cut lists, and leave their brackets and quotes in the names."""
    for text in filter(label_lists.looks_like_list, texts):
        names = separators.split(text, separator)
        with contextlib.suppress(NotAListError):
            if len(names) > 1 and names[0] not in known_names and len(label_lists.parse_text(text)) > 1:
                raise UsageError(
                    f"{source}: {text[:60]!r} is a list, which --label_separator={separator} would cut into names such "
                    f"as {names[0][:40]!r}; leave the flag out, so that its items are the labels."
                )


def _of_texts(texts: Mapping[str, int], known_names: Collection[str], source: str) -> LabelForm:
    """The form of texts that are names, perhaps with a separator."""
    if form := enclosed.form_of_fields(texts):
        return form
    if _are_hashtags(texts):
        return LabelForm("as hashtags", _hashtags)
    if texts and all(map(_PAIRS_WITH_SCORES.fullmatch, texts)):
        odd_labels.refuse_scores(texts, source, always=True)
    odd_labels.refuse_scores_beside(texts, known_names, source)
    odd_labels.refuse_negations(texts, known_names, source)
    pieces_of_all = {part.strip(" {}[]") for text in texts for part in re.split(r"[,;|\n]", text) if part.strip()}
    odd_labels.refuse_scores(pieces_of_all, source)
    odd_labels.refuse_counts(pieces_of_all, known_names, source)
    odd_labels.refuse_enumerations(pieces_of_all, known_names, source)
    separator = separators.find_separator(texts, known_names, source)
    if separator == ",":
        fixed_places.refuse_inner_commas(texts, known_names, source)
    odd_labels.refuse_scores({part for text in texts for part in separators.split(text, separator or "\n")}, source)
    pieces = [separators.split(text, separator) if separator else [text] for text in texts]
    odd_labels.refuse_denied(pieces, known_names, source)
    if separator and not known_names:
        odd_labels.refuse_cut_cells(texts, pieces, source)
    odd_labels.refuse_odd_names({name for names in pieces for name in names}, known_names, source)
    is_known = not set(known_names).isdisjoint(part for names in pieces for part in names)
    if (pattern := enclosed.find_marks(pieces, separator)) and not is_known:
        return enclosed.marked_form(pattern, separator, pieces)
    if not separator:
        return LabelForm("", whole_cell, checked=frozenset(texts) | frozenset(known_names))
    if vector := vector_form(pieces, source):
        return vector(Splitter(separator), f" separated by {separators.show(separator)}")
    checked = frozenset(part for names in pieces for part in names) | frozenset(known_names)
    has_floats = all(NUMBER.fullmatch(name) for name in checked)
    whole = [name for name in known_names if separator in name]
    description = f"separated by {separators.show(separator)}"
    return LabelForm(description, Splitter(separator, whole), separator, has_floats, checked)


def _of_numbers(texts: Mapping[str, int]) -> LabelForm:
    """The form of numbers, which pandas writes as 3.0 if some are missing."""
    is_float = any(map(WHOLE_FLOAT.fullmatch, texts))
    has_whole_floats = is_float and all(WHOLE_FLOAT.fullmatch(text) or text.isdigit() for text in texts)
    return LabelForm("", whole_cell, has_whole_floats=has_whole_floats, checked=frozenset(texts))


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
    return [name.strip(" ,;|") for name in str(cell).split("#")]


def _are_timed(texts: Collection[str]) -> bool:
    """Whether each label has its start and end; whole numbers alone, as in `0 1 1`, are labels or a vector of them."""
    labels = {part.strip() for text in texts for part in text.split(";") if part.strip()}
    return bool(labels) and all(map(_TIMED.fullmatch, labels)) and not all(map(_WHOLE_NUMBERS.fullmatch, labels))


def _timed_names(cell: Any) -> Sequence[str]:
    matches = [_TIMED.fullmatch(part.strip()) for part in str(cell).split(";") if part.strip()]
    if None in matches:
        raise NotAListError(str(cell))
    return [match[1] for match in matches if match]
