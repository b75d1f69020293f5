"""The classes that ship with the package, against the published files, and vocabularies of other data."""

from __future__ import annotations

import csv
import pathlib
import re
import subprocess
import sys

import hypothesis
import numpy as np
import pytest
from golden_data import real_data
from hypothesis import strategies as st

from yt8m.errors import RunError
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary


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
    published = vocabulary.of_names(()).shown(3862)
    assert (published.name(2), published.vertical(2)) == ("Vehicle", "Autos & Vehicles")
    for num_classes in (1, 3, 3861, 3863, 10**12, None):
        own = vocabulary.of_names(()).shown(num_classes)
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


def test_copies_of_a_file_are_parsed_once_and_each_has_its_path() -> None:
    content = b"index,name,count\n0,cat,7\n1,dog,2\n"
    first, second = vocabulary.parse(content, "a.csv"), vocabulary.parse(content, "b.csv")
    assert (first.path, second.path) == ("a.csv", "b.csv")
    assert first.names is second.names
    assert first.counts is second.counts
    for path in ("a.csv", "b.csv"):
        with pytest.raises(RunError, match=f"^{path}, line 2: "):
            vocabulary.parse(b"index,name\n1,cat\n", path)


def test_shared_arrays_cannot_be_changed() -> None:
    for array in (vocabulary.load().counts, vocabulary.segment_classes(), vocabulary.pca_eigenvalues()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.heavy
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
    own = vocabulary.of_names(()).shown(7)
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
        ("Index\n3\nx4\n", "line 3: 'x4' .*`Index`"),
        ("Index\n-4\n", "line 2: '-4' .*number"),
        ("Index\n", "line 1: there is no class; .*`Index`"),
        ("", "line 1: there is no class"),
    ],
)
def test_a_file_that_lists_no_classes_is_refused(tmp_path: pathlib.Path, content: str, told: str) -> None:
    path = tmp_path / "ids.csv"
    path.write_text(content)
    with pytest.raises(RunError, match=f"^{re.escape(str(path))}, {told}"):
        vocabulary.read_segment_classes(str(path))


def test_the_published_file_is_read_as_it_is() -> None:
    published, loaded = vocabulary.read(str(real_data("vocabulary.csv"))), vocabulary.load()
    assert published.names == loaded.names
    assert published.verticals == loaded.verticals
    np.testing.assert_array_equal(published.counts, loaded.counts)
    assert published.first_difference(loaded) is None


def _names() -> st.SearchStrategy[str]:
    characters = st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp"))
    return st.text(characters, max_size=12).map(str.strip).filter(bool)


@st.composite
def _vocabularies(draw: st.DrawFn) -> Vocabulary:
    names = draw(st.lists(_names(), min_size=1, max_size=9))
    counts = draw(st.lists(st.integers(0, 10**12), min_size=len(names), max_size=len(names)))
    verticals = draw(st.lists(st.just("") | _names(), min_size=len(names), max_size=len(names)))
    return Vocabulary(tuple(names), np.array(counts), tuple(verticals))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("vocabulary") / "vocabulary.csv")


@hypothesis.given(written=_vocabularies())
def test_what_is_written_is_read(file: str, written: Vocabulary) -> None:
    vocabulary.write(file, written)
    found = vocabulary.read(file)
    assert (found.names, found.verticals) == (written.names, written.verticals)
    np.testing.assert_array_equal(found.counts, written.counts)


@hypothesis.given(one=st.lists(st.sampled_from("abc"), max_size=5), other=st.lists(st.sampled_from("abc"), max_size=5))
def test_the_first_difference(one: list[str], other: list[str]) -> None:
    found = vocabulary.of_names(one).first_difference(vocabulary.of_names(other))
    assert found == vocabulary.of_names(other).first_difference(vocabulary.of_names(one))
    if found is None:
        assert one == other
    else:
        assert one[:found] == other[:found]
        assert one[found : found + 1] != other[found : found + 1]


