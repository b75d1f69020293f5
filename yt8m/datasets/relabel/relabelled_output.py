"""The folder of records whose labels were corrected: shards, splits and manifests as those that they were made of."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from yt8m import storage
from yt8m.datasets.make_records.classes import Classes
from yt8m.datasets.make_records.output import Output
from yt8m.errors import UsageError
from yt8m.records import manifest
from yt8m.records.data_folders import TEST, TRAIN, VALIDATE
from yt8m.records.manifest import Manifest
from yt8m.records.opened_data import OpenedData


class SplitOfData:
    """The shards of a split."""

    def __init__(self, name: str, data: OpenedData) -> None:
        self._name, self._data = name, data
        self.files = data.files
        counts = Counter(map(self.name_of, self.files))
        if twice := next((name for name, count in counts.items() if count > 1), ""):
            both = [path for path in self.files if self.name_of(path) == twice]
            raise UsageError(f"{both[0]} and {both[1]} would both become {twice}; name one of them as --data.")

    @cached_property
    def manifest(self) -> Manifest:
        """What the manifests of the shards say."""
        return self._data.manifest

    def count_videos(self) -> int:
        """The number of records."""
        return self._data.count_videos()

    def name_of(self, path: str) -> str:
        """The path of a shard in the folder of its level."""
        return f"{self._name}/{os.path.basename(path)}"


def splits_of(data: OpenedData) -> dict[str, SplitOfData]:
    """{name of a split: its shards}: by the manifest of a folder, or the names of the shards, or that of the folder."""
    files: dict[str, list[str]] = {}
    split_of_folder: dict[str, str] = {}
    for path in data.files:
        folder = os.path.dirname(path)
        if folder not in split_of_folder:
            split_of_folder[folder] = data.of_files([path]).manifest.split
        files.setdefault(split_of_folder[folder] or _split_in(path), []).append(path)
    return {name: SplitOfData(name, data.of_files(paths)) for name, paths in files.items()}


def _split_in(path: str) -> str:
    """The split that the name of a shard begins with, or else the name of its folder."""
    name = os.path.basename(path)
    split_name = next((split for split in (TRAIN, VALIDATE, TEST) if name.startswith(split)), "")
    return split_name or os.path.basename(os.path.dirname(storage.absolute(path)))


class RelabelledOutput(Output):
    """Writes the records of a level whose labels were corrected.

    Attributes:
      content: the content of summary.json.
    """

    content: dict[str, Any]

    def __init__(
        self, out: str, level: str, videos: Mapping[str, int], splits: Mapping[str, SplitOfData], making: str
    ) -> None:
        super().__init__(out, level, videos, 1, making)
        self._splits = splits

    def summary(self, classes: Classes, bad: Mapping[int, str]) -> dict[str, Any]:
        """See the base class."""
        return self.content

    def _write_manifest(
        self, split: str, num_classes: int, extractors: Sequence[Mapping[str, Any]], corrections: Mapping[str, Any]
    ) -> None:
        """Writes the manifest of a split: that of the records as they were, with the new shards and counts."""
        earlier = self._splits[split].manifest
        shards = {
            storage.join(self.making, name): shard
            for name, shard in self.progress.shards.items()
            if name.startswith(f"{split}/")
        }
        data = earlier.data
        if data is not None and data.positives is not None:
            data = data._replace(positives=tuple(self._positives(split, num_classes)))
        entry = {**corrections, **({"earlier": dict(earlier.corrections)} if earlier.corrections else {})}
        path = storage.join(self.making, split, manifest.NAME)
        manifest.write(path, shards, data, earlier.extractors, earlier.split or split, entry)
