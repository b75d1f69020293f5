"""Spans in Label Studio's JSON exports: TimelineLabels, Labels of video and sound, and boxes of videos over time.

A range of TimelineLabels counts frames from 1, and its last frame belongs to it. Labels of sound and video have
seconds. A box is seen from each keyframe that is enabled to the next one that is not, or else to the end of the video.
If several people annotated a video, a class is shown at the times that more than half of them have marked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yt8m.errors import RunError, UsageError, refusing
from yt8m.tables.facts import Facts
from yt8m.tables.label_studio import is_skipped, latest_by_person, names_of, results_of
from yt8m.tables.sources import MemorySource, Source
from yt8m.tables.times import shared_by_most

TIMELINE, SOUND, BOXES = "timelinelabels", "labels", "videorectangle"
_HINTS = {name: name for name in ("id", "labels", "start", "end")}
_Spans = dict[str, list[tuple[float, float]]]  # {class: its spans}


def have_times(tasks: Sequence[Mapping[str, Any]], control: str) -> tuple[bool, bool]:
    """(whether a result of a control is a span, whether all of them are)."""
    are_timed = [
        _is_timed(result)
        for task in tasks
        for annotation in task.get("annotations") or ()
        if not is_skipped(annotation)
        for result in results_of(annotation)
        if result.get("from_name") == control
    ]
    return any(are_timed), bool(are_timed) and all(are_timed)


def _is_timed(result: Mapping[str, Any]) -> bool:
    value = result.get("value")
    if not isinstance(value, dict):
        return False
    if result.get("type") == SOUND:
        return "start" in value and "end" in value and "text" not in value
    return (result.get("type") == TIMELINE and ("ranges" in value or ("start" in value and "end" in value))) or (
        result.get("type") == BOXES and "sequence" in value
    )


def rows_of_spans(
    path: str,
    tasks: Mapping[int, Mapping[str, Any]],
    ids: Sequence[str],
    splits: Sequence[str],
    control: str,
    remark: str,
    frame_rate: float,
) -> MemorySource:
    """A row for each span of each task; a task whose answer has no span has a row without times.

    Args:
      tasks: {number in the file: task}.
      ids: the name of the video of each task.
      splits: the split of each task; empty if nothing says it.
      remark: what the description of the table adds.
    """
    hints = _HINTS | ({"split": "split"} if splits else {})
    cells: dict[str, list[Any]] = {name: [] for name in hints}
    for (number, task), name, *split in zip(tasks.items(), ids, *([splits] if splits else []), strict=True):
        with refusing(functools.partial(_refusal, f"{path}, task {number}")):
            people = [*_spans_of_people(f"{path}, task {number}", task["annotations"], control, frame_rate)]
            rows: list[tuple[Any, ...]] = [*_joint_rows(people)] or [((), None, None)]
        for labels, start, end in rows:
            for column, value in zip(hints, (name, list(labels), start, end, *split), strict=True):
                cells[column].append(value)
    source = MemorySource(path, cells, f'Label Studio\'s JSON, spans of the control "{control}"{remark}', hints)
    source.has_seconds = True
    return source


def _spans_of_people(where: str, annotations: Sequence[Any], control: str, frame_rate: float) -> Iterator[_Spans]:
    try:
        for annotation in latest_by_person(annotations):
            yield _spans_of(annotation, control, frame_rate)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _refusal(where: str, error: Exception) -> RunError:
    return RunError(f"{where}: the span cannot be read: {error!r}.")


def _joint_rows(people: Sequence[_Spans]) -> Iterator[tuple[tuple[str, ...], float, float]]:
    """Yields (classes, start, end) of each span; those of several people are joined."""
    names = dict.fromkeys(name for spans in people for name in spans)
    for name in names:
        marked = [spans.get(name, []) for spans in people]
        for start, end in shared_by_most(marked) if len(people) > 1 else marked[0]:
            yield (name,), start, end
        # Those that are no time are in no majority; as rows of their own they are counted, or refused, as in a table.
        for start, end in (span for spans in marked for span in spans if len(people) > 1 and span[1] <= span[0]):
            yield (name,), start, end


def _spans_of(annotation: Mapping[str, Any], control: str, frame_rate: float) -> _Spans:
    """The spans in the answer of one person."""
    spans: _Spans = {}
    for result in results_of(annotation):
        if result.get("from_name") != control:
            continue
        if not _is_timed(result):
            raise UsageError(
                f'a result of "{control}" has no times ({str(result.get("value"))[:80]}), so it is no span; add its '
                "times, or remove it from the export."
            )
        for name in names_of(result):
            spans.setdefault(name.strip(), []).extend(_times_of(result["type"], result["value"], frame_rate))
    return spans


def _times_of(kind: str, value: Mapping[str, Any], frame_rate: float) -> Iterator[tuple[float, float]]:
    """Yields (start, end) in seconds of each span of a result."""
    if kind == SOUND or (kind == TIMELINE and "ranges" not in value):
        yield float(value["start"]), float(value["end"])
    elif kind == TIMELINE:
        rate = _rate(value, frame_rate)
        for part in value["ranges"]:
            yield (float(part["start"]) - 1) / rate, float(part["end"]) / rate
    else:
        yield from _visible_times(value, frame_rate)


def _rate(value: Mapping[str, Any], frame_rate: float) -> float:
    """The frames per second of a result: as the user says, or as the result says the length of its video."""
    if frame_rate:
        return frame_rate
    if value.get("framesCount") and value.get("duration"):
        return float(value["framesCount"]) / float(value["duration"])
    raise UsageError(
        "its spans count frames, and the export does not say how many there are in a second; name the frameRate of the "
        "Video tag (Label Studio takes 24 if the tag has none) by --frame_rate=24."
    )


def _visible_times(value: Mapping[str, Any], frame_rate: float) -> Iterator[tuple[float, float]]:
    """Yields the times at which a box is seen."""
    start: float | None = None
    for keyframe in sorted(value["sequence"], key=lambda keyframe: keyframe["frame"]):
        time = _time_of(keyframe, value, frame_rate)
        if keyframe.get("enabled", True) and start is None:
            start = time
        elif not keyframe.get("enabled", True) and start is not None:
            yield start, time
            start = None
    if start is not None:
        yield (
            start,
            float(value["duration"]) if value.get("duration") else value["framesCount"] / _rate(value, frame_rate),
        )


def _time_of(keyframe: Mapping[str, Any], value: Mapping[str, Any], frame_rate: float) -> float:
    if "time" in keyframe:
        return float(keyframe["time"])
    return (float(keyframe["frame"]) - 1) / _rate(value, frame_rate)


def by_spans(source: Source, are_spans: bool, frame_rate: float) -> Source:
    """The spans of an export, if rows are spans; else the rows of its videos."""
    rows = getattr(source, "by_spans", None)
    return source if not are_spans or rows is None else rows(frame_rate)


def refuse_small_exports(path: str, facts: Mapping[str, Facts]) -> None:
    """Refuses the small exports of Label Studio, whose cells are answers that only the whole one explains."""
    for name, each in facts.items():
        if any('"timelinelabels":' in text or "'timelinelabels':" in text for text in map(str, each.filled[:1])):
            raise UsageError(
                f'{path}, column "{name}": answers of TimelineLabels as JSON-MIN and CSV write them, of '
                "which spans are not read; export the project as JSON."
            )
