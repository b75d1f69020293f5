"""CSV of VIA: of VIA 2 attributes that each new project has are no classes; that of VIA 3 lacks the classes."""

from __future__ import annotations

import json
import pathlib

import pytest
from table_files import read, write

from yt8m.errors import UsageError

LABELS = {"a.jpg": "cat", "b.jpg": "dog", "c.jpg": "cat"}


def test_the_attributes_of_new_projects_of_via_2_are_no_classes(tmp_path: pathlib.Path) -> None:
    """`public_domain` was the label of all videos, and the attribute of the regions was lost."""
    attributes = json.dumps({"caption": "", "public_domain": "no", "image_url": ""})
    header = ("filename", "file_size", "file_attributes", "region_count", "region_id", "region_attributes")
    rows = [(file, 9, attributes, 1, 0, json.dumps({"type": name})) for file, name in LABELS.items()]
    assert read(write(tmp_path / "t.csv", [header, *rows])) == {file: [name] for file, name in LABELS.items()}


def test_a_table_of_via_3_is_refused(tmp_path: pathlib.Path) -> None:
    rows = [
        (f"1_{n}", json.dumps([file]), 0, json.dumps([n, n + 2]), "[]", json.dumps({"1": n % 2}))
        for n, file in enumerate(LABELS)
    ]
    path = write(tmp_path / "t.csv", rows)
    path.write_text("# Exported using VGG Image Annotator\n# CSV_HEADER = metadata_id,file_list\n" + path.read_text())
    with pytest.raises(UsageError, match=r"CSV of VIA 3.*names of options.*Save the project in VIA \(a JSON file\)"):
        read(path)
