"""The text of `--help`."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence

from yt8m import losses, models
from yt8m.flags.declared import Flag, shown
from yt8m.flags.optimizers import OPTIMIZERS


def usage(program: str, purpose: str, known: Sequence[Flag]) -> str:
    """All flags under their headings, with defaults."""
    lines = [f"usage: {program} [--flag=value ...]", "", *_wrapped(purpose, 0)]
    for group, members in itertools.groupby(known, key=lambda flag: flag.group):
        lines += ["", f"{group}:"]
        for flag in members:
            lines += _entry(flag)
    lines += ["", "Names:"]
    for kind, names in (("models", models.names()), ("losses", losses.names()), ("optimizers", OPTIMIZERS)):
        lines += _wrapped(f"{kind}: {', '.join(names)}", 2)
    return "\n".join([*lines, "", *_wrapped("--flagfile=FILE reads flags from a file, one a line.", 0), ""])


def _entry(flag: Flag) -> list[str]:
    head = f"  --[no]{flag.name}" if flag.kind is bool else f"  --{flag.name}={_placeholder(flag)}"
    default = "" if flag.default in (None, "", ()) else f" [{shown(flag.default)}]"
    return [head, *_wrapped(flag.help + default, 6)]


def _placeholder(flag: Flag) -> str:
    return {int: "N", float: "X", str: "TEXT"}.get(flag.kind, "A,B,...")


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, 96, initial_indent=" " * indent, subsequent_indent=" " * indent)
