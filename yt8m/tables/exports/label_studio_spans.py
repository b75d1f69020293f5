"""Spans in Label Studio's JSON exports: TimelineLabels, Labels of video and sound, and boxes of videos over time.

A range of TimelineLabels counts frames from 1, and its last frame belongs to it. Labels of sound and video have
seconds. A box is seen from each keyframe that is enabled to the next one that is not, or else to the end of the video.
If several people annotated a video, a class is shown at the times that more than half of them have marked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yt8m.errors import RunError, UsageError, quantity, refusing
from yt8m.tables.exports.label_studio import OF_REGIONS, controls_in, is_skipped, latest_by_person, names_of, results_of
from yt8m.tables.sources.source import MemorySource, Source, source_of_spans
from yt8m.tables.words.times import NotATimeError, parse_time, ranges_in, shared_by_most

TIMELINE, SOUND, BOXES = "timelinelabels", "labels", "videorectangle"
MEDIA = "video"  # the key of the data of a task, and the column, that has the address of its video
_PARTS = "parts"  # the key of the data of a task
_Spans = dict[str, list[tuple[float, float]]]  # {class: its spans}


def have_times(tasks: Sequence[Mapping[str, Any]], control: str) -> tuple[bool, bool]:
    """(whether a result of a control is a span, whether all of them are)."""
    are_timed = [
        _is_timed(result)
        for task in tasks
        for annotation in task.get("annotations") or ()
        if not is_skipped(annotation)
        for result in results_of(annotation)
        if result.get("from_name") in controls_in(control)
    ]
    return any(are_timed), bool(are_timed) and all(are_timed)


def _is_timed(result: Mapping[str, Any]) -> bool:
    value = result.get("value")
    if not isinstance(value, dict):
        return False
    kind, has_seconds = result.get("type"), "start" in value and "end" in value
    if kind == SOUND:
        return has_seconds and "text" not in value
    if kind == TIMELINE or kind in OF_REGIONS:
        return "ranges" in value or (has_seconds and "text" not in value)
    return kind == BOXES and "sequence" in value


def rows_of_spans(
    path: str,
    tasks: Mapping[int, Mapping[str, Any]],
    ids: Sequence[str],
    others: Mapping[str, Sequence[Any]],
    control: str,
    remark: str,
    frame_rate: float,
) -> MemorySource:
    """A row for each span of each task; a task whose answer has no span has a row without times.

    Args:
      tasks: {number in the file: task}.
      ids: the name of the video of each task.
      others: {column: cell of each task}.
      remark: what the description of the table adds.
    """
    seen_parts = _seen_parts(path, tasks, ids)
    repeated = len(ids) - len(set(ids))
    remark += f"; further tasks of a video, whose spans are added: {repeated}" if repeated else ""
    remark += (
        f"; of {quantity(len(seen_parts), 'video')}, people have seen only the parts that their tasks name"
        if seen_parts
        else ""
    )
    all_rows, places = list[tuple[Any, ...]](), list[str]()
    lost, classes_of_people = 0, dict[tuple[str, str], frozenset[str]]()
    for (number, task), name, *of_task in zip(tasks.items(), ids, *others.values(), strict=True):
        with refusing(functools.partial(_refusal, f"{path}, task {number}")):
            people = [*_spans_of_people(f"{path}, task {number}", task["annotations"], control, frame_rate)]
            rows: list[tuple[Any, ...]] = [*_joint_rows(people)] or [((), None, None)]
            _refuse_other_people(f"{path}, task {number}", name, task["annotations"], people, classes_of_people)
        lost += sum(
            _is_lost(span, name_of_class, rows)
            for spans in people
            for name_of_class in spans
            for span in spans[name_of_class]
        )
        all_rows += [(name, list(labels), start, end, *of_task) for labels, start, end in rows]
        places += [f"task {number}"] * len(rows)
    remark += f"; spans that most people have not marked, left out: {lost}" if lost else ""
    form = f'Label Studio\'s JSON, spans of the control "{control}"{remark}'
    source = source_of_spans(path, form, all_rows, ("id", "labels", "start", "end", *others))
    source.hints = {name: name for name in source.columns if name != MEDIA}
    source.seen_parts, source.places = seen_parts, places
    source.lengths = {name: _length(task["annotations"]) for task, name in zip(tasks.values(), ids, strict=True)}
    return source


def _refuse_other_people(
    where: str,
    video: str,
    annotations: Sequence[Any],
    people: Sequence[_Spans],
    earlier: dict[tuple[str, str], frozenset[str]],
) -> None:
    """Refuses a class that other people have marked in an earlier task of a video: are these opinions, or more spans?

    Args:
      earlier: {(video, class): the people who have marked it}; those of this task are added.
    """
    names = frozenset(str(annotation.get("completed_by")) for annotation in latest_by_person(annotations))
    for name in {name for spans in people for name in spans}:
        others = earlier.setdefault((video, name), names)
        if names.isdisjoint(others):
            raise UsageError(
                f"{where}: an earlier task of {video[:60]!r} has {name[:40]!r} too, marked by other people: "
                "either the spans of both tasks count, or those that most people have marked. Put the annotations of "
                "all people into one task, or delete one of the tasks."
            )


def _length(annotations: Sequence[Mapping[str, Any]]) -> float:
    """The seconds of the video of a task, as a result of sound or of boxes says them; 0 if none does."""
    results = [result for annotation in latest_by_person(annotations) for result in results_of(annotation)]
    lengths = [result.get("original_length") or result["value"].get("duration") for result in results]
    return max((float(length) for length in lengths if isinstance(length, int | float)), default=0.0)


def asks_for_parts(data: Mapping[str, Any]) -> bool:
    """Whether a task asks people to look at parts of its video alone, as those of `yt8m select` do."""
    return any(map(str.isdigit, str(data.get(_PARTS))))  # `wheel, axle` of somebody else has no times


def _parts_of(where: str, data: Mapping[str, Any]) -> list[tuple[float, float]]:
    """The parts of a video that people were asked to look at, in seconds; none if a task asks for the whole."""
    if not asks_for_parts(data):
        return []
    cell = data[_PARTS]
    try:
        times = [(parse_time(start), parse_time(end)) for start, end in ranges_in(cell) or ()]
    except NotATimeError:
        times = []
    if not times or any(end <= start for start, end in times):
        raise UsageError(
            f'{where}: "{_PARTS}" of its data is {str(cell)[:60]!r}; expected the parts of the video that alone people '
            "have looked at, in seconds, as in 3-9, 20.5-31. Correct it, or give the key another name if it means "
            "something else."
        )
    return times


def _seen_parts(
    path: str, tasks: Mapping[int, Mapping[str, Any]], ids: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    """{video: the parts that people were asked to look at}, for videos all of whose tasks ask for parts."""
    seen_parts: dict[str, list[tuple[float, float]]] = {}
    for (number, task), name in zip(tasks.items(), ids, strict=True):
        seen_parts.setdefault(name, []).extend(_parts_of(f"{path}, task {number}", task["data"]))
    whole = {name for task, name in zip(tasks.values(), ids, strict=True) if not asks_for_parts(task["data"])}
    return {name: times for name, times in seen_parts.items() if name not in whole}


def _is_lost(span: tuple[float, float], name: str, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether no part of a span of one person is in the joint spans of its class."""
    joint = [row[1:3] for row in rows if name in row[0]]
    return span[1] > span[0] and not any(max(span[0], start) < min(span[1], end) for start, end in joint)


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
        if result.get("from_name") not in controls_in(control):
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
    if kind == BOXES:
        yield from _visible_times(value, frame_rate)
    elif kind == SOUND or "ranges" not in value:
        yield float(value["start"]), float(value["end"])
    else:
        rate = _rate(value, frame_rate)
        for part in value["ranges"]:
            if float(part["start"]) < 1:
                raise UsageError(
                    f"a range starts at frame {part['start']}, but Label Studio counts frames from 1; if the program "
                    "that made the ranges counts from 0, add 1 to their starts."
                )
            yield (float(part["start"]) - 1) / rate, float(part["end"]) / rate


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


def refuse_small_exports(path: str, firsts: Mapping[str, Sequence[Any]]) -> None:
    """Refuses the small exports of Label Studio, whose cells are answers that only the whole one explains.

    Args:
      firsts: {column: its first cell that is not empty}.
    """
    for name, cells in firsts.items():
        if any('"timelinelabels":' in text or "'timelinelabels':" in text for text in map(str, cells)):
            raise UsageError(
                f'{path}, column "{name}": answers of TimelineLabels as JSON-MIN and CSV write them, of '
                "which spans are not read; export the project as JSON."
            )
