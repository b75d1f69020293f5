"""Videos as a workload of the engine: reader, inputter and modeler, made from a config."""

from __future__ import annotations

from typing import Any, NamedTuple

from yt8m import losses, models, readers
from yt8m.config import DataConfig, ModelConfig
from yt8m.graph import Inputter
from yt8m.graph.modeler import VideoModeler


class Workload(NamedTuple):
    """What the runner drives, and the reader that an export needs too."""

    reader: readers.Reader
    inputter: Inputter
    modeler: VideoModeler


def create(data: DataConfig, model: ModelConfig, mode: str, top_k: int = 20) -> Workload:
    """The parts for one mode (train, eval or infer).

    Raises:
      UsageError: something in the config cannot be.
    """
    reader = readers.reader_for(data)
    modeler = VideoModeler(
        create_model(model, data),
        losses.get(model.label_loss)() if mode != "infer" else None,
        data.num_classes,
        top_k,
        data.feature_sizes,
    )
    return Workload(reader, readers.BatchQueue.for_config(data, mode), modeler)


def create_model(model: ModelConfig, data: DataConfig) -> Any:
    """An instance of the model; one that treats features apart learns their sizes."""
    values = dict(model.hyper_parameters)
    if "feature_sizes" in models.hyper_parameters(models.get(model.model)):
        values["feature_sizes"] = data.feature_sizes
    return models.create(model.model, values)
