"""The flags files: their names, and the GAP that their comments state."""

from __future__ import annotations

import pathlib
import re

from yt8m import models

FOLDER = pathlib.Path(__file__).resolve().parent
SMALL = FOLDER / "small"
DATA = FOLDER / "sample_data.flags"
DOCS = FOLDER.parent / "docs" / "users" / "models.md"

# What a recipe says of its network: it is exact, as vectors of the published code show; it differs in something; it
# is ours.
_NETWORK = re.compile(
    r"^# Network: (exact; shown by|differs in|ours\b)\s*(.*?)\n# Published: ", re.MULTILINE | re.DOTALL
)

_STATED = re.compile(r"(?<=\bGAP )\d\.\d{3}(?= on the sample data)")


def names() -> list[str]:
    """The models that have a small recipe, sorted."""
    return sorted(path.stem for path in SMALL.glob("*.flags"))


def recipes_of(name: str) -> dict[str, pathlib.Path]:
    """{title: path} of the recipes of a model, of which one without published sizes lacks the first."""
    paths = {"The recipe": FOLDER / f"{name}.flags", "The small recipe": SMALL / f"{name}.flags"}
    return {title: path for title, path in paths.items() if path.exists()}


def level(name: str) -> str:
    """What the model reads: video or frame."""
    return str(models.get(name).level)


def shown_by(name: str) -> list[str]:
    """The vectors that show that the network of the full recipe is the published one; empty if it is not said to be.

    Raises:
      ValueError: the recipe does not say what its network is.
    """
    path = FOLDER / f"{name}.flags"
    found = _NETWORK.search(path.read_text())
    if found is None:
        raise ValueError(f"{path} has no line `# Network: exact; shown by VECTOR.`, `differs in ...` or `ours.`")
    kind, rest = found.groups()
    return re.findall(r"\w+", rest.partition(".")[0]) if kind.startswith("exact") else []


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
    """Writes the GAP into the comments of the recipes of a model."""
    for path in recipes_of(name).values():
        path.write_text(_STATED.sub(f"{gap:.3f}", path.read_text()))
