"""The forms in which people have features: each gives the records of one array; and what --dry_run says of a table."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
from own_clips import read, write_table

from yt8m.command_line import cli
from yt8m.datasets.make_records import RecordsConfig, make
from yt8m.errors import RunError, UsageError

_IDS = [f"v{n}" for n in range(12)]
_LABELS = [["cat", "dog", "bird"][n % 3] for n in range(12)]
_VALUES = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
_ROWS = list(zip(_IDS, _LABELS, strict=True))


def _check(folder: pathlib.Path, level: str = "video") -> None:
    found = read(folder / "out" / level)
    assert set(found) == set(_IDS)
    for name, values in zip(_IDS, _VALUES, strict=True):
        np.testing.assert_allclose(found[name][1].values("clip"), values, rtol=1e-6)


@pytest.mark.parametrize("form", ["array", "folder", "by id", "columns", "decimal commas", "parquet", "json", "text"])
def test_features_are_those_of_the_array(form: str, tmp_path: pathlib.Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table, array = tmp_path / "t.csv", ""
    write_table(table, _ROWS, "id,labels")
    if form == "array":
        np.save(tmp_path / "x.npy", _VALUES)
        array = "x.npy"
    elif form == "folder":
        (tmp_path / "features").mkdir()
        for name, values in zip(_IDS, _VALUES, strict=True):
            np.save(tmp_path / "features" / f"{name}.npy", values)
        array = "features"
    elif form == "by id":
        np.savez(tmp_path / "x.npz", **dict(zip(_IDS, _VALUES, strict=True)))
        array = "x.npz"
    elif form == "columns":
        rows = [(*row, *map(str, values)) for row, values in zip(_ROWS, _VALUES, strict=True)]
        write_table(table, rows, "id,labels," + ",".join(f"f{n}" for n in range(5)))
    elif form == "decimal commas":
        lines = [
            ";".join([*row, *map(str, values)]).replace(".", ",") for row, values in zip(_ROWS, _VALUES, strict=True)
        ]
        table.write_text("\n".join(["id;labels;" + ";".join(f"x_{n}" for n in range(5)), *lines]) + "\n")
    elif form == "parquet":
        table = tmp_path / "t.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"id": _IDS, "labels": _LABELS, "clip": list(_VALUES)}), table)
    elif form == "json":
        table = tmp_path / "t.json"
        rows = [{"id": n, "labels": [x], "clip": v.tolist()} for n, x, v in zip(_IDS, _LABELS, _VALUES, strict=True)]
        table.write_text(json.dumps(rows))
    else:
        write_table(table, [(*row, str(v.tolist())) for row, v in zip(_ROWS, _VALUES, strict=True)], "id,labels,clip")
    names = () if form in ("parquet", "json", "text") else ("clip",)
    given = {"array": str(tmp_path / array)} if array else {}
    make(RecordsConfig(table=str(table), out=str(tmp_path / "out"), feature_names=names, **given))
    _check(tmp_path)


@pytest.mark.parametrize("ending", ["parquet", "json"])
def test_lists_of_lists_are_frames(ending: str, tmp_path: pathlib.Path) -> None:
    import pyarrow
    import pyarrow.parquet

    frames = [np.arange(6 * (n % 3 + 1), dtype=np.float32).reshape(-1, 3) / 4 for n in range(12)]
    columns = {"id": _IDS, "labels": _LABELS, "clip": [values.tolist() for values in frames]}
    if ending == "json":
        (tmp_path / "t.json").write_text(
            json.dumps([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
        )
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    make(RecordsConfig(table=str(tmp_path / f"t.{ending}"), out=str(tmp_path / "out"), level="frame"))
    found = read(tmp_path / "out" / "frame")
    for name, values in zip(_IDS, frames, strict=True):
        np.testing.assert_array_equal([frame.values() for frame in found[name][1].lists["clip"]], values)


def test_an_id_without_an_array_is_a_bad_row(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "x.npz", **dict(zip(_IDS[:-1], _VALUES, strict=False)))
    table = write_table(tmp_path / "t.csv", _ROWS, "id,labels")
    with pytest.raises(RunError, match=r"t\.csv, row 12 \(line 13\): .*x\.npz .*no array.*'v11'"):
        make(RecordsConfig(table=table, array=str(tmp_path / "x.npz"), out=str(tmp_path / "out")))


def test_rows_of_labels_give_the_order_of_videos_only_if_they_are_together(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", _VALUES)
    rows = [(name, label) for name, label in _ROWS for label in (label, "all")]
    config = RecordsConfig(
        table=str(tmp_path / "t.csv"), array=str(tmp_path / "x.npy"), out=str(tmp_path / "out"), feature_names=("clip",)
    )
    write_table(tmp_path / "t.csv", sorted(rows, key=lambda row: row[1]), "id,label")
    with pytest.raises(UsageError, match=r"not together.*NPZ file with an array"):
        make(config)
    write_table(tmp_path / "t.csv", rows, "id,label")
    make(config)
    _check(tmp_path)


def test_a_dry_run_says_what_is_understood_and_writes_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones((40, 3), np.float32))
    tags = [["Cat", "Dog", "Cat, Dog", "Dog, Fox", "Fox"][n % 5] for n in range(36)] + ["", "nan", "-", "Dgo"]
    rows = [(f"v{n}", tag, n % 9 == 0) for n, tag in enumerate(tags)]
    table = write_table(tmp_path / "labels.csv", rows, "file_name,tags,is_valid")
    words = [f"--table={table}", f"--array={tmp_path}/x.npy", f"--out={tmp_path}/out"]
    assert cli.call("make-records", [*words, "--dry_run"]) == 0
    assert capsys.readouterr().out == (
        'labels.csv: CSV; 40 videos, 4 classes; ids from "file_name"; labels from "tags", separated by ","; '
        'split from "is_valid"; 3 videos without a label; rare: Dgo (1 video, near "Dog")\n'
    )
    assert not (tmp_path / "out").exists()
    assert cli.call("make-records", words) == 0
    assert {split for split, _ in read(tmp_path / "out" / "video").values()} == {"train", "validate"}
