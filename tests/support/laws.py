"""How many examples a law is tried with: few and always the same in `make test`, many new ones in `make fuzz`."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

COMMON = 50  # examples of a law that does not say how many


def examples(number: int, **others: Any) -> settings:
    """The settings of a slow law with only `number` examples; `make fuzz` multiplies them as it does `COMMON`."""
    return settings(max_examples=max(number, number * settings().max_examples // COMMON), **others)
