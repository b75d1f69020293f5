"""Class-balanced epochs, compared with NumPy, and runs that read them."""

from __future__ import annotations

import pathlib
from collections import Counter
from typing import Any

import cases
import numpy as np
import pytest
from reader_records import frame_record, video_record, write_shard

from yt8m.lazy import tf
from yt8m.readers import BatchQueue, Reader, YT8MAggregatedFeatureReader, YT8MFrameFeatureReader, pipeline
from yt8m.types import Batch

CLASSES, VIDEOS = 5, 300
COUNTS = np.array([200, 60, 25, 10, 0])


def labels_of(video: int) -> list[int]:
    """Class 0 for 200 videos, class 1 for 60, and so on; the last five have none, and some have class 0 too."""
    own = int(np.searchsorted(np.cumsum(COUNTS), video, side="right"))
    return [] if own == CLASSES else sorted({own, *([0] if video % 7 == 0 else [])})


LABELS = np.array([[label in labels_of(video) for label in range(CLASSES)] for video in range(VIDEOS)])


def own_weights(power: float) -> np.ndarray:
    """By the definition, in plain Python."""
    raw = [max(int(count), 1) ** -power for count in COUNTS]
    scale = sum(COUNTS) / sum(count * weight for count, weight in zip(COUNTS, raw, strict=True))
    rows = [[raw[label] * scale for label in labels_of(video)] for video in range(VIDEOS)]
    return np.array([min(sum(row) / len(row), 16.0) if row else 1.0 for row in rows])


class OwnReader(Reader):
    """A reader of a user, which has no parser of labels alone and whose labels are floats."""

    def prepare_serialized_examples(self, serialized: Any) -> Batch:
        batch = YT8MAggregatedFeatureReader(CLASSES, (1,), ("mean_rgb",)).prepare_serialized_examples(serialized)
        return batch._replace(labels=tf.cast(batch.labels, tf.float32))

    def video_matrix(self, batch: Batch) -> Any:
        return batch.features[0]


READERS: dict[str, Any] = {
    "video": YT8MAggregatedFeatureReader(CLASSES, (1,), ("mean_rgb",)),
    "frame": YT8MFrameFeatureReader(CLASSES, (1,), ("rgb",), max_frames=3),
    "own": OwnReader(CLASSES, (1,), ("mean_rgb",)),
}


@pytest.fixture(scope="module", params=cases.only(READERS, ["frame"]))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shards(kind: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three shards of 300 videos in all."""
    folder = tmp_path_factory.mktemp("shards")
    for shard in range(3):
        videos = range(shard, VIDEOS, 3)
        if kind == "frame":
            rgb = np.zeros((2, 1), np.uint8)
            records = [frame_record({"id": [b"%d" % v], "labels": labels_of(v)}, {"rgb": rgb}) for v in videos]
        else:
            records = [video_record(id=[b"%d" % v], labels=labels_of(v) or None, mean_rgb=[1.0]) for v in videos]
        write_shard(folder / f"{shard}.tfrecord", records)
    return f"{folder}/*.tfrecord"


def epochs(kind: str, shards: str, power: float, count: int, **settings: Any) -> list[list[int]]:
    """The videos of each epoch, in order."""
    queue = BatchQueue(READERS[kind], shards, 50, 1, shuffle=True, shuffle_buffer=20, num_readers=2, **settings)
    queue.num_epochs = count
    if power:
        queue.class_weights = pipeline.class_weights(COUNTS, power)
    found: list[list[int]] = [[] for _ in range(count)]
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        dataset = queue.numbered_dataset(files, queue.batch_size, tf.zeros([], tf.int64))
        iterator = tf.data.make_initializable_iterator(dataset)
        batch, numbers = iterator.get_next()
        session.run(iterator.initializer, {files: queue.files()})
        try:
            while True:
                ids, shard_numbers = session.run([batch.video_ids, numbers])
                for video, number in zip(ids, shard_numbers, strict=True):
                    found[number // 3].append(int(video))
        except tf.errors.OutOfRangeError:
            queue.close()
            return found


@pytest.mark.parametrize("power", [0.5, pytest.param(1.0, marks=pytest.mark.heavy)])
def test_each_video_has_the_copies_of_its_weight(kind: str, shards: str, power: float) -> None:
    weights, count = own_weights(power), 12
    copies = np.zeros((count, VIDEOS), int)
    for epoch, videos in enumerate(epochs(kind, shards, power, count)):
        for video, number in Counter(videos).items():
            copies[epoch, video] = number
    # The weights of tf are float32, so a whole number may be rounded down.
    assert (copies >= np.floor(weights - 1e-4)).all()
    assert (copies <= np.floor(weights + 1e-4) + 1).all()
    # The mean of 12 uniform roundings of 300 videos has a standard deviation of at most 0.5 / sqrt(3600).
    assert copies.mean() == pytest.approx(weights.mean(), abs=0.03)
    assert weights.mean() == pytest.approx(1.0, abs=0.1)
    assert (copies[0] != copies[1]).any()


def test_epochs_depend_on_the_seed_alone(kind: str, shards: str, tmp_path: pathlib.Path) -> None:
    first = epochs(kind, shards, 0.5, 2, seed=1)
    if kind != "frame":
        assert epochs(kind, shards, 0.5, 2, seed=1) == first
        assert epochs(kind, shards, 0.5, 2, seed=2) != first
    if kind != "own":
        assert epochs(kind, shards, 0.5, 2, seed=1, cache=str(tmp_path / "cache")) == first


def test_without_weights_every_video_is_read_once(kind: str, shards: str) -> None:
    assert sorted(epochs(kind, shards, 0.0, 1)[0]) == list(range(VIDEOS))


def test_limit_of_copies() -> None:
    weights = pipeline.class_weights(np.array([100_000, 10, 0]), 1.0)
    labels = np.array([[False, True, False], [True, False, False], [False, False, True], [False] * 3])
    with tf.Graph().as_default(), tf.Session() as session:
        rows = session.run(pipeline.video_weights(tf.constant(labels), weights))
    np.testing.assert_allclose(rows, [5000.5, 0.50005, 50005.0, 1.0], rtol=1e-5)


class TwoExamples(OwnReader):
    """Makes two examples of each record."""

    def prepare_serialized_examples(self, serialized: Any) -> Batch:
        return super().prepare_serialized_examples(tf.repeat(serialized, 2))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["video"], indirect=True, scope="module")
def test_a_reader_of_several_examples_is_refused(shards: str, kind: str) -> None:
    queue = BatchQueue(TwoExamples(CLASSES, (1,), ("mean_rgb",)), shards, 10, 1, shuffle=True)
    queue.class_weights = pipeline.class_weights(COUNTS, 0.5)
    with tf.Graph().as_default(), tf.Session() as session:
        iterator = tf.data.make_initializable_iterator(queue.dataset(tf.constant(queue.files()), 10))
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"--balance\b.*one example"):
            session.run(iterator.get_next().video_ids)
