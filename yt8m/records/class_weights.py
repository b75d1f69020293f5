"""Reads the weights of classes in the label loss, which the user gives by name or by number of the class."""

from __future__ import annotations

import math

from yt8m import storage
from yt8m.errors import UsageError, suggestion
from yt8m.records.vocabulary import Vocabulary
from yt8m.tables.reading import Row, open_columns
from yt8m.tables.words import numbers
from yt8m.tables.words.class_names import clean_name

_COLUMNS = ("class", "weight")


def read_class_weights(path: str, names: Vocabulary, num_classes: int) -> tuple[float, ...]:
    """Reads a table with the columns class and weight.

    Args:
      names: the vocabulary of the training data; empty if it is not known, and then the table has numbers of classes.

    Returns:
      The weight of each class; 1 for classes that the table leaves out.
    """
    storage.refuse_missing(path, "class_weights", "expected a table with the columns class,weight")
    number_of = {clean_name(name): number for number, name in enumerate(names.names)}
    weights: dict[int, float] = {}
    for row in open_columns("--class_weights", path, _COLUMNS).rows():
        where = f"--class_weights={path}, {row.place}"
        number = _parse_class(row, number_of, num_classes, where)
        if number in weights:
            raise UsageError(f"{where}: the class {row.cells['class']!r} has a weight already; leave one row of it.")
        weights[number] = _parse_weight(row.cells["weight"], where)
    if num_classes == len(weights) and not any(weights.values()):
        raise UsageError(f"--class_weights={path}: all weights are 0, so nothing would be learnt.")
    return tuple(weights.get(number, 1.0) for number in range(num_classes))


def _parse_class(row: Row, number_of: dict[str, int], num_classes: int, where: str) -> int:
    """The number of the class of a row. A name counts before a number, since a class may be named `3`."""
    text = clean_name(row.cells["class"])
    number = number_of.get(text, int(text) if text.isascii() and text.isdigit() else -1)
    if 0 <= number < num_classes:
        return number
    end = suggestion(text, number_of, ".")
    expected = "the name of a class, or its number" if number_of else "the number of a class"
    raise UsageError(f"{where}: no class is {text[:80]!r}; expected {expected} from 0 to {num_classes - 1}{end}")


def _parse_weight(text: str, where: str) -> float:
    weight = numbers.number(text, numbers.has_decimal_comma(text))
    if not 0 <= weight < math.inf:
        raise UsageError(f"{where}: the weight is {text[:40]!r}; expected a number of at least 0.")
    return weight
