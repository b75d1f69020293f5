"""groups.npz beside the splits of a level: which videos belong together, such as those of one author (--group_by).

Whoever divides the videos once more, as the choice of a model does, keeps each group whole by it. The file has two
arrays, both uint64 [N]: `videos`, hashes of the ids, ascending; and `groups`, hashes of the groups of these videos.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, refusing
from yt8m.records import shards

NAME = "groups.npz"


def digests(texts: Sequence[bytes]) -> NDArray[np.void]:
    """A digest of 16 bytes for each text; only equal texts have equal digests."""
    blake2b = hashlib.blake2b
    return np.frombuffer(b"".join([blake2b(text, digest_size=16).digest() for text in texts]), "V16")


def hashes(digests_of_texts: NDArray[np.void]) -> NDArray[np.uint64]:
    """The first eight bytes of each digest, as a number: uint64 [n]."""
    return digests_of_texts.view(">u8")[::2].astype(np.uint64)


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of some videos: two arrays as in the file."""

    videos: NDArray[np.uint64]
    groups: NDArray[np.uint64]

    @classmethod
    def from_digests(cls, videos: NDArray[np.void], groups: NDArray[np.void]) -> Groups:
        """The groups of videos, both as digests, in any order."""
        keys = hashes(videos)
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], hashes(groups)[order])

    def joined(self, other: Groups) -> Groups:
        """The groups of the videos of both."""
        videos = np.concatenate([self.videos, other.videos])
        order = np.argsort(videos, kind="stable")
        return Groups(videos[order], np.concatenate([self.groups, other.groups])[order])

    def of_ids(self, ids: Sequence[str]) -> NDArray[np.uint64]:
        """uint64 [ids], the group of each video; a video without one is a group of its own."""
        keys = hashes(digests([shards.id_bytes(video.encode()) for video in ids]))
        if not len(self.videos):
            return keys
        places = np.minimum(np.searchsorted(self.videos, keys), len(self.videos) - 1)
        return np.where(self.videos[places] == keys, self.groups[places], keys)

    def write(self, path: str) -> None:
        """Writes the file."""
        with storage.write_atomic(path) as file:
            np.savez(file, videos=self.videos, groups=self.groups)


NONE = Groups(np.zeros(0, np.uint64), np.zeros(0, np.uint64))


def find(files: Sequence[str]) -> Groups:
    """Reads the groups of the videos in some shards, from the folders above those of the shards; `NONE` without any."""
    groups = NONE
    for folder in folders(files):
        path = storage.join(folder, NAME)
        if storage.exists(path):
            groups = groups.joined(_read(path))
    return groups


def folders(files: Sequence[str]) -> list[str]:
    """The folders in which the groups of the videos in some shards may lie."""
    return sorted({os.path.dirname(os.path.dirname(storage.absolute(path))) for path in files})


def _read(path: str) -> Groups:
    def refusal(error: Exception) -> RunError:
        return RunError(
            f"{path} does not say which videos belong together ({type(error).__name__}: {error}). Make the records "
            "again with --overwrite, or move it away: then each video is a group of its own."
        )

    with refusing(refusal), storage.open_read(path) as file, np.load(file) as arrays:
        groups = Groups(arrays["videos"].astype(np.uint64), arrays["groups"].astype(np.uint64))
        if groups.videos.shape != groups.groups.shape or groups.videos.ndim != 1:
            raise ValueError(f"the arrays have the shapes {groups.videos.shape} and {groups.groups.shape}")
        return groups
