"""What the user says of a table on the command line."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from yt8m.tables.cells import separators

# The values of --rows: what a row with a start and an end is.
SPANS = "spans"
VIDEOS = "videos"


@dataclass(frozen=True)
class TableFlags:
    """What the user says of a table.

    Attributes:
      needs_labels: whether a table without labels is refused.
      rows: `spans` if a row is a span of a video, `videos` if it is a video; empty if the form of the file decides.
      can_have_spans: whether the labels of an export are read as spans if they can be nothing else.
      frame_rate: frames per second, if starts and ends of spans count frames; 0 if they are times.
    """

    columns: Sequence[str] = ()
    separator: str = separators.AUTO
    vocabulary: Collection[str] = ()
    splits: Collection[str] = ()
    extra_columns: Sequence[str] = ()
    path_endings: Sequence[str] = (".npy", ".npz")
    needs_labels: bool = True
    rows: str = ""
    can_have_spans: bool = False
    frame_rate: float = 0.0
