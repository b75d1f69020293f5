"""What comes from outside: class names without a network, and models, which are programs."""

from __future__ import annotations

import pathlib
import socket
from typing import Any

import pytest

from yt8m import vocabulary
from yt8m.tools import predict


@pytest.mark.promise("X2")
def test_class_names_are_those_of_the_package_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*given: Any) -> None:
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    vocabulary.load.cache_clear()
    names = vocabulary.load()
    assert len(names) == 3862
    assert names.name(0) == "Game"


@pytest.mark.promise("X3")
def test_a_model_from_elsewhere_is_said_to_be_a_program(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    predict.warn_of_programs(str(tmp_path))
    assert [f"{tmp_path} holds a program" in line for line in caplog.messages] == [True]
    caplog.clear()
    (tmp_path / "config.json").touch()
    predict.warn_of_programs(str(tmp_path))
    assert not caplog.messages
