"""Memory that is used again: by one array at a time, and for as long as anybody holds a view of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from yt8m.records.cached_records import ReusedMemory


def test_memory_is_used_again_once_the_array_and_its_views_are_gone() -> None:
    memory = ReusedMemory()
    first = memory.array(1000)
    place, view = first.ctypes.data, first[8:].view(np.float32).reshape(2, -1)[1]
    del first
    second = memory.array(1000)
    assert second.ctypes.data != place  # the view is still there
    view[:] = 1
    second[:] = 2
    assert (view == 1).all()
    del view
    third = memory.array(1100)
    assert third.ctypes.data == place
    assert len(third) == 1100


def test_too_large_memory_and_too_much_of_it_is_not_kept() -> None:
    memory = ReusedMemory(most_idle=2)
    large = memory.array(10_000)
    place = large.ctypes.data
    del large
    small = memory.array(100)
    assert small.ctypes.data != place
    arrays = [memory.array(size) for size in (1000, 1000, 1000)]
    places = [array.ctypes.data for array in arrays]
    arrays.clear()
    found = [memory.array(1000) for _ in range(2)]
    assert {array.ctypes.data for array in found} <= set(places)
    assert len(memory._idle) == 0


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 4)), max_size=40))
def test_arrays_in_use_never_share_memory(requests: list[tuple[int, int]]) -> None:
    """Of each array the content is a number of its own, which must stay until the array is dropped."""
    memory, arrays = ReusedMemory(), dict[int, np.ndarray]()
    for number, (size, dropped) in enumerate(requests):
        array = memory.array(size)
        assert array.shape == (size,)
        assert array.ctypes.data % 64 == 0
        array[:] = number
        arrays[number] = array
        arrays.pop(number - dropped, None)
        del array
        for content, other in arrays.items():
            assert (other == content).all()
