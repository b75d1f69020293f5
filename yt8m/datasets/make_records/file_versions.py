"""Whether the inputs of records have changed since the records were made: flags, tables, and the files of videos."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from yt8m.storage.base import Stamp


class FileVersions(NamedTuple):
    """What is saved of the files of all videos, to notice a change.

    Attributes:
      newest: the largest version (see `Stamp`) of the files; 0 for none.
      content: a hash of parts of the content of these and of other files; empty if an earlier version saved this.
    """

    newest: int
    existing: int
    digest: str
    content: str = ""

    @classmethod
    def from_stamps(cls, stamps: Mapping[str, Stamp], samples: Mapping[str, int]) -> FileVersions:
        """The versions of the files with these stamps, {path: stamp}."""
        digest = hashlib.sha256()
        for path, stamp in sorted(stamps.items()):
            digest.update(f"{path!r} {stamp.bytes} {stamp.version}\n".encode())
        newest = max((stamp.version for stamp in stamps.values()), default=0)
        content = hashlib.sha256(repr(sorted(samples.items())).encode()).hexdigest()
        return cls(newest, len(stamps), digest.hexdigest(), content)

    def has_changed_since(self, earlier: FileVersions) -> bool:
        """Whether a file was added, rewritten or replaced; files may be removed after records were made of them.

        If there are fewer files than before, the digest is another one, so only newer files are noticed.
        """
        if self.existing < earlier.existing:
            return self.newest > earlier.newest
        return self[:3] != earlier[:3] or earlier.content not in ("", self.content)


def hash_inputs(*inputs: Any) -> str:
    """The sha256 of all inputs that determine the records, except the files of videos, as hexadecimal text."""
    return hashlib.sha256(json.dumps(inputs, default=str).encode()).hexdigest()
