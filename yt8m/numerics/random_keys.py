"""Random numbers that a restored run repeats: stateless ops keyed by seed, step, tower and the op's position.

Stateful random ops keep a counter that no checkpoint holds, so a resumed run would draw other numbers.
The engine opens `scope` for each tower; a model calls `next_seed()` for each random op that it makes. The position of
an op is the number of calls of `next_seed()` before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import NamedTuple

from yt8m.lazy import tf
from yt8m.numerics import within


class _Scope(NamedTuple):
    seed: int
    step: tf.Tensor
    tower: int
    places: Iterator[int]


_current: ContextVar[_Scope | None] = ContextVar("random_keys", default=None)

# Odd constants far apart, so that different seeds, towers and places do not give the same key.
_SEED, _TOWER = 2_654_435_761, 1_000_003
_PIECE = 1 << 40  # more than any step


def scope(seed: int, step: tf.Tensor, tower: int = 0) -> AbstractContextManager[None]:
    """A context in which the n-th `next_seed()` depends only on (seed, step, tower, n).

    Args:
      seed: the run's seed.
      step: int64 scalar, the global step, which is read once for the whole step.
      tower: index of the tower (in a cluster, of the tower in the whole cluster).
    """
    return within(_current, _Scope(seed, step, tower, itertools.count()))


def current_step() -> tf.Tensor:
    """int64 scalar, the step of the scope; 0 outside of any scope."""
    current = _current.get()
    return tf.zeros([], tf.int64) if current is None else tf.cast(current.step, tf.int64)


PieceScopes = Callable[["tf.Tensor"], AbstractContextManager[None]]


def piece_scopes() -> PieceScopes:
    """Returns a function that maps the index of a piece of the batch, int32 scalar, to a context for that piece.

    Random keys in the context differ from those of the other pieces. A piece that is computed twice gets the same keys
    both times.
    """
    current = _innermost()
    first = next(current.places) << 20

    def scope_of(piece: tf.Tensor) -> AbstractContextManager[None]:
        step = tf.cast(current.step, tf.int64) + (tf.cast(piece, tf.int64) + 1) * _PIECE
        return within(_current, current._replace(step=step, places=itertools.count(first)))

    return scope_of


def next_seed() -> tf.Tensor:
    """int64 [2], the `seed` argument of `tf.random.stateless_*` for one more random op.

    Outside of any scope the step is taken as 0, so that a model called by hand works.
    """
    current = _innermost()
    place = (current.seed * _SEED + current.tower * _TOWER + next(current.places)) % (1 << 62)
    return tf.stack([tf.cast(current.step, tf.int64), tf.constant(place, tf.int64)])


def _innermost() -> _Scope:
    return _current.get() or _Scope(0, tf.zeros([], tf.int64), 0, itertools.count())