def test_columns_in_another_order_a_mark_at_the_start_and_other_line_ends(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.csv"
    text = 'Name, Index ,COUNT,mid\r\n" cat, wild ",0,7,/m/1\r\ndog,1,,"a\r\nb"\r\n\r\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    found = vocabulary.read(str(path))
    assert (found.names, found.counts.tolist(), found.verticals) == (("cat, wild", "dog"), [7, 0], ("", ""))


def test_a_vocabulary_that_a_spreadsheet_wrote_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.csv"
    for text, encoding in (
        ("index;name;;\r\n0;B\u00e4r, gro\u00df;;\r\n1;Fu\u00df;;\r\n", "cp1252"),
        ("INDEX\tName\n0\tB\u00e4r, gro\u00df\n1\tFu\u00df\n", "utf-16"),
        ("sep=;\nindex;name\n0;B\u00e4r, gro\u00df\n1;Fu\u00df\n;\n", "utf-8-sig"),
    ):
        path.write_bytes(text.encode(encoding))
        assert vocabulary.read(str(path)).names == ("B\u00e4r, gro\u00df", "Fu\u00df")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("index,name\n0,cat\n0,dog\n", ", line 3: the index 0 .*earlier line .*expected 1: .*from 0"),
        ("index,name\n0,cat\n2,dog\n", ", line 3: the index is 2; expected 1: .*from 0"),
        ("index,name\n1,dog\n0,cat\n", ", line 2: the index is 1; expected 0: .*from 0"),
        ("index,name\nx,dog\n", ", line 2: 'x' .*number; expected 0: .*from 0"),
        ("index,name\n-1,dog\n", ", line 2: '-1' .*number"),
        ("index,name\n0,cat\n1, \n", ", line 3: the name of class 1 is empty"),
        ('index,name,x\n0,cat,"a\nb"\n1,,c\n', ", line 4: the name of class 1 is empty"),
        ('index,name\n0,"c\tat"\n', r", line 2: the name 'c\\tat' holds a control character"),
        ('index,name\n0,"c\u2028at"\n', r", line 2: the name 'c\\u2028at' holds a control character"),
        ("index,name\n0,cat,dog\n", ", line 2: 3 fields, .*header has 2; .*in quotes"),
        ("index,name\n0\n", ", line 2: 1 fields, .*header has 2"),
        ("index,name,count\n0,cat,-1\n", ", line 2: the count '-1' .*expected a whole number"),
        ("cat,dog\na,b\n", ", line 1: .*cat, dog; .*`index,name`"),
        ("\nindex,name\n", " lists no class"),
        ("index,name,name\n0,cat,dog\n", ", line 1: .*repeated in index,name,name"),
        ('index,name\n0,"cat\n', r", line 2: this is not CSV \(unexpected end of data\)\."),
        ("index,name\n0,\udc8e\n", ", line 2: this is not UTF-8 text"),
        ("index,name\n", " lists no class; .*`index,name`"),
        ("", " lists no class"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: pathlib.Path, content: str, told: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(RunError, match=f"^{re.escape(str(path))}{told}"):
        vocabulary.read(str(path))


def test_what_could_not_be_read_is_not_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "vocabulary.csv"
    for names, told in (
        ([""], "line 2: the name of class 0 is empty"),
        ([], "lists no class"),
        (["a\nb"], "control character"),
    ):
        with pytest.raises(RunError, match=told):
            vocabulary.write(str(path), vocabulary.of_names(names))
    assert not path.exists()


def test_verticals_are_read_from_the_columns_of_both_forms(tmp_path: pathlib.Path) -> None:
    for file, header, row in (
        ("own.csv", "index,name,vertical", "0,cat,Pets"),
        ("published.csv", "Index,TrainVideoCount,Name,Vertical1", "0,7,cat,Pets"),
    ):
        (tmp_path / file).write_text(f"{header}\n{row}\n")
        assert vocabulary.read(str(tmp_path / file)).verticals == ("Pets",)


def test_one_content_is_parsed_once_and_a_changed_file_anew(tmp_path: pathlib.Path) -> None:
    first, second = str(tmp_path / "a.csv"), str(tmp_path / "b.csv")
    for path in (first, second):
        vocabulary.write(path, vocabulary.of_names(("cat", "dog")))
    assert vocabulary.read(first).counts is vocabulary.read(second).counts
    assert vocabulary.read(second).path == second
    vocabulary.write(first, vocabulary.of_names(("cat", "cow")))
    assert vocabulary.read(first).names == ("cat", "cow")
    assert vocabulary.read(second).names == ("cat", "dog")


def test_verticals_are_written_under_their_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "vocabulary.csv"
    vocabulary.write(str(path), Vocabulary(("cat",), np.array([0]), ("Pets",)))
    assert path.read_text().splitlines() == ["index,name,vertical", "0,cat,Pets"]
