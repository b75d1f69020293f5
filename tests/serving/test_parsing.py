"""Child processes that parse bodies: what they answer, and what ends them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import leaks
import numpy as np
import pytest
from reader_records import video_record

from yt8m.records.shards import framed
from yt8m.serving.bodies import JSON, RECORDS, Parsed, RefusedError
from yt8m.serving.parsing import Parsers, ParserSettings

VIDEO = video_record(id=[b"x"], labels=[1], mean_rgb=np.ones(3))


@pytest.fixture(scope="module")
def parsers() -> Iterator[Parsers]:
    with contextlib.closing(Parsers(ParserSettings((300, 300), ([("rgb", 2)], True), 30_000_000), count=1)) as pool:
        parsed(pool, RECORDS[0], VIDEO)  # which starts its thread
        yield pool


def parsed(parsers: Parsers, kind: str, body: bytes) -> Parsed:
    return asyncio.run(parsers.parse(kind, body))


def pid_of(parsers: Parsers) -> int:
    """The process of the only child, which the fixture ends."""
    (child,) = parsers._children
    leaks.lives_longer(child._process.pid)
    return child._process.pid


def test_records_and_features_come_back_as_they_were_sent(parsers: Parsers) -> None:
    other = video_record(id=[b"y"], labels=[], mean_rgb=np.zeros(3))
    assert parsed(parsers, RECORDS[0], framed(VIDEO) + framed(other)).records == [VIDEO, other]
    videos = [{"id": "ä", "rgb_and_audio": [[1, 2.5], [3, 4]]}, {"rgb_and_audio": [[0, 7]]}]
    found = parsed(parsers, JSON, json.dumps({"videos": videos}).encode())
    assert found.ids == ["ä", ""]
    for video, features in zip(videos, found.features, strict=True):
        np.testing.assert_array_equal(features, np.array(video["rgb_and_audio"], np.float32))


def test_a_refusal_comes_back_with_its_status(parsers: Parsers) -> None:
    with pytest.raises(RefusedError, match="record 0: no ") as refused:
        parsed(parsers, RECORDS[0], b"junk")
    assert refused.value.status == 400


@pytest.mark.promise("X6")
def test_the_child_of_a_request_that_is_given_up_has_ended(parsers: Parsers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before `parse` returns, so that the request counts as at work until then; the next request gets a new child."""
    before, replaced = pid_of(parsers), parsers.replaced
    slow = b'{"videos": [' + b'{"rgb_and_audio": [[1, 2]]}, ' * 100 + b" " * 29_000_000  # no end: read to the last byte

    (child,) = parsers._children
    ask, has_begun = child.ask, threading.Event()

    def noted_ask(*arguments: Any) -> Any:
        has_begun.set()
        return ask(*arguments)

    async def give_up() -> None:
        os.kill(before, signal.SIGSTOP)  # however fast the machine is, and however slow: it has begun, and cannot end
        request = asyncio.create_task(parsers.parse(JSON, slow))
        await asyncio.to_thread(has_begun.wait)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    with monkeypatch.context() as patch:
        patch.setattr(child, "ask", noted_ask)
        asyncio.run(give_up())
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert parsers.replaced == replaced + 1
    assert pid_of(parsers) != before
    assert parsed(parsers, RECORDS[0], VIDEO).records == [VIDEO]


def test_one_that_waits_for_a_child_is_given_up_at_once(parsers: Parsers) -> None:
    before = pid_of(parsers)

    async def run() -> list[Parsed]:
        os.kill(before, signal.SIGSTOP)
        first = asyncio.create_task(parsers.parse(RECORDS[0], VIDEO))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(parsers.parse(RECORDS[0], VIDEO), 0.05)
        os.kill(before, signal.SIGCONT)
        return [await first]

    assert asyncio.run(run())[0].records == [VIDEO]
    assert pid_of(parsers) == before


def test_a_child_that_somebody_killed_is_replaced(parsers: Parsers) -> None:
    before = pid_of(parsers)
    os.kill(before, signal.SIGKILL)
    while parsers.are_alive():
        time.sleep(0.01)
    assert parsed(parsers, RECORDS[0], VIDEO).records == [VIDEO]
    assert pid_of(parsers) != before
    assert parsers.are_alive()


@pytest.mark.promise("X6")
def test_a_body_that_needs_too_much_memory_is_refused() -> None:
    with contextlib.closing(
        Parsers(ParserSettings((1 << 40, 1 << 40), ([("rgb", 2)], True), -(18 << 20)), count=1)
    ) as parsers:
        numbers = b'{"videos": [{"rgb_and_audio": [' + b"[0, 1]," * 300_000 + b"[0, 1]]}]}"
        with pytest.raises(RefusedError, match="too much memory") as refused:
            parsed(parsers, JSON, numbers)
        assert refused.value.status == 413


def test_a_child_that_fails_by_an_error_of_its_own_is_not_said_to_need_memory(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Limits that are no numbers stand for an error of the program."""
    limits: Any = ("no number", "no number")
    with contextlib.closing(Parsers(ParserSettings(limits, ([("rgb", 2)], True), 30_000_000), count=1)) as parsers:
        for replaced in (1, 2):
            with pytest.raises(RefusedError, match=r"cannot parse.*log") as refused:
                parsed(parsers, JSON, b'{"videos": [{"rgb_and_audio": [[0, 1]]}]}')
            assert refused.value.status == 500
            assert parsers.replaced == replaced
    assert "TypeError" in capfd.readouterr().err
    assert "parses bodies failed" in caplog.text


def test_signals_of_the_service_do_not_end_its_children(parsers: Parsers) -> None:
    assert parsed(parsers, RECORDS[0], VIDEO).records == [VIDEO]  # it has begun to ignore them
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid_of(parsers), number)
    assert parsed(parsers, RECORDS[0], VIDEO).records == [VIDEO]
    assert parsers.are_alive()
