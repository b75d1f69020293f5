"""ONNX files of models: their scores, what stands in their metadata, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys

import cases
import numpy as np
import onnx
import pytest
import small_exports
from golden_data import golden
from small_run import evaluate, run

from yt8m.command_line import cli
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig
from yt8m.errors import RunError, UsageError
from yt8m.export import onnx_export
from yt8m.export.onnx_file import OnnxFile
from yt8m.lazy import tf
from yt8m.video import workload

SIZES, CLASSES = small_exports.SIZES, small_exports.CLASSES


def checkpoint_of(folder: pathlib.Path, data: DataConfig, model: str) -> tuple[str, workload.Workload]:
    """A checkpoint of a model with random weights."""
    parts = workload.create(data, ModelConfig(model), "infer")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        parts.modeler.predict_placeholders(data.frame_features)
        tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, str(folder / "model.ckpt"), write_meta_graph=False), parts


def frames_of(ranges: tuple[tuple[float, ...], ...] = ()) -> DataConfig:
    return DataConfig(
        feature_names=("rgb", "audio"),
        feature_sizes=SIZES,
        feature_ranges=ranges,
        frame_features=True,
        num_classes=CLASSES,
    )


@pytest.mark.parametrize("input_type", cases.all_of(["uint8"], heavy=["float32"]))
def test_bytes_of_other_ranges_stand_for_the_same_values(tmp_path: pathlib.Path, input_type: str) -> None:
    data, path = frames_of(((-1.0, 3.0), (-2.0, 2.0))), str(tmp_path / "model.onnx")
    checkpoint, parts = checkpoint_of(tmp_path, data, "FrameLevelLogisticModel")
    onnx_export.export_onnx(path, checkpoint, data, parts.modeler, input_type=input_type)
    model = OnnxFile(path)
    draw = np.random.default_rng(0)
    rgb, audio = (draw.integers(0, 256, (3, 5, size), np.uint8) for size in SIZES)
    floats = np.concatenate([rgb * (4 / 255) + 4 / 512 - 1, audio * (4 / 255) + 4 / 512 - 2], -1).astype(np.float32)
    counts = np.array([5, 2, 1], np.int32)
    with tf.Graph().as_default(), tf.Session() as session:
        valid = np.arange(5)[None, :, None] < counts[:, None, None]
        ops = parts.modeler.predict_raw(tf.constant(np.where(valid, floats, 0)), tf.constant(counts))
        tf.train.Saver().restore(session, checkpoint)
        expected = session.run(ops.predictions)
    inputs = floats if input_type == "float32" else np.concatenate([rgb, audio], -1)
    np.testing.assert_allclose(model.scores_of_frames(inputs, counts), expected, rtol=0, atol=1e-6)


def test_every_export_is_compared_and_none_is_written_wrong(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, path = frames_of(), tmp_path / "model.onnx"
    checkpoint, parts = checkpoint_of(tmp_path, data, "FrameLevelLogisticModel")
    monkeypatch.setattr(onnx_export, "TOLERANCE", -1.0)
    with pytest.raises(RunError, match=r"scores differ.*Export a SavedModel"):
        onnx_export.export_onnx(str(path), checkpoint, data, parts.modeler)
    assert not path.exists()


def test_an_operation_that_onnx_lacks_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, path = frames_of(), tmp_path / "model.onnx"
    checkpoint, parts = checkpoint_of(tmp_path, data, "FrameLevelLogisticModel")
    modeler, usual = parts.modeler, parts.modeler.predict_raw

    def with_other_operation(raw, num_frames):
        ops = usual(raw, num_frames)
        return dataclasses.replace(ops, predictions=tf.raw_ops.BesselI0(x=ops.predictions))

    monkeypatch.setattr(modeler, "predict_raw", with_other_operation)
    with pytest.raises(RunError, match="tf2onnx cannot convert TensorFlow's BesselI0"):
        onnx_export.export_onnx(str(path), checkpoint, data, modeler)
    assert not path.exists()


def test_floats_cannot_be_taken_as_bytes_and_own_readers_not_at_all(tmp_path: pathlib.Path) -> None:
    data = DataConfig(feature_names=("mean_rgb", "mean_audio"), feature_sizes=SIZES, num_classes=CLASSES)
    checkpoint, parts = checkpoint_of(tmp_path, data, "LogisticModel")
    with pytest.raises(UsageError, match="the records hold mean_rgb, mean_audio as floats"):
        onnx_export.export_onnx(str(tmp_path / "a.onnx"), checkpoint, data, parts.modeler, input_type="uint8")
    own = dataclasses.replace(data, reader="mine:Reader")
    with pytest.raises(UsageError, match=r"mine:Reader\b.*SavedModel"):
        onnx_export.export_onnx(str(tmp_path / "a.onnx"), checkpoint, own, parts.modeler)


@pytest.mark.parametrize("key", cases.all_of(["version"], heavy=["format", "extractors", "step"]))
def test_a_file_that_lacks_a_fact_of_itself_is_refused(tmp_path: pathlib.Path, key: str) -> None:
    path = small_exports.export_file(tmp_path, "LogisticModel")
    model = onnx.load(path)
    texts = {text.key: text for text in model.metadata_props}
    about = json.loads(texts["yt8m"].value)
    del about[key]
    texts["yt8m"].value = json.dumps(about)
    onnx.save(model, path)
    with pytest.raises(UsageError, match=r"did not write.*`yt8m export --format=onnx`"):
        OnnxFile(path)


def test_a_folder_is_no_onnx_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=f"^{tmp_path}: .*is a folder"):
        OnnxFile(str(tmp_path))


_CONVERSION = """
import resource
from yt8m.export import onnx_export
from yt8m.lazy import tf

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

