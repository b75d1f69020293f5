"""`class_weights` of a training from Python: a dict {class: weight}, a Series or a DataFrame, in place of a path."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Iterator, Mapping
from typing import Any

from yt8m.errors import UsageError
from yt8m.storage import copies

_NAME = "class_weights"


@contextlib.contextmanager
def as_table(flag_values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The same values, with the path of a table that lasts as long as the block if the weights lie in memory."""
    values = dict(flag_values)
    rows = _rows_of(values.get(_NAME))
    if rows is None:
        yield values
        return
    with copies.private_folder(copies.IN_MEMORY) as folder:
        path = os.path.join(folder, f"{_NAME}.csv")
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("class", "weight"), *rows])
        values[_NAME] = path
        try:
            yield values
        except UsageError as error:
            raise UsageError(str(error).replace(f"--{_NAME}={path}", _NAME).replace(path, _NAME)) from error


def _rows_of(weights: Any) -> list[tuple[Any, Any]] | None:
    """(class, weight) of each class; None for a path, and for nothing."""
    if hasattr(weights, "columns") and hasattr(weights, "to_numpy"):
        columns = list(map(str, weights.columns))
        if sorted(columns) != ["class", "weight"]:
            raise UsageError(f"{_NAME} has the columns {', '.join(columns)}; expected class and weight.")
        return list(zip(weights["class"].to_list(), weights["weight"].to_list(), strict=True))
    if hasattr(weights, "to_dict"):  # a Series, whose index has the classes
        weights = weights.to_dict()
    if not isinstance(weights, Mapping):
        return None
    return list(weights.items())
