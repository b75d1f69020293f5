"""Parsers that are alike are traced once for all graphs of a process, and no graph is kept for that."""

from __future__ import annotations

import gc
import pathlib
import weakref
from typing import Any

import cases
import numpy as np
import pytest
from reader_records import frame_record, video_record, write_shard

from yt8m.lazy import tf
from yt8m.readers import BatchQueue, EverySegmentReader, Reader, YT8MAggregatedFeatureReader, YT8MFrameFeatureReader
from yt8m.readers import traced as traced_module
from yt8m.readers.base import ZeroedCount


@pytest.fixture(autouse=True)
def no_earlier_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_module, "_kept", type(traced_module._kept)())


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the classes of readers that were asked to parse while graphs were built."""
    names: list[str] = []
    for cls in (YT8MAggregatedFeatureReader, YT8MFrameFeatureReader):
        parse = cls.prepare_serialized_examples

        def note(self: Any, serialized: Any, parse: Any = parse) -> Any:
            names.append(type(self).__name__)
            return parse(self, serialized)

        monkeypatch.setattr(cls, "prepare_serialized_examples", note)
    return names


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A shard of two videos of each level."""
    folder: pathlib.Path = tmp_path_factory.mktemp("traced")
    videos = [video_record(id=[name], labels=[label], f=[1.0, 2.0]) for name, label in ((b"a", 0), (b"b", 2))]
    frames = [
        frame_record({"id": [name], "labels": [1]}, {"f": [np.full(2, count, np.uint8)] * count})
        for name, count in ((b"a", 3), (b"b", 7))
    ]
    return {
        "video": write_shard(folder / "video.tfrecord", videos),
        "frame": write_shard(folder / "frame.tfrecord", frames),
    }


def readers(level: str, **fields: Any) -> Reader:
    if level == "video":
        return YT8MAggregatedFeatureReader(3, (2,), ("f",), **fields)
    cls = EverySegmentReader if level == "segments" else YT8MFrameFeatureReader
    return cls(3, (2,), ("f",), **fields)


def batches(reader: Reader, path: str, **settings: Any) -> list[Any]:
    """The first batch of a queue of this reader, from a graph and a session of its own."""
    queue = BatchQueue(reader, path, 2, **settings)
    with tf.Graph().as_default(), tf.Session() as session:
        iterator = tf.data.make_initializable_iterator(queue.dataset(tf.constant([path]), 2))
        leaves = [leaf for leaf in tf.nest.flatten(iterator.get_next()) if leaf is not None]
        session.run(iterator.initializer)
        found = [value.tolist() for value in session.run(leaves)]
    queue.close()
    return found


@pytest.mark.parametrize(
    "shuffle", [pytest.param(False, id="in order", marks=pytest.mark.heavy), pytest.param(True, id="shuffled")]
)
@pytest.mark.parametrize("level", cases.all_of(["video"], heavy=["frame", "segments"]))
def test_a_second_graph_has_the_trace_of_the_first(
    level: str, shuffle: bool, shards: dict[str, str], parsed: list[str]
) -> None:
    path = shards["video" if level == "video" else "frame"]
    first = batches(readers(level), path, shuffle=shuffle)
    assert len(parsed) == 1
    assert batches(readers(level), path, shuffle=shuffle) == first
    assert len(parsed) == 1


@pytest.mark.parametrize(
    ("level", "fields"),
    [
        ("video", {"nan_policy": "zero"}),
        pytest.param("video", {"feature_ranges": ((0.0, 1.0),)}, marks=pytest.mark.heavy),
        pytest.param("frame", {"max_frames": 4}, marks=pytest.mark.heavy),
        pytest.param("frame", {"segment_labels": True}, marks=pytest.mark.heavy),
        ("segments", {"shifts": (0, 1)}),
    ],
)
def test_what_differs_is_traced_anew(level: str, fields: dict[str, Any], parsed: list[str]) -> None:
    for reader in (readers(level), readers(level, **fields), readers(level)):
        with tf.Graph().as_default():
            BatchQueue(reader, "none", 2).dataset(tf.constant(["none"]), 2)
    assert len(parsed) == 2


@pytest.mark.heavy
def test_counts_and_readers_of_users_are_traced_for_each_graph(shards: dict[str, str], parsed: list[str]) -> None:
    class Own(YT8MAggregatedFeatureReader):
        pass

    counted, own = readers("video", nan_policy="zero"), Own(3, (2,), ("f",))
    counted.zeroed = ZeroedCount()
    for reader in (counted, own) * 2:
        batches(reader, shards["video"])
    assert len(parsed) == 4


def test_the_records_of_each_pass_are_counted_by_its_own_queue(shards: dict[str, str]) -> None:
    queue = BatchQueue(readers("video"), shards["video"], 2)
    queue.count_reads()
    for _ in range(2):
        with tf.Graph().as_default(), tf.Session() as session:
            iterator = tf.data.make_initializable_iterator(queue.dataset(tf.constant([shards["video"]]), 2))
            ids = iterator.get_next().video_ids
            session.run(iterator.initializer)
            assert session.run(ids).tolist() == [b"a", b"b"]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(ids)
        assert queue.records_read == 2
    queue.close()


@pytest.mark.heavy
def test_no_graph_is_kept_by_its_trace_and_few_traces_are() -> None:
    graph = tf.Graph()
    with graph.as_default():
        BatchQueue(readers("video"), "none", 2).dataset(tf.constant(["none"]), 2)
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None
    for size in range(1, traced_module._LARGEST + 2):
        with tf.Graph().as_default():
            BatchQueue(YT8MAggregatedFeatureReader(3, (size,), ("f",)), "none", 2).dataset(tf.constant(["none"]), 2)
    assert len(traced_module._kept) == traced_module._LARGEST
