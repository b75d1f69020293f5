"""Tables with two readings, or none, are refused: the message names both, and the flag or the way that chooses."""

from __future__ import annotations

import gzip
import json
import pathlib
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import read, write

from yt8m.errors import RunError, UsageError
from yt8m.tables.understood import TableFlags, understand

_CELLS = {
    "one combination of labels": ["Pop", "Rock", "Pop/Rock", "Jazz"] * 4,
    "names or words": ["ice", "cream", "ice cream"] * 4,
    "weather and ground": ["haze primary", "clear primary", "clear road primary", "haze road"] * 4,
    "only semicolons": ["cat;dog", "bird;fox"],
    "part of a name": ["arts, crafts", "arts"],
}


@pytest.mark.parametrize("cells", _CELLS.values(), ids=_CELLS)
def test_names_or_several_labels(cells: list[str], tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", cell) for n, cell in enumerate(cells))])
    with pytest.raises(UsageError, match=r"t.csv, column \"labels\": .*--label_separator=none .*--label_separator='"):
        read(path)
    assert list(read(path, separator="none").values()) == [[cell] for cell in cells]


def test_two_separators(tmp_path: pathlib.Path) -> None:
    cells = ["cat;dog", "cat,bird", "dog", "bird", "cat", "bird,dog", "bird;cat"]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", cell) for n, cell in enumerate(cells))])
    with pytest.raises(UsageError, match=r'";" between .*","'):
        read(path)


def test_another_separator_than_the_flag(tmp_path: pathlib.Path) -> None:
    cells = ["cat|dog", "dog|bird", "cat", "dog", "bird"]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", cell) for n, cell in enumerate(cells))])
    with pytest.raises(UsageError, match=r"no cell .*--label_separator=','.*Choose by --label_separator='\|'"):
        read(path, separator=",")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["id,tags,category", "a,x,p", "b,y,q", "c,x,q"], "--columns=labels=tags or --columns=labels=category"),
        (
            ["clip,genre_name,mood", "a,rock,p", "b,pop,q", "c,rock,q", "d,pop,p"],
            "several columns may: genre_name, mood",
        ),
        (["id,label,male", "a,1,0", "b,0,0", "c,1,1"], "--columns=labels=label or --columns=labels=label.male"),
        (["id,cat,dog", "a,1,0", "b,,1", "c,0,"], 'of the class "cat", some cells are 0 or 1 and others are empty'),
        (["id,labels", 'a,"[0, 1]"', 'b,"[1, 0]"'], "each cell has a 0 and a 1"),
        (["id,labels", "a,\"['x', 'y']\"", 'b,"x,y"', "c,x"], "some cells are lists"),
        (["id,label,start,end", "a,x,0,2.5", "a,y,3,4.5"], "add --columns=start=,end="),
        (["id,label,split", "a,x,train", "a,y,test"], "agree in split"),
        (["id,label,score", "a,x,0.5", "a,y,0.7"], r'several rows .*"score"'),
        (["id,path", "a,1.npy", "b,2.npy"], "has no column 'labels'; it has: id, path"),
        (["one,two", "3,4", "5,6"], "has no column 'id'; it has: one, two.*--columns=id=COLUMN"),
    ],
)
def test_columns_that_are_not_clear(rows: list[str], message: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(UsageError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"cat": ["a", "b", "c"], "dog": ["d", "a", "e"]}, r"keys are videos .*items"),
        ({"images": [], "annotations": [{"image_id": 1}], "categories": []}, "looks like coco JSON, but lacks"),
        ("text", r"JSON .*shape .*not known"),
        ([{"data": {"id": "a"}, "annotations": []}], r"no control .*classes"),
        ([{"id": "a", "labels": {"x": 0.25}}], "such as scores"),
    ],
)
def test_json_that_is_not_clear(value: Any, message: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(value))
    with pytest.raises(UsageError, match=message):
        read(tmp_path / "t.json")


