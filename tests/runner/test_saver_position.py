"""Without exact_resume a resumed run reads no shard twice in an epoch, and epochs count on."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples
from reader_records import frame_record, video_record, write_shard
from runner.id_workload import READER, Ids

from yt8m.lazy import tf
from yt8m.readers import BatchQueue, YT8MFrameFeatureReader
from yt8m.runner import CallbackConfig
from yt8m.runner.saver import ShardPosition

SHARDS, ROWS, EPOCHS = 6, 3, 3


def write_shards(folder: pathlib.Path, first: int = 0) -> pathlib.Path:
    """Writes shards of videos named `shard.row`, with rows from `first` on."""
    folder.mkdir(exist_ok=True)
    for shard in range(SHARDS):
        names = [b"%d.%d" % (shard, row) for row in range(first, first + ROWS)]
        write_shard(folder / f"{shard}.tfrecord", [video_record(id=[name], mean_rgb=[1.0]) for name in names])
    return folder


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Shards of three videos named `shard.row`."""
    return write_shards(tmp_path_factory.mktemp("shards"))


@pytest.fixture
def live(train: Callable, tmp_path: pathlib.Path) -> Callable[..., list[str]]:
    """Trains to `max_steps`; returns the ids of this life as they were read."""

    def run(
        pattern: Any, max_steps: int | None = None, epochs: int = EPOCHS, readers: int = 2, **more: Any
    ) -> list[str]:
        reader, seed = more.pop("reader", READER), more.get("seed", 0)
        queue = BatchQueue(reader, pattern, 2, epochs, True, 4, readers, seed)
        path = tmp_path / "ids.txt"
        path.write_text("")
        callbacks = CallbackConfig(options={"runner.tiny_hooks:Ids": {"path": str(path)}})
        shape = {"signature": {"epochs": epochs, "readers": readers, "reader": type(reader).__name__}}
        outcome = train(callbacks, inputter=queue, modeler=Ids(), max_steps=max_steps, **shape, **more)
        assert not outcome.exit_code, outcome.message
        return path.read_text().split()

    return run


def shards_of(ids: Sequence[str]) -> set[str]:
    return {name.split(".")[0] for name in ids}


@pytest.mark.parametrize("kind", ["from its meta-graph", "from code"])
@pytest.mark.heavy
def test_no_shard_is_read_twice_in_an_epoch(
    live: Callable, shards: pathlib.Path, tmp_path: pathlib.Path, lines: Callable[[], list[str]], kind: str
) -> None:
    """13 steps of 2: one whole epoch of 18 rows, and 8 rows of the second."""
    pattern = f"{shards}/*"
    first = live(pattern, 13)
    told = json.loads((tmp_path / "run/input-13.json").read_text())
    begun = told["begun"]
    assert told["shards"] == SHARDS
    assert SHARDS + 3 <= begun < 2 * SHARDS
    if kind == "from code":
        (tmp_path / "run/model.ckpt-13.meta").unlink()
    second = live(pattern)
    assert len(second) == (SHARDS * EPOCHS - begun) * ROWS
    rest, last = second[: -SHARDS * ROWS], second[-SHARDS * ROWS :]
    assert shards_of(rest).isdisjoint(shards_of(first[SHARDS * ROWS :]))
    assert max(Counter(rest).values()) == max(Counter(last).values()) == 1
    assert len(last) == SHARDS * ROWS
    said = f"reading continues at epoch 2, shard {begun - SHARDS + 1} of {SHARDS}; the first {begun - SHARDS} shards"
    assert sum(said in line for line in lines()) == 1
    assert ("graph saved" in "".join(lines())) == (kind == "from its meta-graph")
    assert live(pattern) == []
    assert any("no data are left" in line for line in lines())
    assert len(live(pattern, epochs=EPOCHS + 1)) == SHARDS * ROWS


_MORE = [pytest.param(change, marks=pytest.mark.heavy) for change in ("garbage", "moved", "seed", "no file")]


@pytest.mark.parametrize("changed", ["files", *_MORE])
def test_a_position_that_means_nothing_now_is_not_taken(
    live: Callable, shards: pathlib.Path, tmp_path: pathlib.Path, lines: Callable[[], list[str]], changed: str
) -> None:
    live(f"{shards}/*", 3)
    position = tmp_path / "run/input-3.json"
    if changed == "garbage":
        position.write_text("{")
    elif changed == "no file":
        position.unlink()
    elif changed == "moved":
        (tmp_path / "elsewhere").symlink_to(shards)
        shards = tmp_path / "elsewhere"
    pattern = f"{shards}/[0-4]*" if changed == "files" else f"{shards}/*"
    ids = live(pattern, epochs=1, seed=int(changed == "seed"))
    assert len(ids) == len(set(ids)) == (5 if changed == "files" else SHARDS) * ROWS
    assert sum("from their beginning" in line for line in lines()) == 1


