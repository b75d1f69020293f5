"""Entries by name, and those of a user's own by module and name."""

from __future__ import annotations

import pathlib
import sys
import types
from collections.abc import Iterator

import pytest

from yt8m import registry
from yt8m.errors import UsageError
from yt8m.registry import Registry


def test_names_suggestions_and_doubles() -> None:
    tools: Registry[object] = Registry("tool")
    hammer, saw = object(), object()
    tools.register(hammer, "Hammer")
    tools.register(saw, "BandSawTool")
    tools.register(saw, "BandSawTool")  # the same once more is no clash
    assert tools.names() == ["BandSawTool", "Hammer"]
    assert tools.get("Hammer") is hammer
    with pytest.raises(ValueError, match=r"two tools.*Hammer"):
        tools.register(saw, "Hammer")
    for wrong, right in (("Hamer", "Hammer"), ("band", "BandSawTool"), ("bandsawtool", "BandSawTool")):
        with pytest.raises(UsageError, match=rf"unknown tool '{wrong}'; did you mean {right}\? Known: BandSawTool"):
            tools.get(wrong)
    with pytest.raises(UsageError, match=r"unknown tool 'x'\. Known: BandSawTool, Hammer"):
        tools.get("x")


def test_modules_are_imported_at_the_first_look_up(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_tools.py").write_text("class Saw: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    tools: Registry[type] = Registry("tool", ["some_tools"])
    assert "some_tools" not in sys.modules
    try:
        assert tools.names() == []
        saw = sys.modules["some_tools"].Saw
        assert tools.register(saw) is tools.get("Saw") is saw
        with pytest.raises(ValueError, match=r"two tools.*Saw"):
            tools.register(type("Saw", (), {"__module__": "of_the_user"}))
    finally:
        sys.modules.pop("some_tools", None)


def test_a_look_up_imports_no_module_after_the_one_that_has_the_entry(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools: Registry[type] = Registry("tool", ["first_tools", "second_tools"])
    monkeypatch.setitem(sys.modules, "all_tools", types.SimpleNamespace(tools=tools))
    for name, tool in (("first_tools", "Saw"), ("second_tools", "Axe")):
        (tmp_path / f"{name}.py").write_text(f"from all_tools import tools\n@tools.register\nclass {tool}: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert tools.get("Saw").__name__ == "Saw"
        assert "second_tools" not in sys.modules
        assert tools.get("Axe").__name__ == "Axe"
        assert tools.names() == ["Axe", "Saw"]
    finally:
        for name in ("first_tools", "second_tools"):
            sys.modules.pop(name, None)


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


def test_a_decorator_registers_under_the_name_of_the_class_or_another() -> None:
    tools: Registry[type] = Registry("tool")

    @tools.register
    class Saw: ...

    @tools.register_as("drill")
    class Drill: ...

    assert (tools.names(), tools.get("Saw"), tools.get("drill")) == (["Saw", "drill"], Saw, Drill)
    tools.register(Drill, "Awl")
    assert (tools.names(), tools.all()) == (["Awl", "Saw", "drill"], [Saw, Drill, Drill])


def test_names_of_code_are_found_however_deep() -> None:
    given = {"a": "m:A", "b": ["x", ("m:B", {"c": "m:C", "d": 3}), None], "m:key": "plain"}
    assert registry.names_of_code(given) == {"m:A", "m:B", "m:C"}
    assert registry.names_of_code("m:A") == {"m:A"}
    for other in ("plain", 3, None, {"m:set"}, [], {}):
        assert registry.names_of_code(other) == set()


@pytest.fixture
def afresh() -> Iterator[None]:
    yield
    registry.trust(["os:sep", "os:curdir"])
    registry.set_command_line_names([])


def test_a_distrusted_name_is_imported_only_if_the_user_gives_it(afresh: None) -> None:
    tools: Registry[object] = Registry("tool")
    registry.distrust(["os:sep", "os:curdir"], "runs/a/config.json")
    for name in ("os:sep", "os:curdir"):
        with pytest.raises(UsageError, match=rf"^runs/a/config\.json .*tool '{name}'.*--trust_code"):
            tools.get(name)
    assert tools.get("os:pardir") == ".."
    registry.set_command_line_names(["os:sep"])
    assert tools.get("os:sep") == "/"
    registry.set_command_line_names(["os:curdir"])  # in place of the earlier ones
    with pytest.raises(UsageError, match="names code"):
        tools.get("os:sep")
    registry.trust(["os:sep", "os:never_heard_of"])
    assert tools.get("os:sep") == "/"


def test_the_last_word_on_a_name_counts(afresh: None) -> None:
    tools: Registry[object] = Registry("tool")
    registry.set_trust(["os:sep"], "runs/c/config.json", is_trusted=False)
    with pytest.raises(UsageError, match=r"^runs/c/config\.json .*tool 'os:sep'"):
        tools.get("os:sep")
    registry.set_trust(["os:sep"], "runs/c/config.json", is_trusted=True)
    assert tools.get("os:sep") == "/"


@pytest.mark.promise("X4")
def test_what_a_call_distrusts_concerns_no_other_call(afresh: None) -> None:
    tools: Registry[object] = Registry("tool")
    registry.distrust(["os:curdir"], "runs/b/config.json")
    with registry.local_trust():
        registry.trust(["os:curdir"])
        assert tools.get("os:curdir") == "."
        registry.distrust(["os:sep"], "runs/a/config.json")
        registry.set_command_line_names(["os:curdir"])
        with pytest.raises(UsageError, match=r"runs/a/config\.json"):
            tools.get("os:sep")
    assert tools.get("os:sep") == "/"
    with pytest.raises(UsageError, match=r"runs/b/config\.json"):
        tools.get("os:curdir")
