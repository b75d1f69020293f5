"""The pictures of the README: small, whole in themselves, and made of what a terminal really shows."""

from __future__ import annotations

import re
import runpy
from xml.etree import ElementTree

import pytest
from docs.command_blocks import PAGES, ROOT

FOLDER = ROOT / "docs/pictures"
MADE_BY = runpy.run_path(str(FOLDER / "__main__.py"))


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("one\r\ntwo\r\n", ["one", "two", ""]),
        ("10 %\r\x1b[2K20 %\r\x1b[2Kdone\n", ["done", ""]),
        ("a\n10 %\r\x1b[2K\x1b[1A\x1b[2Kb\n20 %\n", ["b", "20 %", ""]),
        ("\x1b[?25l\x1b[1mbold\x1b[0m\n\x1b[?25h", ["\x1b[1mbold\x1b[0m", ""]),
    ],
)
def test_a_bar_leaves_its_last_state(written: str, left: list[str]) -> None:
    assert MADE_BY["screen"](written) == left


def test_the_terminal_shows_the_commands_of_the_readme_and_asks_for_nothing() -> None:
    text = (FOLDER / "terminal.svg").read_text()
    words = " ".join("".join(ElementTree.fromstring(text).itertext()).replace("\xa0", " ").split())
    shown = [line for line in MADE_BY["commands"]() if line.split()[1] in MADE_BY["SHOWN"]]
    assert [line.split()[1] for line in shown] == list(MADE_BY["SHOWN"])
    for line in shown:
        for word in line.split():
            assert word in words, word
    assert re.findall(r"url\((?!#)|@import|href=", text) == []


def test_they_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.suffix in (".svg", ".png")}
    pages = "".join(page.read_text() for page in PAGES)
    assert [name for name in sizes if f"pictures/{name}" not in pages] == []
    assert {"terminal.svg", "report.png"} <= sizes.keys()
    assert max(sizes.values()) < 100_000


DIAGRAMS = runpy.run_path(str(FOLDER / "diagrams.py"))["PICTURES"]


@pytest.mark.parametrize("name", DIAGRAMS)
def test_the_diagrams_show_the_project_as_it_is(name: str) -> None:
    """If this fails, the rooms or the stations have changed: `python docs/pictures/diagrams.py` draws them anew."""
    assert (FOLDER / name).read_text() == DIAGRAMS[name]()


def test_every_room_has_its_box() -> None:
    rooms = {path.parent.name for path in (ROOT / "yt8m").glob("*/__init__.py")}
    drawn = DIAGRAMS["rooms.svg"]()
    assert {room for room in rooms if f">{room}<" not in drawn} == set()