def test_a_control_of_label_studio_is_chosen_by_its_name(tmp_path: pathlib.Path) -> None:
    result = [
        {"from_name": name, "to_name": "v", "type": "choices", "value": {"choices": [name + " of it"]}}
        for name in ("kind", "mood")
    ]
    (tmp_path / "t.json").write_text(json.dumps([{"data": {"id": "a"}, "annotations": [{"result": result}]}]))
    with pytest.raises(UsageError, match=r"--columns=labels=kind .type choices. or --columns=labels=mood"):
        read(tmp_path / "t.json")
    assert read(tmp_path / "t.json", columns=("labels=mood",)) == {"a": ["mood of it"]}


def test_texts_in_other_encodings_are_named(tmp_path: pathlib.Path) -> None:
    words = ["кошка", "собака", "птица", "лиса", "выдра", "медведь", "волк", "заяц", "барсук", "ёжик"]
    text = "id,labels\n" + "".join(f"v{n},{words[n % 10]}\n" for n in range(60))
    for encoding in ("cp1251", "koi8-r", "mac-cyrillic"):
        (tmp_path / "t.csv").write_bytes(text.encode(encoding))
        with pytest.raises(RunError, match=r"t\.csv, line 2: .*not UTF-8.*as UTF-8"):
            read(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(text.encode("utf-16"))
    assert len(read(tmp_path / "t.csv")) == 60


def test_the_sheet_of_a_workbook_is_named(tmp_path: pathlib.Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for name in ("may", "june"):
        sheet = book.create_sheet(name)
        for row in [("id", "labels"), (f"{name} 1", "cat"), (f"{name} 2", "dog")]:
            sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(UsageError, match=r"has 2 sheets with cells \(may, june\); name one .* --table='.*t.xlsx#may'"):
        read(tmp_path / "t.xlsx")
    assert read(tmp_path / "t.xlsx#june") == {"june 1": ["cat"], "june 2": ["dog"]}


@pytest.mark.parametrize("has_classes", [False, True])
def test_a_formula_without_its_value_is_no_empty_cell(has_classes: bool, tmp_path: pathlib.Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = "A & B"
    rows = [(f"v{n}", n % 2, 1 - n % 2) if has_classes else (f"v{n}", ("cat", "dog")[n % 2]) for n in range(9)]
    for row in [("id", "cat", "dog") if has_classes else ("id", "labels"), *rows]:
        book.active.append(row)
    book.create_sheet("sums")["A1"] = "=1+1"  # another sheet does not matter
    book.save(tmp_path / "t.xlsx")
    assert len(read(tmp_path / "t.xlsx#A & B")) == 9
    book.active["B5"] = "=1" if has_classes else '=IF(A5="","cat","dog")'
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(UsageError, match=r't\.xlsx, the sheet "A & B": .*cell B5 .*formula'):
        read(tmp_path / "t.xlsx#A & B")
    with zipfile.ZipFile(tmp_path / "t.xlsx") as old, zipfile.ZipFile(tmp_path / "saved.xlsx", "w") as saved:
        for name in old.namelist():  # as Excel saves a formula whose value is an empty text
            saved.writestr(name, old.read(name).replace(b'<c r="B5">', b'<c r="B5" t="str">'))
    assert has_classes or read(tmp_path / "saved.xlsx#A & B")["v3"] == []


@pytest.mark.parametrize("stray", ["XFD1048576", "XFE99999999"])
def test_a_stray_cell_far_away_is_named(stray: str, tmp_path: pathlib.Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for row in (("id", "labels"), ("a", "cat"), ("b", "dog")):
        book.active.append(row)
    book.active["ZZ50"] = " "  # such cells do not matter
    book.save(tmp_path / "near.xlsx")
    assert read(tmp_path / "near.xlsx") == {"a": ["cat"], "b": ["dog"]}
    with zipfile.ZipFile(tmp_path / "near.xlsx") as near, zipfile.ZipFile(tmp_path / "far.xlsx", "w") as far:
        for name in near.namelist():
            far.writestr(name, near.read(name).replace(b'"ZZ50"', f'"{stray}"'.encode()))
    with pytest.raises(RunError, match=r"far.xlsx: .*rows and .* columns"):
        read(tmp_path / "far.xlsx")


def test_columns_are_named_by_the_user(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("clip,label,genre\na,1,cat;dog\nb,2,dog\nc,3,cat\n")
    assert read(path, columns=("id=clip", "labels=genre")) == {"a": ["cat", "dog"], "b": ["dog"], "c": ["cat"]}
    with pytest.raises(UsageError, match=r"no column 'gnre'; did you mean genre.*: clip, label, genre"):
        read(path, columns=("labels=gnre",))


def test_labels_of_a_segment_table_are_those_of_the_whole_video_if_asked(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,label,start,end\na,x,0,2.5\na,y,3,4.5\nb,x,0,1.5\n")
    assert read(path, columns=("start=", "end=")) == {"a": ["x", "y"], "b": ["x"]}


def test_arrays_that_need_pickle_are_refused(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "t.npz", id=np.array(["a"]), labels=np.array([["cat"], None], object)[:1])
    with pytest.raises(RunError, match=r"t.npz is not a .npy or .npz file"):
        read(tmp_path / "t.npz")


@pytest.mark.parametrize("header", ["id,labels", "id,cat,dog", "id,label,start,end", "labels", "id,labels,split,path"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "json", "jsonl", "npz", "csv.gz"])
def test_tables_without_rows_have_no_video_or_are_refused(tmp_path: pathlib.Path, header: str, ending: str) -> None:
    path, names = tmp_path / f"t.{ending}", header.split(",")
    if ending == "parquet":
        pq.write_table(pa.table({name: pa.array([], pa.string()) for name in names}), path)
    elif ending == "npz":
        np.savez(path, **{name: np.zeros(0, "U1") for name in names})
    elif ending.startswith("json"):
        path.write_text("[]" if ending == "json" else "")
    else:
        content = header.replace(",", "\t" if ending == "tsv" else ",").encode() + b"\n"
        path.write_bytes(gzip.compress(content) if ending == "csv.gz" else content)
    try:
        assert read(str(path)) == {}
    except (RunError, UsageError) as error:
        said = str(error)
        assert path.name in said


@pytest.mark.parametrize(
    "lines",
    [
        ["id,labels", "v0,cat", "v1,dog", "v2,cat", "id,labels", "v3,dog"],
        ["id,cat,dog", "v0,1,0", "v1,0,1", "v2,1,1", "id,cat,dog", "v3,1,0"],
        ["clip;mood", "v0;glad", "v1;sad", "v2;glad", "clip;mood", "v3;sad"],
    ],
)
def test_a_header_in_the_middle_is_named(lines: list[str], tmp_path: pathlib.Path) -> None:
    """Files that were joined by `cat`."""
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(UsageError, match=r"t\.csv, row 4 \(line 5\) .*header again"):
        read(tmp_path / "t.csv")


PEOPLE = [("v0", "cat", "ann"), ("v0", "dog", "ann"), ("v0", "dog", "bob"), ("v0", "cat", "bob"), ("v1", "dog", "ann")]


@pytest.mark.parametrize("name", ["annotator", "Rater ID", "WorkerId", "labeled_by"])
def test_people_who_agree_are_one_answer_and_others_are_named(name: str, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("id", "label", name), *PEOPLE])
    assert read(path) == {"v0": ["cat", "dog"], "v1": ["dog"]}
    path = write(tmp_path / "other.csv", [("id", "label", name), *PEOPLE, ("v1", "cat", "bob")])
    with pytest.raises(UsageError, match=rf'"{name}".*\'v1\', from row 5 \(line 6\) on, has dog \(ann\) and cat'):
        read(path)
    twice = write(tmp_path / "twice.csv", [("id", "label", name), *PEOPLE, PEOPLE[-1]])  # one person, one label, twice
    ids = [video for rows in understand("--table", str(twice), TableFlags()).batches(9) for video in rows.cells["id"]]
    assert ids.count("v1") == 2  # a mistake, which make-records names


@pytest.mark.parametrize(
    ("videos", "message"),
    [
        ({"v0": {"subset": "Test", "duration": 3.0}}, "no video of its \"database\".*'v0' has: subset, duration"),
        ({"v0": {"annotations": [{"segment": [0, 1]}]}}, r"annotation 0 of 'v0' .*no label; .*: segment"),
    ],
)
def test_a_database_of_videos_without_labels_is_named(
    videos: dict[str, Any], message: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "t.json").write_text(json.dumps({"database": videos}))
    with pytest.raises(UsageError, match=message):
        read(tmp_path / "t.json")
    videos = {**videos, "v1": {"annotations": [{"label": "cat"}]}, "v2": {}}
    videos["v0"] = {"subset": "Test"}  # a video of a test, whose answers are kept back
    (tmp_path / "t.json").write_text(json.dumps({"database": videos}))
    assert read(tmp_path / "t.json") == {"v1": ["cat"], "v2": []}


@pytest.mark.parametrize(("encoding", "word"), [("big5", "貓"), ("cp932", "ねこ"), ("gb18030", "红狐")])
def test_east_asian_codes_that_cannot_be_told_apart_are_all_named(
    encoding: str, word: str, tmp_path: pathlib.Path
) -> None:
    rows = "".join(f"v{number},{word}|{word[0]}{number % 3}\n" for number in range(30))
    (tmp_path / "t.csv").write_bytes(f"id,labels\n{rows}".encode(encoding))
    with pytest.raises(RunError, match=rf"line 2: this is not UTF-8 text, perhaps .*{encoding}"):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize("odd", ["[1, 0, 1]", "[0, 1, 0, 0, 2]", "[0, 1, nan, 0, 0]"], ids=["short", "2", "nan"])
def test_one_cell_that_is_no_vector_makes_no_numbers_of_the_others(tmp_path: pathlib.Path, odd: str) -> None:
    vectors = ["[0, 1, 0, 0, 1]", "[1, 0, 0, 0, 0]", "[0, 0, 1, 1, 0]", "[0, 0, 0, 0, 1]", odd]
    path = tmp_path / "t.csv"
    path.write_text("id,labels\n" + "".join(f'v{k},"{cell}"\n' for k, cell in enumerate(vectors)))
    with pytest.raises(UsageError, match="0/1 vectors of 5 values"):
        understand("--table", str(path), TableFlags())


@pytest.mark.parametrize(
    ("column", "right", "wrong"),
    [("is_negative", "False", "True"), ("rejected", "0", "1"), ("status", "approved", "rejected"), ("votes", "3", "0")],
)
def test_rows_that_deny_a_label_are_no_labels(tmp_path: pathlib.Path, column: str, right: str, wrong: str) -> None:
    rows = "".join(
        f"v{video},{label},{right if video % 2 == number else wrong}\n"
        for video in range(8)
        for number, label in enumerate(("cat", "dog"))
    )
    (tmp_path / "t.csv").write_text(f"video,label,{column}\n{rows}")
    with pytest.raises(UsageError, match=column):
        understand("--table", str(tmp_path / "t.csv"), TableFlags())


@pytest.mark.parametrize(
    ("name", "cells", "flags"),
    [("label", ["cat", "dog"], ("cat", "dog")), ("tags", ["batch 0", "batch 1"], ("cat", "dog", "bird"))],
)
def test_a_column_of_labels_beside_a_column_for_each_class_has_two_readings(
    tmp_path: pathlib.Path, name: str, cells: list[str], flags: tuple[str, ...]
) -> None:
    rows = [[f"v{k}", cells[k % 2], *(str((k + place) % 2) for place in range(len(flags)))] for k in range(8)]
    text = "\n".join(",".join(row) for row in [["id", name, *flags], *rows])
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UsageError, match=f"--columns=labels={name} or .*--columns=labels=cat.dog"):
        understand("--table", str(tmp_path / "t.csv"), TableFlags())


def test_two_facts_of_the_videos_are_no_classes(tmp_path: pathlib.Path) -> None:
    rows = "".join(f"v{k},{('cat', 'dog')[k % 2]},{k % 2},{k % 3 // 2}\n" for k in range(8))
    (tmp_path / "t.csv").write_text(f"id,label,hd,stereo\n{rows}")
    assert read(tmp_path / "t.csv")["v1"] == ["dog"]


@pytest.mark.parametrize("labels", ["{0}", "{0},{1}"])
def test_lines_of_libsvm_are_named(labels: str, tmp_path: pathlib.Path) -> None:
    lines = [
        f"{labels.format(n % 3, 3 + n % 2)} " + " ".join(f"{i}:{(n * i + 1) / 997:.3f}" for i in range(1, 5))
        for n in range(20)
    ]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(UsageError, match=r"are of libsvm.*load_svmlight_file"):
        read(tmp_path / "t.txt")
