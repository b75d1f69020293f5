"""What every call from Python has in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from yt8m import registry
from yt8m.errors import UsageError


@contextlib.contextmanager
def call_scope(remedy: str = "give trust_code=True") -> Iterator[None]:
    """The context of a call from Python. What is trusted inside is not trusted after it.

    Args:
      remedy: replaces the advice to add the flag --trust_code in error messages.
    """
    try:
        with registry.local_trust():
            yield
    except UsageError as error:
        raise UsageError(str(error).replace("add --trust_code", remedy)) from error
