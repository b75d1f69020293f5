"""Without exact_resume, a run that is killed again and again reads no shard twice in an epoch."""

from __future__ import annotations

import json
import pathlib
import random
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest
from fork_server import Forked
from reader_records import video_record, write_shard

from yt8m.runner import checkpoints

SHARDS, ROWS, KILLS = 8, 4, 3


class Row(NamedTuple):
    """What a step saw: one example, and the number of its shard in the run's sequence."""

    step: int
    number: int
    name: str

    @property
    def shard(self) -> str:
        return self.name.partition(".")[0]


def read_rows(path: pathlib.Path) -> list[Row]:
    """The steps of a life; a line that the kill cut short does not count."""
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    words = [line.split() for line in whole.splitlines()]
    return [Row(int(step), int(number), name) for step, number, name in words]


def kill_after(process: Forked, log: pathlib.Path, steps: int, pause: float) -> None:
    """SIGKILL, `pause` seconds after so many steps."""
    while len(read_rows(log)) < steps:
        assert not process.has_ended(), process.communicate()
        time.sleep(0.003)
    time.sleep(pause)
    process.kill()
    process.communicate()


@pytest.mark.heavy
@pytest.mark.promise("C1")
@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_moment_it_reads_no_shard_twice_in_an_epoch(
    start: Callable[..., Forked], tmp_path: pathlib.Path, seed: int
) -> None:
    for shard in range(SHARDS):
        records = [video_record(id=[b"%d.%d" % (shard, n)], mean_rgb=[1.0]) for n in range(ROWS)]
        write_shard(tmp_path / f"{shard}.shard", records)
    draw, run = random.Random(seed), tmp_path / "run"
    fields = {
        "shards": f"{tmp_path}/*.shard",
        "readers": draw.randint(1, 3),
        "buffer": draw.randint(1, 8),
        "checkpoints": {"save_checkpoint_steps": draw.randint(1, 7), "keep_checkpoints": 2},
    }
    lasting: list[Row] = []  # what the weights have learned from
    seen: list[Row] = []
    begun = 0
    for life in range(KILLS + 1):
        log = tmp_path / f"rows-{life}"
        steps, pause = draw.randint(10, 2 * SHARDS * ROWS), draw.uniform(0, 0.02)
        kill_after(start(callbacks={"runner.tiny_hooks:Rows": {"path": str(log)}}, **fields), log, steps, pause)
        rows = read_rows(log)
        assert min(row.number for row in rows) >= begun, "a shard of the life before was read again"
        found = checkpoints.newest_readable(str(run))
        assert found is not None
        step = checkpoints.step_of(found)
        lasting += [row for row in rows if row.step <= step]
        seen += rows
        begun = json.loads((run / f"input-{step}.json").read_text())["begun"]
        assert max(row.number for row in lasting) < begun
    assert begun > SHARDS  # several epochs
    assert len({(row.number, row.name) for row in lasting}) == len(lasting)
    # In all lives a number means the same shard, and an epoch has each shard once.
    named = {row.number: row.shard for row in seen}
    assert all(named[row.number] == row.shard for row in seen)
    assert len({(number // SHARDS, shard) for number, shard in named.items()}) == len(named)
