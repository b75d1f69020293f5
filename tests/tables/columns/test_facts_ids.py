"""Ids that a program has garbled: misread letters, and dates that a spreadsheet has made."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import cases
import pytest
from table_files import read

from yt8m.errors import UsageError


def table(path: pathlib.Path, ids: Sequence[str]) -> pathlib.Path:
    rows = [f"{name},{('cat', 'dog', 'fox')[number % 3]}" for number, name in enumerate(ids)]
    path.write_text("\n".join(["id,label", *rows, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize("place", cases.all_of([0, 7], heavy=[35_000]))
def test_misread_letters_in_ids_are_refused_unless_they_are_chosen(place: int, tmp_path: pathlib.Path) -> None:
    """Such an id is the name of no video; that of a file that was unpacked so may be."""
    ids = [f"v{number}" for number in range(place + 9)]
    ids[place] = "KÃ¤se"
    path = table(tmp_path / "t.csv", ids)
    with pytest.raises(UsageError, match=r"the id 'KÃ¤se' in \"id\" is 'Käse' in UTF-8 .*--columns=id=id"):
        read(path)
    assert read(path, columns=("id=id",))["KÃ¤se"] == [("cat", "dog", "fox")[place % 3]]


@pytest.mark.parametrize("place", [0, 7, 35_000])
def test_misread_letters_in_paths_are_refused_unless_they_are_chosen(place: int, tmp_path: pathlib.Path) -> None:
    names = [f"f{number}.mp4" for number in range(place + 9)]
    names[place] = "KÃ¤se.mp4"
    rows = [f"v{number},{name},{('cat', 'dog', 'fox')[number % 3]}" for number, name in enumerate(names)]
    (tmp_path / "t.csv").write_text("\n".join(["id,path,label", *rows, ""]), encoding="utf-8")
    with pytest.raises(UsageError, match=r"the path 'KÃ¤se.mp4' in \"path\" is 'Käse.mp4' in .*--columns=path=path"):
        read(tmp_path / "t.csv")
    assert len(read(tmp_path / "t.csv", columns=("path=path",))) == place + 9


def test_letters_of_other_languages_are_ids(tmp_path: pathlib.Path) -> None:
    ids = ["Käse", "NÃO", "São Paulo", "ÇA", "видео", "動画", "câmera", "Âne"]
    assert list(read(table(tmp_path / "t.csv", ids))) == ids


@pytest.mark.parametrize("date", ["1-Mar", "01. Mrz", "Mar-14", "2024-03-01", "2024-03-01T00:00:00", "12-Dec-24"])
def test_a_date_beside_numbers_with_a_sign_is_refused(date: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=rf"'{date}' in \"id\" .*date.* '3-32'"):
        read(table(tmp_path / "t.csv", [date, "3-32", "3-33", "4-40"]))
    assert list(read(tmp_path / "t.csv", columns=("id=id",))) == [date, "3-32", "3-33", "4-40"]
    ids = [date, "may", "clip 3-32", "2024-03-02"]
    assert list(read(table(tmp_path / "u.csv", ids))) == ids
