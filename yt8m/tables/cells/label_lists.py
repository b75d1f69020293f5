"""Lists of labels as texts: Python, NumPy, JSON, R and PostgreSQL lists, and the objects of annotation programs."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.words import words
from yt8m.tables.words.class_names import TRUE_WORDS, WORD_PAIRS
from yt8m.tables.words.meanings import CLASS_TYPES

_BRACKETS = {"[": "]", "(": ")", "{": "}"}
NAME_KEYS = words(
    "name label labels class category className class_name tagName tag_name labelName label_name displayName "
    "display_name title value tag text element"
)
_LIST_KEYS = (*words("choices taxonomy labels tags classes"), *CLASS_TYPES)
_SCORES = words("score confidence probability prob conf")
# How NumPy 2 writes the items of a list, and any NumPy an array.
_NUMPY_ITEM = re.compile(r"""\bnp\.\w+\((b?'[^']*'|b?"[^"]*"|[-+.\deE]+|True|False)\)""")
_NUMPY_ARRAY = re.compile(r"(?:(?:np|tf|torch)\.)?(?:array|tensor|Tensor)\((\[.*\])(?:, *\w+=[^\[\]]*)*\)", re.DOTALL)
_SEQUENCE = re.compile(r"(?:c|list|WrappedArray|ArrayBuffer|ArraySeq|List|Buffer|Set|Vector)\(")  # of R and Scala
_JULIA = re.compile(r"^(?:String|Any|AbstractString|SubString\{String\})(?=\[)")
_FROZEN_SET = re.compile(r"frozenset\((\{.*\})?\)", re.DOTALL)
_TORCH_NUMBER = re.compile(r"(?<=\d)\.(?=[\s,\]])")
_PROBABILITY = re.compile(r"0?\.\d+(e-?\d+)?|[01](\.0*)?|\d(\.\d+)?e-\d+", re.ASCII)
_BARE_PAIR = re.compile(r"""\s*['"]?([^:='"{}\[\]]+?)['"]?\s*[:=]\s*['"]?([^:='"{}\[\]]*?)['"]?\s*""")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?", re.ASCII)
# A text as Python writes it, and the blanks before another one.
_PYTHON_TEXT = re.compile(r"""([bu]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))(\s*(?=[bu]?['"]))?""", re.DOTALL)
# Texts as other programs quote them: MATLAB with semicolons, escaped quotes, and those of word processors.
_QUOTED = r"""'[^']*'|"[^"]*"|\\"[^"\\]*\\"|\\'[^'\\]*\\'|\u201c[^\u201c-\u201e]*\u201d"""
_QUOTED += "|\u201e[^\u201c-\u201e]*[\u201c\u201d]|\u2018[^\u2018-\u201a]*\u2019"
_QUOTED += "|\u201a[^\u2018-\u201a]*\u2018|\u00ab[^\u00ab\u00bb]*\u00bb"
_QUOTED_ITEMS = re.compile(
    rf"\s*(?:{_QUOTED})\s*(?:(?P<sign>[,;|])\s*(?:{_QUOTED})\s*(?:(?P=sign)\s*(?:{_QUOTED})\s*)*)?[,;]?\s*"
)
_AROUND = re.compile(r"^\\?.|\\?.$")
# Quotes that are left in the items of a list, whose borders are then not where they were looked for.
_LEFT_QUOTE = re.compile(
    r"""^[bu]?["\u201c\u201e\u201a\u00ab]|^[bu]'|\\['"]|''|['"\u2019\u201d]\s*[;|\s]\s*[bu]?['"\u2018\u201c]"""
)


# What an object says of each class, in one spelling.
_ANSWERS = [{"1", "1.0", "0", "0.0"}, {"x"}, *({yes, no} for yes, no in WORD_PAIRS)]
ONES = frozenset(("1", "1.0", "1.", "True"))  # how a vector of 0 and 1 writes that a video has the class
_ZEROS = frozenset(("0", "0.0", "0.", "False"))
_PADDING = "-1"  # what fills lists of numbers of classes up to one length


class NotAListError(ValueError):
    """A text or a value is no list of labels."""


class ObjectError(NotAListError):
    """An object or a list whose labels cannot be told; `why` says why not."""

    def __init__(self, value: Mapping[str, Any] | str, why: str) -> None:
        super().__init__(str(value))
        self.why = why


def looks_like_list(text: str) -> bool:
    """Whether a text has the brackets of a list."""
    text = without_second_quotes(text)
    text = _SEQUENCE.sub("(", text) if _SEQUENCE.match(text) else _without_numpy(text)
    return len(text) > 1 and _BRACKETS.get(text[0]) == text[-1]


def is_cut_list(text: str) -> bool:
    """Whether a text has one bracket of a list, so that its other end was cut, as a database does with long texts."""
    closing = _BRACKETS.get(text[:1], "")
    opening = next((first for first, last in _BRACKETS.items() if last == text[-1:]), "")
    return bool(closing and closing not in text) or bool(opening and opening not in text)


def without_second_quotes(text: str) -> str:
    """The text of a list that was written as JSON twice, as in `"[\\"cat\\"]"`; any other text as it is."""
    if not text.startswith('"['):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        return text


def _without_numpy(text: str) -> str:
    """The list that NumPy writes as `array(['cat'], dtype=object)` or `[np.str_('cat')]`, Julia as `String["cat"]`."""
    if "(" not in text:
        return _JULIA.sub("", text)
    if frozen := _FROZEN_SET.fullmatch(text):
        return frozen[1] or "[]"
    array = _NUMPY_ARRAY.fullmatch(text)
    return _NUMPY_ITEM.sub(r"\1", _TORCH_NUMBER.sub(".0", array[1]) if array else text)


def parse_text(text: str) -> list[Any]:
    """The items of a list in a text, such as `['cat', 'dog']`, `[0 3]`, `{cat,"red fox"}`, `c("cat")`."""
    text = without_second_quotes(text)
    text = _SEQUENCE.sub("(", text) if _SEQUENCE.match(text) else _without_numpy(text)
    if not looks_like_list(text):
        raise NotAListError(text)
    for parse in (json.loads, _python):
        try:
            value = parse(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
        return flatten(value)
    return _of_object(bare) if (bare := _bare_object(text)) else _bare_items(text[1:-1])


def _bare_object(text: str) -> dict[str, Any]:
    """The object in a text such as `{cat: 1, dog: 0}` or `{cat=yes}`, without quotes around its keys; {} for others."""
    pairs = [_BARE_PAIR.fullmatch(part) for part in text[1:-1].split(",")] if text.startswith("{") else []
    return {match[1]: match[2] for match in pairs if match} if all(pairs) else {}


def _python(text: str) -> Any:
    """The value of a Python list, tuple, set or dictionary of texts and numbers; NumPy writes no commas."""
    text = _PYTHON_TEXT.sub(_with_comma, text)
    text = re.sub(r"\bnan\b", "None", text) if "nan" in text else text
    value = ast.literal_eval(text)
    value = sorted(value, key=str) if isinstance(value, set | frozenset) else value
    return [text_of_bytes(item) for item in value] if isinstance(value, list | tuple) else value


def _with_comma(match: re.Match[str]) -> str:
    """A text with a comma before the next one, to which Python would join it."""
    if match[2] == "":  # as in 'it''s', where other languages mean one quote
        raise NotAListError(match[0])
    return match[1] if match[2] is None else f"{match[1]}, "


def text_of_bytes(value: Any) -> Any:
    """The text of bytes, as TensorFlow gives them; anything else as it is."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _bare_items(text: str) -> list[str]:
    """The items of a list without quotes around all of them, or with blanks between numbers."""
    words = text.split()
    if words and all(map(_NUMBER.fullmatch, words)):
        return words
    if _QUOTED_ITEMS.fullmatch(text):
        return [_AROUND.sub("", item).strip() for item in re.findall(_QUOTED, text)]
    if any(bracket in text for bracket in "[](){}"):
        raise NotAListError(text)
    try:
        (items,) = csv.reader([text.replace("\n", " ")], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as error:
        raise NotAListError(text) from error
    items = [item.strip().strip("'") for item in items if item.strip()]
    if any(map(_LEFT_QUOTE.search, items)):
        raise ObjectError(text, "quotes stand within its items, so that it cannot be told where an item ends")
    return items


def flatten(value: Any) -> list[Any]:
    """The labels in a value of JSON or Parquet: a list of names or numbers, of objects with a name, or an object.

    A list of lists is one of paths, as a taxonomy has them. Of an object {name: true or 1}, the true names count.
    """
    if isinstance(value, Mapping):
        return _of_object(value)
    if isinstance(value, str | int | float) or value is None:
        return [value]
    if isinstance(value, list | tuple):
        return [name for item in value for name in _of_item(item)]
    raise NotAListError(str(value))


def _of_item(item: Any) -> list[Any]:
    if isinstance(item, list | tuple):
        if not all(isinstance(step, str) for step in item):
            raise NotAListError(str(item))
        return ["/".join(item)]
    return _of_object(item) if isinstance(item, Mapping) else [item]


def _of_object(value: Mapping[str, Any]) -> list[Any]:
    if any(isinstance(score := value.get(key), float) and score not in (0, 1) for key in _SCORES):
        raise ObjectError(value, "a score does not say whether the video has the class")
    for key in _LIST_KEYS:
        if isinstance(value.get(key), list | tuple):
            return flatten(value[key])
    if isinstance(answers := value.get("value"), list) and "task" in value:  # as in Zooniverse's exports
        return flatten(answers)
    if isinstance(kind := value.get("type"), str) and isinstance(value.get(kind), list):  # as Notion has it
        return flatten(value[kind])
    is_answer = len(value) > 1 and _are_answers(value.values())
    for key in () if is_answer else NAME_KEYS:
        if isinstance(value.get(key), str | int) and not isinstance(value[key], bool):
            return [value[key]]
    if is_answer or _are_answers(value.values()):
        return [name for name, answer in value.items() if str(answer).strip().lower() in TRUE_WORDS]
    if len(value) == 1 or "categories" in value:  # as in {"jsonResponse": {"JOB": {"categories": [{"name": ...}]}}}
        inner = value.get("categories", next(iter(value.values())))
        if isinstance(inner, dict | list):
            return flatten(inner)
    raise ObjectError(value, _why_no_labels(value))


def _are_answers(values: Collection[Any]) -> bool:
    """Whether the values of an object say yes or no, in one spelling: true and false, 1 and 0, "yes" and "no"."""
    if all(isinstance(answer, bool) or answer in (0, 1) for answer in values):
        return True
    spellings = {str(answer).strip().lower() for answer in values} - {""}
    return bool(spellings) and any(spellings <= pair for pair in _ANSWERS)


def _why_no_labels(value: Mapping[str, Any]) -> str:
    answers = list(value.values())
    if all(isinstance(answer, int | float) or _NUMBER.fullmatch(str(answer)) for answer in answers):
        return "numbers, such as scores and counts, do not say whether the video has a class, but 1 and 0 do"
    if all(isinstance(answer, str) for answer in answers):
        name, answer = next(iter(value.items()))
        return f"the label may be {answer[:40]!r}, or {f'{name}: {answer}'[:40]!r}"
    return "no names of classes can be told in it"


def is_vector(items: Sequence[Any]) -> bool:
    """Whether all items are 0 or 1, in any spelling, and at least two."""
    return len(items) > 1 and all(str(item) in ONES | _ZEROS for item in items)


def refuse_probabilities(items: Sequence[Sequence[Any]], source: str) -> None:
    """Refuses lists of one size of numbers from 0 to 1, which may be the probabilities of classes."""
    sizes = {len(pieces) for pieces in items}
    numbers = [str(item) for pieces in items for item in pieces]
    are_probabilities = len(sizes) == 1 and len(items) > 1 and all(map(_PROBABILITY.fullmatch, numbers))
    has_fractions = any("." in text.rstrip("0.") or "e" in text for text in numbers)
    if are_probabilities and max(sizes) > 1 and has_fractions:
        raise UsageError(
            f"{source}: each cell has {max(sizes)} numbers from 0 to 1, such as {str(list(items[0]))[:60]}, which may "
            "be probabilities of classes: they do not say which of them a video has. Write 1 and 0, or lists of names."
        )


def refuse_odd_vectors(items: Sequence[Sequence[Any]], others: Sequence[str], source: str) -> None:
    """Refuses a column of which most cells are 0/1 vectors of one size, and some are not.

    A list of classes repeats none, so that such a column was never one of numbers of classes.
    """
    refuse_probabilities(items, source)
    sizes = Counter(len(pieces) for pieces in items if is_vector(pieces) and len(set(map(str, pieces))) < len(pieces))
    ((size, count),) = sizes.most_common(1) or [(0, 0)]
    if 2 * count <= len(items) + len(others):
        return
    odd = [str(list(pieces)) for pieces in items if len(pieces) != size or not is_vector(pieces)] + [*others]
    if odd:
        raise UsageError(
            f"{source}: most cells are 0/1 vectors of {size} values, and {odd[0][:60]!r} is none; write each cell as "
            "such a vector, or leave it empty."
        )


def is_padded(items: Sequence[Sequence[Any]], source: str) -> bool:
    """Whether lists of numbers of classes are filled up to one length by -1 at their ends.

    Refuses lists in which -1 stands elsewhere, or beside 1 alone, since it may then say that a class is missing.
    """
    numbers = {str(item) for pieces in items for item in pieces if item is not None}
    if not {_PADDING} < numbers or not all(text == _PADDING or text.isdecimal() for text in numbers):
        return False
    for pieces in items:
        texts = list(map(str, pieces))
        filled = texts[: texts.index(_PADDING)] if _PADDING in texts else texts
        if numbers == {_PADDING, "1"} or set(texts[len(filled) :]) - {_PADDING}:
            raise UsageError(
                f"{source}: -1 in {str(list(pieces))[:60]} may say that a video does not have a class, or that there "
                "is no label. Write 1 and 0 for each class, or the numbers of the classes that a video has."
            )
    return True


def refuse_fill(items: Sequence[Sequence[Any]], source: str) -> None:
    """Refuses lists of one size of which several end with the same item more than once, such as `<pad>` or 0."""
    if len({len(pieces) for pieces in items}) != 1:
        return
    repeated = [pieces for pieces in items if len(set(map(str, pieces))) < len(pieces)]
    if len(repeated) < 2:  # somebody wrote a label twice
        return
    ends = {str(pieces[-1]) for pieces in repeated if str(pieces[-1]) == str(pieces[-2])}
    if len(ends) == 1 and all(str(pieces[-1]) in ends for pieces in repeated) and not ends & {"", "None", "nan"}:
        raise UsageError(
            f"{source}: {str(list(repeated[0]))[:60]} ends with {min(ends)[:40]!r} several times, which may fill lists "
            "up to one length, or be a class. Write each label once, and nothing in place of missing ones."
        )


def without_padding(split: Callable[[Any], Sequence[Any]]) -> Callable[[Any], Sequence[Any]]:
    """A function that gives the labels of a cell without the -1 at their end."""
    return lambda cell: [item for item in split(cell) if str(item) != _PADDING]


def on_places(items: Sequence[Any]) -> list[str]:
    """The places of the ones in a vector of 0 and 1, which are the numbers of the classes."""
    return [str(place) for place, item in enumerate(items) if str(item) in ONES]