onnx_export._import_tf2onnx()
with tf.Graph().as_default(), tf.Session() as session:
    frames = tf.placeholder(tf.float32, [None, 1000], name="frames")
    weights = tf.get_variable("weights", [1000, 16000], initializer=tf.zeros_initializer())
    tf.identity(frames @ weights, name="scores")
    session.run(weights.initializer)
    before = peak()
    onnx_export.convert(session, ["frames"], "scores")
print((peak() - before) / 64e6)
"""


@pytest.mark.heavy
def test_a_conversion_holds_few_copies_of_the_weights() -> None:
    """It was 30 when each of tf2onnx's passes left one."""
    done = subprocess.run([sys.executable, "-c", _CONVERSION], check=True, capture_output=True, text=True)
    print(f"{done.stdout.strip()} times the weights")
    assert float(done.stdout) < 14


@pytest.mark.long
@pytest.mark.heavy
def test_an_export_says_nothing_of_missing_gpus(tmp_path: pathlib.Path) -> None:
    """In a process of its own, because TensorFlow says it once, at its first search for devices."""
    words = ["export", f"--model={golden('run_format_1')}", "--format=onnx", f"--out={tmp_path}/m.onnx"]
    done = subprocess.run([sys.executable, "-m", "yt8m", *words], check=True, capture_output=True, text=True)
    assert "the model is in" in done.stderr
    assert "cuda" not in done.stderr.lower()


@pytest.mark.heavy
def test_the_file_of_a_run_is_the_whole_model(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, test = tmp_path / "run", golden("checkpoint_logistic/test.tfrecord")
    assert run(folder, "--model=MoeModel", "--moving_average_decay=0.9") == 0
    evaluate(folder, "--report")
    gaps, sizes = {}, {}
    for weights in ("float32", "int8"):
        path = tmp_path / f"{weights}.onnx"
        words = [f"--model={folder}", "--format=onnx", f"--weights={weights}", f"--out={path}"]
        assert cli.main(["export", *words, f"--eval_data_pattern={test}"]) == 0
        line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("GAP: "))
        before, after = (float(word) for word in (line.split()[1], line.split()[3]))
        gaps[weights], sizes[weights] = before - after, path.stat().st_size
    assert abs(gaps["float32"]) < 1e-6
    texts = {entry.key: entry.value for entry in onnx.load(tmp_path / "float32.onnx").metadata_props}
    assert json.loads(texts["yt8m"])["step"] == 12
    assert json.loads(texts["figures.json"])["gap"] == json.loads((folder / "eval/report.json").read_text())["gap"]
    assert texts["thresholds.csv"] == (folder / "eval/thresholds.csv").read_text()
    assert texts["README.md"].startswith("# MoeModel, step 12")
