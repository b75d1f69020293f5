"""The server of the browser's tests: a connection that is left is no error; others are shown."""

from __future__ import annotations

import pathlib
import socket
import struct

import browser
import pytest
import requests

_RESET = struct.pack("ii", 1, 0)  # closing the connection discards what was not read


@pytest.mark.heavy
def test_a_connection_that_is_left_prints_nothing(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "large").write_bytes(bytes(30_000_000))
    with browser.served(tmp_path) as (address, asked):
        connection = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
        connection.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        assert connection.recv(100)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.close()
    assert asked == ["/large"]
    assert capsys.readouterr().err == ""


def test_a_connection_that_stays_unused_prints_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser._Handler, "timeout", 0.1)
    with browser.served(tmp_path) as (address, asked):
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as connection:
            assert connection.recv(1) == b""  # the server has closed it
        assert asked == []
    assert capsys.readouterr().err == ""


def test_other_errors_are_shown(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser._Handler, "log_request", lambda *_: 1 / 0)
    with browser.served(tmp_path) as (address, _), pytest.raises(requests.ConnectionError):
        requests.get(address)
    assert "ZeroDivisionError" in capsys.readouterr().err
