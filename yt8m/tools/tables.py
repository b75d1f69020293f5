"""Tables on the standard output, with aligned columns; as wide as their content where that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDTH = 10_000  # without a terminal no line is to be cut or folded


def show(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Prints one table.

    Args:
      headers: of the columns; without any text in them no header is shown.
      rows: as many texts each.
      right: headers of the columns that are aligned to the right (numbers).
    """
    table = Table(box=None, pad_edge=False, show_header=any(headers), header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    is_terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if is_terminal else _WIDTH, highlight=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())
