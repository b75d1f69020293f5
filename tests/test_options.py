"""Options that classes declare as fields: what is read from them, what is refused, how instances are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from yt8m.errors import UsageError
from yt8m.options import (
    Checked,
    Shaping,
    changed,
    check,
    declared,
    flat,
    option,
    path_option,
    paths_where,
    shaping,
    value_at,
)

LARGEST = 2**63 - 1


def tool() -> Any:
    """A class with options of every type; made anew for each test, since a declaration runs when it is made."""

    @dataclasses.dataclass(frozen=True)
    class Tool:
        size: int = option(3, "how large", minimum=1, maximum=9)
        rate: float = option(0.5, "how fast", minimum=0, maximum=2)
        is_on: bool = option(False, "whether it runs")
        kind: str = option("saw", "which one", choices=("saw", "drill"))
        names: tuple[str, ...] = option((), "what it is called")
        places: tuple[int, ...] = option((1,), "where it is")
        limit: int | None = option(None, "how much at most", minimum=2)
        seed: int = option(0, "where it starts")
        part: Mapping[str, Any] = option({"of": 1}, "options of its part")
        bare: int = 7

        def __post_init__(self) -> None:
            check(self)

    # As types: the annotations here are texts, which are looked up among the names of the module.
    Tool.__annotations__ = {
        "size": int,
        "rate": float,
        "is_on": bool,
        "kind": str,
        "names": tuple[str, ...],
        "places": tuple[int, ...],
        "limit": int | None,
        "seed": int,
        "part": Mapping[str, Any],
        "bare": int,
    }
    return Tool


def test_declarations_are_read_with_type_default_and_help() -> None:
    found = declared(tool())
    assert list(found) == ["size", "rate", "is_on", "kind", "names", "places", "limit", "seed", "bare"]
    assert tuple(found["size"])[:3] == (int, 3, "how large")
    assert tuple(found["limit"])[:3] == (int | None, None, "how much at most")
    assert tuple(found["names"])[:3] == (tuple[str, ...], (), "what it is called")
    assert tuple(found["bare"])[:3] == (int, 7, "")
    assert declared(dict) == {}


def test_a_field_without_a_default_is_no_option() -> None:
    @dataclasses.dataclass
    class Needs:
        given: int
        size: int = option(3, "how large")

    assert list(declared(Needs)) == ["size"]


def test_defaults_are_set_and_a_mapping_is_not_shared() -> None:
    one, other = tool()(), tool()()
    assert (one.size, one.rate, one.is_on, one.kind, one.names, one.places) == (3, 0.5, False, "saw", (), (1,))
    cls = type(one)
    first, second = cls(), cls()
    assert first.part == second.part == other.part == {"of": 1}
    first.part["of"] = 2
    assert second.part == {"of": 1}
    (part,) = (field for field in dataclasses.fields(cls) if field.name == "part")
    assert part.metadata["help"] == "options of its part"


@pytest.mark.parametrize(
    "given",
    [
        *({"size": 1}, {"size": 9}, {"rate": 0}, {"rate": 2}, {"rate": 1.5}, {"is_on": True}, {"kind": "drill"}),
        *({"names": ("a", "b")}, {"places": ()}, {"limit": None}, {"limit": 2}, {"seed": LARGEST}, {"seed": -LARGEST}),
        *({"places": (LARGEST, -LARGEST)}, {"seed": 0}),
    ],
)
def test_what_fits_is_taken(given: dict[str, Any]) -> None:
    ((name, value),) = given.items()
    assert getattr(tool()(**given), name) == value


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"size": 0}, "at least 1; it is 0"),
        ({"size": 10}, "at most 9; it is 10"),
        ({"size": 2.0}, "an int; it is 2.0"),
        ({"size": True}, "an int; it is True"),
        ({"size": None}, "an int; it is None"),
        ({"rate": -0.1}, "at least 0; it is -0.1"),
        ({"rate": 2.5}, "at most 2; it is 2.5"),
        ({"rate": float("nan")}, "at least 0; it is nan"),
        ({"rate": "1"}, "a float; it is '1'"),
        ({"rate": False}, "a float; it is False"),
        ({"is_on": 1}, "a bool; it is 1"),
        ({"kind": "drlil"}, "one of saw, drill; did you mean drill?; it is 'drlil'"),
        ({"kind": 3}, "a str; it is 3"),
        ({"names": ["a"]}, "a tuple of str; it is ['a']"),
        ({"names": ("a", 1)}, "a tuple of str; it is ('a', 1)"),
        ({"places": (1, True)}, "a tuple of int; it is (1, True)"),
        ({"places": (1, LARGEST + 1)}, f"at most {LARGEST}; it is (1, {LARGEST + 1})"),
        ({"limit": 1}, "at least 2; it is 1"),
        ({"limit": "2"}, "an int; it is '2'"),
        ({"seed": LARGEST + 1}, f"at most {LARGEST}; it is {LARGEST + 1}"),
        ({"seed": -LARGEST - 1}, f"at least {-LARGEST}; it is {-LARGEST - 1}"),
    ],
)
def test_what_does_not_fit_is_refused_with_class_field_and_bound(given: dict[str, Any], wanted: str) -> None:
    (name,) = given
    with pytest.raises(UsageError) as refusal:
        tool()(**given)
    assert str(refusal.value) == f"Tool: {name} must be {wanted}"


@dataclasses.dataclass(frozen=True)
class Inner(Checked, shapes="variables"):
    width: int = option(2, "how wide")
    limit: int = option(0, "how many at most", shapes="input", shaped_by=bool)


@dataclasses.dataclass(frozen=True)
class Outer(Checked):
    name: str = option("", "what it is called", shapes="nothing", is_required=True)
    inner: Inner = dataclasses.field(default_factory=Inner)
    extra: int = 5


def test_what_options_shape_is_listed_by_path_with_the_part_that_matters() -> None:
    assert list(shaping(Outer("a", Inner(3, 7)))) == [
        Shaping("name", "nothing", "a", ""),
        Shaping("inner.width", "variables", 3, 2),
        Shaping("inner.limit", "input", True, False),
    ]


def test_what_does_not_say_what_it_shapes_is_named() -> None:
    with pytest.raises(TypeError, match=r"^Tool\.size\b.*option\(shapes=\.\.\.\)$"):
        list(shaping(tool()()))
    assert declared(Inner)["width"].shapes == "variables"
    assert declared(Inner)["limit"].shapes == "input"
    assert declared(tool())["size"].shapes == "variables"


def test_a_required_option_that_is_empty_is_asked_for_with_its_help() -> None:
    assert Outer("a").name == "a"
    with pytest.raises(UsageError, match=r"^--name .*missing.*called$"):
        Outer()
    with pytest.raises(UsageError, match=r"^Inner: width .*\bint\b.*'b'$"):
        Inner("b")  # type: ignore[arg-type]


def test_a_required_option_is_named_by_its_flag() -> None:
    @dataclasses.dataclass(frozen=True)
    class Import(Checked):
        source: str = option("", "whose it is", flag="from", is_required=True)
        limit: int | None = option(None, "how many", flag="at_most", minimum=1)

    Import.__annotations__ = {"source": str, "limit": int | None}
    with pytest.raises(UsageError, match=r"^--from .*missing.*whose it is$"):
        Import()
    with pytest.raises(UsageError, match=r"^Import: at_most .*at least 1\b.*\b0$"):
        Import("a", 0)


def test_an_option_without_the_one_that_it_needs_is_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class Report(Checked):
        report: bool = option(False, "whether there is one")
        media: str = option("", "its links", needs="report")

    assert Report(True, "a").media == "a"
    assert Report().media == ""
    with pytest.raises(UsageError, match=r"^--media needs --report\b.*leave --media out\.$"):
        Report(media="a")


def test_an_option_that_names_a_path_is_empty_unless_it_is_given() -> None:
    @dataclasses.dataclass(frozen=True)
    class Copied(Checked):
        source: str = path_option("file to copy", is_required=True)
        target: str = path_option("file to write", aliases=("output",))

    assert Copied("a").target == ""
    assert paths_where(Copied, is_path=True) == ["source", "target"]
    assert Copied.__dataclass_fields__["target"].metadata["aliases"] == ("output",)
    with pytest.raises(UsageError, match=r"^--source .*missing.*file to copy$"):
        Copied()


def test_options_are_found_by_what_their_declarations_say() -> None:
    assert paths_where(Outer, shapes="nothing") == ["name"]
    assert paths_where(Outer, shapes="input") == ["inner.limit"]
    assert paths_where(Outer, is_path=True) == []
    made = Outer("a", Inner(3))
    assert [value_at(made, path) for path in paths_where(Outer)] == ["a", 3, 0]
    assert changed(made) == {"name": "a", "inner.width": 3}
    assert changed(Outer("b")) == {"name": "b"}


def test_nested_values_are_flat_by_path() -> None:
    assert flat({"a": {"b": 1, "c": {"d": 2}}, "e": {}}) == {"a.b": 1, "a.c.d": 2}
    assert flat({"a": 1}, "x.") == {"x.a": 1}


def test_a_tilde_at_the_start_of_a_text_is_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    made = tool()(names=("~/a", "b~", "~/c"))
    assert made.names == ("/home/me/a", "b~", "/home/me/c")
    assert Outer("~/runs/a").name == "/home/me/runs/a"
    assert Outer("a~").name == "a~"


def test_an_empty_choice_is_said_in_words() -> None:
    @dataclasses.dataclass(frozen=True)
    class Saw:
        teeth: str = option("", "of what kind", choices=("", "fine", "coarse"))

        def __post_init__(self) -> None:
            check(self)

    assert Saw().teeth == ""
    with pytest.raises(UsageError, match=r"teeth .*fine, coarse or empty.*did you mean fine"):
        Saw(teeth="fin")
