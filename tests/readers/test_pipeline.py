"""The steps of the input: no AutoGraph within, and local copies of shards in buckets."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from reader_records import video_record, write_shard

from yt8m import storage
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers import BatchQueue, YT8MAggregatedFeatureReader
from yt8m.readers.pipeline import in_epochs, parse_in_batches, without_autograph
from yt8m.storage import base, copies


def evens(count: int) -> tf.Tensor:
    """The numbers of a dataset whose function AutoGraph alone makes sense of."""

    def kept(number: tf.Tensor) -> tf.Tensor:
        if number % 2 < 1:  # a branch on a tensor
            return number
        return tf.constant(-1, tf.int64)

    return tf.data.make_one_shot_iterator(tf.data.Dataset.range(count).map(kept)).get_next()


def test_functions_of_datasets_are_left_as_they_are() -> None:
    with tf.Graph().as_default(), pytest.raises(TypeError, match="AutoGraph"):
        without_autograph(evens)(3)


def elements(dataset: tf.data.Dataset) -> list[Any]:
    """The elements of a dataset of the current graph."""
    get_next = tf.data.make_one_shot_iterator(dataset).get_next()
    found = []
    with tf.Session() as session:
        while True:
            try:
                found.append(session.run(get_next))
            except tf.errors.OutOfRangeError:
                return found


@pytest.mark.parametrize("settings", [{}, {"starts_fast": True}, {"are_long": True}])
def test_every_way_of_parsing_gives_the_same_batches(settings: dict[str, bool]) -> None:
    with tf.Graph().as_default():
        factor = tf.constant(3, tf.int64)  # captured by the function

        def parse(numbers: tf.Tensor, texts: tf.Tensor) -> Any:
            return {"products": factor * numbers, "none": None}, tf.strings.join([texts, "!"])

        numbers = tf.data.Dataset.range(5)
        records = tf.data.Dataset.zip((numbers, numbers.map(tf.as_string)))
        found = parse_in_batches(records, parse, 2, 1, False, **settings)
        assert found.element_spec[0]["none"] == tf.type_spec_from_value(None)
        kept = elements(found.map(lambda values, texts: (values["products"], texts)))
    assert [products.tolist() for products, _ in kept] == [[0, 3], [6, 9], [12]]
    assert [texts.tolist() for _, texts in kept] == [[b"0!", b"1!"], [b"2!", b"3!"], [b"4!"]]


def test_epochs_follow_one_another_from_any_file_on() -> None:
    def read(paths: tf.data.Dataset, numbers: tf.data.Dataset, epoch: tf.Tensor) -> tf.data.Dataset:
        return tf.data.Dataset.zip((paths, numbers)).map(lambda path, number: (path, number, epoch))

    with tf.Graph().as_default():
        files, none = tf.constant(["a", "b", "c"]), tf.zeros([], tf.int64)
        whole = elements(in_epochs(files, none, 2, 0, read))
        rest = elements(in_epochs(files, none + 4, 2, 0, read))
    assert [(number, epoch) for _, number, epoch in whole] == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]
    assert {path for path, _, epoch in whole if epoch == 0} == {b"a", b"b", b"c"}
    assert rest == whole[4:]


def test_arguments_and_result_are_handed_on() -> None:
    divided = without_autograph(divmod)
    assert divided(7, 2) == (3, 1)
    assert divided.__name__ == "divmod"


@pytest.fixture
def folders(bucket: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Six shards, here and in a bucket; the cache has room for four of them."""
    for shard in range(6):
        ids = [b"%d.%d" % (shard, n) for n in range(9)]
        records = [video_record(id=[name], labels=[n % 5], mean_rgb=[float(n)]) for n, name in enumerate(ids)]
        path = write_shard(tmp_path / f"{shard}.tfrecord", records)
        with storage.write_atomic(f"{bucket}/{shard}.tfrecord") as file:
            file.write(storage.read_bytes(path))
    room = 4 * storage.size(path) + 10
    given = base.BucketSettings(cache_dir=str(tmp_path / "cache"), stage_cache_bytes=room)
    monkeypatch.setattr(base, "_settings", given)
    return str(tmp_path), bucket


def queue_on(folder: str, **more: Any) -> BatchQueue:
    reader = YT8MAggregatedFeatureReader(5, (1,), ("mean_rgb",))
    return BatchQueue(reader, f"{folder}/*.tfrecord", 7, shuffle_buffer=20, num_readers=2, **more)


def ids_of(queue: BatchQueue, saved_at: int = -1, folder: str = "") -> list[list[bytes]]:
    """The ids of each batch to the end; the position behind batch `saved_at` is saved and taken up again."""
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(queue.dataset(files, queue.batch_size))
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        ids = iterator.get_next().video_ids
        session.run(iterator.initializer, {files: queue.files()})
        for step in range(1000):
            if step == saved_at:
                path = saver.save(session, f"{folder}/input")
                for key in list(copies._workspaces):  # what another process does not find
                    copies._remove_workspace(key)
                session.run(iterator.initializer, {files: queue.files()})
                saver.restore(session, path)
            try:
                found.append(session.run(ids).tolist())
            except tf.errors.OutOfRangeError:
                break
    return found


@pytest.mark.heavy
def test_the_batches_are_those_of_local_shards(folders: tuple[str, str], tmp_path: pathlib.Path) -> None:
    here, there = folders
    for more in ({"shuffle": True, "num_epochs": 3}, {"num_epochs": 2}):
        local = ids_of(queue_on(here, **more))
        assert ids_of(queue_on(there, **more)) == local
    shares = [ids_of(queue_on(there).share(index, 8)) for index in (0, 7)]
    assert shares == [ids_of(queue_on(here).share(index, 8)) for index in (0, 7)]
    assert all(shares)


@pytest.mark.heavy
def test_a_saved_position_is_one_here_too(folders: tuple[str, str], tmp_path: pathlib.Path) -> None:
    queue = queue_on(folders[1], shuffle=True, num_epochs=4)
    unbroken = ids_of(queue)
    resumed = ids_of(queue_on(folders[1], shuffle=True, num_epochs=4), saved_at=9, folder=str(tmp_path))
    assert resumed == unbroken


def test_a_shard_that_cannot_be_staged_is_told_by_the_queue(folders: tuple[str, str]) -> None:
    queue = queue_on(folders[1])
    files = queue.keep_opened().files
    storage.remove(files[2])
    with pytest.raises(tf.errors.OpError):
        ids_of(queue)
    assert f"cannot read {files[2]}" in str(queue.damage())


def test_direct_reading_needs_a_file_system(folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_settings", base.BucketSettings(gs_reading="direct"))
    with tf.Graph().as_default():
        names = str(queue_on(folders[1]).dataset(tf.constant(["gs://b/x"]), 7))
        assert "Dataset" in names
        monkeypatch.setattr(tf.io.gfile, "get_registered_schemes", lambda: ["", "file"])
        with pytest.raises(UsageError, match=r"--gs_reading=direct"):
            queue_on(folders[1]).dataset(tf.constant(["gs://b/x"]), 7)
