"""The teacher that a training run asks for, found and checked before anything is written."""

from __future__ import annotations

from absl import logging

from yt8m import run_dir, storage
from yt8m.config import DataConfig, TrainConfig
from yt8m.errors import UsageError
from yt8m.graph.inference_model import NAME
from yt8m.graph.teachers import ModelTeacher, PredictionTeacher, Teacher
from yt8m.record_reader import id_bytes
from yt8m.storage import copies
from yt8m.tools import prediction_lists


def teacher_for(config: TrainConfig) -> Teacher | None:
    """The teacher of a run; None where it has none.

    Raises:
      UsageError: there is no such file or model, or it is of other classes or features.
      RunError: a line of the predictions is damaged.
    """
    asked = config.distillation
    if asked.distill_from:
        return _predictions(asked.distill_from, config.data.num_classes)
    return _model(asked.teacher, config.data) if asked.teacher else None


def _predictions(path: str, num_classes: int) -> PredictionTeacher:
    if not storage.exists(path):
        raise UsageError(f"--distill_from={path}: there is no such file.")
    count = 0
    for row in prediction_lists.read(path, num_classes):
        if not _is_found(row.video_id):
            raise UsageError(
                f"--distill_from: {row.where}: the id {row.video_id} holds a comma, a quote or an escape "
                "(`\\xHH`), so the teacher's line cannot be found by it; use --teacher."
            )
        if len(row.scores) and not 0 <= row.scores.min() <= row.scores.max() <= 1:
            raise UsageError(
                f"--distill_from: {row.where}: scores from {row.scores.min():g} to {row.scores.max():g}; "
                "a teacher's are probabilities, from 0 to 1."
            )
        count += 1
    logging.info("the teacher is %s, with predictions for %d videos", path, count)
    return PredictionTeacher(copies.file_copy(path), num_classes)


def _is_found(video_id: str) -> bool:
    """Whether the graph finds a line: it compares the id's bytes with what stands before the first comma."""
    text = video_id.encode()
    return not {",", '"'} & set(video_id) and id_bytes(text) == text


def _model(folder: str, data: DataConfig) -> ModelTeacher:
    for prefix in (storage.join(folder, NAME, NAME), storage.join(folder, NAME)):
        if storage.exists(f"{prefix}.meta"):
            logging.info("the teacher is %s", prefix)
            width, is_own = sum(data.feature_sizes), run_dir.is_own(folder)
            return ModelTeacher(prefix, data.num_classes, width, data.frame_features, is_own=is_own)
    raise UsageError(
        f"--teacher={folder} holds no {NAME}/{NAME}.meta; evaluate that run once (eval.py --train_dir), "
        "or name the folder of an export."
    )
