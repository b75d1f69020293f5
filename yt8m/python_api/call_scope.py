"""What every call from Python has in common."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from yt8m import registry
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
