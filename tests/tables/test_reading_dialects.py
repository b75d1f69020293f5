"""Every reader of a table takes the same dialects: a byte order mark, semicolons, tabs, CRLF, header case, blanks."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from yt8m.datasets import ground_truth
from yt8m.datasets.make_records.human_labels import Corrections
from yt8m.labels import label_audit
from yt8m.records import vocabulary
from yt8m.records.class_weights import read_class_weights
from yt8m.records.vocabulary import read_renames
from yt8m.reports import media_links

Rows = Sequence[Sequence[str]]
NAMES = vocabulary.of_names(("cat", "red fox"))


def plain(rows: Rows) -> bytes:
    return "".join(",".join(row) + "\n" for row in rows).encode()


def joined(rows: Rows, delimiter: str, end: str = "\n") -> str:
    return "".join(delimiter.join(row) + end for row in rows)


DIALECTS: dict[str, Callable[[Rows], bytes]] = {
    "commas": plain,
    "a mark and CRLF": lambda rows: joined(rows, ",", "\r\n").encode("utf-8-sig"),
    "semicolons": lambda rows: joined(rows, ";").encode(),
    "tabs": lambda rows: joined(rows, "\t").encode(),
    "capitals in the header": lambda rows: joined([[name.upper() for name in rows[0]], *rows[1:]], ",").encode(),
    "quotes": lambda rows: joined([[f'"{cell}"' for cell in row] for row in rows], ",").encode(),
    "empty columns": lambda rows: joined([[*row, "", ""] for row in rows], ",").encode(),
    "empty lines": lambda rows: (joined(rows, ",") + "\n\n").encode(),
}
READERS: dict[str, tuple[Rows, Callable[[str], Any]]] = {
    "corrections": (
        [("video", "class", "kind", "decision"), ("v1", "cat", "missing", "yes")],
        lambda path: sorted(Corrections(path).videos),
    ),
    "vocabulary": ([("index", "name"), ("0", "cat"), ("1", "red fox")], lambda path: vocabulary.read(path).names),
    "class weights": (
        [("class", "weight"), ("cat", "2"), ("red fox", "3.5")],
        lambda path: list(read_class_weights(path, NAMES, 2)),
    ),
    "renames": ([("old", "new"), ("cat", "Cat"), ("red fox", "fox")], lambda path: read_renames(path)),
    "media": (
        [("id", "address"), ("v1", "https://a.b/c"), ("v2", "d.mp4")],
        lambda path: media_links.read_addresses(path, ["v1", "v2"]),
    ),
    "tables of an audit": ([("rank", "video", "class"), ("1", "v1", "cat")], label_audit.read_rows),
    "segment classes": ([("Index",), ("3",), ("17",)], vocabulary.read_segment_classes),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("reader", READERS)
def test_a_table_is_read_in_any_dialect(reader: str, dialect: str, tmp_path: pathlib.Path) -> None:
    rows, read = READERS[reader]
    expected, path = tmp_path / "plain.csv", tmp_path / "t.csv"
    expected.write_bytes(plain(rows))
    path.write_bytes(DIALECTS[dialect](rows))
    found = read(str(path))
    assert found
    if reader == "tables of an audit":
        found = [{name: cell for name, cell in row.items() if name} for row in found]
    assert found == read(str(expected))


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbfv1:5,3,1.0\r\nv2:10,4,0\r\n", b"v1:5;3;1.0\nv2:10;4;0\n", b"v1:5,3,1.0,,\nv2:10,4,0,,\n"]
)
def test_ratings_are_read_in_any_dialect(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(content)
    ratings = ground_truth.read_ratings(str(path))
    assert ratings.segments == [b"v1:5", b"v2:10"]
    assert ratings.classes.tolist() == [3, 4]
    assert ratings.scores.tolist() == [1.0, 0.0]
