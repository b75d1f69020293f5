"""Tables of `make-records`: rows of Parquet tables whose features have another length are bad."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from own_clips import read

from yt8m.datasets.make_records import RecordsConfig, make
from yt8m.errors import RunError, UsageError
from yt8m.records import vocabulary


@pytest.mark.parametrize("others", [{0: None}, {5: [1.0]}, {0: [], 3: None, 5: [1.0], 7: [1.0, 2.0, 3.0]}])
def test_lists_of_a_parquet_table_with_another_length_are_bad_rows(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, others: dict[int, list[float] | None]
) -> None:
    import pyarrow
    import pyarrow.parquet

    monkeypatch.setattr("yt8m.datasets.make_records._MOST_ROWS", 2)  # in some batches no list has the right length
    lists = [others.get(number, [number, 0.5]) for number in range(8)]
    columns = {"id": list("abcdefgh"), "labels": ["cat"] * 8, "clip": lists}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    flags = {"table": str(tmp_path / "t.parquet"), "out": str(tmp_path / "out")}
    first = min(others) + 1
    with pytest.raises(
        RunError, match=rf"row {first}: (feature clip has 1 values, expected 2|.* expected .* not empty)"
    ):
        make(RecordsConfig(**flags))
    summary = make(RecordsConfig(**flags, max_bad_rows=len(others)))
    assert [int(row) - 1 for row in summary["rows left out"]] == list(others)
    found = {name: record.context["clip"].values() for name, (_, record) in read(tmp_path / "out" / "video").items()}
    expected = {name: [number, 0.5] for number, name in enumerate("abcdefgh") if number not in others}
    np.testing.assert_equal(found, expected)


def test_two_columns_of_one_name_are_refused(tmp_path: pathlib.Path) -> None:
    import pyarrow
    import pyarrow.parquet

    (tmp_path / "t.csv").write_text("id,labels,id\na,cat,b\n")
    columns = [pyarrow.array(["a"]), pyarrow.array(["cat"]), pyarrow.array(["b"])]
    table = pyarrow.Table.from_arrays(columns, names=["id", "labels", "id"])
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        with pytest.raises(UsageError, match="twice: id,labels,id"):
            make(RecordsConfig(table=str(tmp_path / name), out=str(tmp_path / "out")))


def test_an_array_with_a_name_before_it_leads_to_the_flag_for_names(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("id,labels\na,cat\nb,dog\n")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    with pytest.raises(UsageError, match=rf"--array={tmp_path}/x\.npy; --feature_names=clip "):
        make(RecordsConfig(table=str(tmp_path / "t.csv"), array=f"clip={tmp_path}/x.npy", out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_texts_that_are_stored_as_bytes(tmp_path: pathlib.Path) -> None:
    """NumPy stores texts as bytes in arrays of the type S, and Spark writes columns of bytes without a type of text."""
    import pyarrow
    import pyarrow.parquet

    ids, labels = ["clip é".encode(), b"b"], [b"cat;dog", b"dog"]
    np.savez(tmp_path / "t.npz", id=np.array(ids), labels=np.array(labels), clip=np.ones((2, 3)))
    columns = {"id": ids, "clip": [[1.0] * 3] * 2}
    lists = pyarrow.array([[b"cat", None, b"dog"], [b"dog"]])
    pyarrow.parquet.write_table(pyarrow.table({**columns, "labels": labels}), tmp_path / "t.parquet")
    pyarrow.parquet.write_table(pyarrow.table({**columns, "labels": lists}), tmp_path / "lists.parquet")
    for name in ("t.npz", "t.parquet", "lists.parquet"):
        make(RecordsConfig(table=str(tmp_path / name), out=str(tmp_path / "out"), overwrite=True))
        found = {
            video: record.context["labels"].values() for video, (_, record) in read(tmp_path / "out/video").items()
        }
        assert found == {"clip é": [0, 1], "b": [0]}
        assert vocabulary.read(str(tmp_path / "out/vocabulary.csv")).names == ("dog", "cat")


@pytest.mark.parametrize("kind", [bool, np.int64, np.float32])
def test_labels_that_are_a_matrix_of_zeros_and_ones_are_the_places_of_the_ones(
    tmp_path: pathlib.Path, kind: type
) -> None:
    ids, clip = np.array(["a", "b"]), np.ones((2, 3))
    np.savez(tmp_path / "t.npz", id=ids, labels=np.array([[0, 1, 0, 1], [0, 0, 1, 0]], kind), clip=clip)
    for matrix, expected in (
        (np.array([[0, 1, 0, 1], [0, 0, 1, 0]], kind), {"a": [1, 3], "b": [2]}),
        (np.array([[0, 3], [2, 2]], int), {"a": [0, 3], "b": [2]}),
    ):
        np.savez(tmp_path / "t.npz", id=ids, labels=matrix, clip=clip)
        make(RecordsConfig(table=str(tmp_path / "t.npz"), out=str(tmp_path / "out"), overwrite=True))
        found = read(tmp_path / "out/video")
        assert {video: record.context["labels"].values() for video, (_, record) in found.items()} == expected
