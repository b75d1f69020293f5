"""Signals that ask for the end become an exception in programs that wait in Python; ignored ones stay ignored."""

from __future__ import annotations

import os
import signal

import pytest

from yt8m.command_line import program
from yt8m.termination import NOTICES, Terminated, terminable


@pytest.mark.parametrize("number", [signal.SIGTERM, *NOTICES], ids=lambda number: number.name)
def test_each_ends_the_program_with_its_status(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    former = signal.getsignal(number)
    cleaned_up = []

    def work(_: list[str]) -> int:
        with terminable():
            try:
                os.kill(os.getpid(), number)
                signal.pause()
            except KeyboardInterrupt:
                cleaned_up.append(number)
                raise
        return 0

    assert program.run_main("yt8m audit", work, []) == 128 + number
    assert cleaned_up == [number]
    assert capsys.readouterr().err == f"yt8m audit: stopped by {signal.Signals(number).name}\n"
    assert signal.getsignal(number) is former


def test_ignored_signals_and_own_handlers_of_notices_stay() -> None:
    received = []
    former = [
        signal.signal(signal.SIGHUP, signal.SIG_IGN),
        signal.signal(signal.SIGUSR1, lambda number, _: received.append(number)),
    ]
    try:
        with terminable():
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGUSR1)
        assert received == [signal.SIGUSR1]
    finally:
        for number, handler in zip((signal.SIGHUP, signal.SIGUSR1), former, strict=True):
            signal.signal(number, handler)


def test_a_terminated_program_has_the_number_of_sigterm_by_default() -> None:
    assert Terminated().number == signal.SIGTERM
