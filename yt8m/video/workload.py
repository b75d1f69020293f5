"""Builds the video workload from configs: reader, inputter, model, loss and modeler."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from yt8m import losses, models, readers
from yt8m.config import data_fit
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig
from yt8m.errors import UsageError
from yt8m.models.frames import with_video_means
from yt8m.models.windows import CellWindows, with_windows
from yt8m.readers.pipeline import class_weights
from yt8m.records import held_out, vocabulary
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.vocabulary import Vocabulary
from yt8m.video.modeler import VideoModeler


class Workload(NamedTuple):
    """What a program needs to train, to evaluate or to predict.

    Attributes:
      names: the vocabulary that the config names; empty if it names none.
    """

    reader: readers.Reader
    inputter: readers.BatchQueue
    modeler: VideoModeler
    names: Vocabulary = vocabulary.of_names(())


def create(
    data: DataConfig, model: ModelConfig, mode: str, top_k: int = 20, opened: OpenedData | None = None
) -> Workload:
    """The workload for one mode (train, eval or infer)."""
    modeler = create_modeler(data, model, mode, top_k, opened)
    names = (opened or open_data(None, vocabulary=data.vocabulary)).vocabulary
    inputter = readers.BatchQueue.for_config(data, mode, opened=opened)
    if mode == "train" and data.balance:
        counts = _require_class_counts(f"--balance={data.balance:g}", data, opened, "")
        inputter.class_weights = class_weights(np.array(counts), data.balance)
    return Workload(readers.reader_for(data), inputter, modeler, names)


def create_modeler(
    data: DataConfig, model: ModelConfig, mode: str, top_k: int = 20, opened: OpenedData | None = None
) -> VideoModeler:
    """The modeler for one mode (train, eval or infer); raises like `create`."""
    modeler = VideoModeler(
        create_model(model, data),
        create_loss(model, data if mode == "train" else None, opened) if mode != "infer" else None,
        data.num_classes,
        top_k,
        data.feature_sizes,
    )
    modeler.class_weights, modeler.one_class = model.loss_weights, data.one_class
    return modeler


def create_loss(model: ModelConfig, data: DataConfig | None = None, opened: OpenedData | None = None) -> Any:
    """An instance of the label loss.

    Args:
      data: the training data. If the loss has the hyper-parameter `class_counts`, and that is not set, it is set to the
        number of training videos of each class. None for an evaluation, which needs no counts, because it does not
        adjust predictions.
    """
    values = dict(model.loss_hyper_parameters)
    if data is not None and "class_counts" in losses.hyper_parameters(losses.get(model.label_loss)):
        values["class_counts"] = tuple(values.get("class_counts", ())) or _require_class_counts(
            f"--label_loss={model.label_loss}", data, opened, ", or give --class_counts=N,N,..."
        )
    return losses.create(model.label_loss, values)


def _require_class_counts(flag: str, data: DataConfig, opened: OpenedData | None, remedy: str) -> tuple[int, ...]:
    """The number of training videos of each class.

    Args:
      remedy: the end of the message: what the user can do other than name a vocabulary; may be empty.
    """
    names = (opened or open_data(None, vocabulary=data.vocabulary)).vocabulary
    counts = data_fit.training_counts(names.shown(data.num_classes), data, opened)
    if counts is None:
        raise UsageError(
            f"{flag} needs the number of training videos of each class, which neither the vocabulary (its column "
            "count) nor the manifest of the training data (its positives) has: name a vocabulary with that column by "
            f"--vocabulary{remedy}"
        )
    if data.held_out:
        opened = opened or open_data(data.data_pattern)
        counts = np.maximum(counts - held_out.count_labels(data.held_out, opened.files, data.num_classes), 0)
    return tuple(counts.tolist())


def create_model(model: ModelConfig, data: DataConfig) -> Any:
    """An instance of the model.

    If the model has the hyper-parameter `feature_sizes`, it is set to the sizes of the data. With --film_mean, the
    model gets the mean of the whole video after the features of each frame, so the sizes appear twice; with
    --segment_context those of the windows beside a segment.
    """
    values = dict(model.hyper_parameters)
    windows = CellWindows(data.segment_size, data.segment_context)
    if "feature_sizes" in models.hyper_parameters(models.get(model.model)):
        values["feature_sizes"] = data.feature_sizes * (2 if data.film_mean else 1) * windows.parts
    instance = models.create(model.model, values)
    instance = with_video_means(instance) if data.film_mean else instance
    return with_windows(instance, windows) if data.segment_context else instance
