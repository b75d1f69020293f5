"""Lists whose items are quoted as other programs do it: bytes of NumPy, MATLAB, escaped quotes, word processors."""

from __future__ import annotations

import pathlib

import pytest
from table_files import read, write

from yt8m.errors import UsageError

_ROWS = [["cat"], ["cat", "dog"], ["red fox"], ["dog", "red fox", "it"], ["cat", "red fox"], ["it"]]
_STYLES = {
    "bytes": ("b'{}'", " ", "[]"),
    "unicode": ("u'{}'", " ", "[]"),
    "bytes of NumPy 2": ("np.bytes_(b'{}')", ", ", "[]"),
    "cells of MATLAB": ("'{}'", "; ", "{}"),
    "double quotes of MATLAB": ('"{}"', ";", "[]"),
    "bars": ("'{}'", "|", "[]"),
    "escaped": ('\\"{}\\"', ", ", "[]"),
    "escaped and single": ("\\'{}\\'", ", ", "[]"),
    "curly": ("“{}”", ", ", "[]"),
    "curly and single": ("\u2018{}\u2019", "; ", "[]"),
    "German": ("„{}“", ", ", "[]"),
    "French": ("«{}»", ", ", "()"),
}


@pytest.mark.parametrize(("item", "separator", "brackets"), _STYLES.values(), ids=_STYLES)
def test_quotes_of_items(item: str, separator: str, brackets: str, tmp_path: pathlib.Path) -> None:
    cells = [separator.join(map(item.format, names)).join(brackets) for names in _ROWS]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", cell) for n, cell in enumerate(cells))])
    assert read(path) == {f"v{n}": sorted(names) for n, names in enumerate(_ROWS)}


def test_a_tensor_of_bytes(tmp_path: pathlib.Path) -> None:
    cells = [f"tf.Tensor([{' '.join(map(repr, map(str.encode, names)))}], shape=({len(names)},))" for names in _ROWS]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", cell) for n, cell in enumerate(cells))])
    assert read(path) == {f"v{n}": sorted(names) for n, names in enumerate(_ROWS)}


@pytest.mark.parametrize(
    "cell", ["{'cat', 'dog'; 'fox', 'cow'}", "['it''s'; 'dog']", "[b'cat'; 'dog']", "[“cat” “dog”]", "['it''s']"]
)
def test_quotes_that_are_left_are_refused(cell: str, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("id", "labels"), ("v0", "['cat']"), ("v1", cell), ("v2", "['cat', 'dog']")])
    with pytest.raises(UsageError, match=r"quotes .*within.*\[\"cat\", \"dog\"\]"):
        read(path)


def test_apostrophes_are_no_quotes(tmp_path: pathlib.Path) -> None:
    rows = [
        ("v0", "[cat, it's]"),
        ("v1", '["it\'s", "cat"]'),
        ("v2", '["rock \'n\' roll" "cat"]'),
        ("v3", '{12", cat}'),
    ]
    path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    names = [["cat", "it's"], ["cat", "it's"], ["cat", "rock 'n' roll"], ['12"', "cat"]]
    assert read(path) == {f"v{n}": each for n, each in enumerate(names)} | {"v3": sorted(names[3])}


@pytest.mark.parametrize("word", ["w/", "with"])
def test_words_between_labels_are_refused_whole(word: str, tmp_path: pathlib.Path) -> None:
    cells = ["cat", "dog", f"cat {word} dog", f"dog {word} fox", "fox", f"fox {word} cat", f"cat {word} dog {word} fox"]
    path = write(tmp_path / "t.csv", [("id", "label"), *((f"v{n}", cell) for n, cell in enumerate(cells * 3))])
    with pytest.raises(UsageError, match=rf"'cat {word} dog' may be.* labels .*--label_separator=none"):
        read(path)


@pytest.mark.parametrize("cut", ["['cat'", "['cat', 'do", "cat', 'dog']", "[cat, dog"])
def test_lists_that_were_cut_are_refused(cut: str, tmp_path: pathlib.Path) -> None:
    """A list without its end, as a database keeps the first letters of a long text, was a class of its own."""
    rows = [(f"v{n}", "['cat', 'dog']" if n % 2 else "['dog']") for n in range(12)]
    with pytest.raises(UsageError, match="some cells are lists") as error:
        read(write(tmp_path / "t.csv", [("id", "labels"), *rows, ("v12", cut)]))
    assert cut in str(error.value).replace('"', "") or repr(cut) in str(error.value)
