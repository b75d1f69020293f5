"""Tables that this project writes and people complete: what `yt8m select` has chosen, and joint answers of people."""

from __future__ import annotations

from yt8m.tables.sources.rewritten import RewrittenSource, read_all
from yt8m.tables.sources.source import Source
from yt8m.tables.words import normalized
from yt8m.tables.words.side_words import SELECTION
from yt8m.tables.words.spreadsheets import text_of_spreadsheet

# Columns of tables of `yt8m select`: the classes that its model finds, and people's labels, as the command asks for it.
_FOUND, _LABELS = "classes", "label"
ANSWERS_HEADER = ("video", "labels", "people", "disagreement")  # of joint answers; see `label_studio.Answer`


def as_written(source: Source, *, are_labels_chosen: bool = False) -> Source:
    """The rows of such a table without the quotes before formulas; another source as it is.

    Args:
      are_labels_chosen: whether the user says which column has the labels, which else is `label` in a selection.
    """
    quoted = [name for name in _quoted_columns(source) if name in source.columns]
    if not quoted:
        return source
    cells, bad = read_all(source, source.columns)
    for name in quoted:
        cells[name] = [text_of_spreadsheet(cell) if isinstance(cell, str) else cell for cell in cells[name]]
    result = RewrittenSource(source, cells, range(1, len(cells[quoted[0]]) + 1), bad)
    if {_FOUND, _LABELS} <= set(source.columns) and not are_labels_chosen:
        result.hints = {**result.hints, "labels": _LABELS}
    return result


def are_answers(source: Source) -> bool:
    """Whether a table has joint answers, in which an empty cell means that people have seen no class."""
    return list(source.columns) == list(ANSWERS_HEADER)


def _quoted_columns(source: Source) -> list[str]:
    """The columns whose texts may have a quote before them."""
    if frozenset(map(normalized, source.columns)) >= SELECTION:
        return ["video"]
    return list(ANSWERS_HEADER[:2]) if are_answers(source) else []
