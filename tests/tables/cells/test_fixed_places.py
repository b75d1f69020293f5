"""Attributes in fixed places may be names or labels; names of a taxonomy and of actions go on being names."""

from __future__ import annotations

import itertools
import pathlib
import random

import pytest
from table_files import read, write

from yt8m.errors import UsageError

PLACES = [["indoor", "outdoor"], ["day", "night"], ["busy", "quiet", "empty"]]
SEPARATORS = [", ", ",", " ", "_", "-", ".", "/", " / ", ":", " & ", " - ", ">", "; ", "+", "#"]


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("places", [2, 3])
def test_attributes_may_be_names_or_labels(separator: str, places: int, tmp_path: pathlib.Path) -> None:
    draw = random.Random(4)
    rows = [(f"v{number:02}", [draw.choice(values) for values in PLACES[:places]]) for number in range(40)]
    path = write(tmp_path / "t.csv", [("id", "label"), *((name, separator.join(x)) for name, x in rows)])
    with pytest.raises(UsageError) as refusal:
        read(path)
    sign = separator if separator == " - " else separator.strip() or " "
    assert "--label_separator=none" in str(refusal.value)
    assert f"--label_separator={sign!r}" in str(refusal.value)
    assert read(path, separator=sign) == {name: sorted(labels) for name, labels in rows}
    assert read(path, separator="none") == {name: [separator.join(labels)] for name, labels in rows}
    names = {separator.join(labels) for labels in itertools.product(*PLACES[:places])}
    assert read(path, vocabulary=names) == {name: [separator.join(labels)] for name, labels in rows}


@pytest.mark.parametrize(
    "names",
    [
        ["Animal, domestic", "Animal, wild", "Plant, garden", "Plant, forest", "Vehicle, land"],
        ["Animal, dog", "Animal, other", "Plant, rose", "Plant, other", "Vehicle, car", "Vehicle, other"],
        ["Action/Adventure", "Action/Comedy", "Drama/War", "Drama/Romance", "Music/Live"],
        ["playing guitar", "playing piano", "riding bike", "riding horse", "walking dog"],
        ["brush_hair", "ride_bike", "ride_horse", "shoot_ball", "shoot_bow", "shoot_gun", "kick_ball"],
        ["class_1", "class_2", "class_3", "class_4"],
        ["Mammal/Dog/Poodle", "Mammal/Dog/Beagle", "Mammal/Cat/Siamese", "Bird/Owl/Barn owl", "Bird/Duck/Mallard"],
        ["washing hands", "washing hair", "brushing hair", "brushing teeth", "braiding hair", "shaking hands", "yoga"],
        ["1.1", "1.2", "2.1", "2.2"],
    ],
)
def test_names_with_signs_go_on_being_names(names: list[str], tmp_path: pathlib.Path) -> None:
    rows = [(f"v{number:02}", names[number % len(names)]) for number in range(48)]
    path = write(tmp_path / "t.csv", [("id", "label"), *rows])
    assert read(path) == {video: [name] for video, name in rows}


def test_combinations_in_a_list_with_its_own_separator_are_names(tmp_path: pathlib.Path) -> None:
    names = ["red car", "blue car", "red bike", "blue bike"]
    draw = random.Random(2)
    rows = [(f"v{number:02}", draw.sample(names, 1 + number % 3)) for number in range(40)]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((video, ";".join(labels)) for video, labels in rows)])
    assert read(path) == {video: sorted(labels) for video, labels in rows}
