"""Lists without a header of a path and numbers: labels, or the number of frames and the label."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable, Sequence

import pytest
from table_files import read, write

from yt8m.errors import UsageError

Row = Sequence[int]


def several(make: Callable[[random.Random, int], Row], ending: str = "") -> dict[str, Row]:
    randomness = random.Random(0)
    return {f"clips/v{number:02}{ending}": make(randomness, number % 5) for number in range(40)}


def two_labels(randomness: random.Random, label: int) -> Row:
    return (label, (label + randomness.randrange(1, 5)) % 5)


def frames_label(randomness: random.Random, label: int) -> Row:
    return (randomness.randrange(60, 400), label)


def start_frames_label(randomness: random.Random, label: int) -> Row:
    return (0, randomness.randrange(60, 400), label)


def few_frames_label(randomness: random.Random, label: int) -> Row:
    return (randomness.randrange(3, 7), label)


def labels_of_two_kinds(randomness: random.Random, label: int) -> Row:
    return (randomness.randrange(50), randomness.randrange(50, 100))


def write_list(path: pathlib.Path, rows: dict[str, Row], separator: str) -> pathlib.Path:
    return write(path, [(name, *numbers) for name, numbers in rows.items()], delimiter=separator)


@pytest.mark.parametrize("separator", [" ", ",", "\t"])
@pytest.mark.parametrize(("make", "first"), [(two_labels, 0), (frames_label, 1), (start_frames_label, 2)])
@pytest.mark.parametrize("ending", ["", ".npy"])
def test_the_labels_are_found_by_the_cells(
    ending: str, make: Callable[[random.Random, int], Row], first: int, separator: str, tmp_path: pathlib.Path
) -> None:
    rows = several(make, ending)
    found = read(write_list(tmp_path / "t.txt", rows, separator))
    assert {name: set(labels) for name, labels in found.items()} == {
        name: set(map(str, numbers[first:])) for name, numbers in rows.items()
    }


@pytest.mark.parametrize("make", [few_frames_label, labels_of_two_kinds])
def test_what_may_be_frames_or_labels_is_refused_with_both_readings(
    make: Callable[[random.Random, int], Row], tmp_path: pathlib.Path
) -> None:
    path = write_list(tmp_path / "t.txt", several(make), " ")
    with pytest.raises(UsageError, match=r"labels=column 3'.*labels=column 2\+column 3'"):
        read(path)
    assert len(read(path, columns=["labels=column 3"])) == 40
