"""The same table gives the same bytes in every version, so that a later version can continue an interrupted start."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Any

import numpy as np
import pytest
from own_clips import contents, write_table

from yt8m.datasets.make_records import RecordsConfig, make

_VIDEOS = 700
# The first half of the SHA-256 of the names and bytes of all shards.
_EXPECTED = {
    "numbers": "8acb33e41577b946c3b956a4b9f3eeba",
    "names": "ea3c403b344d34230025ff15c5c73723",
    "bytes": "2716e2c4a594aeb8c430abfe769b9b06",
    "frames": "0a4f23135ea592b314117a7da7224908",
    "frames as bytes": "5a6d98056e4a015bd05ae9215b8bd4cc",
    "means": "b050a78a2c2f3e09c6d4b9fbdec388be",
    "two features": "55c04be94574356eae1ea6016c21448a",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with tables whose ids and labels have many lengths and kinds, and with arrays of features."""
    folder = tmp_path_factory.mktemp("tables")
    draw = np.random.default_rng(5)
    ids = [f"vidéo {n}" if n % 11 == 0 else "v" * (n % 7) + str(n) for n in range(_VIDEOS)]
    counts, classes = draw.integers(0, 4, _VIDEOS), draw.integers(0, 400, (_VIDEOS, 4))
    numbers = [";".join(map(str, row[:count])) for row, count in zip(classes.tolist(), counts.tolist(), strict=True)]
    names = [text and "; ".join(f"Klasse, {name}" for name in text.split(";")) for text in numbers]
    groups = [f"group {n // 3}" for n in range(_VIDEOS)]
    write_table(folder / "numbers.csv", list(zip(ids, numbers, strict=True)), "id,labels")
    write_table(folder / "names.csv", list(zip(ids, groups, names, strict=True)), "id,group,labels")
    np.save(folder / "wide.npy", draw.integers(-999, 999, (_VIDEOS, 96)).astype(np.float32) / 64)
    frames = draw.integers(-999, 999, (_VIDEOS, 5, 12)).astype(np.float32) / 64
    frames[7, 2, 3] = np.nan
    np.save(folder / "frames.npy", frames)
    arrays = {"b": frames[:, 0, :7] + 1, "a": draw.integers(0, 9, (_VIDEOS, 3))}
    arrays["b"][9] = np.inf
    np.savez(folder / "all.npz", id=np.array(ids), labels=np.array(numbers), **arrays)
    return folder


@pytest.mark.parametrize(
    ("case", "given"),
    [
        ("numbers", {"table": "numbers.csv", "array": "wide.npy"}),
        ("names", {"table": "names.csv", "array": "wide.npy", "group_by": "group", "shards": 3}),
        ("bytes", {"table": "names.csv", "array": "wide.npy", "bits": 8}),
        ("frames", {"table": "numbers.csv", "array": "frames.npy", "level": "frame", "max_bad_rows": 1}),
        (
            "frames as bytes",
            {"table": "names.csv", "array": "frames.npy", "level": "frame", "bits": 8, "max_bad_rows": 1},
        ),
        ("means", {"table": "names.csv", "array": "frames.npy", "max_bad_rows": 1}),
        ("two features", {"table": "all.npz", "max_bad_rows": 2, "splits": ("train:0.5", "test:0.5")}),
    ],
)
def test_a_table_gives_the_recorded_bytes(
    tables: pathlib.Path, case: str, given: dict[str, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yt8m.datasets.make_records._MOST_ROWS", 150)
    given = {name: str(tables / value) if name in ("table", "array") else value for name, value in given.items()}
    make(RecordsConfig(**{**given, "out": str(tmp_path)}))
    found = {name: data for name, data in contents(tmp_path).items() if name.endswith(".tfrecord")}
    whole = hashlib.sha256(b"".join(name.encode() + data for name, data in sorted(found.items())))
    assert whole.hexdigest()[:32] == _EXPECTED[case]
