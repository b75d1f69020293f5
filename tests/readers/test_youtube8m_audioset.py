"""Real records of AudioSet: ten seconds of sound each, one embedding a second, ids in `video_id`."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import real_data

from yt8m.lazy import tf
from yt8m.readers import YT8MFrameFeatureReader

CLASSES, SIZE, MAX_FRAMES = 527, 128, 10


@pytest.fixture(scope="module")
def examples() -> list[tf.train.SequenceExample]:
    serialized = tf.compat.v1.io.tf_record_iterator(str(real_data("audioset_openmic.tfrecord")))
    return [tf.train.SequenceExample.FromString(record) for record in serialized]


def test_the_reader_gives_what_the_protos_hold(examples: list[tf.train.SequenceExample]) -> None:
    reader = YT8MFrameFeatureReader(CLASSES, [SIZE], ["audio_embedding"], MAX_FRAMES)
    with tf.Graph().as_default(), tf.Session() as session:
        serialized = tf.constant([example.SerializeToString() for example in examples])
        batch = reader.prepare_serialized_examples(serialized)
        labels = batch.labels
        labels = tf.sparse.to_dense(labels) if isinstance(labels, tf.SparseTensor) else labels
        ids, features, num_frames, labels = session.run(
            [batch.video_ids, batch.features[0], batch.num_frames, tf.cast(labels, tf.bool)]
        )
    assert len(examples) == 328
    for row, example in enumerate(examples):
        context = example.context.feature
        rows = [step.bytes_list.value[0] for step in example.feature_lists.feature_list["audio_embedding"].feature]
        expected = np.zeros((MAX_FRAMES, SIZE), np.uint8)
        expected[: len(rows)] = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, SIZE)
        assert ids[row] == context["video_id"].bytes_list.value[0]
        assert num_frames[row] == len(rows)
        np.testing.assert_array_equal(features[row, : len(rows)], expected[: len(rows)])
        assert np.flatnonzero(labels[row]).tolist() == sorted(set(context["labels"].int64_list.value))
