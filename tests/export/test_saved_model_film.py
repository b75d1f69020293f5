"""A model of segments that sees the mean of the whole video: what its exports give, and what is refused."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from bulk_data import FRAME, frame_shards

from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.records import shards


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str]:
    """The folder with a run and what `yt8m export` makes of it; and the shard."""
    folder = tmp_path_factory.mktemp("film")
    data = frame_shards(folder, (6,), is_rated=True)
    words = ["--model=FrameLevelLogisticModel", f"--train_data_pattern={data}", *FRAME, "--segment_labels"]
    words += ["--film_mean", "--max_steps=2", "--base_learning_rate=1", "--batch_size=8"]
    assert cli.main(["train", *words, f"--train_dir={folder}/run"]) == 0
    assert cli.main(["export", f"--model={folder}/run", f"--out={folder}/exported"]) == 0
    return folder, data


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def scores_by_hand(folder: pathlib.Path, record: bytes) -> np.ndarray:
    """float [segments, C]: the scores of the rated segments of a record, in the order of their starts."""
    weights = tf.train.load_checkpoint(str(folder / "run/model.ckpt-2"))
    context = tf.train.SequenceExample.FromString(record).context.feature
    lists = tf.train.SequenceExample.FromString(record).feature_lists.feature_list
    codes = [
        [np.frombuffer(frame.bytes_list.value[0], np.uint8) for frame in lists[n].feature] for n in ("rgb", "audio")
    ]
    frames = np.concatenate(codes, 1) * (4 / 255) + 4 / 512 - 2
    rows = []
    for start in sorted(set(context["segment_start_times"].int64_list.value)):
        segment = frames[start : start + 5]
        segment_mean = unit(segment).sum(0) / max(len(segment), 1)
        rows.append(np.concatenate([segment_mean, unit(frames.mean(0)) * bool(len(segment))]))
    logits = np.array(rows) @ weights.get_tensor("tower/fully_connected/weights")
    return 1 / (1 + np.exp(-logits - weights.get_tensor("tower/fully_connected/biases")))


def test_the_signature_of_records_gives_each_segment_the_mean_of_its_video(trained: tuple[pathlib.Path, str]) -> None:
    folder, data = trained
    records = list(shards.read_shard(data.replace("*", "0")))
    with tf.Graph().as_default(), tf.Session() as session:
        signatures = tf.saved_model.loader.load(session, ["serve"], f"{folder}/exported/saved_model").signature_def
        inputs, outputs = signatures["records"].inputs, signatures["records"].outputs
        names = [outputs[name].name for name in ("class_indexes", "predictions")]
        classes, scores = session.run(names, {inputs["example_bytes"].name: records})
    expected = np.concatenate([scores_by_hand(folder, record) for record in records])
    np.testing.assert_allclose(scores, np.take_along_axis(expected, classes, 1), rtol=1e-4)


@pytest.mark.heavy
def test_an_inference_model_is_refused_for_segments(
    trained: tuple[pathlib.Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, data = trained
    model, out = f"--train_dir={folder}/exported", f"--output_file={folder}/segments.csv"
    train = ["train", "--model=FrameLevelLogisticModel", f"--train_data_pattern={data}", *FRAME, "--segment_labels"]
    for words in (
        ["inference", model, f"--input_data_pattern={data}", "--segment_labels", out],
        ["eval", model, f"--eval_data_pattern={data}", f"--eval_dir={folder}/evaluated"],
        [*train, f"--teacher={folder}/exported", f"--train_dir={folder}/student"],
    ):
        assert cli.main(words) == 2
        assert "mean of the video" in capsys.readouterr().err
    assert cli.main(["inference", model, f"--input_data_pattern={data}", out]) == 0  # whole videos have their own mean
    assert not (folder / "student").exists()
