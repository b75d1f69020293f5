"""The progress of an extraction: the journal of finished shards, and the line or bar that the user sees.

The journal has a file for each shard, written after the shard, in `OUT/.extract` until all records are in their places.
A start after a kill begins at the first shard without such a file.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from yt8m import storage, terminal
from yt8m.datasets.make_records.output import Noted, Output, RecordsProgress
from yt8m.records.data_format import FeatureFormat

_FOLDER = ".extract"


@dataclass
class Finished(Noted):
    """What a finished shard holds.

    Attributes:
      written: the levels for which the videos were extracted.
      levels: {level: the values of a `WrittenShard`}; empty if no video was good.
      positives: {class: number of videos}.
      frames: number of frames.
      longest: the largest number of frames of a video.
      cut: number of videos that were cut to the limit of frames.
      videos: a line of extract.jsonl for each video that was left out or is unusual.
      bad: {number of a row: why it was left out}.
    """

    inputs: str
    written: list[str]
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    positives: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    longest: int = 0
    cut: int = 0
    videos: list[dict[str, Any]] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)
    newest: int | None = None


class Journal:
    """The finished shards of the folder `out`."""

    def __init__(self, out: str, inputs: str, levels: Sequence[str]) -> None:
        self._out, self._folder = out, storage.join(out, _FOLDER)
        self.inputs, self._levels = inputs, list(levels)
        self.finished: dict[str, Finished] = {}

    def begun(self, newest: int) -> Finished:
        """An empty entry for a shard; `newest` is the newest version of its video files."""
        return Finished(self.inputs, self._levels, newest=newest)

    def find(self, shard: str, newest: int) -> bool:
        """Whether the shard is finished, with these inputs and for these levels.

        It is not if one of its video files was rewritten since; `newest` is their newest version.
        """
        finished = Finished.read(self.path(shard))
        if (
            finished is None
            or not finished.is_of(self.inputs, newest)
            or not set(self._levels) <= set(finished.written)
        ):
            return False
        self.finished[shard] = finished
        return True

    def add(self, shard: str, entry: Finished) -> None:
        """Notes that a shard is finished."""
        storage.write(self.path(shard), json.dumps(dataclasses.asdict(entry)))
        self.finished[shard] = entry

    def sort(self, shards: Sequence[str]) -> None:
        """Puts the entries into the order of `shards`, whatever the order in which they were finished."""
        self.finished = {shard: self.finished[shard] for shard in shards if shard in self.finished}

    @property
    def floats(self) -> str:
        """The folder of the frames as floats, until the ranges of bytes are learned."""
        return storage.join(self._folder, "floats")

    def path(self, shard: str) -> str:
        """The path of a shard's file; every shard has a folder in its name, so `path("done")` belongs to none."""
        return storage.join(self._folder, f"{shard.replace('/', '-')}.json")

    def remove(self) -> None:
        """Removes the files, unless the records of a level are not in their place yet."""
        is_making = any(name.endswith(".making") for name in storage.names_in(self._out))
        if storage.exists(self._folder) and not is_making:
            storage.remove_tree(self._folder)

    def fill(self, output: Output, level: str, features: Sequence[FeatureFormat]) -> None:
        """Sets the progress of `output`, as if it had written the shards of its level."""
        done = RecordsProgress(self.inputs, [list(feature) for feature in features])
        done.newest = max((entry.newest or 0 for entry in self.finished.values()), default=0)
        for shard, entry in self.finished.items():
            split = shard.split("/")[0]
            if level in entry.levels:
                done.shards[shard] = entry.levels[level]
            counts = done.positives.setdefault(split, [])
            for index, count in entry.positives.items():
                counts += [0] * (int(index) + 1 - len(counts))
                counts[int(index)] += count
            done.frames[split] = done.frames.get(split, 0) + entry.frames
            done.longest, done.cut = max(done.longest, entry.longest), done.cut + entry.cut
        output.progress = done

    def bad(self) -> dict[int, str]:
        """{number of a row: why it was left out}."""
        return {int(number): why for entry in self.finished.values() for number, why in entry.bad.items()}

    def lines(self) -> list[Mapping[str, Any]]:
        """The lines of extract.jsonl."""
        return [line for entry in self.finished.values() for line in entry.videos]


class ProgressLine(terminal.CountedWork):
    """Shows the number of videos, the seconds of video per second, and the time left. Use it in a `with` block.

    Args:
      videos: number of videos.
      done: number of videos that an earlier start has extracted.
    """

    def __init__(self, videos: int, done: int) -> None:
        super().__init__(videos, "videos", lambda line: print(line, file=sys.stderr), done, "extracting")
        self._done, self._seconds = done, 0.0

    def advance(self, seconds: float) -> None:
        """Counts a video, of which `seconds` seconds were decoded."""
        self._done, self._seconds = self._done + 1, self._seconds + seconds
        self.show(self._done, self._seconds, "s of video")
