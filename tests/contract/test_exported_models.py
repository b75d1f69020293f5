"""Every registered model from records to a SavedModel and an ONNX file: all on the way predict the same."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from contract.model_cases import CASES, C, T, data_of, quick, sizes_of
from contract.model_session import quick_session
from golden_data import golden
from reader_records import frame_record, video_record, write_shard

from yt8m import deploy, graph, models
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig, OptimizerConfig
from yt8m.export import onnx_export, onnx_file
from yt8m.export.onnx_export import export_onnx, operators
from yt8m.export.saved_model import export_saved_model
from yt8m.lazy import tf
from yt8m.records.data_format import PUBLISHED, dequantized
from yt8m.video import workload
from yt8m.video.modeler import VideoModeler

RNG = np.random.default_rng(31)
LENGTHS = (T, 1, 3, T - 2)


def records(level: str, sizes: tuple[int, int]) -> list[bytes]:
    """Some videos with one label each."""
    made = []
    for index, length in enumerate(LENGTHS):
        context = {"id": [b"abc%d" % index], "labels": [index % C]}
        if level == "video":
            mean = {f"mean_{name}": RNG.normal(size=size) for name, size in zip(("rgb", "audio"), sizes, strict=True)}
            made.append(video_record(**context, **mean))
            continue
        frames = {
            name: list(RNG.integers(0, 256, (length, size), np.uint8))
            for name, size in zip(("rgb", "audio"), sizes, strict=True)
        }
        made.append(frame_record(context, frames))
    return made


def parts_of(name: str, data: DataConfig) -> workload.Workload:
    """Reader, inputter and modeler of the model at its tiny size, as a training run has them."""
    return workload.create(data, ModelConfig(name, CASES[name].hyper_parameters), "train")


def trained(parts: workload.Workload, path: str, raw: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Predictions for `raw` after three steps, which `path` keeps."""
    with quick_session() as session:
        ops = graph.build(parts.inputter, parts.modeler, deploy.DeploymentConfig(clone_on_cpu=True), OptimizerConfig())
        session.run(tf.global_variables_initializer())
        session.run(ops.input.initializer, {ops.input.files: parts.inputter.files()})
        for _ in range(3):
            session.run(ops.train_op)
        tf.train.Saver().save(session, path, write_meta_graph=False)
        feeds = {ops.predict.input_batch_raw: raw, ops.predict.num_frames: frames}
        return session.run(ops.predict.predictions, feeds)


def parsed(parts: workload.Workload, given: list[bytes]) -> list[np.ndarray]:
    """What the reader makes of records: float features and numbers of frames."""
    with quick_session() as session:
        batch = parts.reader.prepare_serialized_examples(tf.constant(given))
        return session.run([parts.reader.video_matrix(batch), batch.num_frames])


def restored(parts: workload.Workload, path: str, given: list[bytes]) -> np.ndarray:
    """Predictions of a graph built anew, with the weights of the checkpoint."""
    with quick_session() as session:
        batch = parts.reader.prepare_serialized_examples(tf.constant(given))
        predictions = parts.modeler.predict(batch).predictions
        tf.train.Saver().restore(session, path)
        return session.run(predictions)


