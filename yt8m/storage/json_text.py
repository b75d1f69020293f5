"""Reads JSON from files and requests, which may be malformed."""

from __future__ import annotations

import contextlib
import json
from typing import Any

_DEEPEST = 100  # this package's JSON has at most six levels; Python's recursion fails after some hundreds


def parse(text: str | bytes) -> Any:
    """Like `json.loads`, but refuses JSON that is nested so deeply that a recursive function would fail on it.

    Raises:
      ValueError: `text` is not JSON, is not valid Unicode, or is nested too deeply.
    """
    with contextlib.suppress(RecursionError):
        value = json.loads(text)
        level = [value]
        for _ in range(_DEEPEST + 1):
            level = [part for part in level if isinstance(part, dict | list)]
            if not level:
                return value
            level = [part for outer in level for part in (outer.values() if isinstance(outer, dict) else outer)]
    raise ValueError(f"its lists or objects are nested deeper than {_DEEPEST} levels")
