"""Texts that a spreadsheet would take for formulas are escaped, and told apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from yt8m.tables.words.spreadsheets import spreadsheet_text, text_of_spreadsheet

_LOOKS_ESCAPED = st.text(alphabet="'=+-@\t\r\n\uff1d\uff20ab", max_size=5)


@given(_LOOKS_ESCAPED, _LOOKS_ESCAPED)
def test_texts_for_spreadsheets_are_told_apart_and_no_formulas(one: str, other: str) -> None:
    """A decision on the video `=a` must not be taken for one on `'=a`."""
    escaped = spreadsheet_text(one)
    assert text_of_spreadsheet(escaped) == one
    assert not escaped.startswith(tuple("=+-@\t\r\n\uff1d\uff20"))
    assert (escaped == spreadsheet_text(other)) == (one == other)


def test_a_quote_that_an_earlier_version_wrote_is_removed() -> None:
    assert [text_of_spreadsheet(text) for text in ("'=1", "''=1", "'a", "a")] == ["=1", "'=1", "'a", "a"]
