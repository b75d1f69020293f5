"""Builds the workload of a training: the video workload, with its teacher and its augmentation."""

from __future__ import annotations

from absl import logging

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.run_dir import INFERENCE_MODEL
from yt8m.config.train_config import DataConfig, TrainConfig
from yt8m.errors import UsageError
from yt8m.records import prediction_files, vocabulary
from yt8m.records.shards import id_bytes
from yt8m.records.vocabulary import Vocabulary
from yt8m.storage import copies
from yt8m.video import workload
from yt8m.video.teachers import ModelTeacher, PredictionTeacher, Teacher, TrainingModeler


def teacher_for(config: TrainConfig, names: Vocabulary) -> Teacher | None:
    """The teacher of a run, after a check of its file; None if the run has none.

    Raises:
      UsageError: there is no such file or model, or it has other classes or features than the run.
      RunError: a line of the predictions is damaged.
    """
    distillation = config.distillation
    if distillation.distill_from:
        return _predictions(distillation.distill_from, config.data.num_classes)
    if not distillation.teacher:
        return None
    names_of_teacher = run_dir.own_names(distillation.teacher, None)
    if names and names_of_teacher:
        remedy = "A teacher has the classes of the run: name another teacher."
        vocabulary.refuse_difference(names_of_teacher, distillation.teacher, names, names.path, remedy)
    return _model(distillation.teacher, config.data)


def _predictions(path: str, num_classes: int) -> PredictionTeacher:
    if not storage.exists(path):
        raise UsageError(f"--distill_from={path}: there is no such file.")
    count = 0
    for row in prediction_files.read_predictions(path, num_classes):
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
    """Whether the graph can find the line of this video: it compares the bytes before the first comma with the id."""
    text = video_id.encode()
    return not {",", '"'} & set(video_id) and id_bytes(text) == text


def _model(folder: str, data: DataConfig) -> ModelTeacher:
    for prefix in (storage.join(folder, INFERENCE_MODEL, INFERENCE_MODEL), storage.join(folder, INFERENCE_MODEL)):
        if storage.exists(f"{prefix}.meta"):
            logging.info("the teacher is %s", prefix)
            return ModelTeacher(prefix, data.num_classes, sum(data.feature_sizes), data.frame_features)
    raise UsageError(
        f"--teacher={folder} holds no {INFERENCE_MODEL}/{INFERENCE_MODEL}.meta; evaluate that run once "
        f"(yt8m eval --train_dir={folder}), or name the folder of an export."
    )


def create_training(config: TrainConfig) -> workload.Workload:
    """The workload of a training run, with its teacher and its augmentation.

    Raises:
      UsageError: a value in the config is not valid.
      RunError: the teacher's predictions are damaged.
    """
    created = workload.create(config.data, config.model, "train")
    plain, teacher = created.modeler, teacher_for(config, created.names)
    plain.trains_new_only = bool(config.train_only)
    if teacher is None and not config.augmentation.is_on:
        return created
    modeler = TrainingModeler(
        plain.model,
        plain.label_loss,
        plain.num_classes,
        plain.top_k,
        plain.feature_sizes,
        augmentation=config.augmentation,
        teacher=teacher,
        distill_weight=config.distillation.distill_weight,
    )
    modeler.trains_new_only = plain.trains_new_only
    return created._replace(modeler=modeler)
