"""How many examples a tower gets in a step, as far as that is known while its graph is built.

The tensors of a batch do not say it: the last batch of the data has fewer rows, so their first dimension is None. A
model may choose by it among ways that compute the same and differ in speed. Where it is not known, the graph may be
exported: it is that of `yt8m.load`, `predict`, `serve`, `bulk`, or of the predictions of a training.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

from yt8m.numerics import within

_current: ContextVar[int] = ContextVar("expected_rows", default=0)


def scope(rows: int) -> AbstractContextManager[None]:
    """A context in which a tower gets `rows` examples in nearly every step; 0: not known."""
    return within(_current, rows)


def current() -> int:
    """The number that was passed to the innermost `scope`; 0, which is not known, outside of any scope."""
    return _current.get()
