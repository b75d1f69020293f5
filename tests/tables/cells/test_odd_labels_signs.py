"""Labels with entities of HTML and with signs in place of letters, and lines that name each of their values."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from table_files import read, write, write_json

from yt8m.errors import UsageError

_MUSIC = [["R&B", "Rock"], ["Rock"], ["Pop", "R&B"], ["R&B"], ["Café", "Pop", "Rock"], ["Pop"], ["Café"]]
_ENTITIES = {"&": "&amp;", "é": "&eacute;"}


def _escaped(name: str) -> str:
    return "".join(_ENTITIES.get(sign, sign) for sign in name)


@pytest.mark.parametrize("separator", [";", ", ", "|"])
@pytest.mark.parametrize("flag", ["auto", "chosen"])
def test_entities_of_html_are_signs(separator: str, flag: str, tmp_path: pathlib.Path) -> None:
    rows = [(f"v{n}", separator.join(map(_escaped, names))) for n, names in enumerate(_MUSIC)]
    path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    flags = {} if flag == "auto" else {"separator": separator.strip()}
    assert read(path, **flags) == {f"v{n}": sorted(names) for n, names in enumerate(_MUSIC)}


def test_entities_in_lists(tmp_path: pathlib.Path) -> None:
    rows = [{"id": f"v{n}", "labels": [*map(_escaped, names)]} for n, names in enumerate(_MUSIC)]
    assert read(write_json(tmp_path / "t.json", rows)) == {f"v{n}": sorted(names) for n, names in enumerate(_MUSIC)}


def test_a_vocabulary_with_entities_means_them(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("id", "label"), *((f"v{n}", ["R&amp;B", "Pop"][n % 2]) for n in range(6))])
    assert read(path, vocabulary={"R&amp;B", "Pop"})["v0"] == ["R&amp;B"]


def test_ampersands_are_no_entities(tmp_path: pathlib.Path) -> None:
    rows = [(f"v{n}", ["AT&T;Rock", "Rock", "AT&T", "B&or;Rock", "B&or"][n % 5]) for n in range(10)]
    path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    assert read(path) == {video: sorted(cell.split(";")) for video, cell in rows}


def test_letters_that_were_lost(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("id", "label"), *((f"v{n}", ["K\ufffdse", "Brot"][n % 2]) for n in range(6))])
    with pytest.raises(UsageError, match=r"'K.se' has the sign U\+FFFD.*in UTF-8"):
        read(path)
    path = write(tmp_path / "c.csv", [("id", "K\ufffdse", "Brot"), *((f"v{n}", n % 2, 1 - n % 2) for n in range(6))])
    with pytest.raises(UsageError, match=r"'K.se' has the sign U\+FFFD.*in UTF-8"):
        read(path)


@pytest.mark.parametrize("line", ["id={} label={}", "id:{}\tlabel:{}", "video={},label={}", "path:{}.mp4\tlabels:{}"])
def test_lines_that_name_each_value(line: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.txt").write_text("".join(f"{line.format(f'v{n}', ['cat', 'dog'][n % 2])}\n" for n in range(20)))
    with pytest.raises(UsageError, match=r"as logfmt and LTSV write it.*or JSON lines such as"):
        read(tmp_path / "t.txt")


def test_ids_with_a_prefix_are_ids(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.txt").write_text("".join(f"yt:v{n}\t{['cat', 'dog'][n % 2]}\n" for n in range(20)))
    assert read(tmp_path / "t.txt")["yt:v1"] == ["dog"]


@pytest.mark.parametrize(
    "form", ["{}|{} ", "{}@{} ", "{}/{};", "red {}|{}, ", "{}|{}|", "{},{},", "{}; {}; ", "{}|{:.0%} ", "{}:{}, "]
)
@pytest.mark.parametrize("flags", [{}, {"vocabulary": {"cat": 0, "dog": 1, "otter": 2}}])
def test_labels_with_scores_are_refused(form: str, flags: dict[str, Any], tmp_path: pathlib.Path) -> None:
    shown = [["cat"], ["cat", "dog"], ["otter"], ["dog", "otter"], ["dog"]]
    cells = ["".join(form.format(name, 0.5 + n % 5 / 10) for name in shown[n % 5]).strip(" ,;|") for n in range(20)]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", cell) for n, cell in enumerate(cells))])
    with pytest.raises(UsageError, match=r"score or .*count, such as '.*--label_separator=none"):
        read(path, **flags)


@pytest.mark.parametrize("names", [("f/1.8", "f/1.4", "f/2"), ("mp3@320", "4/4", "v1.2"), ("user@0", "cat")])
def test_names_with_signs_and_numbers_are_names(names: Sequence[str], tmp_path: pathlib.Path) -> None:
    rows = [(f"v{n}", ";".join(names[: 1 + n % 2])) for n in range(8)] + [("w", names[-1])]
    path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    assert read(path) == {video: sorted(cell.split(";")) for video, cell in rows}


@pytest.mark.parametrize("known", [("lens|0.5", "lens|0.75"), ("lens", "0.5", "0.75")])
def test_a_vocabulary_may_have_names_with_numbers(known: Sequence[str], tmp_path: pathlib.Path) -> None:
    path = write(
        tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", ["lens|0.5", "lens|0.75"][n % 2]) for n in range(8))]
    )
    assert read(path, vocabulary=frozenset(known))["v0"] == (["lens|0.5"] if "lens|0.5" in known else ["0.5", "lens"])
    with pytest.raises(UsageError, match=r"score or .*count, such as 'lens.*--label_separator=none"):
        read(path, vocabulary=frozenset(("lens", "cat")))


@pytest.mark.parametrize("sign", ["@", "|"])
@pytest.mark.parametrize("between", [";", ", ", None])
def test_scores_of_some_labels_may_be_whole(sign: str, between: str | None, tmp_path: pathlib.Path) -> None:
    scores = ["1", "0.5", "1", "0", "0.25"]
    labels = [f"{name}{sign}{scores[n % 5]}" for n, name in enumerate(["cat", "dog", "otter"] * 10)]
    cells = [between.join(labels[n : n + 2]) if between else labels[n] for n in range(20)]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", cell) for n, cell in enumerate(cells))])
    with pytest.raises(UsageError, match=r"score or .*count, such as '.*--label_separator=none"):
        read(path)


@pytest.mark.parametrize("cells", [["['cat', 'dog']", "['cat']"], ['["cat", "dog"]', "[]"], ["{cat,dog}", "{dog}"]])
def test_a_separator_that_cuts_lists_is_refused(cells: list[str], tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", cells[n % 2]) for n in range(8))])
    with pytest.raises(UsageError, match=r"is a list.*--label_separator=,.*leave .*out"):
        read(path, separator=",")
    assert read(path)["v0"] == ["cat", "dog"]


def test_a_separator_beside_brackets_is_taken(tmp_path: pathlib.Path) -> None:
    rows = [("v0", "cat (big), dog"), ("v1", "[dog], [cat]"), ("v2", "dog")]
    path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    assert read(path, separator=",")["v0"] == ["cat (big)", "dog"]
