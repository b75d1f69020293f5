"""Files of spans: a table, tasks of Label Studio's TimelineLabels, or JSON as ActivityNet's evaluation reads it.

Spans are what a model has found, with scores, or what people have marked. `make-records` reads again what people have
marked, and the table of what a model has found; pre-annotations become annotations when people submit them.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import storage
from yt8m.errors import UsageError, quantity
from yt8m.records.vocabulary import Vocabulary
from yt8m.tables.words.class_names import NO_CLASS

CSV, LABEL_STUDIO, ACTIVITYNET = FORMS = ("csv", "label-studio", "activitynet")
_SPLITS = {"training": "train", "validation": "validate", "testing": "test"}  # by the names that ActivityNet gives them
_AS_LIST = re.compile(r"^\s*[\[({]|[;|\n\t]|\s-?\d+(\.\d+)?\s*$")  # in names that a table would not give back
_SUBSETS = {split: subset for subset, split in _SPLITS.items()}


class FoundSpan(NamedTuple):
    """A span of a class in a video; `start` and `end` are seconds. People's spans have the score 1."""

    start: float
    end: float
    number: int
    score: float = 1.0


class Seen(NamedTuple):
    """Where people have rated every class in a video; times are seconds.

    Attributes:
      is_whole: whether they did in all of it.
      parts: the times at which they did.
      empty: those of these at which the video shows no class.
    """

    is_whole: bool
    parts: Sequence[tuple[float, float]]
    empty: Sequence[tuple[float, float]]


class VideoSpans(NamedTuple):
    """The spans of a video of some seconds.

    Attributes:
      split: the split of the records that have the video, such as `train`; empty if nothing says it.
      seen: where people have looked for spans; None for spans of a model.
      per_second: frames per second of the features, by which the times of spans of a model were counted; else 0.
      denied: when people say that a class is absent, where they have not rated every class.
    """

    video: str
    seconds: float
    spans: Sequence[FoundSpan]
    split: str = ""
    seen: Seen | None = None
    per_second: float = 0.0
    denied: Sequence[FoundSpan] = ()

    @property
    def is_partly_seen(self) -> bool:
        """Whether people have looked for spans in some of the video alone."""
        return self.seen is not None and not self.seen.is_whole


class EvaluatedFilm(NamedTuple):
    """The spans of a video.

    Attributes:
      truth: the true spans; their scores are the mean scores of their cells.
    """

    video: str
    seconds: float
    truth: Sequence[FoundSpan]
    predicted: Sequence[FoundSpan]


class SpanFile(NamedTuple):
    """A file of spans that is to be written.

    Attributes:
      form: one of `FORMS`.
      frame_rate: for Label Studio, the frameRate of the Video tag.
      are_labels: whether people have marked the spans: then they are annotations, without scores.
    """

    path: str
    form: str
    frame_rate: float
    are_labels: bool = False

    def check(self) -> None:
        """Refuses a table whose name is that of another kind of file."""
        if self.form == CSV and not self.path.lower().endswith(".csv"):
            raise UsageError(f"--spans={self.path}: expected a name that ends in .csv, or --spans_format.")

    def write(self, videos: Sequence[VideoSpans], names: Vocabulary) -> None:
        """Writes the file, whole or not at all, and says how many spans it has."""
        text = {CSV: self._table, LABEL_STUDIO: self._tasks, ACTIVITYNET: self._activitynet}[self.form](videos, names)
        storage.write(self.path, text)
        for remark in filter(None, (self._remark(videos), self._remark_on_denials(videos))):
            print(remark, file=sys.stderr)
        spans = quantity(sum(len(video.spans) for video in videos), "span")
        print(f"{self.path} has {spans} of {quantity(len(videos), 'video')}")

    def _remark(self, videos: Sequence[VideoSpans]) -> str:
        """How to read the file so that what nobody has looked at stays unknown; empty if all was looked at."""
        partly = [video for video in videos if video.is_partly_seen]
        if self.form == LABEL_STUDIO:
            partly = [video for video in partly if video.seen and not video.seen.parts]  # other tasks say their parts
        if not partly:
            return ""
        lost = {
            CSV: "(none) marks what they have seen without a class",
            LABEL_STUDIO: "nothing is known of these, and the flag leaves unknown what others show outside their spans",
            ACTIVITYNET: "this format cannot say what they have seen without a class, but --spans_format=csv can",
        }[self.form]
        return (
            f"{self.path}: people have not looked at all of {quantity(len(partly), 'video')}, so read the file by "
            f"make-records --annotated=spans; {lost}"
        )

    def _remark_on_denials(self, videos: Sequence[VideoSpans]) -> str:
        """What the format cannot say of classes that are rated as absent; empty if it can, or none is."""
        count = sum(len(video.denied) for video in videos)
        if not count or self.form == CSV:
            return ""
        return (
            f"{self.path} lacks {quantity(count, 'span')} that do not show a class, as people say of this class "
            "alone: this format cannot say it, but --spans_format=csv can"
        )

    def _table(self, videos: Sequence[VideoSpans], names: Vocabulary) -> str:
        return table_text(videos, names, self.are_labels)

    def _tasks(self, videos: Sequence[VideoSpans], names: Vocabulary) -> str:
        """Tasks with annotations, or pre-annotations, of TimelineLabels."""
        tasks = []
        for video in videos:
            results = [self._timeline_label(number, span, names) for number, span in enumerate(video.spans)]
            split = {"split": video.split} if video.split else {}
            task: dict[str, Any] = {"data": {"video": video.video, **split, **_parts(video)}}
            if self.are_labels:
                task["annotations"] = [{"completed_by": 1, "result": results}]
            else:
                score = float(np.mean([span.score for span in video.spans])) if video.spans else 0.0
                task["predictions"] = [{"score": round(score, 6), "result": results}]
            tasks.append(task)
        return json.dumps(tasks, indent=1, ensure_ascii=False) + "\n"

    def _timeline_label(self, number: int, span: FoundSpan, names: Vocabulary) -> dict[str, Any]:
        """One result of a task; its frames count from 1, and the last one belongs to the span."""
        first, last = round(span.start * self.frame_rate) + 1, math.ceil(span.end * self.frame_rate - 1e-6)
        value = {"ranges": [{"start": first, "end": last}], "timelinelabels": [names.name(span.number)]}
        score = {} if self.are_labels else {"score": round(span.score, 6)}
        result = {"id": f"span{number}", "from_name": "timeline", "to_name": "video", "type": "timelinelabels"}
        return {**result, **score, "value": value}

    def _activitynet(self, videos: Sequence[VideoSpans], names: Vocabulary) -> str:
        """The results, or the ground truth, that ActivityNet's evaluation reads."""
        content: dict[str, Any] = {"version": "VERSION 1.3"}
        if self.are_labels:
            content["database"] = {
                video.video: {
                    "subset": _SUBSETS.get(video.split, video.split),
                    "duration": round(video.seconds, 3),
                    "annotations": [self._segment(span, names) for span in video.spans],
                }
                for video in videos
            }
        else:
            results = {
                video.video: [{**self._segment(span, names), "score": round(span.score, 6)} for span in video.spans]
                for video in videos
            }
            content |= {"results": results, "external_data": {}}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @staticmethod
    def _segment(span: FoundSpan, names: Vocabulary) -> dict[str, Any]:
        return {"label": names.name(span.number), "segment": [round(span.start, 3), round(span.end, 3)]}


