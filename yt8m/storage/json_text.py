"""Reads JSON that comes from outside of the process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Any

_DEEPEST = 100  # ours is at most six levels deep; Python's own functions fail after some hundreds


def parse(text: str | bytes) -> Any:
    """As `json.loads`, but refuses what is nested so deeply that a recursive function would fail on it.

    Raises:
      ValueError: `text` is no JSON, is no text, or is nested too deeply.
    """
    with contextlib.suppress(RecursionError):
        value = json.loads(text)
        level = [value]
        for _ in range(_DEEPEST):
            inner = [part for outer in level if isinstance(outer, dict | list) for part in _parts(outer)]
            level = [part for part in inner if isinstance(part, dict | list)]
            if not level:
                return value
    raise ValueError(f"its lists or objects are nested deeper than {_DEEPEST} levels")


def _parts(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value
