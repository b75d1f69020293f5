"""The server below the application: the signals that end it."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

from yt8m.command_line import cli
from yt8m.serving import connections

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The signal comes after the greeting, while asyncio makes its loop, and before uvicorn has taken over the signals.
PROGRAM = """
import asyncio.base_events, signal, sys
from serving.tiny_service import TinyModel
from yt8m import scoring
from yt8m.command_line import cli

usual = asyncio.base_events.BaseEventLoop.__init__

def init(loop):
    signal.raise_signal(int(sys.argv[1]))
    usual(loop)

asyncio.base_events.BaseEventLoop.__init__ = init
scoring.open = lambda *_, **__: TinyModel()
sys.exit(cli.main(["serve", "--model=tiny", "--port=0", "--timeout=5"]))
"""


@pytest.mark.heavy
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_right_after_the_greeting_ends_it_in_order(number: int, status: int) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    words = [sys.executable, "-c", PROGRAM, str(int(number))]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert done.stdout.startswith("serving tiny at http://127.0.0.1:")
    assert "Traceback" not in done.stderr
    assert (done.stdout.endswith("\nstopped after 0 answers\n")) == (number == signal.SIGTERM)


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_host_without_a_valid_form_is_wrong_usage(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--model=none", f"--host={host}"]) == 2
    assert f"--host={host} is neither" in capsys.readouterr().err


def test_answers_are_sent_without_waiting_for_acknowledgements() -> None:
    with connections.listening("127.0.0.1", 0) as (listener, _), socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
