"""Lines of the text files that challenges exchange, with what is wrong named by line number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from yt8m import storage
from yt8m.errors import RunError

_DIGITS = 18  # so that it fits an int64


class Line(NamedTuple):
    """One line of a file, to be quoted in complaints.

    Attributes:
      path: of the file.
      number: from 1.
      text: without the line end.
    """

    path: str
    number: int
    text: bytes

    def refuse(self, what: str) -> NoReturn:
        """Raises `RunError` with the file, the line number and `what`."""
        raise RunError(f"{self.path}, line {self.number}: {what}")


def read(path: str) -> Iterator[Line]:
    """The lines of a file, one in memory at a time; empty ones are passed over.

    Raises:
      RunError: gzip, CRLF line ends, or a last line that does not end; with the line number.
    """
    with storage.open_read(path) as file:
        for number, text in enumerate(file, 1):
            line = checked(path, number, text)
            if line.text:
                yield line


def checked(path: str, number: int, text: bytes) -> Line:
    """A line as it was read, its end included; raises as `read`."""
    line = Line(path, number, text.rstrip(b"\n"))
    if number == 1 and text.startswith(b"\x1f\x8b"):
        line.refuse("the file is compressed by gzip; unpack it first (gunzip).")
    if line.text.endswith(b"\r"):
        line.refuse("it ends in CRLF; convert the file to plain line ends (dos2unix).")
    if not text.endswith(b"\n"):
        line.refuse("the last line has no end: the file was cut short; write it again.")
    return line


def number(text: bytes) -> int:
    """The whole number, or -1 where `text` is none, or has more digits than any number that is meant."""
    return int(text) if text.isdigit() and len(text) <= _DIGITS else -1


def shown(text: bytes) -> str:
    """The beginning of `text`, as it may be quoted."""
    start = text[:40].decode("utf-8", "backslashreplace")
    return repr(start + ("..." if len(text) > 40 else ""))
