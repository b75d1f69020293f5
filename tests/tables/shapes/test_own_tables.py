"""Tables that the project writes are read without the quotes before formulas, which other tables keep."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.errors import UsageError
from yt8m.tables.understood import SPANS, TableFlags, UnderstoodTable, understand

PARTS = (
    "rank,video,start,end,value,distance,classes,label\n"
    "1,'-a,2,3,1.9,0.3,cat 0.412,cat\n2,b,4,5,1.9,0.3,cat 0.4,(none)\n3,'-a,7,8,1.9,0.3,cat 0.4,dog\n"
)


def open_table(folder: pathlib.Path, text: str, *columns: str, rows: str = SPANS) -> UnderstoodTable:
    (folder / "t.csv").write_text(text)
    return understand("--table", str(folder / "t.csv"), TableFlags(columns=columns, rows=rows))


def test_parts_of_a_film_whose_id_begins_with_a_sign_have_its_id(tmp_path: pathlib.Path) -> None:
    for columns in ((), ("labels=label",)):
        table = open_table(tmp_path, PARTS, *columns)
        (rows,) = table.batches(10)
        assert list(rows.cells["id"]) == ["-a", "b"]
        assert [(span.start, span.labels) for span in rows.cells["spans"][0]] == [(2, ("cat",)), (7, ("dog",))]
        assert table.are_clips
        assert table.where(2) == "row 2 (line 3)"


def test_classes_that_the_model_found_are_labels_only_if_the_user_says_so(tmp_path: pathlib.Path) -> None:
    without_label = "\n".join(line.rpartition(",")[0] for line in PARTS.splitlines())
    with pytest.raises(UsageError, match=r"label .*score"):
        open_table(tmp_path, without_label)
    with pytest.raises(UsageError, match=r"label .*score"):
        open_table(tmp_path, PARTS, "labels=classes")


@pytest.mark.parametrize("value", ["0", "1"])
def test_values_that_a_spreadsheet_has_rounded_say_nothing_of_labels(tmp_path: pathlib.Path, value: str) -> None:
    text = PARTS.replace(",1.9,", f",{value},")
    table = open_table(tmp_path, text)
    (rows,) = table.batches(10)
    assert [span.labels for span in rows.cells["spans"][0]] == [("cat",), ("dog",)]
    videos = f"rank,video,value,distance,classes,label\n1,a,{value},0.3,cat 0.4,cat\n2,b,{value},0.3,cat 0.4,dog\n"
    (rows,) = open_table(tmp_path, videos, rows="").batches(10)
    assert [list(names) for names in rows.cells["labels"]] == [["cat"], ["dog"]]


def test_tables_of_spans_are_read_as_other_tables(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,start,end,class\na,2,3,cut,weld\nb,4,5,cut\n")
    table = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows=SPANS, separator=","))
    (rows,) = table.batches(10)
    assert rows.cells["spans"][0][0].labels == ("cut", "weld"), "commas in the last column stand between labels"


def test_quotes_in_other_tables_stay(tmp_path: pathlib.Path) -> None:
    table = open_table(tmp_path, "video,label\n'-a,cat\nb,dog\n", rows="")
    (rows,) = table.batches(10)
    assert list(rows.cells["id"]) == ["'-a", "b"]
