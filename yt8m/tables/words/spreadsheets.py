"""Texts in the tables that this project writes, which a spreadsheet would take for formulas."""

from __future__ import annotations

import re

# A spreadsheet may evaluate a text that begins with one of these; the last four are the full-width = + - @. A text that
# begins with quotes before it looks like an escaped one, and is escaped once more.
_FORMULA_START = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def spreadsheet_text(text: str) -> str:
    """Escapes a text for a CSV file that people open in a spreadsheet, which would evaluate a text such as `=1+1`.

    A text that begins like a formula, perhaps after single quotes, gets a single quote before it, as OWASP's page on
    CSV injection recommends; any other text stays as it is. So two texts never become the same.
    """
    return f"'{text}" if _FORMULA_START.match(text) else text


def text_of_spreadsheet(text: str) -> str:
    """Removes the single quote that `spreadsheet_text` put before a text that begins like a formula."""
    return text[1:] if text.startswith("'") and _FORMULA_START.match(text, 1) else text
