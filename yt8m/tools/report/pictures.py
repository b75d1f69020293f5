"""Drawing: one matplotlib figure as an SVG image inside the page, in ink that follows the reader's theme."""

from __future__ import annotations

import base64
import importlib.util
import io
import warnings
from collections.abc import Callable
from typing import Any

from yt8m.errors import UsageError
from yt8m.tools.report.markup import Markup, tag

# Told apart on white and on black, and by most who see fewer colours.
COLOURS = ("#3b82f6", "#f07a1a", "#12a37f", "#a35cf0", "#e8476a", "#1ba3bd", "#b58a12", "#8b8fa3")
WIDTH = 4.2  # inches, about a phone's width, so that text is not shrunk there
_INK = "#20242c"
_THEME = f"<style>svg{{--ink:{_INK}}}@media (prefers-color-scheme:dark){{svg{{--ink:#d5dae2}}}}</style>"
_SETTINGS = {
    "svg.hashsalt": "yt8m",  # the same run gives the same page, byte by byte
    "svg.fonttype": "path",
    "text.parse_math": False,  # a name may have a dollar in it
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.18,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 200,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), _INK
    ),
}


def need_matplotlib() -> None:
    """Refuses where the library of the pictures is missing.

    Raises:
      UsageError: names what to install.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("the report needs matplotlib, which is not installed: pip install 'yt8m[reports]'.")


def picture(draw: Callable[[Any], None], alt: str, caption: str, height: float = 2.9) -> Markup:
    """A figure with its caption; `draw` gets matplotlib's axes."""
    data = base64.b64encode(_svg(draw, height).encode()).decode()
    image = tag("img", src=f"data:image/svg+xml;base64,{data}", alt=alt)
    return tag("figure", image, tag("figcaption", caption))


def colour(index: int) -> str:
    """That of the run `index`; they repeat where there are more runs than colours."""
    return COLOURS[index % len(COLOURS)]


def legend(axes: Any, handles: list[Any], names: list[str]) -> None:
    """A legend above the axes where there is more than one name; names as they are, `_` in front included."""
    if len(names) > 1:
        axes.figure.legend(handles, [short(name) for name in names], loc="outside upper left", ncols=2)


def short(name: str) -> str:
    """A name as a picture has room for it; the ends of paths tell more than their beginnings."""
    return name if len(name) <= 28 else f"...{name[-25:]}"


def _svg(draw: Callable[[Any], None], height: float) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    file = io.StringIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the page has it in words.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue().replace(_INK, "var(--ink)")
    start = text.index(">", text.index("<svg")) + 1
    return text[:start] + _THEME + text[start:]
