"""Tables and texts on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDTH = 10_000  # characters per line if the output is not a terminal: no line may be cut or wrapped


def show(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Prints a table with aligned columns to the standard output.

    Args:
      headers: headers of the columns; if all are empty, no header is printed.
      rows: the rows, with one text for each column.
      right: headers of the columns to right-align, such as numbers.
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


def printable(text: str) -> str:
    """The text with control characters escaped. Otherwise a file from somebody else could control the terminal."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
