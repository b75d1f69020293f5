"""Entries as integers: what goes in comes out, and their order is that of class and score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.eval_util import arrays

FLOATS = st.floats(width=32, allow_nan=False)
ENTRIES = st.lists(st.tuples(st.integers(0, 2**31 - 1), FLOATS, st.booleans()), max_size=20)


def packed(entries: list[tuple[int, float, bool]]) -> np.ndarray:
    classes, scores, hits = zip(*entries, strict=True) if entries else ((), (), ())
    return arrays.pack_entries(np.array(classes, np.int64), np.array(scores, np.float32), np.array(hits, np.bool_))


@given(ENTRIES)
def test_class_score_and_hit_come_out_as_they_went_in(entries: list[tuple[int, float, bool]]) -> None:
    keys = packed(entries)
    assert keys.dtype == np.uint64
    found = list(zip(arrays.class_of(keys), arrays.score_of(keys), arrays.hit_of(keys), strict=True))
    assert found == entries
    types = [function(keys).dtype for function in (arrays.class_of, arrays.score_of, arrays.hit_of)]
    assert types == [np.int64, np.float32, np.bool_]


@given(ENTRIES)
def test_keys_sort_by_class_then_from_the_best_score(entries: list[tuple[int, float, bool]]) -> None:
    keys = np.sort(packed(entries))
    found = list(zip(arrays.class_of(keys), -arrays.score_of(keys), arrays.hit_of(keys), strict=True))
    assert found == sorted(found)
    alone = np.sort(arrays.without_class(packed(entries)))
    assert (arrays.class_of(alone) == 0).all()
    assert list(arrays.score_of(alone)) == sorted((score for _, score, _ in entries), reverse=True)


def test_a_block_is_one_class_and_one_score() -> None:
    keys = packed([(1, 0.5, False), (1, 0.5, True), (1, 0.25, True), (2, 0.25, False), (2, 0.25, False)])
    assert list(arrays.block_starts(keys)) == [0, 2, 3]
    assert list(arrays.block_starts(keys[:0])) == []
    assert list(arrays.block_starts(keys[:1])) == [0]


def test_places_start_anew_in_each_row() -> None:
    assert list(arrays.places_within(np.array([2, 0, 3, 1]))) == [0, 1, 0, 1, 2, 0]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 600])
def test_entries_come_out_whichever_way_they_are_kept(count: int) -> None:
    bag, other = arrays.Entries(), arrays.Entries()
    for number in range(count):
        bag.append(np.array([number, number], np.uint64))
        # At most 255 parts lie about; the others have become few large ones.
        assert len(bag._recent) < 256
        assert len(bag._chunks) == (number + 1) // 256
    other.append(np.array([7], np.uint64))
    other.extend(bag)
    assert bag.all().dtype == np.uint64
    assert sorted(bag.all()) == sorted([*range(count), *range(count)])
    assert sorted(other.all()) == sorted([7, *range(count), *range(count)])
