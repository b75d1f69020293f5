"""Numerical tools of models and losses: precision, compiled operations, random keys, exchange between towers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """A context in which `variable` has the value `value`; afterwards it has its former value again."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
