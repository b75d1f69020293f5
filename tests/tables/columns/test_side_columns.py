"""Columns of 0 and 1 beside those of classes: what may be no class is refused, with the flag that chooses."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import cases
import pytest
from table_files import NAMES, read, truth, write

from yt8m.errors import UsageError

NAMES_OF_FACTS = [
    *("fold", "annotator", "weight", "batch", "version", "seed", "station", "camera", "site", "split_id", "batch_no"),
    *("data_version", "is_indoor", "in_scope", "was_cut", "n_people", "Consent", "gender", "cohort", "round", "use"),
    *("valid_clip", "test1", "bad", "low_quality", "used_in_paper", "ID2", "conf", "annotation_round"),
    *("cv", "hold_out", "Fold 1", "double_coded", "recorded_at_night", "training_set", "site_B", "speaker_gender"),
    *("cam1", "rater2", "annotator_A", "confirmed_by_expert", "visit", "Test Set", "quality_ok", "sample_weight"),
]
MADE = {video: sorted(labels) for video, labels in truth().items()}
ONE = {video: labels[:1] for video, labels in MADE.items()}  # one label each


def table(
    path: pathlib.Path, name: str, cells: list[Any], place: int = 0, made: dict[str, list[str]] = MADE
) -> pathlib.Path:
    """Writes a column for each class, and another one at a place between them."""
    header = [*NAMES[:place], name, *NAMES[place:]]
    rows = []
    for (video, labels), cell in zip(made.items(), cells, strict=True):
        marks = [int(label in labels) for label in NAMES]
        rows.append([video, *marks[:place], cell, *marks[place:]])
    return write(path / "t.csv", [["id", *header], *rows])


def flags(seed: int = 1) -> list[int]:
    draw = random.Random(seed)
    return [draw.randint(0, 1) for _ in MADE]


@pytest.mark.parametrize("name", NAMES_OF_FACTS)
@pytest.mark.parametrize("place", cases.all_of([5], heavy=[0]))
def test_a_name_that_usually_says_something_else(name: str, place: int, tmp_path: pathlib.Path) -> None:
    path = table(tmp_path, name, flags(), place)
    with pytest.raises(UsageError, match=rf"may be no class: \"{name}\" .*unused={name}'? .*columns=unused= "):
        read(path)
    assert read(path, columns=[f"unused={name}"]) == MADE
    cells = zip(MADE.items(), flags(), strict=True)
    both = {video: sorted(labels + [name] * cell) for (video, labels), cell in cells}
    assert read(path, columns=["unused="]) == both
    assert read(path, vocabulary=[*NAMES, name]) == both
    assert read(path, columns=[f"labels={'+'.join(NAMES)}"]) == MADE
    assert read(path, extra_columns=[name]) == MADE  # as by --group_by


@pytest.mark.parametrize(("name", "cell"), [("type", "T"), ("chan", 1), ("agreed", "yes"), ("qc1", "x"), ("f", "True")])
def test_a_column_that_says_yes_of_every_video(name: str, cell: Any, tmp_path: pathlib.Path) -> None:
    path = table(tmp_path, name, [cell] * len(MADE), 5)
    with pytest.raises(UsageError, match=f'"{name}" .*says yes .*every video'):
        read(path)
    rows = [(video, cell, 1, labels[0]) for video, labels in MADE.items()]
    assert read(write(tmp_path / "u.csv", [("clip", name, "other", "sound"), *rows])) == ONE  # no classes at all


@pytest.mark.parametrize("spelling", [("yes", "no"), ("x", ""), ("T", "F")])
def test_a_column_that_is_written_otherwise(spelling: tuple[str, str], tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r'"zz" .it is written otherwise'):
        read(table(tmp_path, "zz", [spelling[flag] for flag in flags()], 2))


def test_a_column_beside_classes_of_which_each_video_has_one(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r'"zz" .*each video .*one class'):
        read(table(tmp_path, "zz", flags(), 5, ONE))


def test_a_column_without_the_beginning_of_the_others(tmp_path: pathlib.Path) -> None:
    rows = [(v, *(int(name in labels) for name in NAMES), n % 2) for n, (v, labels) in enumerate(MADE.items())]
    path = write(tmp_path / "t.csv", [("id", *(f"label_{name}" for name in NAMES), "zz"), *rows])
    with pytest.raises(UsageError, match=r'"zz" .*begin with label_'):
        read(path)
    assert read(path, columns=["unused=zz"]) == MADE


@pytest.mark.parametrize(
    "name", ["is_cc", "verified", "has_audio", "is_train", "in_val", "InTest", "isTrain", "HITTypeId"]
)
def test_names_that_are_no_classes_are_left_out(name: str, tmp_path: pathlib.Path) -> None:
    assert read(table(tmp_path, name, flags())) == MADE


@pytest.mark.parametrize(
    "names",
    [
        ("airport", "station", "zone", "park", "site"),  # each video has one of them
        ("is_cat", "is_dog", "is_bird", "is_fox", "is_otter"),
        ("has dog", "has cat", "has bird", "has fox", "has otter"),
        ("No Finding", "Edema", "Mass", "Nodule", "Hernia"),
        ("run", "jump", "sit down", "open door", "wave"),
        ("train station", "gas station", "group photo", "sunset", "weight lifting"),
    ],
)
def test_names_of_classes_stay_classes(names: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    made = truth(names, most=1 if "zone" in names else 3)
    rows = [(v, *(int(name in labels) for name in names)) for v, labels in made.items()]
    path = write(tmp_path / "t.csv", [("id", *names), *rows])
    assert read(path) == {video: sorted(labels) for video, labels in made.items()}


def test_a_split_of_true_and_false_that_begins_with_in(tmp_path: pathlib.Path) -> None:
    from yt8m.tables.understood import TableFlags, understand

    path = table(tmp_path, "in_train", flags())
    cells = next(understand("--table", str(path), TableFlags()).batches(99)).cells["split"]
    assert list(cells) == [["validate", "train"][flag] for flag in flags()]
