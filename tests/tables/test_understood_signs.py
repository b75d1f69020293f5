"""Signs between ids and labels, names beside numbers, and cells that say more than which labels a video has."""

from __future__ import annotations

import pathlib

import pytest
from table_files import SHORT, read, truth, write, write_json

from yt8m.errors import UsageError

MADE = {video: sorted(labels) for video, labels in truth(SHORT).items()}
TWO = {video: sorted(labels) for video, labels in truth(SHORT, fewest=2, most=2).items()}
NUMBERS = {video: [SHORT.index(name) for name in labels] for video, labels in MADE.items()}


@pytest.mark.parametrize("made", [MADE, TWO], ids=["one to three labels", "two labels"])
@pytest.mark.parametrize("sign", ["=", " = ", ": "])
def test_an_id_a_sign_and_labels(sign: str, made: dict[str, list[str]], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("".join(f"{video}{sign}{','.join(labels)}\n" for video, labels in made.items()))
    assert read(path) == made


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("classes", list(SHORT)),
        ("label_names", list(SHORT)),
        ("id2label", {str(number): name for number, name in enumerate(SHORT)}),
        ("label2id", {name: number for number, name in enumerate(SHORT)}),
    ],
)
def test_names_beside_the_rows_name_their_numbers(key: str, names: object, tmp_path: pathlib.Path) -> None:
    rows = [{"id": video, "labels": numbers} for video, numbers in NUMBERS.items()]
    assert read(write_json(tmp_path / "t.json", {key: names, "videos": rows})) == MADE
    one = [{"id": video, "label": numbers[0]} for video, numbers in NUMBERS.items()]
    expected = {video: [SHORT[numbers[0]]] for video, numbers in NUMBERS.items()}
    assert read(write_json(tmp_path / "one.json", {key: names, "data": one})) == expected
    with pytest.raises(UsageError, match=rf'"{key}" .*no name .*class 99\b'):
        read(write_json(tmp_path / "bad.json", {key: names, "videos": [*rows, {"id": "x", "labels": [99]}]}))


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("t.csv", [(v, ";".join(f"{x}:1" for x in names)) for v, names in MADE.items()], r"score or .*count"),
        (
            "t.csv",
            [(v, ";".join([*names, *(f"-{x}" for x in SHORT if x not in names)])) for v, names in MADE.items()],
            r"'-bird' .*deny",
        ),
        (
            "t.csv",
            [(v, ";".join([*names, *(f"not {x}" for x in SHORT if x not in names)])) for v, names in MADE.items()],
            r"'not bird' .*deny",
        ),
        ("t.csv", [(v, "b" + "".join(str(int(x in y)) for x in SHORT)) for v, y in MADE.items()], "a 0/1 vector"),
    ],
)
def test_cells_that_say_more_than_labels(
    name: str, rows: list[tuple[str, str]], message: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(UsageError, match=message):
        read(write(tmp_path / name, [("id", "labels"), *rows]))


def test_numbers_in_a_split_may_be_no_classes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "wave_test_split2.txt"
    path.write_text("".join(f"{video}.avi {number % 3}\n" for number, video in enumerate(MADE)))
    with pytest.raises(UsageError, match=r"splits\b.* or classes .*--columns='labels=column 2'"):
        read(path)
    assert read(path, columns=("labels=column 2",))["v01.avi"] == ["1"]


def test_two_columns_whose_names_mean_labels_are_two_readings(tmp_path: pathlib.Path) -> None:
    rows = [(video, labels[0], "|".join(labels[1:])) for video, labels in MADE.items()]
    path = write(tmp_path / "t.csv", [("id", "label", "tags"), *rows])
    with pytest.raises(UsageError, match=r"--columns=labels=label or --columns=labels=tags.*=label\+tags"):
        read(path)
    assert read(path, columns=("labels=label+tags",)) == MADE
