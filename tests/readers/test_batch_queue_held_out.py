"""A training reads every video once an epoch but for those that are held out, in every way of reading."""

from __future__ import annotations

import pathlib
from typing import Any

import cases
import numpy as np
import pytest
from reader_records import frame_record, video_record, write_shard

from yt8m.config.data_config import DataConfig
from yt8m.lazy import tf
from yt8m.readers import BatchQueue
from yt8m.records import held_out

IDS = [f"v{k}" for k in range(300)]
RULE = held_out.rule_for(held_out.keys_of(IDS))
OTHERS = [
    name for name, is_out in zip(IDS, held_out.are_held_out(held_out.keys_of(IDS), RULE), strict=True) if not is_out
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataConfig]:
    """{level: the config of a training on two shards}."""
    folder, frames = tmp_path_factory.mktemp("shards"), np.ones((2, 4), np.uint8)
    for shard in (0, 1):
        names = [name.encode() for name in IDS[shard::2]]
        write_shard(
            folder / f"v{shard}.tfrecord", [video_record(id=[i], labels=[0], mean_rgb=[1.0] * 4) for i in names]
        )
        records = [frame_record({"id": [i], "labels": [0]}, {"rgb": list(frames)}) for i in names]
        write_shard(folder / f"f{shard}.tfrecord", records)
    usual: dict[str, Any] = {"feature_sizes": (4,), "num_classes": 2, "held_out": RULE, "batch_size": 32}
    return {
        "video": DataConfig(data_pattern=f"{folder}/v*.tfrecord", feature_names=("mean_rgb",), num_epochs=2, **usual),
        "frame": DataConfig(
            data_pattern=f"{folder}/f*.tfrecord", feature_names=("rgb",), frame_features=True, num_epochs=2, **usual
        ),
    }


def ids_of(queue: BatchQueue, begun: int = 0) -> list[str]:
    found: list[bytes] = []
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.constant(queue.files())
        dataset = queue.numbered_dataset(files, queue.batch_size, tf.constant(begun, tf.int64))
        iterator = tf.data.make_initializable_iterator(dataset)
        batch, _ = iterator.get_next()
        session.run(iterator.initializer)
        try:
            while True:
                found += session.run(batch.video_ids).tolist()
        except tf.errors.OutOfRangeError:
            return [name.decode() for name in found]
        finally:
            queue.close()


@pytest.mark.parametrize(
    ("level", "is_cached"), cases.all_of([("video", False), ("frame", True)], heavy=[("video", True), ("frame", False)])
)
def test_an_epoch_has_the_other_videos_once(
    data: dict[str, DataConfig], level: str, is_cached: bool, tmp_path: pathlib.Path
) -> None:
    config = DataConfig(**{**vars(data[level]), "cache": str(tmp_path) if is_cached else ""})
    queue = BatchQueue.for_config(config, "train")
    found = ids_of(queue)
    assert len(OTHERS) == 270
    assert sorted(found[:270]) == sorted(found[270:]) == sorted(OTHERS)
    assert found[:270] != found[270:]
    assert found == ids_of(BatchQueue.for_config(data[level], "train"))  # in the same order with and without a cache
    assert queue.calls_python, "so that no meta-graph is used"


def test_later_epochs_and_shares_have_no_others(data: dict[str, DataConfig]) -> None:
    queue = BatchQueue.for_config(data["video"], "train")
    assert sorted(ids_of(queue, begun=2)) == sorted(OTHERS)
    for count in (2, 3):  # shares of files, and of records
        shares = [ids_of(queue.share(index, count)) for index in range(count)]
        assert sorted(name for share in shares for name in share) == sorted(2 * OTHERS)


def test_an_evaluation_reads_all(data: dict[str, DataConfig]) -> None:
    queue = BatchQueue.for_config(data["video"], "eval")
    with tf.Graph().as_default(), tf.Session() as session:
        batch = tf.data.make_one_shot_iterator(queue.dataset(tf.constant(queue.files()), 300)).get_next()
        assert sorted(name.decode() for name in session.run(batch.video_ids)) == sorted(IDS)
    assert not queue.calls_python
