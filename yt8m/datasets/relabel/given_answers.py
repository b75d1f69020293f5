"""The answers of `yt8m relabel --labels`: the classes that people have chosen for videos, in place of their labels."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any, Generic, TypeVar

from yt8m import storage
from yt8m.datasets.make_records.classes import Classes
from yt8m.datasets.make_records.human_labels import ANSWERS, class_lookup, described_file, read_answers, write_answers
from yt8m.errors import UsageError, suggestion
from yt8m.records.shards import id_text
from yt8m.tables.words.class_names import clean_name

_SEPARATOR = ";"  # of labels in the table of answers


_Said = TypeVar("_Said")  # what the file says of a video


class GivenFile(Generic[_Said]):
    """What people have said of videos in the file of --labels.

    Attributes:
      path: empty if there is no file.
      by_video: {id: the answer}.
    """

    def __init__(self, path: str, by_video: Mapping[bytes, _Said]) -> None:
        if path and not by_video:
            raise UsageError(
                f"--labels={path}: no video is answered; name a table with labels, or export tasks that people have "
                "answered, as JSON."
            )
        self.path, self.by_video = path, by_video

    def __len__(self) -> int:
        return len(self.by_video)

    def check_videos(self, seen: Collection[bytes], data: str) -> None:
        """Refuses answers of which none is about a video of the data, `seen`; warns if some are about others."""
        missing = sorted(self.by_video.keys() - set(seen))
        if not missing:
            return
        text = (
            f"{len(missing)} of {len(self)} answers of --labels={self.path} are about videos that {data} does not have"
        )
        text += f", such as {id_text(missing[0])[:60]!r}"
        if len(missing) == len(self):
            raise UsageError(f"{text}; name the records that the tasks were chosen from as --data.")
        print(f"Warning: {text}.", file=sys.stderr)

    def manifest_entry(self) -> Mapping[str, Any]:
        """What a manifest says of the file of answers; empty if there is none."""
        if not self.path:
            return {}
        return {"answers": described_file(self.path)}


class NumberedLabels:
    """The classes of the labels in the file of --labels."""

    def __init__(self, path: str, classes: Classes) -> None:
        self._path, self._classes, self._class_of = path, classes, class_lookup(classes)

    def class_of(self, name: str, video: str) -> int:
        """The class of a label of a video; refuses one that the records do not have."""
        if (number := self._class_of(name)) >= 0:
            return number
        names = self._classes.vocabulary.names if self._classes.vocabulary else self._classes.number
        raise UsageError(
            f"--labels={self._path}: {name[:60]!r}, an answer on {video[:60]!r}, is not one of the "
            f"{self._classes.size} classes{suggestion(name, names)}; relabel adds no class to records."
        )


class GivenAnswers(GivenFile[tuple[int, ...]]):
    """The answers in a table or an export of Label Studio. If the path is empty, there are none.

    Args:
      classes: those of the records, which the answers cannot add to.
    """

    def __init__(self, path: str, classes: Classes) -> None:
        listed = classes.vocabulary.names if classes.vocabulary else ()
        self._answers = read_answers(path, frozenset(map(clean_name, listed))) if path else {}
        numbers, by_video = NumberedLabels(path, classes), dict[bytes, tuple[int, ...]]()
        for video, answer in self._answers.items():
            name = _as_bytes(video)
            by_video[name] = tuple(
                sorted({numbers.class_of(clean_name(each), id_text(name)) for each in answer.labels})
            )
        super().__init__(path, by_video)

    def write(self, out: str) -> None:
        """Writes the joint answers into the folder of the data set, as make-records does."""
        if self._answers:
            write_answers(storage.join(out, ANSWERS), self._answers, _SEPARATOR)


def _as_bytes(video: str) -> bytes:
    return video.encode("utf-8", "surrogateescape")
