"""A run whose steps put the next batch in place is, step for step, the run without that."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reader_records import video_record, write_shard
from runner.id_workload import READER, Ids
from tiny_workload import TinyInputter

from yt8m import runner
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers import BatchQueue
from yt8m.runner import CallbackConfig, Status

SHARDS, ROWS, EPOCHS = 6, 3, 3


@pytest.fixture
def shards(tmp_path: pathlib.Path) -> pathlib.Path:
    """Shards of three videos named `shard.row`."""
    (tmp_path / "shards").mkdir()
    for shard in range(SHARDS):
        records = [video_record(id=[b"%d.%d" % (shard, n)], mean_rgb=[1.0]) for n in range(ROWS)]
        write_shard(tmp_path / f"shards/{shard}.tfrecord", records)
    return tmp_path / "shards"


@pytest.fixture
def live(
    train: Callable[..., runner.Outcome], shards: pathlib.Path, tmp_path: pathlib.Path
) -> Callable[..., list[str]]:
    """Trains in the folder `name`; lines of step, last shard and ids of this life."""

    def run(name: str, ahead: bool, max_steps: int | None = None, towers: int = 1, **more: Any) -> list[str]:
        queue = BatchQueue(READER, f"{shards}/*", 2, EPOCHS, True, 4, 2, 5)
        path = tmp_path / f"{name}.txt"
        path.write_text("")
        callbacks = CallbackConfig(options={"runner.tiny_hooks:Rows": {"path": str(path)}})
        same = {"inputter": queue, "modeler": Ids(), "gpu_count": towers, "max_steps": max_steps}
        folder = str(tmp_path / name)
        outcome = train(callbacks, prefetch_to_device=ahead, model_dir=folder, **same, **more)
        assert not outcome.exit_code, outcome.message
        return path.read_text().splitlines()

    return run


@pytest.mark.heavy
@pytest.mark.parametrize(("towers", "split"), [(2, True), (2, False), (1, True), (1, False)])
def test_steps_shards_and_videos(live: Callable[..., list[str]], towers: int, split: bool) -> None:
    plain = live("plain", False, towers=towers, split_batch=split)
    assert live("ahead", True, towers=towers, split_batch=split) == plain
    batch = 2 * towers
    records = SHARDS * ROWS * EPOCHS
    # A batch for each tower: what does not make one for all of them is left.
    assert len(plain) == (-(-records // batch) if split else records // 2 // towers)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "towers"), [("from its meta-graph", 2), ("from code", 1), ("from its meta-graph", 1), ("from code", 2)]
)
def test_a_resumed_run_reads_the_shards_that_one_without_reads(
    live: Callable[..., list[str]], tmp_path: pathlib.Path, lines: Callable[[], list[str]], towers: int, kind: str
) -> None:
    """What was put in place and not trained on counts as not read."""
    found = {}
    for name, ahead in (("plain", False), ("ahead", True)):
        first = live(name, ahead, 5, towers)
        position = (tmp_path / name / "input-5.json").read_text()
        if kind == "from code":
            (tmp_path / name / "model.ckpt-5.meta").unlink()
        found[name] = [first, position, live(name, ahead, None, towers)]
    assert found["ahead"] == found["plain"]
    assert sum("graph saved" in line for line in lines()) == (2 if kind == "from its meta-graph" else 0)


@pytest.mark.heavy
@pytest.mark.parametrize("ahead", [True, False])
def test_a_run_may_begin_without_and_go_on_with_it_and_the_reverse(
    live: Callable[..., list[str]], lines: Callable[[], list[str]], ahead: bool
) -> None:
    expected = live("same", ahead, 5), live("same", ahead)
    assert (live("other", ahead, 5), live("other", not ahead)) == expected
    was, now = (True, False) if ahead else (False, True)
    assert any(f"prefetch_to_device was {was} and is {now}" in line for line in lines())


@pytest.mark.parametrize("towers", [pytest.param(1, marks=pytest.mark.heavy), 2])
def test_weights_are_the_same_to_the_bit(train: Callable, data: str, tmp_path: pathlib.Path, towers: int) -> None:
    found = []
    for ahead in (False, True):
        folder = tmp_path / str(ahead)
        inputter = TinyInputter(data, 7, epochs=2)
        same = {"gpu_count": towers, "model_dir": str(folder)}
        step = train(inputter=inputter, prefetch_to_device=ahead, **same).global_step
        reader = tf.train.load_checkpoint(str(folder / f"model.ckpt-{step}"))
        found.append({name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()})
    assert sorted(found[0]) == sorted(found[1])
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value, err_msg=name)


@pytest.mark.heavy
@pytest.mark.parametrize("towers", [1, 2])
def test_a_damaged_record_is_named_as_without(
    train: Callable[..., runner.Outcome], shards: pathlib.Path, tmp_path: pathlib.Path, towers: int
) -> None:
    whole = (shards / "3.tfrecord").read_bytes()
    (shards / "3.tfrecord").write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
    told = []
    for ahead in (False, True):
        queue = BatchQueue(READER, f"{shards}/*", 2, 1, False, 1, 1, 5)
        same = {"gpu_count": towers, "model_dir": str(tmp_path / str(ahead)), "modeler": Ids()}
        outcome = train(inputter=queue, prefetch_to_device=ahead, **same)
        told.append((outcome.status, outcome.message))
    assert told[0] == told[1]
    assert told[0][0] is Status.FAILED
    assert "3.tfrecord: record 2" in told[0][1]


def test_what_cannot_go_with_it_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--exact_resume\b.*--prefetch_to_device\b.*one batch ahead"):
        runner.RunnerConfig(model_dir="run", prefetch_to_device=True, exact_resume=True)
    cluster = ClusterConfig(("a:1", "b:1"), ("c:1",))
    with pytest.raises(UsageError, match=r"--prefetch_to_device .*one machine"):
        runner.RunnerConfig(model_dir="run", prefetch_to_device=True, cluster=cluster)
