"""The names of flags as the user typed them: an error about `--data` does not speak of `--train_data_pattern`."""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Iterator

from yt8m.errors import reworded

_typed = contextvars.ContextVar[dict[str, str] | None]("typed", default=None)

COMMAND = r"`[^`]*`|\byt8m [a-z-]+(?: [^\s(),;]+)*"  # in a message, in backquotes or not; it has flags of its own
_FLAG = re.compile(rf"{COMMAND}|(?<![\w-])--(\w+)")


@contextlib.contextmanager
def noting() -> Iterator[None]:
    """Inside the block, `note` remembers names for `in_typed_names`."""
    token = _typed.set({})
    try:
        yield
    finally:
        _typed.reset(token)


def note(name: str, typed: str) -> None:
    """Notes the name that the user typed for the flag `name`; of two that differ, neither stands for the other."""
    names = _typed.get()
    if names is not None:
        names[name] = typed if names.get(name, typed) == typed else name


def in_typed_names(message: str) -> str:
    """The message with the names of flags as they were typed."""
    names = _typed.get() or {}
    return _FLAG.sub(lambda match: f"--{names[match[1]]}" if match[1] in names else match[0], message)


@contextlib.contextmanager
def said_as_typed() -> Iterator[None]:
    """Inside the block, names are noted, and what is refused is said with them."""
    with noting(), reworded(in_typed_names):
        yield
