"""Cases of a parametrised test, of which `make test` runs some and `make test-all` runs all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def all_of(quick: Iterable[Any], heavy: Iterable[Any]) -> list[Any]:
    """The cases of both, those of `heavy` with its mark. A plain tuple has one value for each argument."""
    return [*quick, *map(_heavy, heavy)]


def only(cases: Collection[Any], quick: Collection[Any]) -> list[Any]:
    """The cases in their order; all but those of `quick` have the mark `heavy`."""
    assert set(quick) <= set(cases), "each quick case is one of the cases"
    return [case if case in quick else _heavy(case) for case in cases]


def _heavy(case: Any) -> Any:
    return pytest.param(*(case if type(case) is tuple else (case,)), marks=pytest.mark.heavy)
