"""Builds the workload of a run from its config: reader, inputter, modeler and teacher."""

from __future__ import annotations

from typing import Any, NamedTuple

from absl import logging

from yt8m import losses, models, readers, storage
from yt8m.commands.input_check import Walked
from yt8m.config import data_fit, run_dir
from yt8m.config.train_config import DataConfig, ModelConfig, TrainConfig
from yt8m.errors import UsageError
from yt8m.export.saved_model import INFERENCE_MODEL
from yt8m.records import prediction_files, vocabulary
from yt8m.records.shards import id_bytes
from yt8m.records.vocabulary import Vocabulary
from yt8m.storage import copies
from yt8m.video.modeler import VideoModeler
from yt8m.video.teachers import ModelTeacher, PredictionTeacher, Teacher, TrainingModeler


def teacher_for(config: TrainConfig) -> Teacher | None:
    """The teacher of a run, after a check of its file; None if the run has none.

    Raises:
      UsageError: there is no such file or model, or it has other classes or features than the run.
      RunError: a line of the predictions is damaged.
    """
    asked = config.distillation
    if asked.distill_from:
        return _predictions(asked.distill_from, config.data.num_classes)
    if not asked.teacher:
        return None
    found = vocabulary.of_data(config.data.vocabulary, ())
    own = run_dir.own_names(asked.teacher, None)
    if found and own:
        remedy = "A teacher has the classes of the run: name another teacher."
        vocabulary.refuse_difference(own, asked.teacher, found.names, found.path, remedy)
    return _model(asked.teacher, config.data)


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
        "(eval.py --train_dir), or name the folder of an export."
    )


class Workload(NamedTuple):
    """The parts that a program works with.

    Attributes:
      reader: parses the records in an export.
      inputter, modeler: the parts that the runner needs.
      walked: the record counts of the shards at the start.
      names: the run's own vocabulary; empty if it has none.
    """

    reader: readers.Reader
    inputter: readers.BatchQueue
    modeler: VideoModeler
    walked: Walked | None = None
    names: Vocabulary = vocabulary.of_names(())


def create(data: DataConfig, model: ModelConfig, mode: str, top_k: int = 20) -> Workload:
    """The workload for one mode (train, eval or infer).

    Raises:
      UsageError: a value in the config is not valid.
    """
    reader = readers.reader_for(data)
    modeler = VideoModeler(
        create_model(model, data),
        create_loss(model, data if mode == "train" else None) if mode != "infer" else None,
        data.num_classes,
        top_k,
        data.feature_sizes,
    )
    return Workload(reader, readers.BatchQueue.for_config(data, mode), modeler)


def create_training(config: TrainConfig) -> Workload:
    """The workload of a training run, with its teacher and its augmentation.

    Raises:
      UsageError: a value in the config is not valid.
      RunError: the teacher's predictions are damaged.
    """
    parts, teacher = create(config.data, config.model, "train"), teacher_for(config)
    if teacher is None and not config.augmentation.is_on:
        return parts
    plain = parts.modeler
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
    return parts._replace(modeler=modeler)


def create_loss(model: ModelConfig, data: DataConfig | None = None) -> Any:
    """An instance of the label loss.

    Args:
      model: the config, which names the loss.
      data: those of a training. If the loss has the hyper-parameter `class_counts`, and it is not set, it is set to
        their counts. None to leave it unset: an evaluation needs no counts, because predictions are not adjusted.

    Raises:
      UsageError: the loss needs counts, and neither the vocabulary nor the manifest of the data has them.
    """
    values = dict(model.loss_hyper_parameters)
    if data is not None and "class_counts" in losses.hyper_parameters(losses.get(model.label_loss)):
        values["class_counts"] = tuple(values.get("class_counts", ())) or _class_counts(model.label_loss, data)
    return losses.create(model.label_loss, values)


def _class_counts(loss: str, data: DataConfig) -> tuple[int, ...]:
    found = vocabulary.of_data(data.vocabulary, ())
    counts = data_fit.training_counts(vocabulary.of(data.num_classes, found.names if found else None), data)
    if counts is None:
        raise UsageError(
            f"--label_loss={loss} needs the number of training videos of each class, which neither the vocabulary (its "
            "column count) nor the manifest of the training data (its positives) has: name a vocabulary with that "
            "column by --vocabulary, or give --class_counts=N,N,..."
        )
    return tuple(counts.tolist())


def create_model(model: ModelConfig, data: DataConfig) -> Any:
    """An instance of the model; `feature_sizes` is set from the data if the model has that hyper-parameter."""
    values = dict(model.hyper_parameters)
    if "feature_sizes" in models.hyper_parameters(models.get(model.model)):
        values["feature_sizes"] = data.feature_sizes
    return models.create(model.model, values)
