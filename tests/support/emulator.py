"""The storage emulator on a loopback port, as a process of its own; its fixtures are for all tests of gs:// paths."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import leaks
import pytest

_START = """
import sys
from gcp_storage_emulator.server import create_server
create_server("127.0.0.1", int(sys.argv[1]), in_memory=True).run()
"""


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_up(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Waits until the emulator answers; False if it ends instead, because another process has taken its port."""
    while process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url + "/storage/v1/b?project=p"):
            return True
        time.sleep(0.05)
    return False


def _started() -> tuple[str, subprocess.Popen[bytes]]:
    """Starts an emulator, and waits until it answers; returns its address and its process."""
    for _ in range(5):
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if _is_up(f"http://127.0.0.1:{port}", process):
            return f"http://127.0.0.1:{port}", process
    raise RuntimeError(f"the storage emulator ended with {process.returncode}")


@contextlib.contextmanager
def running_emulator(lives_longer: bool = False) -> Iterator[str]:
    """Runs an emulator during the block; yields its address, which the caller puts into STORAGE_EMULATOR_HOST."""
    url, process = _started()
    if lives_longer:
        leaks.lives_longer(process.pid)
    try:
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def emulator_address() -> Iterator[str]:
    """One emulator for all tests of this process."""
    with running_emulator(lives_longer=True) as address:
        yield address


@pytest.fixture
def bucket(emulator_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes an empty bucket in the emulator; returns gs://NAME. The test and its subprocesses use the emulator."""
    from google.cloud import storage as gcs

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator_address)
    name = f"bucket-{secrets.token_hex(4)}"
    gcs.Client.create_anonymous_client().create_bucket(name)
    return f"gs://{name}"
