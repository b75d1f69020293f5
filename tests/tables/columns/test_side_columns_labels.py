"""Labels that would be lost: in merged cells, in columns without a name, beside empty columns; and forms that help."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from table_files import NAMES, read, truth, write, write_json

from yt8m.errors import UsageError

TRUTH = truth()
EXPECTED = {name: sorted(labels) for name, labels in TRUTH.items()}
ONE = truth(most=1)


def refusal(path: pathlib.Path, **flags: Any) -> str:
    with pytest.raises(UsageError) as refused:
        read(path, **flags)
    return str(refused.value)


def test_merged_cells_of_labels_are_refused(tmp_path: pathlib.Path) -> None:
    by_label = {label: [name for name, labels in ONE.items() if labels == [label]] for label in NAMES}
    rows = [(label if k == 0 else "", name) for label, names in by_label.items() for k, name in enumerate(names)]
    assert "cells were merged" in refusal(write(tmp_path / "t.csv", [("label", "video"), *rows]))


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_labels_in_columns_without_a_name_are_refused(name: str, tmp_path: pathlib.Path) -> None:
    rows = [("id", "labels", "", ""), *((n, *x, *[""] * (3 - len(x))) for n, x in TRUTH.items())]
    if name == "t.csv":
        path = write(tmp_path / name, rows)
    else:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(path := tmp_path / name)
    assert "column 3 has no name" in refusal(path)


def test_remarks_in_columns_without_a_name_are_left_out(tmp_path: pathlib.Path) -> None:
    rows = [("id", "labels", ""), *((n, ";".join(x), "looks odd") for n, x in TRUTH.items())]
    assert read(write(tmp_path / "t.csv", rows)) == EXPECTED


def test_columns_of_labels_with_one_name_are_read(tmp_path: pathlib.Path) -> None:
    for header in (("key", "Labels", "Labels", "Labels"), ("key", "labels", "labels.1", "labels.2")):
        rows = [header, *((n, *x, *[""] * (3 - len(x))) for n, x in TRUTH.items())]
        assert read(write(tmp_path / "t.csv", rows)) == EXPECTED


def test_an_empty_column_beside_marks_is_asked_for(tmp_path: pathlib.Path) -> None:
    records = [
        {"metadata": {"name": n}, "instances": [{"className": c} for c in x], "tags": []} for n, x in TRUTH.items()
    ]
    assert '"tags" are empty, but "instances" is not' in refusal(write_json(tmp_path / "t.json", records))


def test_an_empty_column_beside_another_of_labels_is_passed_over(tmp_path: pathlib.Path) -> None:
    assert (
        read(write_json(tmp_path / "t.json", [{"id": n, "tags": x, "labels": []} for n, x in TRUTH.items()]))
        == EXPECTED
    )


@pytest.mark.parametrize("names", [NAMES, ("cat", "dog", "fox, red", "fox, grey")])
def test_choices_of_airtable(names: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    made = truth(names)
    cells = [(n, ",".join(f'"{c}"' if " " in c else c for c in x)) for n, x in made.items()]
    assert read(write(tmp_path / "t.csv", [("Name", "Tags"), *cells])) == {n: sorted(x) for n, x in made.items()}


def test_answers_of_surveymonkey(tmp_path: pathlib.Path) -> None:
    header = [("Respondent ID", "Clip", "What is shown?", *[""] * 4), ("", "Open-Ended Response", *NAMES)]
    rows = [(k, n, *(c if c in x else "" for c in NAMES)) for k, (n, x) in enumerate(TRUTH.items(), 1000)]
    assert read(write(tmp_path / "t.csv", [*header, *rows])) == EXPECTED


@pytest.mark.parametrize(
    "column", ["What is shown? (choice={})", "What? - Selected Choice - {}", "What is shown? [{}]"]
)
def test_columns_of_options(column: str, tmp_path: pathlib.Path) -> None:
    rows = [(n, *("Checked" if c in x else "Unchecked" for c in NAMES)) for n, x in TRUTH.items()]
    assert read(write(tmp_path / "t.csv", [("Clip", *map(column.format, NAMES)), *rows])) == EXPECTED


def test_the_name_of_an_index_below_a_header(tmp_path: pathlib.Path) -> None:
    rows = [(n, *(int(c in x) for c in NAMES)) for n, x in TRUTH.items()]
    assert read(write(tmp_path / "t.csv", [("label", *NAMES), ("id", *[""] * 5), *rows])) == EXPECTED


def test_a_dot_is_no_label(tmp_path: pathlib.Path) -> None:
    rows = [(n, x[0] if k else ".") for k, (n, x) in enumerate(ONE.items())]
    assert read(write(tmp_path / "t.csv", [("ID", "LABEL"), *rows]))["v00"] == []


@pytest.mark.parametrize("form", ["list({})", "WrappedArray({})", "c({})"])
def test_lists_of_r_and_scala(form: str, tmp_path: pathlib.Path) -> None:
    quote = "" if "Wrapped" in form else '"'
    rows = [(n, form.format(", ".join(f"{quote}{c}{quote}" for c in x))) for n, x in TRUTH.items()]
    assert read(write(tmp_path / "t.csv", [("id", "labels"), *rows])) == EXPECTED


@pytest.mark.parametrize("key", ["className", "tagName", "display_name", "element"])
def test_objects_that_name_a_class(key: str, tmp_path: pathlib.Path) -> None:
    records = [{"id": n, "tags": [{"tagId": "g1", key: c} for c in x]} for n, x in TRUTH.items()]
    assert read(write_json(tmp_path / "t.json", records)) == EXPECTED


def test_marks_of_a_model_are_refused(tmp_path: pathlib.Path) -> None:
    records = [{"file": n, "detections": [{"category": "1", "conf": 0.9}]} for n in TRUTH]
    assert "score does not" in refusal(write_json(tmp_path / "t.json", records))


def test_a_file_of_one_video_is_no_table_of_its_marks(tmp_path: pathlib.Path) -> None:
    value = {
        "filename": "v1.mp4",
        "annotations": [{"type": "class", "label": "cat"}, {"type": "class", "label": "dog"}],
    }
    assert "no column 'id'" in refusal(write_json(tmp_path / "t.json", value))


def test_three_tables_of_a_database(tmp_path: pathlib.Path) -> None:
    links = [{"video_id": k, "tag_id": NAMES.index(c) + 1} for k, x in enumerate(TRUTH.values()) for c in x]
    tags = [{"id": k, "name": name} for k, name in enumerate(NAMES, 1)]
    videos = [{"id": k, "file_name": name} for k, name in enumerate(TRUTH)]
    assert read(write_json(tmp_path / "t.json", {"videos": videos, "tags": tags, "video_tags": links})) == EXPECTED


def test_answers_of_search_servers(tmp_path: pathlib.Path) -> None:
    hits = [{"_id": n, "_source": {"tags": x}} for n, x in TRUTH.items()]
    assert (
        read(write_json(tmp_path / "t.json", {"took": 1, "hits": {"total": {"value": 40}, "hits": hits}})) == EXPECTED
    )
    docs = [{"id": n, "tags": x} for n, x in TRUTH.items()]
    value = {"responseHeader": {"status": 0}, "response": {"numFound": 40, "docs": docs}}
    assert read(write_json(tmp_path / "t.json", value)) == EXPECTED
    assert json.loads((tmp_path / "t.json").read_text()) == value


OTHERS = [
    *("true_label", "given_label", "gt_label", "ground_truth", "consensus_label", "corrected", "original_label"),
    *("predicted_label", "noisy_label", "old_label", "auto_label"),
]


@pytest.mark.parametrize("name", OTHERS)
def test_labels_beside_those_of_others(name: str, tmp_path: pathlib.Path) -> None:
    names = ("cat", "dog", "red fox")
    rows = [(f"v{n}", names[n % 3], names[(n + (n % 5 == 0)) % 3]) for n in range(30)]
    path = write(tmp_path / "t.csv", [("id", "label", name), *rows])
    with pytest.raises(UsageError, match=f"--columns=labels=label or --columns=labels={name}"):
        read(path)
    assert read(path, columns=[f"labels={name}"]) == {video: [other] for video, _, other in rows}
    assert read(path, columns=["labels=label"]) == {video: [label] for video, label, _ in rows}
    same = write(tmp_path / "same.csv", [("id", "label", name), *((v, x, x) for v, x, _ in rows)])
    assert read(same) == {video: [label] for video, label, _ in rows}


@pytest.mark.parametrize("first", [("video", "a"), ("", "0")])
def test_a_name_that_stands_twice_makes_no_header_of_the_first_row(
    first: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    """The first row was taken for a second line of the header, and lost."""
    name, value = first
    rows = [
        (name, "clip", "label", "note", "note"),
        (value, "a", "cat", "x", "y"),
        ("b", "b", "dog", "u", "v"),
        ("c", "c", "cat", "r", "s"),
    ]
    assert "names a column twice" in refusal(write(tmp_path / "t.csv", rows))


@pytest.mark.parametrize("names", [("CATEGORY", "COMMON NAME"), ("Taxon Category", "Common Name")])
def test_ranks_beside_names_of_species_are_no_classes(names: tuple[str, str], tmp_path: pathlib.Path) -> None:
    """eBird's tables had the only class `species`."""
    species = ["Great Tit", "Robin", "Great Tit", "Wren"]
    for ranks in (["species"] * 4, ["species", "hybrid", "species", "issf"]):
        rows = [(f"61{n}", rank, name) for n, (rank, name) in enumerate(zip(ranks, species, strict=True))]
        path = write(tmp_path / "t.csv", [("ML Catalog Number", *names), *rows])
        assert read(path) == {f"61{n}": [name] for n, name in enumerate(species)}
    path = write(tmp_path / "u.csv", [("id", "category"), ("a", "species"), ("b", "genus")])
    assert read(path) == {"a": ["species"], "b": ["genus"]}
