"""Prints the progress of long work (as a bar, or as lines of text if there is no terminal), tables, texts and JSON."""

from __future__ import annotations

import contextlib
import contextvars
import importlib.util
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self, TextIO, TypeVar

_is_quiet = contextvars.ContextVar("is_quiet", default=False)  # whether a block of `without_bars` hides bars


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """Shows no progress bars inside the block, in this thread."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


def shows_bar() -> bool:
    """Whether long work shows a progress bar: on a terminal or in a notebook, and only in the main thread.

    A bar redirects the output streams of the whole process while it is shown, which other threads must not do.
    """
    if _is_quiet.get():
        return False
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and (is_terminal(sys.stderr) or _is_notebook())


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False if it is None or closed, as in a service without output."""
    try:
        return bool(stream.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def _is_notebook() -> bool:
    """Whether this is a Jupyter kernel that can show a bar, which needs ipywidgets."""
    ipython = sys.modules.get("IPython")
    shell = type(ipython.get_ipython()).__name__ if ipython is not None else ""
    return shell == "ZMQInteractiveShell" and importlib.util.find_spec("ipywidgets") is not None


T = TypeVar("T")


def with_bar(items: Iterator[T], description: str) -> Iterator[T]:
    """Yields the items, with a progress bar if `shows_bar`; the text before the bar is `description`."""
    if not shows_bar():
        return items
    from rich import progress
    from rich.console import Console

    return iter(progress.track(items, description, console=Console(stderr=True)))


LINE_SECONDS = 30.0  # least time between two lines of `CountedWork`


class CountedWork:
    """Shows how much of some work is done, its speed and the time left. Use it in a `with` block.

    It shows a bar if `shows_bar`, or else a line every 30 seconds.

    Args:
      unit: what the parts are, such as `videos`.
    """

    def __init__(
        self, total: int, unit: str, print_line: Callable[[str], None], done: int = 0, description: str = ""
    ) -> None:
        self._total, self._unit, self._print_line = total, unit, print_line
        self._done_before, self._description = done, description
        self._start = self._last_line = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if shows_bar():
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                *([self._description] if self._description else []),
                *(progress.BarColumn(), progress.MofNCompleteColumn(), self._unit),
                *(progress.TextColumn("{task.fields[speed]}"), progress.TimeRemainingColumn()),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("", total=self._total, completed=self._done_before, speed="")
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
        """Moves the bar, or prints a line if the last one is old enough."""
        now = time.monotonic()
        speed = f"{amount / max(now - self._start, 1e-3):.1f} {unit}/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, speed=speed)
        elif done > self._done_before and now > self._last_line + LINE_SECONDS:
            self._last_line = now
            seconds_left = (now - self._start) / (done - self._done_before) * (self._total - done)
            line = f"{done} of {self._total} {self._unit}, {detail}{speed}, {seconds_left / 60:.1f} minutes left"
            self._print_line(line)


def with_progress(
    items: Iterable[T], total: int, unit: str, size: Callable[[T], int] | None = None, done: int = 0
) -> Iterator[T]:
    """Yields the items, and shows the progress: a bar if `shows_bar`, or else a line on stderr every 30 seconds.

    Args:
      unit: what the parts are, such as `shards`.
      size: returns the number of parts of an item; None if each item is one part.
    """
    done_before = done
    with CountedWork(total, unit, lambda line: print(line, file=sys.stderr), done) as work:
        for item in items:
            yield item
            done += size(item) if size else 1
            work.show(done, done - done_before, unit)


_WIDTH = 10_000  # characters per line if the output is not a terminal, so that no line is cut or wrapped


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Prints a table with aligned columns to the standard output.

    Args:
      headers: headers of the columns; if all are empty, no line of headers is printed.
      right: headers of the columns that are aligned to the right, such as numbers.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=any(headers), header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(file=sys.stdout, width=None if is_terminal(sys.stdout) else _WIDTH, highlight=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


JSON_HELP = "print the figures as JSON; what is for people goes to the error stream"
_json_stream = contextvars.ContextVar[TextIO | None]("json_stream", default=None)  # where `print_json` writes


@contextlib.contextmanager
def json_output(is_on: bool) -> Iterator[None]:
    """Inside the block `print_json` alone writes to the standard output; with `is_on` False nothing changes."""
    if not is_on:
        yield
        return
    token = _json_stream.set(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _json_stream.reset(token)


def print_json(values: Any) -> None:
    """Prints figures as JSON, with null for those that are no finite numbers; nothing outside of `json_output`."""
    stream = _json_stream.get()
    if stream is not None:
        print(json.dumps(_plain(values), indent=2, ensure_ascii=False, allow_nan=False), file=stream, flush=True)


def _plain(value: Any) -> Any:
    """The value in types that JSON has."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value  # of NumPy
    return None if isinstance(value, float) and not math.isfinite(value) else value


def printable(text: str) -> str:
    """The text with unprintable characters escaped (`\\x1b`), so that somebody's file cannot control the terminal."""
    if text.isprintable():  # as an id is, which may have megabytes
        return text
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
