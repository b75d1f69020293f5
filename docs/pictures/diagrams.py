"""Draws the pictures of the pages for developers: `python docs/pictures/diagrams.py` writes three SVG files.

rooms.svg shows the rooms by floor, as the contract on layers in pyproject.toml has them. training.svg shows the
stations of docs/developers/one_training.md. batch.svg shows a batch on its way through the graph of two towers. The
colours fit light and dark pages.
"""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Iterable
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WIDTH = 960
APPLICATIONS = ("datasets", "reports", "extractors", "serving", "bulk", "labels")
# (fill, border, text) of a kind of box
COLOURS = {
    "kit": ("#dbe7f5", "#4a76a8", "#12263a"),
    "application": ("#f6e7cf", "#b3832f", "#3a2a12"),
    "door": ("#e3e3e8", "#77778a", "#22222a"),
    "tower": ("#dcefdc", "#4f8f55", "#14301a"),
}
STYLE = 'font-family="system-ui, sans-serif" font-size="14"'


def box(x: float, y: float, width: float, height: float, lines: Iterable[str], kind: str = "kit") -> str:
    """A box with centred lines of text."""
    fill, border, ink = COLOURS[kind]
    lines = list(lines)
    top = y + height / 2 - 9 * (len(lines) - 1) + 5
    texts = "".join(
        f'<text x="{x + width / 2:g}" y="{top + 18 * number:g}" fill="{ink}" text-anchor="middle">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="6" fill="{fill}" stroke="{border}"/>{texts}'


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """A line from one point to another, with a head."""
    return f'<path d="M{x:g} {y:g} L{to_x:g} {to_y:g}" stroke="#808894" stroke-width="1.5" marker-end="url(#head)"/>'


def picture(height: float, title: str, elements: Iterable[str]) -> str:
    """The whole SVG file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" {STYLE}>\n'
        f"<title>{escape(title)}</title>\n"
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#808894"/></marker></defs>\n' + "\n".join(elements) + "\n</svg>\n"
    )


def floors() -> list[list[str]]:
    """The rooms of each floor, from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[room.strip().removeprefix("yt8m.") for room in re.split("[|:]", floor)] for floor in layers]


def rooms() -> str:
    """The rooms by floor: imports go down only."""
    elements, height = [], 34.0
    for kind, x, text in (("door", 20, "doors"), ("kit", 130, "the kit"), ("application", 240, "applications")):
        elements.append(box(x, 8, 100, 22, [text], kind))
    for number, names in enumerate(floors()):
        y, wide = 44.0 + 34 * number, (WIDTH - 40 - 10 * (len(names) - 1)) / len(names)
        for place, name in enumerate(names):
            kind = "application" if name in APPLICATIONS else "door" if number < 2 else "kit"
            elements.append(box(20 + place * (wide + 10), y, wide, 28, [name], kind))
        height = y + 40
    return picture(height, "The rooms by floor; imports go down only", elements)


def stations() -> list[tuple[str, int]]:
    """(heading, number of the part it stands in) of the stations of one training."""
    parts = (ROOT / "docs/developers/one_training.md").read_text().split("\n## ")
    headings = [re.findall(r"^### \d+\. (.*)$", part, re.MULTILINE) for part in parts]
    return [(heading, number - 1) for number, names in enumerate(headings) for heading in names]


def training() -> str:
    """The stations of one training, three rows of five in time."""
    elements, wide = [], 164
    for number, (name, part) in enumerate(stations()):
        x, y = 20 + (number % 5) * 190, 20 + (number // 5) * 84
        elements.append(box(x, y, wide, 54, [f"{number + 1}", name], ("door", "kit", "tower")[part]))
        if number % 5:
            elements.append(arrow(x - 26, y + 27, x - 3, y + 27))
        elif number:
            elements.append(arrow(20 + 4 * 190 + wide / 2, y - 28, 20 + 4 * 190 + wide / 2, y - 17))
            elements.append(f'<path d="M{20 + 4 * 190 + wide / 2} {y - 16} H{x + wide / 2}" stroke="#808894"/>')
            elements.append(arrow(x + wide / 2, y - 16, x + wide / 2, y - 3))
    return picture(270, "One training in time: the fifteen stations", elements)


def batch() -> str:
    """A batch of two towers, from the shards to the variables."""
    elements = [
        box(20, 90, 130, 54, ["shards"], "door"),
        box(190, 90, 150, 54, ["BatchQueue", "uint8 [B, T, D]"]),
        box(380, 90, 130, 54, ["split_batch"]),
        *(
            box(560, y, 210, 54, [f"tower {n}: modeler", "float32, model, loss"], "tower")
            for n, y in ((0, 30), (1, 150))
        ),
        box(800, 90, 140, 54, ["optimize_clones", "sum of gradients"]),
        box(800, 220, 140, 54, ["apply_gradients"]),
        box(560, 220, 210, 54, ["variables", "shared by the towers"], "door"),
        arrow(150, 117, 187, 117),
        arrow(340, 117, 377, 117),
        arrow(510, 110, 557, 60),
        arrow(510, 124, 557, 174),
        arrow(770, 60, 797, 108),
        arrow(770, 174, 797, 128),
        arrow(870, 144, 870, 217),
        arrow(800, 247, 773, 247),
    ]
    return picture(294, "One batch through the graph of two towers", elements)


PICTURES = {"rooms.svg": rooms, "training.svg": training, "batch.svg": batch}

if __name__ == "__main__":
    for file, draw in PICTURES.items():
        (HERE / file).write_text(draw())
