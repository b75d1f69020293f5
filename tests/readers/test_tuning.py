"""Threads of the input: chosen by the cores, told, and of no effect on the stream."""

from __future__ import annotations

import dataclasses
import logging
import pathlib

import pytest
from reader_records import video_record, write_shard

from yt8m.config.programs import DataConfig
from yt8m.lazy import tf
from yt8m.readers import BatchQueue, EverySegmentReader, batch_queue


def ids(queue: BatchQueue) -> list[list[bytes]]:
    found: list[list[bytes]] = []
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(queue.dataset(files, queue.batch_size))
        batch = iterator.get_next()
        session.run(iterator.initializer, {files: queue.files()})
        while True:
            try:
                found.append(session.run(batch.video_ids).tolist())
            except tf.errors.OutOfRangeError:
                return found


def test_flags_override_the_choice_which_is_told_and_the_stream_stays(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    for shard in range(3):
        records = [video_record(id=[b"%d.%d" % (shard, row)], mean_rgb=[float(row)]) for row in range(9)]
        write_shard(tmp_path / f"{shard}.tfrecord", records)
    data = DataConfig(
        data_pattern=f"{tmp_path}/*", feature_names=("mean_rgb",), feature_sizes=(1,), batch_size=4, num_epochs=2
    )
    with caplog.at_level(logging.INFO, logger="absl"):
        chosen = BatchQueue.for_config(data, "train")
        given = BatchQueue.for_config(dataclasses.replace(data, parse_threads=3, prefetch=4), "train")
        chosen.threads.log(8)
        given.threads.log(8)
    usual = batch_queue.threads_for(chosen.reader, shuffle=True)
    assert f"--parse_threads={usual.parse_calls} --prefetch={usual.prefetch} " in caplog.messages[0]
    assert "--parse_threads=3 --prefetch=4" in caplog.messages[1]
    found = ids(chosen)
    assert ids(given) == found
    assert sorted(one for batch in found for one in batch).count(b"2.8") == 2


@pytest.mark.parametrize(("cores", "usual", "for_segments"), [(1, 1, 1), (2, 1, 2), (6, 3, 6), (64, 4, 8)])
def test_all_cores_parse_where_segments_are_evaluated(
    cores: int, usual: int, for_segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_queue, "cores", lambda: cores)
    frames = DataConfig(data_pattern="*", feature_names=("rgb",), feature_sizes=(4,), frame_features=True)
    segments = dataclasses.replace(frames, segment_labels=True)
    for data, mode, expected in (
        (segments, "eval", for_segments),
        (segments, "train", usual),
        (frames, "eval", usual),
        (dataclasses.replace(segments, parse_threads=3), "eval", 3),
    ):
        assert BatchQueue.for_config(data, mode).threads.parse_calls == expected
    assert BatchQueue(EverySegmentReader(), "*", 4).threads.parse_calls == usual
