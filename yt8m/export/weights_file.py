"""Writes the weights of a model as one NumPy file (.npz), which NumPy alone reads, without TensorFlow and this project.

Besides each variable under its name in the graph, the file has texts, as arrays of one string: `ABOUT`, JSON that says
what the model is; the model card; the vocabulary and the thresholds, if the run has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from yt8m import formats, storage
from yt8m.config.data_fit import Takes
from yt8m.errors import RunError
from yt8m.export import model_card
from yt8m.export.saved_model import ModelFacts
from yt8m.export.small_weights import restored
from yt8m.lazy import tf
from yt8m.records import span_rules, thresholds, vocabulary
from yt8m.runs.trained_model import TrainedModel

ABOUT = "about.json"


def write_weights(path: str, model: TrainedModel, facts: ModelFacts) -> int:
    """Writes the file, completely or not at all; returns the number of its variables.

    The values are those of the checkpoint, bit by bit; if the run keeps moving averages of its weights, the averages.
    """
    run = model.run.config
    modeler = model.modeler(run.data, "infer")

    def build() -> None:
        modeler.predict_placeholders(run.data.frame_features)

    with restored(build, model.weights, facts.moving_average_decay) as built:
        values = {v.op.name: _plain(v.op.name, built.session.run(v)) for v in tf.global_variables()}
    texts = {ABOUT: json.dumps(_description(model, facts)), model_card.NAME: _card(model, facts, built.parameters)}
    if facts.names:
        texts[vocabulary.NAME] = vocabulary.content_of(facts.names).decode()
    if tags := thresholds.text_of_step(model.run.folder, model.step):
        texts[thresholds.NAME] = tags
    if spans := span_rules.text_for_export(run.data, model.run.folder, model.step):
        texts[span_rules.NAME] = spans
    with storage.write_atomic(path) as file:
        arrays: dict[str, Any] = {**{name: np.array(text) for name, text in texts.items()}, **values}
        np.savez(file, **arrays)
    return len(values)


def _plain(name: str, value: Any) -> np.ndarray:
    """The value in a type that NumPy has itself: TensorFlow's bfloat16 is part of float32, which holds it exactly."""
    array = np.asarray(value)
    if array.dtype == tf.bfloat16.as_numpy_dtype:
        return array.astype(np.float32)
    if array.dtype.kind not in "biufc":
        raise RunError(f"{name} has the type {array.dtype}, which NumPy does not have: export a SavedModel instead.")
    return array


def _description(model: TrainedModel, facts: ModelFacts) -> Mapping[str, Any]:
    run = model.run.config
    return {
        "version": formats.WEIGHTS,
        "model": run.model.model,
        "hyper_parameters": run.model.hyper_parameters,
        "format": Takes(run.data).format.as_json(),
        "num_classes": run.data.num_classes,
        "step": model.step,
        "is_averaged": facts.moving_average_decay > 0,
    }


def _card(model: TrainedModel, facts: ModelFacts, parameters: int) -> str:
    report = model_card.report_of(model.run.folder, model.step)
    return model_card.text(model.run.config, model.step, parameters, {}, figures=report, names=facts.names)