def reloaded(folder: str, *given: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What the SavedModel gives to each (signature, inputs), without any code of the model."""
    with quick_session() as session:
        loaded = tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], folder)
        found = []
        for name, inputs in given:
            signature = loaded.signature_def[name]
            fetches = {name: info.name for name, info in signature.outputs.items()}
            found.append(session.run(fetches, {signature.inputs[key].name: inputs[key] for key in inputs}))
        return found


def as_mediapipe_gives_them(raw: np.ndarray, frames: np.ndarray) -> dict[str, np.ndarray]:
    """Frames, with no numbers at all behind the last; two frames of which a video's features are the mean."""
    if raw.ndim == 2:
        away = RNG.normal(size=raw.shape).astype(np.float32)
        raw, frames = np.stack([raw + away, raw - away, raw], 1), np.full_like(frames, 2)
    behind = np.arange(raw.shape[1]) >= frames[:, None]
    raw = np.where(behind[:, :, None], np.nan, raw)
    return {"rgb_and_audio": raw, "num_frames": frames[:, None]}


# onnxruntime's reduced package for phones has these operators of ONNX's set 13; the one for browsers has all of ONNX.
PORTABLE = json.loads(pathlib.Path(golden("onnx_operators.json")).read_text())["mobile"]
# Numbers of frames of the videos: one or 64 of them, of one frame or of 300, with and without padding.
BATCHES = ([1], [300], [1] * 64, [300] * 64, [*range(1, 64), 300], [0, 5])


def refuse_other_operators(exported: onnx.ModelProto) -> None:
    """Fails if a phone or a browser lacks an operator of the model, with weights as floats or as bytes."""
    onnx_export.store_as_bytes(exported)
    assert {used.domain: used.version for used in exported.opset_import}[""] == PORTABLE["opset"]
    assert {name for domain, name in operators(exported) if domain or name not in PORTABLE["operators"]} == set()


def check_onnx(data: DataConfig, modeler: VideoModeler, folder: pathlib.Path, checkpoint: str) -> None:
    """The ONNX file gives the scores of the SavedModel in `folder`/export, and has portable operators alone."""
    # The second moments of Fisher vectors are small differences of large sums, which libraries add in any order.
    tolerance = 3e-5 if type(modeler.model).__name__ == "NetFvModel" else 1e-5
    path = str(folder / "model.onnx")
    export_onnx(path, checkpoint, data, modeler)
    model = onnx_file.OnnxFile(path)
    refuse_other_operators(onnx.load(path))
    videos = []
    for lengths in BATCHES:
        bytes_ = RNG.integers(0, 256, (len(lengths), max(lengths), sum(data.feature_sizes)), np.uint8)
        videos.append((dequantized(bytes_, PUBLISHED), np.array(lengths, np.int32)))
    inputs = [("mediapipe", {"rgb_and_audio": frames, "num_frames": counts}) for frames, counts in videos]
    for (frames, counts), of_saved_model in zip(videos, reloaded(str(folder / "export"), *inputs), strict=True):
        scores = model.scores_of_frames(frames, counts)
        np.testing.assert_allclose(scores, of_saved_model["predictions"], rtol=0, atol=tolerance)
        assert np.ptp(scores) > 0


@pytest.mark.parametrize("name", quick(("FrameLevelLogisticModel",)))
def test_train_checkpoint_restore_export_and_reload_agree(name: str, tmp_path: pathlib.Path) -> None:
    given, path = records(models.get(name).level, sizes_of(name)), str(tmp_path / "model.ckpt")
    data = data_of(name, write_shard(tmp_path / "some.tfrecord", given), len(LENGTHS))
    parts = parts_of(name, data)
    raw, frames = parsed(parts, given)
    live = trained(parts, path, raw, frames)
    assert np.ptp(live) > 0
    np.testing.assert_allclose(restored(parts, path, given), live, rtol=1e-5, atol=1e-7)
    export_saved_model(str(tmp_path / "export"), path, parts.reader, parts.modeler)
    found, of_features = reloaded(
        str(tmp_path / "export"),
        ("serving_default", {"example_bytes": given}),
        ("mediapipe", as_mediapipe_gives_them(raw, frames)),
    )
    # The mean of two floats is that of the records but for rounding, which a whitening magnifies.
    np.testing.assert_allclose(of_features["predictions"], live, rtol=1e-4, atol=1e-6)
    assert found["video_id"].tolist() == [b"abc0", b"abc1", b"abc2", b"abc3"]
    assert found["class_indexes"].shape == (len(LENGTHS), C)
    check_onnx(data, parts.modeler, tmp_path, path)
    of_classes = np.take_along_axis(live, found["class_indexes"], 1)
    np.testing.assert_allclose(found["predictions"], of_classes, rtol=1e-5, atol=1e-7)
