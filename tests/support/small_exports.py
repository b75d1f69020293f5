"""Tiny exported models with weights drawn at random, and records for them."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from reader_records import frame_record, video_record

from yt8m import scoring
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig
from yt8m.eval_util.top_k import top_k
from yt8m.export.onnx_export import export_onnx
from yt8m.export.saved_model import export_saved_model
from yt8m.lazy import tf
from yt8m.video import workload
from yt8m.video.fitted_transforms import Statistics
from yt8m.video.workload import Workload

SIZES, CLASSES = (6, 2), 30


def frame_records(count: int, longest: int = 7) -> list[bytes]:
    """Frame-level records of the videos v00, v01, ..., with 1 to `longest` frames."""
    draw = np.random.default_rng(0)
    made = []
    for row in range(count):
        length = 1 + row % longest
        frames = {
            name: list(draw.integers(0, 256, (length, size), np.uint8))
            for name, size in zip(("rgb", "audio"), SIZES, strict=True)
        }
        made.append(frame_record({"id": [b"v%02d" % row], "labels": [row % CLASSES]}, frames))
    return made


def video_records(count: int) -> list[bytes]:
    """Video-level records of the videos v00, v01, ..."""
    draw = np.random.default_rng(0)
    return [
        video_record(
            id=[b"v%02d" % row],
            labels=[row % CLASSES],
            mean_rgb=draw.normal(size=SIZES[0]).astype("f4"),
            mean_audio=draw.normal(size=SIZES[1]).astype("f4"),
        )
        for row in range(count)
    ]


class Predictions(NamedTuple):
    """The ids of B videos, their best classes [B, k], and the scores of these classes [B, k]."""

    video_ids: list[str]
    classes: np.ndarray
    scores: np.ndarray


def predictions(folder: str, records: Sequence[bytes]) -> Predictions:
    """The 20 best classes that the exported model in a folder predicts for each record."""
    with scoring.open(folder) as scorer:
        ids, scores = scorer.scores([(record, "records", number) for number, record in enumerate(records)])
    best = top_k(scores, 20)
    return Predictions(ids, best.classes, best.scores)


def checkpoint(
    folder: pathlib.Path, model: str, num_classes: int = CLASSES, **hyper_parameters: Any
) -> tuple[DataConfig, Workload, str]:
    """Saves random weights of a model; returns (data config, workload, path of the checkpoint).

    The name of the model decides whether its records have frames or are at video level.
    """
    has_frames = not model.startswith(("Logistic", "Moe"))
    names = ("rgb", "audio") if has_frames else ("mean_rgb", "mean_audio")
    data = DataConfig(feature_names=names, feature_sizes=SIZES, frame_features=has_frames, num_classes=num_classes)
    return data, *random_weights(folder, data, ModelConfig(model, hyper_parameters))


def random_weights(
    folder: pathlib.Path, data: DataConfig, model: ModelConfig, statistics: Statistics | None = None
) -> tuple[Workload, str]:
    """Saves random weights of a model, and the statistics of its input; returns (workload, path of the checkpoint)."""
    parts = workload.create(data, model, "infer")
    parts.modeler.input_statistics = statistics
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        width = sum(data.feature_sizes)
        shape = [None, None, width] if data.frame_features else [None, width]
        parts.modeler.predict_raw(tf.placeholder(tf.float32, shape), tf.placeholder(tf.int32, [None]))
        tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(folder / "model.ckpt"), write_meta_graph=False)
    return parts, path


def export(folder: pathlib.Path, model: str, num_classes: int = CLASSES) -> str:
    """Writes a SavedModel with random weights; returns its folder. See `checkpoint` for the model."""
    _, parts, path = checkpoint(folder, model, num_classes)
    return export_saved_model(str(folder / "saved_model"), path, parts.reader, parts.modeler)


def export_file(folder: pathlib.Path, model: str, **hyper_parameters: Any) -> str:
    """Writes model.onnx with random weights; returns its path. See `checkpoint` for the model."""
    data, parts, path = checkpoint(folder, model, **hyper_parameters)
    export_onnx(str(folder / "model.onnx"), path, data, parts.modeler)
    return str(folder / "model.onnx")
