"""Classes by name whose fields are options: how instances are made, and which names of fields are refused."""

from __future__ import annotations

import dataclasses
import re
import sys
import types
from typing import Any

import pytest
from test_options import tool

from yt8m.errors import UsageError
from yt8m.options import Checked, declared, option
from yt8m.registry import Catalogue, arguments_of, owners, refuse_two_meanings, reserve_flags


class Plain:
    def __init__(self, size: int = 1, *rest: int) -> None:
        self.size = size


class Taking:
    def __init__(self, **given: Any) -> None:
        self.given = given


class Arranged(Taking):
    @classmethod
    def arrange(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {"whole": values}


def catalogue() -> Catalogue:
    found = Catalogue("tool")
    for cls in (tool(), Plain, Taking, Arranged):
        found.register(cls)
    return found


def test_an_instance_is_made_by_name_and_lists_become_tuples() -> None:
    made = catalogue().create("Tool", {"size": 4, "names": ["a", "b"]})
    assert (made.size, made.rate, made.names) == (4, 0.5, ("a", "b"))
    assert catalogue().create("Tool").size == 3
    assert catalogue().create("Plain", {"size": 5}).size == 5
    assert catalogue().create("Taking", {"anything": [1]}).given == {"anything": (1,)}
    assert catalogue().create("Arranged", {"part": 2}).given == {"whole": {"part": 2}}


def test_the_hyper_parameters_of_a_class_are_its_options() -> None:
    assert catalogue().hyper_parameters(tool()) == declared(tool())
    assert catalogue().hyper_parameters(Taking) == {}


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("Plain", "sise", "tool Plain has no hyper-parameter 'sise'; did you mean size? It has: size."),
        ("Plain", "rest", "tool Plain has no hyper-parameter 'rest'. It has: size."),
        ("object", "size", "unknown tool 'object'"),
    ],
)
def test_an_unknown_hyper_parameter_is_refused(name: str, given: str, told: str) -> None:
    with pytest.raises(UsageError) as refusal:
        catalogue().create(name, {given: 1})
    assert str(refusal.value).replace("?.", "?").startswith(told)


def test_a_class_without_hyper_parameters_says_so() -> None:
    class Bare:
        def __init__(self) -> None: ...

    found = Catalogue("tool")
    found.register(Bare)
    with pytest.raises(UsageError, match=r"tool Bare has no hyper-parameter 'size'\. It has: none\.$"):
        found.create("Bare", {"size": 1})


@dataclasses.dataclass(frozen=True)
class Speed(Checked):
    rate: float = option(1.0, "how fast")


@dataclasses.dataclass(frozen=True)
class Program(Checked):
    count: int = option(1, "how many", flag="number")
    speed: Speed = dataclasses.field(default_factory=Speed)


@dataclasses.dataclass(frozen=True)
class Fitting:
    count: int = option(2, "how many of it")
    size: int = option(2, "how large")


@dataclasses.dataclass(frozen=True)
class Clashing(Fitting):
    rate: float = option(0.5, "how fast it is")


class Constructed:
    def __init__(self, size: int, number: int = 3) -> None: ...


@pytest.fixture
def classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module `a_tool` of a user."""
    module = types.ModuleType("a_tool")
    for cls in (Fitting, Clashing, Constructed):
        setattr(module, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, "a_tool", module)


@pytest.mark.usefixtures("classes")
def test_a_field_with_the_name_of_a_flag_is_refused_when_its_class_is_loaded() -> None:
    reserve_flags("tests", Program)
    tools = Catalogue("tool", "tests")
    assert tools.get("a_tool:Fitting") is Fitting  # the flag of `count` is --number
    with pytest.raises(UsageError) as refusal:
        tools.get("a_tool:Clashing")
    assert re.fullmatch(
        r"tool a_tool:Clashing: .*Clashing\.rate .*--rate \(Program\.speed\.rate\), .*", str(refusal.value)
    )
    with pytest.raises(UsageError, match=r"Constructed\.number\b.*--number \(Program\.count\)"):
        tools.get("a_tool:Constructed")
    assert Catalogue("tool", "other tests").get("a_tool:Clashing") is Clashing
    assert Catalogue("tool", "tests", passed=("rate",)).get("a_tool:Clashing") is Clashing


@dataclasses.dataclass(frozen=True)
class Other:
    count: int = option(2, "how many of it")
    size: int = option(2, "how heavy")


def test_two_classes_may_share_a_name_only_with_one_meaning() -> None:
    refuse_two_meanings({"a:Fitting": Fitting, "a:Clashing": Clashing})
    refuse_two_meanings({"a:Fitting": Fitting, "a:Other": Other}, shared=("size",))
    with pytest.raises(UsageError) as refusal:
        refuse_two_meanings({"a:Fitting": Fitting, "b": Constructed, "a:Other": Other})
    assert re.search(
        r"^a:Fitting and a:Other .*Fitting\.size is 'how large', Other\.size is 'how heavy', .*--size",
        str(refusal.value),
    )


@dataclasses.dataclass(frozen=True)
class OtherType:
    size: float = option(2.0, "how large")


def test_two_declarations_that_differ_only_in_the_type_are_told_apart() -> None:
    problem = "Fitting.size is int 'how large', OtherType.size is float 'how large', and --size would set both"
    with pytest.raises(UsageError, match=problem):
        refuse_two_meanings({"a:Fitting": Fitting, "a:OtherType": OtherType})


def test_only_classes_of_the_project_may_give_one_name_two_meanings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Other, "__module__", "yt8m.tools")
    with pytest.raises(UsageError, match="both declare size"):
        refuse_two_meanings({"a:Fitting": Fitting, "Other": Other})
    monkeypatch.setattr(Fitting, "__module__", "yt8m.tools")
    refuse_two_meanings({"Fitting": Fitting, "Other": Other})


@pytest.mark.usefixtures("classes")
def test_the_classes_that_declare_a_hyper_parameter_begin_with_the_chosen_one() -> None:
    tools = Catalogue("tool")
    for cls in (Other, Fitting):
        tools.register(cls)
    sizes = [("Fitting", declared(Fitting)["size"]), ("Other", declared(Other)["size"])]
    assert owners(tools)["size"] == owners(tools, "Unheard")["size"] == sizes
    assert owners(tools, "Other")["size"] == sizes[::-1]
    of_own = owners(tools, "a_tool:Clashing")
    assert of_own["rate"] == [("a_tool:Clashing", declared(Clashing)["rate"])]
    assert [owner for owner, _ in of_own["size"]] == ["a_tool:Clashing", "Fitting", "Other"]
    assert set(of_own) == {"count", "size", "rate"}


def test_arguments_of_a_class_that_does_not_say_them_are_not_known() -> None:
    assert arguments_of(Constructed) == ["size", "number"]
    assert arguments_of(Taking) is None
    assert arguments_of(type) is None
