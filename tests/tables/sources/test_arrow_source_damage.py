"""Damaged Parquet tables end with one message that names the file, whatever pyarrow raises."""

from __future__ import annotations

import pathlib
import random

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from yt8m.errors import RunError
from yt8m.tables.sources.arrow_source import ArrowSource


def _outcome(path: pathlib.Path) -> str:
    try:
        table = ArrowSource(str(path))
        rows_of_batches = table.batches(16, 0, ("id", "labels"), table.arrays)
        return f"{sum(rows.size for rows in rows_of_batches)} rows"
    except RunError as error:
        return str(error)


def test_a_damaged_parquet_table_is_named(tmp_path: pathlib.Path) -> None:
    columns = {
        "id": [f"v{row}" for row in range(50)],
        "labels": ["a;b"] * 50,
        "clip": [[0.5 * row] * 8 for row in range(50)],
    }
    path = tmp_path / "clips.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    content, draw = path.read_bytes(), random.Random(0)
    outcomes = [_outcome(path)]
    for number in range(120):
        damaged = bytearray(content)
        for place in draw.sample(range(len(damaged)), 1 + number % 10):
            damaged[place] ^= draw.randrange(1, 256)
        path.write_bytes(damaged[: draw.randrange(len(damaged))] if number % 5 == 0 else damaged)
        outcomes.append(_outcome(path))
    named = [outcome for outcome in outcomes if outcome.startswith(f"{path} is no Parquet file that can be read: ")]
    assert outcomes[0] == "50 rows"
    assert len(named) > 60
    assert set(outcomes) - {*named} <= {f"{count} rows" for count in range(51)}


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("zone", ["Nowhere/X", "+99:99"])
def test_an_unknown_time_zone_is_named(tmp_path: pathlib.Path, zone: str, ending: str) -> None:
    times = pyarrow.array([1, 2], pyarrow.timestamp("us", tz=zone))
    table, path = pyarrow.table({"id": ["a", "b"], "labels": times}), tmp_path / f"t.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pyarrow.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    assert _outcome(path).startswith(f"{path} is no {ending.capitalize()} file that can be read: ")
