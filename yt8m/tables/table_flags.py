"""What the user says of a table on the command line."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from yt8m.errors import UsageError, suggestion
from yt8m.tables.cells import separators
from yt8m.tables.words.meanings import JOIN, MEANINGS

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


def parse_columns(words: Sequence[str], columns: Sequence[str], source: str) -> dict[str, str]:
    """{meaning: column, or several with `+`} of the value of --columns; an empty column stands for none."""
    chosen = {}
    for word in words:
        meaning, equals, column = (text.strip() for text in word.partition("="))
        if meaning not in MEANINGS or not equals:
            raise UsageError(
                f"--columns={','.join(words)}: {word!r} is not MEANING=COLUMN; the meanings are {', '.join(MEANINGS)}."
            )
        is_whole = column in columns or meaning not in ("labels", "unused")
        names = [column] if is_whole else column.split(JOIN)
        for name in filter(None, names):
            if name not in columns:
                listed = ", ".join(columns)[:300]
                raise UsageError(
                    f"--columns={word}: {source} has no column {name!r}{suggestion(name, columns)}; it has: {listed}."
                )
        chosen[meaning] = column
    return chosen