def _parts(video: VideoSpans) -> dict[str, str]:
    """The data of a task that say which parts people have looked at; empty if they have seen all, or nothing."""
    if not (video.is_partly_seen and video.seen and video.seen.parts):
        return {}
    return {"parts": ", ".join(f"{start:.3f}-{end:.3f}" for start, end in video.seen.parts)}


def _as_list(name: str) -> str:
    """A cell of a list of one name, which no program takes for several names, or a number behind it for a score."""
    return json.dumps([name], ensure_ascii=False)


def _looks_like_several(name: str) -> bool:
    """Whether a name that stands in a cell alone would be read as a list, or as a name with a number."""
    return _AS_LIST.search(name) is not None


def table_text(videos: Sequence[VideoSpans], names: Vocabulary, are_labels: bool = False) -> str:
    """The text of a table with a row for each span.

    A video without a span has a row of its own, as make-records reads it. Spans that people have marked get no score,
    but the split of their video if one is known. If people have not looked at all of some video, the parts in which
    they saw no class have rows, too. If they have said of a class alone that a span does not show it, the column
    `present` has -1 for such spans, and else 1. Ids and names are as they are, also those that a spreadsheet takes for
    formulas: programs join them with other tables.
    """
    text, has_splits = io.StringIO(), any(video.split for video in videos)
    writer = csv.writer(text, lineterminator="\n")
    has_denied, has_empty = any(video.denied for video in videos), any(video.is_partly_seen for video in videos)
    last_columns = ("present",) * has_denied + (("split",) * has_splits if are_labels else ("score",))
    writer.writerow(("video", "start", "end", "class", *last_columns))
    numbers = {span.number for video in videos for span in (*video.spans, *video.denied)}
    write_name = _as_list if any(_looks_like_several(names.name(number)) for number in numbers) else str
    for video in videos:
        of_video = (video.split,) * has_splits
        present, absent = ((sign,) * has_denied for sign in (1, -1))
        rows: list[tuple[str, ...] | tuple[str | int, ...]] = []
        for span in video.spans:
            score = of_video if are_labels else (f"{span.score:.6f}",)
            rows.append((*_times(span.start, span.end), write_name(names.name(span.number)), *present, *score))
        empty = video.seen.empty if has_empty and video.seen else ()
        rows += [(*_times(start, end), NO_CLASS, *present, *of_video) for start, end in empty]
        for span in video.denied:
            rows.append((*_times(span.start, span.end), write_name(names.name(span.number)), *absent, *of_video))
        rows = rows or [("", "", "", *present, *(of_video if are_labels else ("",)))]
        writer.writerows((video.video, *row) for row in rows)
    return text.getvalue()


def _times(start: float, end: float) -> tuple[str, str]:
    """The cells of a start and an end."""
    return f"{start:.3f}", f"{end:.3f}"
