"""`yt8m predict --features`: the vectors from which the model's own weights compute the scores."""

from __future__ import annotations

import csv
import pathlib

import numpy as np
import pyarrow.parquet
import pytest
from reader_records import video_record, write_shard

import yt8m
from yt8m import train
from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.types import HiddenRows, ModelOutput

CLASSES, SIZE, HIDDEN, VIDEOS = 9, 6, 5, 11
DATA = ["--feature_names=mean_rgb", f"--feature_sizes={SIZE}", f"--num_classes={CLASSES}"]
MLP = [f"--mlp_hidden_size={HIDDEN}", "--mlp_blocks=1", "--video_level_classifier_model=LogisticModel"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run of a network with a hidden layer, one without, and the records they were trained on."""
    folder = tmp_path_factory.mktemp("hidden")
    draw = np.random.default_rng(1)
    records = [
        video_record(id=[b"v%02d" % row], labels=[row % 7], mean_rgb=draw.normal(size=SIZE).astype("f4"))
        for row in range(VIDEOS)
    ]
    write_shard(folder / "a.tfrecord", records)
    usual = [f"--train_data_pattern={folder}/*.tfrecord", *DATA, "--batch_size=4", "--max_steps=4"]
    usual.append("--export_model_steps=none")
    assert train.main([*usual, f"--train_dir={folder}/mlp", "--model=ResidualMlpModel", *MLP]) == 0
    assert train.main([*usual, f"--train_dir={folder}/flat"]) == 0
    return folder


def test_the_scores_follow_from_the_vectors(world: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", f"--model={world}/mlp", f"{world}/a.tfrecord"]
    for ending in ("npz", "csv", "parquet"):
        assert cli.main([*words, f"--features={world}/x.{ending}"]) == 0
        assert f"x.{ending}: the last hidden layer of {VIDEOS} videos, {HIDDEN} values each" in capsys.readouterr().out
    arrays = np.load(world / "x.npz")
    ids, vectors = arrays["id"].tolist(), arrays["features"]
    assert ids == [f"v{row:02d}" for row in range(VIDEOS)]
    assert (vectors.shape, vectors.dtype) == ((VIDEOS, HIDDEN), np.float32)
    with (world / "x.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["id", *(f"f{number}" for number in range(HIDDEN))]
    assert [row[0] for row in rows] == ids
    np.testing.assert_array_equal(np.float32([row[1:] for row in rows]), vectors)
    table = pyarrow.parquet.read_table(world / "x.parquet").to_pydict()
    assert table["id"] == ids
    np.testing.assert_array_equal(np.float32(table["features"]), vectors)

    reader = tf.train.load_checkpoint(str(world / "mlp/model.ckpt-4"))
    last = max(
        (name for name in reader.get_variable_to_shape_map() if name.endswith("fully_connected/weights")), key=len
    )
    logits = vectors @ reader.get_tensor(last) + reader.get_tensor(last.replace("weights", "biases"))
    with yt8m.load(world / "mlp") as model:
        for row, video in enumerate(model.predict(f"{world}/a.tfrecord", top_k=CLASSES)):
            for found in video.classes:
                assert found.score == pytest.approx(1 / (1 + np.exp(-logits[row, found.index])), abs=1e-5)
        found_ids, found_vectors = model.embeddings(f"{world}/a.tfrecord")
    assert found_ids == ids
    np.testing.assert_allclose(found_vectors, vectors, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--model=flat", "--features=x.npz"], "LogisticModel has no hidden layer"),
        (["--model=mlp", "--features=x.txt"], "ends in .npz, .csv, .parquet"),
        (["--model=mlp", "--features=x.npz", "--tags"], "leave out --tags"),
        (["--model=mlp", "--features=x.npz", "--out=y.csv"], "leave out --out"),
        (["--model=mlp/export/4", "--features=x.npz"], "an export"),
    ],
)
def test_what_cannot_be_written_is_refused(
    world: pathlib.Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    full = [word.replace("=mlp", f"={world}/mlp").replace("=flat", f"={world}/flat") for word in words]
    full = [word.replace("=x.", f"={world}/refused.").replace("=y.", f"={world}/y.") for word in full]
    assert cli.main(["predict", *full, f"{world}/a.tfrecord"]) == 2
    assert told in capsys.readouterr().err
    assert not list(world.glob("refused*"))


def test_a_layer_of_parts_and_rows_has_one_vector_a_video() -> None:
    first, second = np.arange(12.0).reshape(6, 2), np.arange(6.0).reshape(6, 1)
    with tf.Graph().as_default(), tf.Session() as session:
        rows = HiddenRows((tf.constant(first, tf.float32), tf.constant(second, tf.float32)), rows_per_video=3)
        hidden = ModelOutput(tf.zeros([2, 4]), extras={"hidden": rows}).hidden()
        plain = ModelOutput.of_returned({"predictions": tf.zeros([2, 4]), "hidden": tf.ones([2, 7])}).hidden()
        found, found_plain = session.run([hidden, plain])
        assert ModelOutput(tf.zeros([2, 4])).hidden() is None
    np.testing.assert_allclose(found, np.concatenate([first, second], 1).reshape(2, 3, 3).mean(1))
    np.testing.assert_array_equal(found_plain, np.ones((2, 7)))
