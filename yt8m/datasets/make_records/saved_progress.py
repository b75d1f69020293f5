"""Progress in a file, so that the next start of a command can continue."""

from __future__ import annotations

from typing import Self

from yt8m import storage
from yt8m.errors import RunError


class SavedProgress:
    """Progress that a command saves in a JSON file, so that the next start can continue. A base class of dataclasses.

    Attributes:
      inputs: hash of all inputs that determine the records.
    """

    inputs: str

    @classmethod
    def read(cls, path: str) -> Self | None:
        """Reads the progress from a file; None if there is no valid file."""
        try:
            return cls(**storage.read_json(path))
        except (RunError, ValueError, TypeError):
            return None
