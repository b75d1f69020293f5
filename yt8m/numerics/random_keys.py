"""Keys of random ops, by which a resumed run draws the same numbers as one that was not interrupted.

Stateful random ops keep a counter that no checkpoint holds, so a resumed run would draw other numbers. Stateless random
ops take a key as their argument. Here the key is computed from the run's seed, the global step, the tower and the
number of the op, so nothing must be saved. The engine opens `scope` for each tower; a model calls `next_seed()` for
each random op that it makes. The number of an op is the number of calls of `next_seed()` before it.
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
    """What keys are computed from."""

    seed: int
    step: tf.Tensor
    tower: int
    numbers: Iterator[int]


_current: ContextVar[_Scope | None] = ContextVar("random_keys", default=None)

# Odd factors that differ much, so that different seeds, towers and numbers of ops do not give the same key.
_SEED_FACTOR, _TOWER_FACTOR = 2_654_435_761, 1_000_003
# The keys of the n-th piece of a batch have the global step plus n times this number, which is larger than any step.
_PIECE_OFFSET = 1 << 40


def scope(seed: int, step: tf.Tensor, tower: int = 0) -> AbstractContextManager[None]:
    """A context in which the n-th `next_seed()` depends only on (seed, step, tower, n).

    Args:
      step: int64 scalar, the global step.
    """
    return within(_current, _Scope(seed, step, tower, itertools.count()))


def current_step() -> tf.Tensor:
    """int64 scalar: the global step that was passed to the innermost `scope`; 0 outside of any scope."""
    current = _current.get()
    return tf.zeros([], tf.int64) if current is None else tf.cast(current.step, tf.int64)


# Maps the index of a piece of the batch, int32 scalar, to a context for this piece.
PieceScopes = Callable[["tf.Tensor"], AbstractContextManager[None]]


def piece_scopes() -> PieceScopes:
    """Prepares keys for a model that divides a batch into pieces and runs the same ops on each piece.

    Returns:
      A function that maps the index of a piece, int32 scalar, to a context in which `next_seed()` gives other keys than
      for the other pieces. A piece that is computed twice gets the same keys both times.
    """
    current = _innermost_scope()
    # Each call of `piece_scopes` gets 2^20 numbers of its own, so that the ops of two calls share none.
    first_number = next(current.numbers) << 20

    def scope_of_piece(piece: tf.Tensor) -> AbstractContextManager[None]:
        step = tf.cast(current.step, tf.int64) + (tf.cast(piece, tf.int64) + 1) * _PIECE_OFFSET
        return within(_current, current._replace(step=step, numbers=itertools.count(first_number)))

    return scope_of_piece


def next_seed() -> tf.Tensor:
    """int64 [2], the `seed` argument of `tf.random.stateless_*` for one more random op.

    Outside of any scope every call returns the same key, so that a model can be called without the engine.
    """
    current = _innermost_scope()
    key = (current.seed * _SEED_FACTOR + current.tower * _TOWER_FACTOR + next(current.numbers)) % (1 << 62)
    return tf.stack([tf.cast(current.step, tf.int64), tf.constant(key, tf.int64)])


def _innermost_scope() -> _Scope:
    """The innermost `scope`; outside of any scope one with seed, step and tower 0."""
    return _current.get() or _Scope(0, tf.zeros([], tf.int64), 0, itertools.count())
