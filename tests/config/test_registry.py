"""Entries by name, and those of a user's own by module and name."""

from __future__ import annotations

import pathlib
import sys

import pytest

from yt8m.config.registry import Registry
from yt8m.errors import UsageError


def test_names_suggestions_and_doubles() -> None:
    tools: Registry[object] = Registry("tool")
    hammer, saw = object(), object()
    tools.register(hammer, "Hammer")
    tools.register(saw, "BandSawTool")
    tools.register(saw, "BandSawTool")  # the same once more is no clash
    assert tools.names() == ["BandSawTool", "Hammer"]
    assert tools.get("Hammer") is hammer
    with pytest.raises(ValueError, match="two tools are named Hammer"):
        tools.register(saw, "Hammer")
    for wrong, right in (("Hamer", "Hammer"), ("band", "BandSawTool"), ("bandsawtool", "BandSawTool")):
        with pytest.raises(UsageError, match=rf"unknown tool '{wrong}'; did you mean {right}\? Known: BandSawTool"):
            tools.get(wrong)
    with pytest.raises(UsageError, match=r"unknown tool 'x'\. Known: BandSawTool, Hammer"):
        tools.get("x")


def test_a_users_own_module_is_loaded_with_a_quiet_runtime(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_tools.py").write_text(
        "import os\nLEVEL = os.environ['TF_CPP_MIN_LOG_LEVEL']\nclass Box:\n    class Inner: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for given, seen in (("0", "0"), (None, "2")):
        if given is None:
            monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
        else:
            monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", given)
        monkeypatch.delitem(sys.modules, "my_tools", raising=False)
        assert Registry("tool").get("my_tools:LEVEL") == seen
    assert Registry("tool").get("my_tools:Box.Inner").__name__ == "Inner"
    for path in ("my_tools:Bag", "my_tool:Box", ":Box"):
        with pytest.raises(UsageError, match=f"cannot load tool '{path}'"):
            Registry("tool").get(path)
