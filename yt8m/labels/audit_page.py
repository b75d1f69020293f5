"""`audit.html`: what an audit found, worst first, on one page that loads nothing."""

from __future__ import annotations

import csv
import importlib.util
import io
from typing import Any

from absl import logging

from yt8m import storage
from yt8m.records.prediction_files import text_of_spreadsheet
from yt8m.reports import media_links, templates

PAGE = "audit.html"
_MOST = 1000  # rows of a table on the page; the files have all
_IDS = ("video", "other")
_NUMBERS = ("rank", "chance", "similarity", "videos", "value")  # columns that are sorted as numbers


def write(folder: str, summary: dict[str, Any], tables: dict[str, str], media: str) -> None:
    """Writes the page from the tables of an audit; without Jinja2 it only logs that there is no page.

    Args:
      folder: the folder of the audit.
      summary: the content of summary.json.
      tables: {heading: name of a CSV file in the folder}.
      media: the table of addresses of videos; empty for none.
    """
    if importlib.util.find_spec("jinja2") is None:
        logging.warning("there is no %s, because Jinja2 is not installed; the tables have all that it shows", PAGE)
        return
    path = storage.join(folder, PAGE)
    rows = {heading: read_rows(storage.join(folder, name)) for heading, name in tables.items()}
    shown = {heading: table[:_MOST] for heading, table in rows.items()}
    ids = {
        row[name] for heading in shown if heading != "Classes" for row in shown[heading] for name in _IDS if name in row
    }
    figures = {name: value for name, value in summary.items() if not isinstance(value, dict)}
    text = templates.render(
        "audit.html.jinja",
        figures=figures,
        numbers=_NUMBERS,
        tables=shown,
        files=tables,
        totals={heading: len(table) for heading, table in rows.items()},
        media=media_links.read(media, path, ids),
    )
    storage.write(path, text)


def read_rows(path: str) -> list[dict[str, str]]:
    """The rows of a table that an audit wrote, without the quotes for spreadsheets."""
    rows = csv.DictReader(io.StringIO(storage.read_text(path), newline=""))
    return [{name: text_of_spreadsheet(cell) for name, cell in row.items()} for row in rows]
