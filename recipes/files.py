"""The flags files: their names, and the GAP that their comments state."""

from __future__ import annotations

import pathlib
import re

from yt8m import models

FOLDER = pathlib.Path(__file__).resolve().parent
SMALL = FOLDER / "small"
DATA = FOLDER / "sample_data.flags"
DOCS = FOLDER.parent / "docs" / "users" / "models.md"

_STATED = re.compile(r"(?<=\bGAP )\d\.\d{3}(?= on the sample data)")


def names() -> list[str]:
    """The models that have a small recipe, sorted."""
    return sorted(path.stem for path in SMALL.glob("*.flags"))


def level(name: str) -> str:
    """What the model reads: video or frame."""
    return str(models.get(name).level)


def stated(path: pathlib.Path) -> float:
    """The GAP on the sample data that the comment of a recipe states.

    Raises:
      ValueError: it states none, or two.
    """
    found = _STATED.findall(path.read_text())
    if len(found) != 1:
        raise ValueError(f"{path} states {len(found)} figures `GAP 0.123 on the sample data`; it needs one")
    return float(found[0])


def state(name: str, gap: float) -> None:
    """Writes the GAP into the comments of both recipes of a model."""
    for path in (FOLDER / f"{name}.flags", SMALL / f"{name}.flags"):
        path.write_text(_STATED.sub(f"{gap:.3f}", path.read_text()))
