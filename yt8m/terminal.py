"""What programs show on a terminal: the progress of long work, as a bar or else as lines, and tables and texts."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar


def shows_bar() -> bool:
    """Whether long work shows a progress bar: on a terminal or in a notebook, and only in the main thread.

    While it is shown, the bar redirects the output streams of the whole process, which other threads must not do.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and (sys.stderr.isatty() or _is_notebook())


def _is_notebook() -> bool:
    """Whether this is a Jupyter kernel that can show a bar: rich draws it by ipywidgets."""
    ipython = sys.modules.get("IPython")
    shell = type(ipython.get_ipython()).__name__ if ipython is not None else ""
    return shell == "ZMQInteractiveShell" and importlib.util.find_spec("ipywidgets") is not None


T = TypeVar("T")


def with_bar(items: Iterator[T], doing: str) -> Iterator[T]:
    """The items, with a progress bar if `shows_bar`."""
    if not shows_bar():
        return items
    from rich import progress
    from rich.console import Console

    return iter(progress.track(items, doing, console=Console(stderr=True)))


LINE_SECONDS = 30.0  # between two lines of `CountedWork`


class CountedWork:
    """Shows how much of some work is done, its speed and the time left; a context.

    On a terminal it shows a bar; elsewhere there is a line every 30 seconds.

    Args:
      total: the number of all parts of the work.
      unit: what the parts are, such as `videos`.
      tell: prints or logs a line.
      done: number of parts that were done before.
      doing: the text before the bar.
    """

    def __init__(self, total: int, unit: str, tell: Callable[[str], None], done: int = 0, doing: str = "") -> None:
        self._total, self._unit, self._tell, self._before, self._doing = total, unit, tell, done, doing
        self._began = self._told = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if shows_bar():
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                *([self._doing] if self._doing else []),
                *(progress.BarColumn(), progress.MofNCompleteColumn(), self._unit),
                *(progress.TextColumn("{task.fields[speed]}"), progress.TimeRemainingColumn()),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("", total=self._total, completed=self._before, speed="")
            self._bar.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def has_bar(self) -> bool:
        """Whether it shows a bar."""
        return self._bar is not None

    def show(self, done: int, amount: float, unit: str, detail: str = "") -> None:
        """Moves the bar, or tells a line if one is due.

        Args:
          done: number of parts that are done, with those that were done before.
          amount: what was done in this time, for the speed.
          unit: the unit of `amount`.
          detail: a further text in the line, which ends with a comma and a blank.
        """
        now = time.monotonic()
        speed = f"{amount / max(now - self._began, 1e-3):.1f} {unit}/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, speed=speed)
        elif done > self._before and now > self._told + LINE_SECONDS:
            self._told = now
            seconds_left = (now - self._began) / (done - self._before) * (self._total - done)
            self._tell(f"{done} of {self._total} {self._unit}, {detail}{speed}, {seconds_left / 60:.1f} minutes left")


def counted(
    items: Iterable[T], total: int, unit: str, size: Callable[[T], int] | None = None, done: int = 0
) -> Iterator[T]:
    """The items, with a bar on a terminal, or with a line on stderr every 30 seconds elsewhere.

    Args:
      items: the items.
      total: the number of parts of the whole work.
      unit: what the parts are, such as `shards`.
      size: gives the number of parts in an item; None if each item is one.
      done: number of parts that were done before.
    """
    before = done
    with CountedWork(total, unit, lambda line: print(line, file=sys.stderr), done) as work:
        for item in items:
            yield item
            done += size(item) if size else 1
            work.show(done, done - before, unit)


_WIDTH = 10_000  # characters per line if the output is not a terminal: no line may be cut or wrapped


def show(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Prints a table with aligned columns to the standard output.

    Args:
      headers: headers of the columns; if all are empty, no header is printed.
      rows: the rows, with one text for each column.
      right: headers of the columns to right-align, such as numbers.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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
