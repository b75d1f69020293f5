"""Rows in another form keep what the file says of its commas."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError

EACH_CLASS = "video;weld_start;weld_end\na;12,400;31,000\nb;1,250;2,500\n"
SELECTED = "rank;video;start;end;value;distance;classes;label\n1;a;12,400;31,000;1,9;0,3;cat 0.4;weld\n"
RANGES = "video;label;time\na;weld;12,400-31,000\n"


@pytest.mark.parametrize("text", [EACH_CLASS, SELECTED, RANGES])
def test_semicolons_between_cells_make_commas_decimal(text: str, tmp_path: pathlib.Path) -> None:
    assert spans_of(tmp_path, text)["a"] == [(12.4, 31.0, "weld")]
    with pytest.raises(UsageError, match=r"12,400.* decimal comma"):
        spans_of(tmp_path, text.replace(";", "\t"))
