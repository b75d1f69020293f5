"""Labels in lists: in texts such as `['cat', 'dog']`, or in the lists and objects of Parquet and JSON."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.cells import label_lists, odd_labels, separators
from yt8m.tables.cells.label_lists import NotAListError
from yt8m.tables.cells.splitting import LabelForm, Split, Splitter
from yt8m.tables.words.numbers import NUMBER


def form_of_lists(
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
    if len(items) == len(lists) == len(texts) and (vector := vector_form(list(items.values()), source)):
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
    _refuse_odd_items(items.values(), checked, known_names, source)
    has_floats = all(NUMBER.fullmatch(name) for name in checked)
    split = _list_items if others or not label_lists.is_padded(list(items.values()), source) else _padded_items
    return LabelForm("lists", split, has_whole_floats=has_floats, checked=checked)


def _refuse_odd_items(
    items: Collection[Sequence[Any]], names: Collection[str], known_names: Collection[str], source: str
) -> None:
    """Refuses lists whose items deny, doubt or count labels, or only fill the lists."""
    odd_labels.refuse_denied([[str(item).strip() for item in pieces] for pieces in items], known_names, source)
    odd_labels.refuse_odd_names(names, known_names, source)
    odd_labels.refuse_counts(names, known_names, source)
    label_lists.refuse_fill([pieces for pieces in items if "-1" not in map(str, pieces)], source)


def _inside_lists(
    items: Mapping[str, Sequence[Any]], others: Sequence[str], known_names: Collection[str], source: str
) -> LabelForm | None:
    """The form of lists such as `[cat dog]`, whose labels have neither commas nor quotes; None for other lists."""
    if others or not all(len(pieces) == 1 and text[1:-1] == pieces[0] for text, pieces in items.items()):
        return None
    separator = separators.find_separator({str(pieces[0]): 1 for pieces in items.values()}, known_names, source)
    if not separator:
        return None
    splitter = Splitter(separator)
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
        splitter = Splitter(separator)
        checked = frozenset(name for item in counts for name in separators.split(item, separator))
        description = f"lists of texts separated by {separators.show(separator)}"
        split = functools.partial(_split_items, splitter)
        return LabelForm(description, split, separator, checked=checked | frozenset(known_names))
    return None


def _split_items(splitter: Splitter, cell: Any) -> Sequence[str]:
    return [name for item in _list_items(cell) for name in splitter(item)]


def _may_stand_alone(items: Mapping[str, Sequence[Any]], others: Sequence[str], names: set[str]) -> bool:
    """Whether texts beside lists are single labels, as Label Studio writes them: lists then have two labels or more."""
    if any(label_lists.looks_like_list(text) or label_lists.is_cut_list(text) for text in others):
        return False
    if any(len(pieces) > 1 and names >= set(pieces) for text in others for pieces in separators.cuts(text)):
        return False
    known_names = sum(text in names for text in others)
    return 2 * known_names > len(others) or all(len(pieces) > 1 for pieces in items.values())


def _list_items(cell: Any) -> Sequence[Any]:
    """The items of a list in a text; a text that is no list is one name."""
    text = str(cell).strip()
    if label_lists.is_cut_list(text):
        raise NotAListError(text)
    return label_lists.parse_text(text) if label_lists.looks_like_list(text) else (text,)


_padded_items = label_lists.without_padding(_list_items)


def structured_form(
    cells: Mapping[Any, int], known_names: Collection[str], source: str, find_form: Callable[..., LabelForm]
) -> LabelForm:
    """The form of cells that are lists or objects, as in Parquet and JSON; `find_form` finds that of texts."""
    items, texts = list[Sequence[Any]](), dict[str, int]()
    for cell, count in cells.items():
        if isinstance(cell, tuple | dict):
            items.append(_flattened(cell, source))
        else:
            texts[str(cell).strip()] = count
    if not texts and (vector := vector_form(items, source)):
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
            splitter = Splitter(separators_found)
            return LabelForm(
                f"lists of texts separated by {separators.show(separators_found)}",
                lambda cell: [part for item in label_lists.flatten(cell) for part in splitter(item)],
                separators_found,
            )
    _refuse_odd_items(items, names, known_names, source)
    is_padded = not texts and label_lists.is_padded(items, source)
    split = label_lists.without_padding(label_lists.flatten) if is_padded else label_lists.flatten
    return LabelForm("lists", split, has_whole_floats=True, checked=names | frozenset(known_names))


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


def vector_form(items: Sequence[Sequence[Any]], source: str) -> Callable[..., LabelForm] | None:
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
