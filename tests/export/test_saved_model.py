"""Exported models in TensorFlow 2 alone: both signatures give what our own inference gives."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import small_exports
from reader_records import write_shard

_LOAD = """
import json, sys
import numpy as np
import tensorflow as tf

for folder, shard in zip(sys.argv[1::2], sys.argv[2::2]):
    model = tf.saved_model.load(folder)
    records = [record.numpy() for record in tf.data.TFRecordDataset(shard)]
    found = model.signatures["serving_default"](example_bytes=tf.constant(records))
    features = []
    for record in records:
        context = tf.train.SequenceExample.FromString(record).context.feature
        lists = tf.train.SequenceExample.FromString(record).feature_lists.feature_list
        if not lists:
            parts = [context[name].float_list.value for name in ("mean_rgb", "mean_audio")]
            features.append(np.concatenate(parts)[None])
            continue
        parts = [[np.frombuffer(frame.bytes_list.value[0], np.uint8) for frame in lists[name].feature]
                 for name in ("rgb", "audio")]
        features.append(np.concatenate(parts, 1) * (4 / 255) + 4 / 512 - 2)
    frames = tf.ragged.constant([row.tolist() for row in features], ragged_rank=1, dtype=tf.float32)
    counts = tf.cast(frames.row_lengths(), tf.int32)[:, None]
    dense = model.signatures["mediapipe"](rgb_and_audio=frames.to_tensor(), num_frames=counts)
    print(json.dumps([found["class_indexes"].numpy().tolist(), found["predictions"].numpy().tolist(),
                      dense["predictions"].numpy().tolist()]))
assert "yt8m" not in sys.modules
"""


@pytest.mark.heavy
def test_both_signatures_of_both_levels(tmp_path: pathlib.Path) -> None:
    words, expected = [], []
    for name, records in (
        ("MoeModel", small_exports.video_records(9)),
        ("FrameLevelLogisticModel", small_exports.frame_records(9)),
    ):
        (tmp_path / name).mkdir()
        folder = small_exports.export(tmp_path / name, name)
        words += [folder, write_shard(tmp_path / name / "a.tfrecord", records)]
        expected.append(small_exports.predictions(folder, records))
    printed = subprocess.run(
        [sys.executable, "-c", _LOAD, *words], check=True, capture_output=True, text=True, cwd=tmp_path
    ).stdout
    for line, ours in zip(printed.splitlines(), expected, strict=True):
        classes, scores, dense = map(np.array, json.loads(line))
        np.testing.assert_array_equal(classes, ours.classes)
        np.testing.assert_allclose(scores, ours.scores, rtol=1e-5)
        assert dense.shape == (9, small_exports.CLASSES)
        np.testing.assert_allclose(np.take_along_axis(dense, classes, 1), ours.scores, rtol=1e-5)
