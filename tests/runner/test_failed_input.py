"""With --exact_resume, an error of the input is not saved: once its cause is gone, the run ends as an unbroken one."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from reader_records import video_record, write_shard
from runner.id_workload import READER, Ids

from yt8m.readers import BatchQueue
from yt8m.runner import CallbackConfig, failed_input

SHARDS, ROWS, STEPS, INTERVAL = 6, 12, 36, 3
PAUSE = 0.03  # seconds after each step, so that the input meets the damage before the steps do


@pytest.fixture
def shards(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "data").mkdir()
    for shard in range(SHARDS):
        records = [video_record(id=[b"%d.%02d" % (shard, n)], mean_rgb=[1.0]) for n in range(ROWS)]
        write_shard(tmp_path / f"data/{shard}.tfrecord", records)
    return tmp_path / "data"


@pytest.fixture
def live(train: Callable, tmp_path: pathlib.Path) -> Callable[..., tuple[int, list[str]]]:
    """Trains on two examples a step, saves every `INTERVAL` steps; returns the status and the ids that were read."""

    def run(name: str, cache: str = "", pause: float = 0.0, **more: Any) -> tuple[int, list[str]]:
        path = tmp_path / "ids.txt"
        path.write_text("")
        queue = BatchQueue(READER, f"{tmp_path}/data/*.tfrecord", 2, 1, True, 4, 1, 0, cache=cache)
        # The tests need an error in the buffers at least one save before the steps reach it, on a busy machine too.
        queue.threads = queue.threads._replace(prefetch=3 * INTERVAL)
        callbacks = CallbackConfig(options={"runner.tiny_hooks:Ids": {"path": str(path), "pause": pause}})
        saving = {"save_checkpoint_steps": INTERVAL, "exact_resume": True, **more}
        model_dir = str(tmp_path / name)
        outcome = train(callbacks, inputter=queue, modeler=Ids(), checkpoints=saving, model_dir=model_dir)
        return outcome.exit_code, path.read_text().split()

    return run


def positions(run: pathlib.Path) -> dict[int, dict[str, Any]]:
    return {int(path.stem.split("-")[1]): json.loads(path.read_text()) for path in sorted(run.glob("input-*.json"))}


@contextmanager
def damaged(shard: pathlib.Path) -> Iterator[None]:
    good = shard.read_bytes()
    bad = bytearray(good)
    bad[-10] ^= 1
    shard.write_bytes(bad)
    yield
    shard.write_bytes(good)


@pytest.mark.promise("C1")
def test_a_repaired_shard_is_read_as_if_it_had_never_been_damaged(
    live: Callable, shards: pathlib.Path, tmp_path: pathlib.Path, lines: Callable[[], list[str]]
) -> None:
    _, unbroken = live("unbroken")
    assert len(unbroken) == 2 * STEPS
    with damaged(shards / f"{unbroken[50][0]}.tfrecord"):
        status, before = live("run", pause=PAUSE)
    assert status == 1
    saved = positions(tmp_path / "run")
    failed = [step for step, content in saved.items() if content["failed"]]
    sound = [step for step in saved if step not in failed and step > 0]
    assert failed
    assert sound
    assert max(sound) < min(failed) <= len(before) / 2
    assert {int(path.stem.split("-")[1]) for path in (tmp_path / "run").glob("input-*.index")} >= set(sound)
    assert not [step for step in failed if (tmp_path / f"run/input-{step}.index").exists()]
    status, after = live("run")
    assert status == 0
    assert before[: 2 * max(sound)] + after == unbroken
    (told,) = [line for line in lines() if "the newest checkpoint with a sound position" in line]
    assert f"step {max(failed)} " in told
    assert f"step {max(sound)}," in told


@pytest.mark.heavy
@pytest.mark.promise("C1")
def test_so_is_a_shard_that_the_cache_could_not_parse(
    live: Callable, shards: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    _, unbroken = live("unbroken", cache=str(tmp_path / "cache of another"))
    with damaged(shards / "0.tfrecord"):
        assert live("run", cache=str(tmp_path / "cache"), pause=PAUSE)[0] == 1
    status, ids = live("run", cache=str(tmp_path / "cache"))
    assert status == 0
    assert ids == unbroken[-len(ids) :]


@pytest.mark.heavy
@pytest.mark.parametrize("keep", [1, 30])
def test_a_position_of_an_earlier_version_that_holds_an_error_is_found(
    live: Callable, shards: pathlib.Path, tmp_path: pathlib.Path, keep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing of the input, and its state has the error. If no other is left, the data begin anew."""
    _, unbroken = live("unbroken")
    with monkeypatch.context() as patch, damaged(shards / f"{unbroken[50][0]}.tfrecord"):
        patch.setattr(failed_input, "discard_failed_state", lambda _: False)
        assert live("run", keep_checkpoints=keep, pause=PAUSE)[0] == 1
    for path in (tmp_path / "run").glob("input-*.json"):
        content = json.loads(path.read_text())
        del content["failed"]
        path.write_text(json.dumps(content))
    states = {step: f"{tmp_path}/run/input-{step}.data-00000-of-00001" for step in positions(tmp_path / "run")}
    holding = [failed_input.is_in_state(path) for _, path in sorted(states.items())]
    assert holding == sorted(holding)
    assert holding[-1]
    status, ids = live("run")
    assert status == 0
    assert ids == (unbroken if all(holding) else unbroken[-len(ids) :])


@pytest.mark.heavy
def test_the_position_of_any_process_counts(live: Callable, shards: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """One of several that train by --exchange=all-reduce."""
    assert live("run")[0] == 0
    run = str(tmp_path / "run")
    newest = failed_input.checkpoint_to_resume(run, is_exact=True)
    assert newest == f"{run}/model.ckpt-{STEPS}"
    (tmp_path / f"run/input-{STEPS}.replica1.json").write_text('{"failed": true}')
    assert failed_input.checkpoint_to_resume(run, is_exact=False) == newest
    assert failed_input.checkpoint_to_resume(run, is_exact=True) == f"{run}/model.ckpt-{STEPS - INTERVAL}"


@pytest.mark.parametrize(
    ("state", "holds"),
    [
        (b"", False),
        (b"an error_message of a video", False),
        (b"\x12Iterator::Root::Prefetch::0@@status.code@@status.error_message\x1a", True),
        (b"\x12Iterator::Root::ParallelMapV2@@x[3].code@@x[3].error_message@@y\x1a", True),
        (b"error_message" * 50 + b"@@status.code@@status.error_message\x1a", True),
    ],
)
def test_only_the_key_of_a_status_counts(tmp_path: pathlib.Path, state: bytes, holds: bool) -> None:
    (tmp_path / "state").write_bytes(state)
    assert failed_input.is_in_state(str(tmp_path / "state")) == holds
