"""Lists of classes as other programs write them give the vocabulary that `index,name` gives."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pandas as pd
import pytest

from yt8m.errors import RunError, UsageError
from yt8m.records import vocabulary

NAMES = ("cat", "dog", "red fox")
FORMS = {
    "a name on each line": ("txt", "cat\ndog\nred fox\n"),
    "with Windows' line ends and a mark": ("txt", "\ufeffcat\r\ndog\r\nred fox\r\n"),
    "under a header": ("csv", "label\ncat\ndog\nred fox\n"),
    "numbered lines": ("txt", "0 cat\n1 dog\n2 red fox\n"),
    "numbered lines with commas, without a header": ("csv", "0,cat\n1,dog\n2,red fox\n"),
    "Kinetics": ("csv", "id,name\n0,cat\n1,dog\n2,red fox\n"),
    "AudioSet": ("csv", 'index,mid,display_name\n0,/m/0,"cat"\n1,/m/1,"dog"\n2,/m/2,"red fox"\n'),
    "class_id and class_name, in another order": ("csv", "class_id;class_name\n2;red fox\n0;cat\n1;dog\n"),
    "id, label and count": ("csv", "id,label,vertical,count\n1,dog,,0\n0,cat,Animals,3\n2,red fox,,1\n"),
    "below a title": ("csv", "My classes of 2026\n\nid;display_name\n0;cat\n1;dog\n2;red fox\n"),
    "index and name below a title": ("csv", "My classes of 2026\n\nindex;name\n0;cat\n1;dog\n2;red fox\n"),
    "a JSON list": ("json", '["cat", "dog", "red fox"]'),
    "id2label": ("json", '{"0": "cat", "1": "dog", "2": "red fox"}'),
    "label2id": ("json", '{"dog": 1, "cat": 0, "red fox": 2}'),
    "with a separator of its own": ("csv", "index;name;vertical;count\n0;cat;Animals;3\n1;dog;;0\n2;red fox;;1\n"),
}


@pytest.mark.parametrize(("ending", "text"), FORMS.values(), ids=FORMS)
def test_a_list_of_classes_is_read(ending: str, text: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"classes.{ending}"
    path.write_bytes(text.encode())
    read = vocabulary.read(str(path))
    assert (read.names, read.path) == (NAMES, str(path))
    assert read.counts.tolist() == ([3, 0, 1] if "count" in text else [0, 0, 0])


@pytest.mark.parametrize("ending", ["xlsx", "parquet"])
def test_a_workbook_and_a_parquet_table_are_read(ending: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"classes.{ending}"
    for columns in (["id", "label", "count"], ["index", "name", "count"]):
        frame = pd.DataFrame(zip([2, 0, 1], [NAMES[2], *NAMES[:2]], [1, 3, 0], strict=True), columns=columns)
        getattr(frame, "to_excel" if ending == "xlsx" else "to_parquet")(path, index=False)
        read = vocabulary.read(str(path))
        assert (read.names, read.counts.tolist()) == (NAMES, [3, 0, 1])
    frame = pd.DataFrame({"a": [1], "b": ["x"]})
    getattr(frame, "to_excel" if ending == "xlsx" else "to_parquet")(path, index=False)
    with pytest.raises(UsageError, match=r"columns .*\ba, b\b"):
        vocabulary.read(str(path))


def test_a_name_may_begin_with_a_number(tmp_path: pathlib.Path) -> None:
    (tmp_path / "classes.txt").write_text("cat\n3 wheeler\ndog\n")
    assert vocabulary.read(str(tmp_path / "classes.txt")).names == ("cat", "3 wheeler", "dog")


@pytest.mark.parametrize(
    "text",
    [
        "1 cat\n2 dog\n",  # which number is that of the first class?
        "label\n1 cat\n2 dog\n",
        "labels\n1: cat\n2: dog\n",
        "item {\n  id: 1\n  name: 'cat'\n}\n",
        "names:\n- cat\n- dog\n",
        "cat\ncat\n",
        "id,name\n0,cat\n2,dog\n",
        "id,name\n0,cat\n0,dog\n",
        "a,b\nc,d\n",
        '{"0": "cat"',
        '{"cat": "x"}',
        "index,name\n1,cat\n",
    ],
)
def test_what_has_no_numbers_from_0_is_refused(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "classes.csv").write_text(text)
    with pytest.raises(RunError, match=r"classes\.csv"):
        vocabulary.read(str(tmp_path / "classes.csv"))


def test_the_readers_of_tables_are_imported_where_they_are_needed() -> None:
    """Each program knows vocabularies, and few read tables."""
    code = "import sys, yt8m.records.vocabulary; print('yt8m.tables.opening' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