@pytest.mark.heavy
def test_an_exact_position_in_shards_that_were_rewritten_since_is_not_taken(
    live: Callable, tmp_path: pathlib.Path, lines: Callable[[], list[str]]
) -> None:
    folder = tmp_path / "data"
    write_shards(folder)
    live(f"{folder}/*.tfrecord", 3, exact_resume=True)
    write_shards(folder, 1000)  # names of other lengths, so the saved places are no borders of records
    ids = live(f"{folder}/*.tfrecord", epochs=1, exact_resume=True)
    assert Counter(ids) == Counter(f"{shard}.{1000 + row}" for shard in range(SHARDS) for row in range(ROWS))
    (told,) = [line for line in lines() if "the data are read from their beginning" in line]
    assert "another size now" in told


def test_an_exact_position_in_shards_of_another_content_is_not_taken(
    live: Callable, tmp_path: pathlib.Path, lines: Callable[[], list[str]]
) -> None:
    """They have the size and the time of the former ones, as `cp -p` leaves it; and a moved shard is the same one."""
    folder = tmp_path / "data"

    def write(first: int) -> None:
        write_shards(tmp_path / "new", first)
        folder.mkdir(exist_ok=True)
        for path in (tmp_path / "new").iterdir():
            os.utime(path, (1e9, 1e9))
            path.replace(folder / path.name)

    write(0)
    live(f"{folder}/*.tfrecord", 3, exact_resume=True)
    write(0)
    live(f"{folder}/*.tfrecord", 5, exact_resume=True)
    assert not any("from their beginning" in line for line in lines())
    write(5)
    ids = live(f"{folder}/*.tfrecord", epochs=1, exact_resume=True)
    assert Counter(ids) == Counter(f"{shard}.{5 + row}" for shard in range(SHARDS) for row in range(ROWS))
    (told,) = [line for line in lines() if "the data are read from their beginning" in line]
    assert "another content" in told


@pytest.mark.heavy
def test_other_readers_and_batches_go_on_from_the_same_position(
    live: Callable, shards: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    first = live(f"{shards}/*", 3, readers=4, epochs=1)
    second = live(f"{shards}/*", readers=1, epochs=1)
    assert shards_of(first).isdisjoint(shards_of(second))
    assert second
    assert len(second) == ROWS * len(shards_of(second))


@given(st.lists(st.integers(-1, 2 * SHARDS - 1)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_position_never_goes_back(tmp_path: pathlib.Path, last_shards: list[int]) -> None:
    """Shards are read side by side, so a step may have records of earlier shards alone."""
    ops: Any = None  # what is counted and saved does not depend on the graph
    position = ShardPosition(ops, ["a"] * SHARDS, {}, EPOCHS)
    for last in last_shards:
        position.count_shards(last)
    with tf.Session() as session:
        position.save(session, str(tmp_path), 7)
    begun = json.loads((tmp_path / "input-7.json").read_text())["begun"]
    assert begun == max(last_shards, default=-1) + 1


@pytest.mark.heavy
def test_rated_segments_too(live: Callable, tmp_path: pathlib.Path) -> None:
    for shard in range(SHARDS):
        context = {"id": [b"%d.0" % shard], "segment_start_times": [0, 5], "segment_labels": [1, 1]}
        record = frame_record({**context, "segment_scores": [1.0, 1.0]}, {"rgb": np.zeros([9, 1], np.uint8)})
        write_shard(tmp_path / f"{shard}.segments", [record] * 40)
    reader = YT8MFrameFeatureReader(5, (1,), ("rgb",), segment_labels=True)
    first = live(f"{tmp_path}/*.segments", 5, epochs=1, reader=reader)
    second = live(f"{tmp_path}/*.segments", epochs=1, reader=reader)
    assert shards_of(first).isdisjoint(shards_of(second))
    assert len(second) == 80 * len(shards_of(second)) > 0


@given(st.integers(1, 4), st.integers(1, 12), st.integers(0, 2 * SHARDS * ROWS))
@examples(2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_readers_buffer_and_step(shards: pathlib.Path, readers: int, buffer: int, stop: int) -> None:
    """What numbers of shards promise, on the queue alone: a second pass that leaves out what was begun."""
    queue = BatchQueue(READER, f"{shards}/*", 1, 2, True, buffer, readers, seed=stop)
    with tf.Graph().as_default(), tf.Session() as session:
        begun = tf.placeholder(tf.int64, [])
        iterator = tf.data.make_initializable_iterator(queue.numbered_dataset(tf.constant(queue.files()), 1, begun))
        batch, numbers = iterator.get_next()

        def rows(left_out: int) -> list[tuple[int, str]]:
            found = []
            session.run(iterator.initializer, {begun: left_out})
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    ids, (number,) = session.run((batch.video_ids, numbers))
                    found.append((int(number), ids[0].decode()))
            return found

        whole = rows(0)
        left_out = max([number for number, _ in whole[:stop]], default=-1) + 1
        rest = rows(left_out)
    assert Counter(number for number, _ in whole) == dict.fromkeys(range(2 * SHARDS), ROWS)
    assert sorted(rest) == sorted(row for row in whole if row[0] >= left_out)
