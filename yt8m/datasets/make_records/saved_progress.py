"""Progress in a file, so that the next start of a command can continue."""

from __future__ import annotations

import dataclasses
from typing import Self

from yt8m import storage
from yt8m.errors import RunError


class SavedProgress:
    """Base class of the progress that a command saves in a JSON file, so that the next start can continue."""

    inputs: str

    @classmethod
    def read(cls, path: str) -> Self | None:
        """Reads the progress from a file; None if there is no valid file. Entries of other versions are left out."""
        try:
            names = {each.name for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
            return cls(**{name: value for name, value in storage.read_json(path).items() if name in names})
        except (RunError, ValueError, TypeError, AttributeError):
            return None
