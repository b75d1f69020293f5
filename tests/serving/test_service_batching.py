"""Who shares a call of the model, and who pays for a bad item."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from yt8m.serving.service import Batcher, CallThread


class Squares:
    """Squares numbers once it is let go; keeps what it was called with, refuses negative ones."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.go = threading.Event()

    def __call__(self, items: list[int]) -> list[int]:
        self.calls.append(items)
        assert self.go.wait(600)
        if min(items) < 0:
            raise ValueError(f"{min(items)} is negative")
        return [item * item for item in items]


def ask_all(groups: list[list[int]], most: int, given_up: int | None = None) -> tuple[list, Squares]:
    """The answers to requests that all come while the first is at work."""
    squares = Squares()

    async def run() -> list:
        with contextlib.closing(CallThread("test")) as thread:
            batcher = Batcher(squares, most, thread)
            asked = [batcher.ask(groups[0])]
            while not squares.calls:
                await asyncio.sleep(0)
            assert not asked[0].cancel()
            asked += [batcher.ask(group) for group in groups[1:]]
            if given_up is not None:
                assert asked[given_up].cancel()
            squares.go.set()
            return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(run()), squares


def test_what_waits_shares_a_call_as_far_as_it_fits() -> None:
    found, squares = ask_all([[1], [2, 3], [4], [5, 6, 7], [8]], most=4)
    assert found == [[1], [4, 9], [16], [25, 36, 49], [64]]
    assert squares.calls == [[1], [2, 3, 4], [5, 6, 7, 8]]


def test_a_request_of_more_than_fits_is_a_call_of_its_own() -> None:
    found, squares = ask_all([[1], [2], [3, 4, 5], [6]], most=2)
    assert found == [[1], [4], [9, 16, 25], [36]]
    assert squares.calls == [[1], [2], [3, 4, 5], [6]]


def test_a_bad_item_fails_its_own_request_alone() -> None:
    found, squares = ask_all([[1], [2], [-3], [4]], most=9)
    assert [found[0], found[1], found[3]] == [[1], [4], [16]]
    with pytest.raises(ValueError, match="-3 is negative"):
        raise found[2]
    assert squares.calls == [[1], [2, -3, 4], [2], [-3], [4]]


def test_who_gave_up_is_not_computed() -> None:
    found, squares = ask_all([[1], [2], [3]], most=9, given_up=1)
    assert isinstance(found[1], asyncio.CancelledError)
    assert squares.calls == [[1], [3]]
