"""A chief, two workers and two parameter servers, from the start to the end."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from yt8m.lazy import tf

pytestmark = [pytest.mark.long, pytest.mark.heavy]


@pytest.mark.promise("P5")
def test_all_train_read_their_own_records_once_and_end(cluster: Callable, tmp_path: pathlib.Path) -> None:
    made = cluster(workers=2, servers=2, epochs=3, stall_timeout=120, checkpoints={"save_checkpoint_steps": 5})
    processes = made.start_all()
    chief, workers = processes["chief"][0], processes["worker"]
    outcomes = [process.outcome() for process in (chief, *workers)]
    assert [outcome[0] for outcome in outcomes] == ["out_of_data"] * 3
    assert [process.end() for process in processes["ps"]] == [0, 0]
    rows = [sum(int(line.split()[3]) for line in p.lines if line.startswith("step ")) for p in (chief, *workers)]
    assert rows == [3 * 32, 3 * 40, 3 * 48]
    batches = 12 + 15 + 18
    assert outcomes[0][1] == batches
    assert tf.train.load_variable(str(tmp_path / "run"), "global_step") == batches
    note = json.loads((tmp_path / "run/cluster.json").read_text())
    assert note["ended"] == batches
    assert max(max(p.steps()) for p in (chief, *workers)) == batches


@pytest.mark.heavy
@pytest.mark.promise("P5")
@pytest.mark.parametrize(
    "given", [{"servers": 1}, {"servers": 0, "exchange": "all-reduce"}], ids=["parameter servers", "all-reduce"]
)
def test_a_chief_that_saves_and_exports_for_long_at_the_end_is_no_stall(
    cluster: Callable, tmp_path: pathlib.Path, given: dict[str, Any]
) -> None:
    made = cluster(stall_timeout=12.0, max_steps=5, **given)
    others = [made.start(role) for role in ("ps", "worker") if made.jobs[role]]
    chief = made.start("chief", END_AT=str(tmp_path / "goes on"))
    chief.wait_for(r"the final save and export have taken (1[3-9]|[2-9]\d) s")
    (tmp_path / "goes on").touch()
    status, step, _ = chief.outcome()
    assert status == "finished"
    assert step in (5, 6)  # without common steps the worker may have been within one
    assert [process.end() for process in others] == [0] * len(others)
    assert json.loads((tmp_path / "run" / "cluster.json").read_text())["ended"] == step
