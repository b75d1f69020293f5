"""What every call from Python has in common."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from yt8m import registry, storage
from yt8m.errors import UsageError
from yt8m.storage import pipes

_guard = threading.Lock()  # guards `_open_scopes`
_open_scopes = 0  # calls of all threads, and calls within them


@contextlib.contextmanager
def call_scope(remedy: str = "give trust_code=True") -> Iterator[None]:
    """The context of a call from Python. What is trusted inside is not trusted after it, and pipes are read anew.

    Args:
      remedy: replaces the advice to add the flag --trust_code in error messages.
    """
    try:
        with registry.local_trust(), _pipes_for_a_call():
            yield
    except UsageError as error:
        raise UsageError(str(error).replace("add --trust_code", remedy)) from error


def local_path(path: Any) -> str:
    """One path as a text, with the home folder in place of `~`."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected one path; found a {type(path).__name__}, {str(path)[:60]!r}.")
    return storage.expanded(os.fspath(path))


def name_list(argument: str, names: str | Sequence[str] | None) -> list[str]:
    """The names in an argument, which may be one name alone, or several with commas between them."""
    listed = names.split(",") if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise UsageError(f"{argument} is {names!r}: expected a name, or a list of names.")
    return [name.strip() for name in listed]


@contextlib.contextmanager
def _pipes_for_a_call() -> Iterator[None]:
    """Keeps what pipes gave until no call is left that may read it again."""
    global _open_scopes
    with _guard:
        _open_scopes += 1
    try:
        yield
    finally:
        with _guard:
            _open_scopes -= 1
            if not _open_scopes:
                pipes.forget()
