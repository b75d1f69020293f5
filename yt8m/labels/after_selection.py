"""What `yt8m select` prints at its end: how the choice gets its labels, and the command that makes records of it."""

from __future__ import annotations

import shlex

from yt8m.records.opened_data import OpenedData
from yt8m.records.rated_cells import Cells
from yt8m.records.shards import SEGMENT_SIZE

_EXPORT = "EXPORT.json"
_HOW_TO_EXPORT = f"Label the tasks in Label Studio, and export them as JSON, {_EXPORT}"
_HOW_TO_WRITE = "Write the classes of each {} into a column label, or (none) if it shows none"


def for_videos(pattern: str, table: str = "", noun: str = "video") -> list[str]:
    """The lines for whole videos, or for parts of films whose records have cells.

    Args:
      pattern: names the records that they were chosen from.
      table: the path of the table of the videos; empty for tasks of Label Studio.
    """
    text = _HOW_TO_WRITE.format(noun) if table else _HOW_TO_EXPORT
    labels = shlex.quote(table or _EXPORT)
    return [
        f"{text}; then put the answers into records by",
        f"  yt8m relabel --data={shlex.quote(pattern)} --labels={labels} --out=FOLDER",
    ]


def for_parts(data: OpenedData, cells: Cells, *, table: str = "", frame_rate: float) -> list[str]:
    """The lines for parts of films.

    Args:
      data: the records that were chosen from.
      cells: the grid of the model, on which the labels of the parts are to be stored.
      table: the path of the table of the parts; empty for tasks of Label Studio.
      frame_rate: pictures a second that Label Studio counts.
    """
    if _has_cells(data, cells):
        text, command = for_videos(data.pattern, table, "part")
        return [text, command if table else f"{command} --frame_rate={frame_rate:g}"]
    is_extracted = bool(data.manifest.extractors)
    words = [*_source_words(table or _EXPORT, is_extracted), "--rows=spans", f"--segment_size={cells.seconds:g}"]
    if is_extracted and cells.per_second != 1:
        words.append(f"--frames_per_second={cells.per_second:g}")
    if table:
        text = _HOW_TO_WRITE.format("part") + (
            "; the file of its film belongs into a column path" if is_extracted else ""
        )
        words.append("--columns=labels=label")
    else:
        text = _HOW_TO_EXPORT
        words.append(f"--frame_rate={frame_rate:g}")
    return [f"{text}; then make records of them by", "  yt8m " + " ".join(words)]


def _has_cells(data: OpenedData, cells: Cells) -> bool:
    """Whether records have cells of spans, on this grid, which `yt8m relabel` can rate."""
    described = data.format.format if data.format else None
    if described is None or described.annotated is None:
        return False
    size, per_second = described.segment_size or SEGMENT_SIZE, described.frames_per_second or 1.0
    return (size, per_second) == (cells.frames, cells.per_second)


def _source_words(source: str, is_extracted: bool) -> list[str]:
    """The command that makes records of frames of a table or an export, and its first flags."""
    file = shlex.quote(source)
    if is_extracted:
        return ["extract", f"--videos={file}", "--extractors=...", "--out=FOLDER", "--level=frame"]
    return ["make-records", f"--table={file}", "--array=FOLDER_OF_ARRAYS", "--out=FOLDER", "--level=frame"]
