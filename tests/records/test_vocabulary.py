"""The classes that ship with the package, against the published files."""

from __future__ import annotations

import csv
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from golden_data import real_data

from yt8m.errors import RunError
from yt8m.records import vocabulary


def test_same_as_published() -> None:
    with open(real_data("vocabulary.csv"), newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    loaded = vocabulary.load()
    assert len(loaded) == len(rows) == 3862
    np.testing.assert_array_equal(loaded.counts, [int(row["TrainVideoCount"]) for row in rows])
    assert loaded.verticals == tuple(row["Vertical1"] for row in rows)
    for index, row in enumerate(rows):
        assert loaded.names[index] == (row["Name"].strip() or f"class {index}")


@pytest.mark.promise("X2")
def test_every_class_has_a_name() -> None:
    loaded = vocabulary.load()
    assert all(loaded.names)
    unnamed = [index for index in range(len(loaded)) if loaded.names[index] == f"class {index}"]
    assert len(unnamed) == 56
    assert loaded.name(0) == "Game"
    assert loaded.name(4000) == "class 4000"
    assert loaded.name(-1) == "class -1"


@pytest.mark.promise("X2")
def test_any_other_number_of_classes_has_no_names() -> None:
    published = vocabulary.of(3862)
    assert (published.name(2), published.vertical(2)) == ("Vehicle", "Autos & Vehicles")
    for num_classes in (1, 3, 3861, 3863, 10**12, None):
        own = vocabulary.of(num_classes)
        assert (own.name(2), own.vertical(2)) == ("class 2", "")


def test_segment_classes() -> None:
    classes = vocabulary.segment_classes()
    assert len(np.unique(classes)) == len(classes) == 1000
    assert (np.diff(classes) > 0).all()
    published = real_data("segment_label_ids.csv").read_text().split()[1:]
    assert set(classes.tolist()) == set(map(int, published))
    assert classes.max() < len(vocabulary.load())


def test_eigenvalues() -> None:
    values = vocabulary.pca_eigenvalues()
    assert values.shape == (2048,)
    assert (np.diff(values) <= 0).all()
    assert values[-1] > 0
    np.testing.assert_array_equal(values, np.load(real_data("pca_eigenvals.npy")).ravel())


def test_shared_arrays_cannot_be_changed() -> None:
    for array in (vocabulary.load().counts, vocabulary.segment_classes(), vocabulary.pca_eigenvalues()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_needs_no_tensorflow() -> None:
    code = "import sys; from yt8m.records import vocabulary as v; v.load(); print('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


def test_the_ends_of_the_vocabulary() -> None:
    loaded = vocabulary.load()
    assert loaded.name(3861) == loaded.names[3861]
    assert loaded.name(3862) == "class 3862"
    assert (loaded.vertical(0), loaded.vertical(3861)) == (loaded.verticals[0], loaded.verticals[3861])
    assert (loaded.vertical(3862), loaded.vertical(-1)) == ("", "")
    assert loaded.counts.dtype == np.int64
    assert loaded.counts[0] == loaded.counts.max() > 0
    own = vocabulary.of(7)
    assert (len(own), own.counts.shape, own.counts.dtype) == (0, (0,), np.int64)


def test_segment_classes_of_a_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ids.csv"
    path.write_text("Index\n0\n 17 \n\n3\n")
    assert vocabulary.read_segment_classes(str(path)) == {0, 3, 17}
    path.write_text("5\n7\n")  # without the header
    assert vocabulary.read_segment_classes(str(path)) == {5, 7}
    assert vocabulary.read_segment_classes() == set(vocabulary.segment_classes().tolist())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("Index\n3\nx4\n", "line 3: 'x4' is no class number; expected one a line under `Index`."),
        ("Index\n-4\n", "line 2: '-4' is no class number"),
        ("Index\n", "line 1: there is no class; expected one number a line under the header `Index`."),
        ("", "line 1: there is no class"),
    ],
)
def test_a_file_that_lists_no_classes_is_refused(tmp_path: pathlib.Path, content: str, told: str) -> None:
    path = tmp_path / "ids.csv"
    path.write_text(content)
    with pytest.raises(RunError, match=f"^{re.escape(f'{path}, {told}')}"):
        vocabulary.read_segment_classes(str(path))
