"""Videos as a workload of the engine: reader, inputter and modeler, made from a config."""

from __future__ import annotations

from typing import Any, NamedTuple

from yt8m import losses, models, readers
from yt8m.config import DataConfig, ModelConfig, TrainConfig
from yt8m.graph.modeler import VideoModeler
from yt8m.graph.training_modeler import TrainingModeler
from yt8m.jobs.input_check import Walked
from yt8m.jobs.teaching import teacher_for


class Workload(NamedTuple):
    """What the runner drives, the reader that an export needs too, and what its shards held at the start."""

    reader: readers.Reader
    inputter: readers.BatchQueue
    modeler: VideoModeler
    walked: Walked | None = None


def create(data: DataConfig, model: ModelConfig, mode: str, top_k: int = 20) -> Workload:
    """The parts for one mode (train, eval or infer).

    Raises:
      UsageError: something in the config cannot be.
    """
    reader = readers.reader_for(data)
    modeler = VideoModeler(
        create_model(model, data),
        create_loss(model) if mode != "infer" else None,
        data.num_classes,
        top_k,
        data.feature_sizes,
    )
    return Workload(reader, readers.BatchQueue.for_config(data, mode), modeler)


def create_training(config: TrainConfig) -> Workload:
    """The parts of a training run, its teacher and its augmentation among them.

    Raises:
      UsageError: something in the config cannot be.
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


def create_loss(model: ModelConfig) -> Any:
    """An instance of the label loss."""
    return losses.create(model.label_loss, model.loss_hyper_parameters)


def create_model(model: ModelConfig, data: DataConfig) -> Any:
    """An instance of the model; one that treats features apart learns their sizes."""
    values = dict(model.hyper_parameters)
    if "feature_sizes" in models.hyper_parameters(models.get(model.model)):
        values["feature_sizes"] = data.feature_sizes
    return models.create(model.model, values)
