"""Classes of a new vocabulary among those of an old one."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.errors import RunError, UsageError
from yt8m.records.vocabulary import match_classes, of_names, read_renames

OLD = of_names(["cat", "dog", "fish", "bird"])


def test_classes_are_found_by_name_and_by_rename() -> None:
    matching = match_classes(OLD, of_names(["hound", "newt", "cat", "bird"]), {"dog": "hound"})
    assert matching.sources == (1, -1, 0, 3)
    assert matching.gone == ("fish",)
    assert matching.summary() == "3 kept (1 renamed), 1 new, 1 gone"
    assert not matching.is_same


def test_names_may_change_places() -> None:
    swapped = match_classes(OLD, OLD, {"cat": "dog", "dog": "cat"})
    assert (swapped.sources, swapped.gone) == ((1, 0, 2, 3), ())
    assert match_classes(OLD, OLD, {}).is_same
    assert not match_classes(OLD, of_names(OLD.names[:3]), {}).is_same


@pytest.mark.parametrize(
    ("new", "renames", "told"),
    [
        (["cat", "hound"], {"dogg": "hound"}, "no class of the old vocabulary is 'dogg'; did you mean dog?"),
        (["cat", "hound"], {"dog": "hond"}, "no class of the new vocabulary is 'hond'; did you mean hound?"),
        (["cat", "fish"], {"dog": "cat"}, "'dog' becomes 'cat', but the old vocabulary has a class 'cat' too"),
        (["cat", "cat"], {}, "the new vocabulary has the name 'cat' 2 times"),
    ],
)
def test_what_does_not_fit_is_refused(new: list[str], renames: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        match_classes(OLD, of_names(new), renames)
    assert told in str(refused.value)


def test_renames_are_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "classes.csv"
    path.write_text('\ufeffold,new\r\ndog , hound\r\n\r\n"cat, big",lion\r\n', encoding="utf-8")
    assert read_renames(str(path)) == {"dog": "hound", "cat, big": "lion"}
    path.write_bytes("New;OLD;;\r\nh\u00fcndin; dog;;\r\n".encode("cp1252"))
    assert read_renames(str(path)) == {"dog": "h\u00fcndin"}
    path.write_text("old,new\nnew,old\n")
    assert read_renames(str(path)) == {"new": "old"}
    path.write_text("old,new\n")
    assert read_renames(str(path)) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x,y\na,b\n", "has no column 'old'; it has: x, y. Expected old, new"),
        ("old,new\na,b,c\n", "line 2: the row has 3 fields, but the header has 2"),
        ("old,new\na,\n", "expected the header old,new and two names on each line"),
        ("", "has no column 'old'; it has: none. Expected old, new"),
        ("old,new\na,b\na,c\n", "a class is renamed once, but the file has 'a' 2 times"),
        ("old,new\na,c\nb,c\n", "a class is renamed once, but the file has 'c' 2 times"),
        ('old,new\na,"b\n', "line 2: this is not CSV"),
        ("old,new\n\u008e,b\n", "line 2: this is not UTF-8 text"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: pathlib.Path, text: str, told: str) -> None:
    path = tmp_path / "classes.csv"
    path.write_text(text, encoding="latin-1")
    with pytest.raises((UsageError, RunError)) as refused:
        read_renames(str(path))
    assert told in str(refused.value)
    with pytest.raises(UsageError) as refused:
        read_renames(str(tmp_path / "none.csv"))
    assert "no such file" in str(refused.value)
