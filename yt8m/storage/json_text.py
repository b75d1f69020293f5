"""JSON that others have written."""

from __future__ import annotations

import json
from typing import Any

_DEEPEST = 100  # ours is six deep at most; Python's own functions fail at some hundreds


def parse(text: str | bytes) -> Any:
    """As `json.loads`, but refuses what is nested too deeply for those who go through it.

    Raises:
      ValueError: it is no JSON, no text, or nested too deeply.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _parts(outer) if isinstance(inner, dict | list)]
        if not level:
            return value
    raise _too_deep()


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> ValueError:
    return ValueError(f"its lists or objects are nested deeper than {_DEEPEST} levels")
