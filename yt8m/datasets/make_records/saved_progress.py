"""Progress in a file, so that the next start of a command can continue."""

from __future__ import annotations

from typing import Self

from yt8m import storage
from yt8m.errors import RunError


class SavedProgress:
    """Base class of the progress that a command saves in a JSON file, so that the next start can continue."""

    inputs: str

    @classmethod
    def read(cls, path: str) -> Self | None:
        """Reads the progress from a file; None if there is no valid file."""
        try:
            return cls(**storage.read_json(path))
        except (RunError, ValueError, TypeError):
            return None
