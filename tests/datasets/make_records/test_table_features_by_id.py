"""Features beside a table that are found by the ids of its rows: a folder, an NPZ file, arrays with their ids."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
import pytest

from yt8m.command_line import cli
from yt8m.datasets.make_records.table_features import TableWithArray, open_table
from yt8m.errors import RunError
from yt8m.tables.understood import TableFlags

VECTORS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
NAMES = [f"v{number}" for number in range(6)]


def write_table(folder: pathlib.Path, ids: Sequence[str]) -> str:
    lines = ["id,labels", *(f"{video},{'cat' if number % 2 else 'dog'}" for number, video in enumerate(ids))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return str(folder / "t.csv")


def write_arrays(folder: pathlib.Path, form: str) -> str:
    path = folder / ("arrays" if form == "folder" else "arrays.npz")
    if form == "folder":
        path.mkdir()
        for name, vector in zip(NAMES, VECTORS, strict=True):
            np.save(path / f"{name}.npy", vector)
    elif form == "by id":
        np.savez(path, **dict(zip(NAMES, VECTORS, strict=True)))
    else:
        np.savez(path, video_ids=np.array(NAMES[::-1]), features=VECTORS[::-1])
    return str(path)


FORMS = ["folder", "by id", "with ids"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shown", ["{}", "{}.mp4", "clips/{}", "clips/cat/{}.webm"])
def test_an_array_is_found_by_the_id(form: str, shown: str, tmp_path: pathlib.Path) -> None:
    table = open_table(
        write_table(tmp_path, list(map(shown.format, NAMES))), write_arrays(tmp_path, form), TableFlags()
    )
    assert isinstance(table, TableWithArray)
    (rows,) = table.batches(10, features=["features"])
    assert not rows.bad
    np.testing.assert_array_equal(np.stack(list(rows.arrays["features"])), VECTORS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([*NAMES[:5], "other/w9.mp4"], r"no array .*'other/w9\.mp4': .*'w9'"),
        ([*NAMES[:5], "clips/v0.mp4"], r"'v0' in .* 'v0' already"),
    ],
)
def test_an_id_without_an_array_of_its_own_is_named(
    form: str, ids: Sequence[str], told: str, tmp_path: pathlib.Path
) -> None:
    table = open_table(write_table(tmp_path, ids), write_arrays(tmp_path, form), TableFlags())
    (rows,) = table.batches(10, features=["features"])
    (number,) = rows.bad
    assert number == 6
    with pytest.raises(RunError, match=told):
        raise RunError(rows.bad[6])


def test_an_archive_without_any_id_says_so(tmp_path: pathlib.Path) -> None:
    table = open_table(
        write_table(tmp_path, [f"w{k}" for k in range(6)]), write_arrays(tmp_path, "by id"), TableFlags()
    )
    with pytest.raises(RunError, match=r"None of its 6 arrays\b.*'v0'.*'w0'"):
        list(table.batches(10, features=["features"]))


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("f0,f1,f2", lambda vector: ",".join(f'"{str(value).replace(".", ",")}"' for value in vector)),
        ("embedding", lambda vector: " ".join(map(str, vector))),
        ("embedding", lambda vector: f'"{vector.tolist()}"'),
        ("embedding", lambda vector: ";".join(map(str, vector))),
    ],
)
def test_numbers_in_the_cells_of_a_table(header: str, cells: object, tmp_path: pathlib.Path) -> None:
    assert callable(cells)
    rows = [f"{name},{'cat' if number % 2 else 'dog'},{cells(VECTORS[number])}" for number, name in enumerate(NAMES)]
    (tmp_path / "t.csv").write_text("\n".join([f"id,labels,{header}", *rows]) + "\n")
    table = open_table(str(tmp_path / "t.csv"), "", TableFlags())
    (feature,) = table.features
    (read,) = table.batches(10, features=[feature])
    np.testing.assert_allclose(np.stack(list(read.arrays[feature])).astype(np.float32), VECTORS, rtol=1e-6)


def test_columns_with_a_gap_are_no_feature(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{name},{'cat' if number % 2 else 'dog'},1.5,2.5" for number, name in enumerate(NAMES)]
    (tmp_path / "t.csv").write_text("\n".join(["id,labels,f0,f2", *rows]) + "\n")
    assert cli.main(["make-records", f"--table={tmp_path / 't.csv'}", f"--out={tmp_path / 'out'}"]) == 2
    assert "without a gap" in capsys.readouterr().err
