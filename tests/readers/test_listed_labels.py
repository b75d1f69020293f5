"""Batches that go to other devices list their labels as class numbers, of which the same multi-hot labels are made."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import cases
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reader_records import frame_record, video_record, write_shard

from benchmarks.copies import DevicesOfTowers
from yt8m import deploy, graph, losses, models
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.graph.inputs import create_input
from yt8m.lazy import tf
from yt8m.readers import BatchQueue, YT8MAggregatedFeatureReader, YT8MFrameFeatureReader, listed_labels, multi_hot
from yt8m.video.modeler import VideoModeler

CLASSES = 600
LABELS: tuple[list[int], ...] = ([3], [], [599, 0, 3, 3], [7, 1], [0], [2, 599], [], [5, 4, 3, 2, 1], [11])
READERS = {
    "video": YT8MAggregatedFeatureReader(CLASSES, (3, 1), ("mean_rgb", "mean_audio")),
    "frame": YT8MFrameFeatureReader(CLASSES, (3, 1), max_frames=5),
}


def record(kind: str, row: int, labels: Sequence[int]) -> bytes:
    context = {"id": [b"%d" % row], **({"labels": labels} if labels else {})}
    if kind == "video":
        return video_record(**context, mean_rgb=[float(row), -1.0, 0.5], mean_audio=[0.25])
    rgb = np.random.default_rng(row).integers(0, 256, (row % 6, 3)).astype(np.uint8)
    return frame_record(context, {"rgb": rgb, "audio": rgb[:, :1]})


def write(folder: pathlib.Path, kind: str, labels: Sequence[Sequence[int]] = LABELS) -> str:
    write_shard(folder / "train0.tfrecord", [record(kind, row, of_row) for row, of_row in enumerate(labels)])
    return f"{folder}/train*.tfrecord"


def read(queue: BatchQueue) -> list[dict[str, Any]]:
    """The fields of each batch."""
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(queue.dataset(files, queue.batch_size))
        fetches = {name: value for name, value in iterator.get_next()._asdict().items() if value is not None}
        session.run(iterator.initializer, {files: queue.files()})
        batches = []
        while True:
            try:
                batches.append(session.run(fetches))
            except tf.errors.OutOfRangeError:
                return batches


def made_dense(lists: np.ndarray, num_classes: int = CLASSES) -> np.ndarray:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(multi_hot(tf.constant(lists), num_classes))  # type: ignore[no-any-return]


class Listed(NamedTuple):
    """A session in which lists of labels are fed, and what is made of them."""

    session: Any
    values: Any
    splits: Any
    made: list[Any]


@pytest.fixture(scope="module")
def listed() -> Iterator[Listed]:
    with tf.Graph().as_default(), tf.Session() as session:
        values, splits = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
        labels = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        ids = tf.fill([tf.size(splits) - 1], "a")
        lists = listed_labels.fields_of_labels(labels, ids, 9, is_listed=True)["label_lists"]
        dense = listed_labels.fields_of_labels(labels, ids, 9, is_listed=False)["labels"]
        yield Listed(session, values, splits, [lists, multi_hot(lists, 9), dense])


@examples(50)
@given(rows=st.lists(st.lists(st.integers(0, 8), max_size=5), min_size=1, max_size=6))
def test_lists_have_the_labels_of_the_records(listed: Listed, rows: list[list[int]]) -> None:
    feed = {listed.values: [value for row in rows for value in row], listed.splits: np.cumsum([0, *map(len, rows)])}
    lists, made, dense = listed.session.run(listed.made, feed)
    assert lists.shape == (len(rows), max(1, *map(len, rows)))
    assert made.dtype == np.bool_
    np.testing.assert_array_equal(made, [[number in row for number in range(9)] for row in rows])
    np.testing.assert_array_equal(made, dense)


@pytest.mark.parametrize(
    ("kind", "is_cached"), cases.only([*itertools.product(READERS, [False, True])], [("video", False), ("frame", True)])
)
def test_a_packed_batch_differs_in_its_labels_alone(kind: str, is_cached: bool, tmp_path: pathlib.Path) -> None:
    pattern = write(tmp_path, kind)
    cache = str(tmp_path / "cache") if is_cached else ""
    plain, packed = (BatchQueue(READERS[kind], pattern, 4, cache=cache) for _ in range(2))
    packed.pack_batches()
    for expected, batch in zip(read(plain), read(packed), strict=True):
        lists = batch.pop("label_lists")
        assert lists.dtype == np.int64
        np.testing.assert_array_equal(made_dense(lists), expected.pop("labels"))
        assert batch.keys() == expected.keys()
        for name, value in batch.items():
            for left, right in zip(tf.nest.flatten(value), tf.nest.flatten(expected[name]), strict=True):
                np.testing.assert_array_equal(left, right)
    assert not READERS[kind].lists_labels  # the reader of others is not changed


def test_a_wrong_label_is_named_in_lists_too(tmp_path: pathlib.Path) -> None:
    queue = BatchQueue(READERS["video"], write(tmp_path, "video", [[1], [2, 600]]), 2)
    queue.pack_batches()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"label 600 is outside of 0\.\.599"):
        read(queue)


class OwnReader(YT8MAggregatedFeatureReader):
    """A user's reader, which may use the labels of its batches itself."""


