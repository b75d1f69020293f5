"""What `yt8m select` prints at its end: how the choice gets its labels, and the command that makes records of it."""

from __future__ import annotations

import shlex

from yt8m.records.opened_data import OpenedData
from yt8m.records.rated_cells import Cells

_EXPORT = "EXPORT.json"


def for_videos(pattern: str) -> list[str]:
    """The lines for tasks of whole videos; `pattern` names the records that they were chosen from."""
    return [
        f"Label the tasks in Label Studio, and export them as JSON, {_EXPORT}; then put the answers into records by",
        f"  yt8m relabel --data={shlex.quote(pattern)} --labels={_EXPORT} --out=FOLDER",
    ]


def for_parts(data: OpenedData, cells: Cells, *, table: str = "", frame_rate: float) -> list[str]:
    """The lines for parts of films.

    Args:
      data: the records that were chosen from.
      cells: the grid of the model, on which the labels of the parts are to be stored.
      table: the path of the table of the parts; empty for tasks of Label Studio.
      frame_rate: pictures a second that Label Studio counts.
    """
    is_extracted = bool(data.manifest.extractors)
    words = [*_source_words(table or _EXPORT, is_extracted), "--rows=spans", f"--segment_size={cells.seconds:g}"]
    if is_extracted and cells.per_second != 1:
        words.append(f"--frames_per_second={cells.per_second:g}")
    if table:
        file = " (and the file of its film into another one, path)" if is_extracted else ""
        text = f"Write the classes of each part into a column label{file}, or (none) if it shows none"
        words.append("--columns=labels=label")
    else:
        text = f"Label the tasks in Label Studio, and export them as JSON, {_EXPORT}"
        words.append(f"--frame_rate={frame_rate:g}")
    return [f"{text}; then make records of them by", "  yt8m " + " ".join(words)]


def _source_words(source: str, is_extracted: bool) -> list[str]:
    """The command that makes records of frames of a table or an export, and its first flags."""
    file = shlex.quote(source)
    if is_extracted:
        return ["extract", f"--videos={file}", "--extractors=...", "--out=FOLDER", "--level=frame"]
    return ["make-records", f"--table={file}", "--array=FOLDER_OF_ARRAYS", "--out=FOLDER", "--level=frame"]
