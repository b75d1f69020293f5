"""How a download gets on: a bar on a terminal, a line a file elsewhere."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from rich import progress as bars
from rich.console import Console


class Progress:
    """Shows bytes, speed and time left; on stderr.

    Args:
      total_bytes: of all files, as far as they are known.
      files: how many there are.
    """

    def __init__(self, total_bytes: int, files: int) -> None:
        self._files, self._done, self._lock = files, 0, threading.Lock()
        self._bar = _bar() if sys.stderr.isatty() and files else None
        if self._bar:
            self._task = self._bar.add_task(f"0 of {files} files", total=total_bytes or None)

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """`count` more bytes, or fewer where it is negative."""
        if self._bar:
            self._bar.advance(self._task, count)

    def finished(self, name: str) -> None:
        """One file is there."""
        with self._lock:
            self._done += 1
            text = f"{self._done} of {self._files} files"
            if self._bar:
                self._bar.update(self._task, description=text)
            else:
                print(f"{name} ({text})", file=sys.stderr, flush=True)


def _bar() -> bars.Progress:
    return bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(binary_units=False),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def shown_bytes(count: int | None) -> str:
    """A size for people: `402.1 MB`."""
    if count is None:
        return "size not known"
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
