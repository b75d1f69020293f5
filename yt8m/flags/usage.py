"""The text of `--help`."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence

from yt8m.flags.declared import Flag, shown


def usage(program: str, purpose: str, known: Sequence[Flag], names: Mapping[str, Sequence[str]]) -> str:
    """All flags under their headings, with defaults; `names` are those that may be chosen, by kind."""
    lines = [f"usage: {program} [--flag=value ...]", "", *_wrapped(purpose, 0)]
    for group, flags in itertools.groupby(known, key=lambda flag: flag.group):
        lines += ["", f"{group}:"]
        for flag in flags:
            lines += _entry(flag)
    lines += ["", "Names:"] if names else []
    for kind, members in names.items():
        lines += _wrapped(f"{kind}: {', '.join(members)}", 2)
    return "\n".join([*lines, "", *_wrapped("--flagfile=FILE reads flags from a file, one a line.", 0), ""])


def _entry(flag: Flag) -> list[str]:
    head = f"  --[no]{flag.name}" if flag.kind is bool else f"  --{flag.name}={_placeholder(flag)}"
    default = "" if flag.default in (None, "", ()) else f" [{shown(flag.default)}]"
    return [head, *_wrapped(flag.help + default, 6)]


def _placeholder(flag: Flag) -> str:
    return {int: "N", float: "X", str: "TEXT"}.get(flag.kind, "A,B,...")


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, 96, initial_indent=" " * indent, subsequent_indent=" " * indent)
