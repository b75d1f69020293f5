"""Small tables under the names that other programs give their columns, without names, and as JSON of pairs."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.datasets.make_records.human_labels import read_decisions
from yt8m.errors import UsageError
from yt8m.records import vocabulary
from yt8m.records.class_weights import read_class_weights
from yt8m.records.vocabulary import read_renames
from yt8m.reports import media_links
from yt8m.training.text_run import read_prompts

NAMES = vocabulary.of_names(("café", "red fox"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("w.csv", "class_name,weights\nred fox,2.5\n"),
        ("w.csv", "label;weight\nred fox;2,5\n"),
        ("w.csv", "index,class_weight\n1,2.5\n"),
        ("w.csv", "red fox,2.5\n"),
        ("w.json", '{"red fox": 2.5}'),
        ("w.json", '[{"name": "red fox", "weight": 2.5}]'),
        ("w.json", '[["red fox", 2.5], ["cafe\u0301", 1]]'),
    ],
)
def test_weights_of_classes(name: str, text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_class_weights(str(tmp_path / name), NAMES, 2) == (1.0, 2.5)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.txt", "cat\nred fox\n"),
        ("c.csv", "label\ncat\nred fox\n"),
        ("c.csv", "Klasse\r\ncat\r\nred fox\r\n"),
        ("c.json", '["cat", "red fox"]'),
        ("c.json", '{"cat": "photo of cat", "red fox": ["photo of red fox"]}'),
        ("c.jsonl", '{"class": "cat"}\n{"class": "red fox"}\n'),
    ],
)
def test_classes_of_texts(name: str, text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / name).write_text(text)
    expected = {"cat": ["photo of cat"], "red fox": ["photo of red fox"]}
    assert read_prompts(str(tmp_path / name), "photo of {}") == expected


def test_several_texts_of_a_class(tmp_path: pathlib.Path) -> None:
    (tmp_path / "c.json").write_text('{"cat": ["a cat", "a kitten"], "dog": "a dog"}')
    assert read_prompts(str(tmp_path / "c.json"), "{}") == {"cat": ["a cat", "a kitten"], "dog": ["a dog"]}


@pytest.mark.parametrize("text", ["from,to\na,b\n", "old name;new name\na;b\n"])
def test_renames(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "r.csv").write_text(text)
    assert read_renames(str(tmp_path / "r.csv")) == {"a": "b"}


def test_renames_as_pairs(tmp_path: pathlib.Path) -> None:
    (tmp_path / "r.json").write_text('{"a": "b"}')
    assert read_renames(str(tmp_path / "r.json")) == {"a": "b"}


@pytest.mark.parametrize(
    ("name", "text"),
    [("m.csv", "VideoID,URL\nv1,https://a.b\n"), ("m.csv", "v1,https://a.b\n"), ("m.json", '{"v1": "https://a.b"}')],
)
def test_addresses(name: str, text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / name).write_text(text)
    assert media_links.read_addresses(str(tmp_path / name), ["v1"]) == {"v1": "https://a.b"}


@pytest.mark.parametrize(("word", "is_right"), [("ja", True), ("x", True), ("0", False), ("nein", False), ("-", None)])
def test_decisions(word: str, is_right: bool | None, tmp_path: pathlib.Path) -> None:
    (tmp_path / "d.csv").write_text(f"id;label;kind;decision\nv1;cat;wrong;{word}\n")
    (decision,) = read_decisions(str(tmp_path / "d.csv"))
    assert (decision.video, decision.label, decision.is_right) == (b"v1", "cat", is_right)


def test_columns_of_other_names_are_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "r.csv").write_text("a,b\nc,d\n")
    with pytest.raises(UsageError, match=r"r\.csv .*no column 'old'; .*: a, b\."):
        read_renames(str(tmp_path / "r.csv"))
