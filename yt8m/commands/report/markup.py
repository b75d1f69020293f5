"""HTML out of values: whatever is not markup already is escaped, so a name can never become an element."""

from __future__ import annotations

import html
from collections.abc import Iterable

_VOID = frozenset({"img", "meta"})


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


def tag(element: str, *content: object, **attributes: object) -> Markup:
    """An element with its content, in which everything but `Markup` is escaped.

    Args:
      element: its name.
      content: what stands in it.
      attributes: `_` in a name stands for `-`, one at its end is dropped (`class_`); None leaves one out.
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if element in _VOID:
        return Markup(f"<{element}{given}>")
    return Markup(f"<{element}{given}>{joined(content)}</{element}>")


def joined(content: Iterable[object]) -> Markup:
    """All of it, one behind the other."""
    return Markup("".join(one if isinstance(one, Markup) else html.escape(str(one)) for one in content))


def table(headers: Iterable[object], rows: Iterable[Iterable[object]], numbers: int = 0) -> Markup:
    """A table; the last `numbers` columns are numbers."""
    titles = list(headers)
    kinds = [None] * (len(titles) - numbers) + ["number"] * numbers
    head = tag("tr", *(tag("th", one, class_=kind) for one, kind in zip(titles, kinds, strict=True)))
    body = (tag("tr", *(tag("td", one, class_=kind) for one, kind in zip(row, kinds, strict=True))) for row in rows)
    return tag("table", tag("thead", head), tag("tbody", *body))