@pytest.mark.parametrize(
    "reader",
    [
        OwnReader(CLASSES, (3, 1), ("mean_rgb", "mean_audio")),
        YT8MAggregatedFeatureReader(511, (3, 1), ("mean_rgb", "mean_audio")),
        YT8MFrameFeatureReader(CLASSES, (3, 1), segment_labels=True),
    ],
)
def test_other_batches_stay_as_they_are(reader: Any) -> None:
    queue = BatchQueue(reader, "unused")
    queue.pack_batches()
    assert queue.reader is reader
    assert not reader.lists_labels


def trained(pattern: str, deployment: deploy.DeploymentConfig, packs: bool, prefetch: bool) -> dict[str, np.ndarray]:
    """The variables after three steps, and the labels of the last batch as published."""
    queue = BatchQueue(READERS["video"], pattern, 2, num_epochs=None, shuffle=True, seed=5)
    model = models.create("MoeModel", {"moe_num_mixtures": 1})
    modeler = VideoModeler(model, losses.get("CrossEntropyLoss")(), CLASSES, feature_sizes=(3, 1))
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        devices = DeviceConfig(prefetch_to_device=prefetch)
        ops = graph.build(queue, modeler, deployment, OptimizerConfig(), devices, seed=1, packs=packs)
        with tf.Session(config=deployment.session_config()) as session:
            session.run(tf.global_variables_initializer())
            session.run(ops.input.initializer, {ops.input.files: queue.files()})
            for _ in range(3):
                session.run(ops.train_op)
            values = {variable.op.name: session.run(variable) for variable in tf.global_variables()}
            labels = session.run(tf.get_collection("labels")[0])
    assert queue.reader.lists_labels == packs
    return values | {"labels": labels}


@pytest.mark.parametrize(("towers", "prefetch"), cases.all_of([(2, True)], heavy=[(1, False)]))
def test_training_is_the_same_to_the_last_bit(towers: int, prefetch: bool, tmp_path: pathlib.Path) -> None:
    pattern, deployment = write(tmp_path, "video"), DevicesOfTowers(towers, variables_on_clone=towers == 1)
    plain, packed = (trained(pattern, deployment, packs, prefetch) for packs in (False, True))
    assert packed["labels"].dtype == np.float32
    assert packed["labels"].any()
    assert plain.keys() == packed.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(packed[name], value, err_msg=name)


def test_batches_for_the_cpu_are_not_packed(tmp_path: pathlib.Path) -> None:
    """A saved position of a run on the CPU has parsed batches, whose labels are multi-hot since the first version."""
    for deployment in (deploy.local(1, 0)[0], deploy.local(2, 0)[0]):
        queue = BatchQueue(READERS["video"], write(tmp_path, "video"), 2)
        modeler = VideoModeler(models.create("LogisticModel", {}), None, CLASSES, feature_sizes=(3, 1))
        with tf.Graph().as_default():
            graph.build_eval(queue, modeler, deployment, "infer")
        assert not queue.reader.lists_labels


def test_an_endless_input_goes_on_with_a_row_of_its_form(tmp_path: pathlib.Path) -> None:
    """As in a step with `AllReduce` after the end of a replica's data; the row does not count."""
    queue = BatchQueue(READERS["video"], write(tmp_path, "video"), 4)
    queue.pack_batches()
    with tf.Graph().as_default(), tf.Session() as session:
        iterator, ops = create_input(queue, 4, endless=True)
        is_real, batch = iterator.get_next()
        session.run(ops.initializer, {ops.files: queue.files()})
        read = [session.run([is_real, batch.label_lists]) for _ in range(4)]
    assert [number for number, _ in read] == [1, 1, 1, 0]
    assert read[-1][1].tolist() == [[0]]
