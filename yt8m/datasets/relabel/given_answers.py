"""The answers of `yt8m relabel --labels`: the classes that people have chosen for videos, in place of their labels."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

from yt8m import storage
from yt8m.datasets.make_records.classes import Classes
from yt8m.datasets.make_records.human_labels import ANSWERS, class_lookup, described_file, read_answers, write_answers
from yt8m.errors import UsageError, suggestion
from yt8m.records.shards import id_text
from yt8m.tables.words.class_names import clean_name

_SEPARATOR = ";"  # of labels in the table of answers


class GivenAnswers:
    """The answers in a table or an export of Label Studio. If the path is empty, there are none.

    Args:
      classes: those of the records, which the answers cannot add to.
    """

    def __init__(self, path: str, classes: Classes) -> None:
        self._path = path
        listed = classes.vocabulary.names if classes.vocabulary else ()
        self._answers = read_answers(path, frozenset(map(clean_name, listed))) if path else {}
        if path and not self._answers:
            raise UsageError(
                f"--labels={path}: no video is answered; name a table with labels, or export tasks that people have "
                "answered, as JSON."
            )
        self._classes: dict[bytes, tuple[int, ...]] = {}
        class_of = class_lookup(classes)
        for video, answer in self._answers.items():
            names = list(map(clean_name, answer.labels))
            if unknown := next((name for name in names if class_of(name) < 0), None):
                self._refuse(unknown, video, classes)
            self._classes[_as_bytes(video)] = tuple(sorted(set(map(class_of, names))))

    def _refuse(self, name: str, video: str, classes: Classes) -> None:
        names = classes.vocabulary.names if classes.vocabulary else classes.number
        raise UsageError(
            f"--labels={self._path}: {name[:60]!r}, an answer on {id_text(_as_bytes(video))[:60]!r}, is not one of the "
            f"{classes.size} classes{suggestion(name, names)}; relabel adds no class to records."
        )

    def __len__(self) -> int:
        return len(self._answers)

    def classes_of(self, video: bytes) -> tuple[int, ...] | None:
        """The classes that people have chosen for a video; None if nobody has answered."""
        return self._classes.get(video)

    def refuse_spans(self) -> None:
        """Refuses answers for records whose labels have times."""
        if self._path:
            raise UsageError(
                f"--labels={self._path} has labels of whole videos, but people have marked spans in the records: make "
                "records of tasks with <TimelineLabels> by yt8m make-records --rows=spans, or correct spans by "
                "--corrections."
            )

    def check_videos(self, seen: Collection[bytes], data: str) -> None:
        """Refuses answers of which none is about a video of the data, `seen`; warns if some are about others."""
        missing = sorted(self._classes.keys() - set(seen))
        if not missing:
            return
        text = (
            f"{len(missing)} of {len(self)} answers of --labels={self._path} are about videos that {data} does not have"
        )
        text += f", such as {id_text(missing[0])[:60]!r}"
        if len(missing) == len(self):
            raise UsageError(f"{text}; name the records that the tasks were chosen from as --data.")
        print(f"Warning: {text}.", file=sys.stderr)

    def write(self, out: str) -> None:
        """Writes the joint answers into the folder of the data set, as make-records does."""
        if self._answers:
            write_answers(storage.join(out, ANSWERS), self._answers, _SEPARATOR)

    def manifest_entry(self) -> Mapping[str, Any]:
        """What a manifest says of the file of answers; empty if there is none."""
        if not self._path:
            return {}
        return {"answers": described_file(self._path)}


def _as_bytes(video: str) -> bytes:
    return video.encode("utf-8", "surrogateescape")
