"""SavedModels: in TensorFlow 2 alone both signatures give what our own inference gives; copies replace other models."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
from typing import IO, Any

import numpy as np
import pytest
import small_exports
from reader_records import write_shard

from yt8m import storage
from yt8m.export import saved_model

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


@pytest.fixture(params=["local", "gs"])
def target(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    """A folder, local or in a bucket, for a copy of a SavedModel."""
    return storage.join(str(tmp_path) if request.param == "local" else request.getfixturevalue("bucket"), "target")


def content(folder: str) -> dict[str, str]:
    """{path in the folder: text} of all files in it."""
    paths = [storage.join(inner, name) for inner, names in storage.tree(folder).items() for name in names]
    return {path.removeprefix(f"{folder}/"): storage.read_text(path) for path in paths}


def test_a_copy_takes_the_place_of_another_model(
    tmp_path: pathlib.Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ("saved_model.pb", "variables/variables.index", "assets/vocabulary.csv", "thresholds.csv", "README.md")
    new = ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001", "README.md")
    for name in [*old, "notes.txt", "train/model.ckpt-5.index"]:
        storage.write(storage.join(target, name), "old")
    for name in new:
        storage.write(tmp_path / "source" / name, "new")
    seen: list[tuple[str, bool]] = []  # (name of a file that is written, whether there is a model before that)
    write_atomic = storage.write_atomic

    def noting(path: str) -> contextlib.AbstractContextManager[IO[Any]]:
        seen.append((path.removeprefix(f"{target}/"), storage.exists(storage.join(target, "saved_model.pb"))))
        return write_atomic(path)

    monkeypatch.setattr(storage, "write_atomic", noting)
    saved_model.copy_saved_model(str(tmp_path / "source"), target)
    assert sorted(seen[:-1]) == sorted((name, False) for name in new[1:])
    assert seen[-1] == ("saved_model.pb", False)
    others = {"notes.txt": "old", "train/model.ckpt-5.index": "old"}
    assert content(target) == dict.fromkeys(new, "new") | others


def test_a_copy_onto_itself_changes_nothing(tmp_path: pathlib.Path) -> None:
    for name in ("saved_model.pb", "variables/variables.index"):
        storage.write(tmp_path / "model" / name, "old")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    saved_model.copy_saved_model(str(tmp_path / "model"), str(tmp_path / "link"))
    assert content(str(tmp_path / "model")) == {"saved_model.pb": "old", "variables/variables.index": "old"}
