"""Ranked entries kept in chunks, as they come."""

from __future__ import annotations

import numpy as np

from yt8m.eval_util.arrays import Keys

_PARTS_IN_A_CHUNK = 256


class Entries:
    """An append-only bag of packed entries (`sort_keys`), 8 bytes each, however small the parts."""

    def __init__(self) -> None:
        self._chunks: list[Keys] = []
        self._recent: list[Keys] = []

    def append(self, keys: Keys) -> None:
        """Adds `keys`, which must not be written to afterwards."""
        self._recent.append(keys)
        if len(self._recent) >= _PARTS_IN_A_CHUNK:
            self._chunks.append(np.concatenate(self._recent))
            self._recent = []

    def extend(self, other: Entries) -> None:
        """Adds all that `other` holds now; it is shared, not copied."""
        self._chunks += other._chunks
        self._recent += other._recent

    def all(self) -> Keys:
        """Everything, in no particular order."""
        return np.concatenate([np.zeros(0, np.uint64), *self._chunks, *self._recent])
