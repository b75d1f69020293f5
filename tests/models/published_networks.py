"""Builds our network for a file of vectors that published code made, and runs it with the variables of that file."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden_data import published
from models import published_names

from yt8m import models
from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.models.base import BaseModel
from yt8m.numerics import random_keys
from yt8m.types import ModelOutput

ROWS, CLASSES, SIZES = 5, 7, (1024, 128)


@functools.cache
def rule() -> Any:
    """The module by which inputs and weights are drawn; it lies beside the vectors."""
    spec = importlib.util.spec_from_file_location("published_rule", published() / "rule.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def switches(arrays: Any) -> dict[str, str]:
    """{name: value} of the flags of a file."""
    return dict(flag.lstrip("-").split("=", 1) for flag in arrays["flags"].tolist())


def network(arrays: Any) -> BaseModel:
    """Our model for the class and the flags of a file."""
    name, given = str(arrays["class"]), switches(arrays)
    return models.create(*_NETWORKS[name](given))


Named = tuple[str, dict[str, Any]]


def _chain(_: dict[str, str]) -> Named:
    return "DeepCombineChainModel", {"deep_chain_layers": 2, "deep_chain_relu_cells": 3}


def _mixture(given: dict[str, str]) -> Named:
    return "MoeModel", _taken(given)


def _vlad(given: dict[str, str]) -> Named:
    name = "NetVladModel"
    if given.get("lightvlad") == "True":
        name = "NetRvladModel"
    elif given.get("vlagd") == "True":
        name = "NetVlagdModel"
    return name, _pooled(given, "netvlad")


def _fisher(given: dict[str, str]) -> Named:
    assert given["fv_couple_weights"] == "False"
    return "NetFvModel", {**_pooled(given, "fv"), "fv_variances_as_whole": True}


def _words(name: str, given: dict[str, str]) -> Named:
    return name, {**_pooled(given, "dbof"), "dbof_late_fusion": True}


# Sizes of the recurrent networks of wangheda, unless a file has flags of its own.
_OF_WANGHEDA = {"lstm_cells": "5", "lstm_layers": "2"}


def _lstm(given: dict[str, str]) -> Named:
    return "LstmModel", {**_taken(given), "lstm_memory": True, "all_layers": True}


def _gru(given: dict[str, str]) -> Named:
    return "GruModel", {**_taken(given), "all_layers": True}


def _bilstm(given: dict[str, str]) -> Named:
    return "BiLstmModel", {**_taken({**_OF_WANGHEDA, **given}), "lstm_memory": True, "all_layers": True}


def _attention_max(given: dict[str, str]) -> Named:
    own = {"lstm_attentions": 3, "moe_num_mixtures": 2, "attention_on_input": True}
    return "LstmAttentionMaxModel", {**_taken({**_OF_WANGHEDA, **given}), **own}


def _nextvlad(name: str, given: dict[str, str]) -> Named:
    # A rate of 1e-5 still drops a value now and then.
    own = {"drop_rate": 0.0, "l2_penalty": 1e-8, "as_published": True, "l2_biases": True, "feature_sizes": SIZES}
    return name, {**_taken(given), **own, **({"cl_both_sides": True} if "Mix" in name else {})}


# The published defaults that differ from ours, of flags that have our names.
_DEFAULTS = {"gating": "False", "netvlad_relu": "True", "fv_relu": "True", "dbof_relu": "True", "moe_l2": "1e-8"}


def _pooled(given: dict[str, str], family: str) -> dict[str, Any]:
    """What all networks of clusters share; frames are not sampled, as in the vectors."""
    own = {name: value for name, value in {**_DEFAULTS, **given}.items() if _is_of(name, family)}
    return {**_taken(own), "input_batch_norm": True, "feature_sizes": SIZES}


def _is_of(name: str, family: str) -> bool:
    return not name.endswith("_relu") or name.startswith(family)


_RENAMED = {"moe_l2": "l2_penalty"}
_LEFT_OUT = {"lightvlad", "vlagd", "fv_couple_weights"}


def _taken(given: dict[str, str]) -> dict[str, Any]:
    """Hyper-parameters that are called as the published flags."""
    return {_RENAMED.get(name, name): _parsed(value) for name, value in given.items() if name not in _LEFT_OUT}


def _parsed(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


_NETWORKS: dict[str, Callable[[dict[str, str]], Named]] = {
    "DeepCombineChainModel": _chain,
    "MoeModel": _mixture,
    "NetVLADModelLF": _vlad,
    "NetFVModelLF": _fisher,
    "SoftDbofModelLF": functools.partial(_words, "SoftDbowModel"),
    "GatedDbofModelLF": functools.partial(_words, "GatedDbofModel"),
    "LstmModel": _lstm,
    "GruModel": _gru,
    "BiLstmModel": _bilstm,
    "LstmAttentionMaxPoolingModel": _attention_max,
    "NeXtVLADModel": functools.partial(_nextvlad, "NeXtVladModel"),
    "MixNeXtVladModel": functools.partial(_nextvlad, "MixNeXtVladModel"),
}


def files() -> list[pathlib.Path]:
    """The files of vectors."""
    return sorted(published().glob("*.npz"))


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Inputs and variables by the rule of a file.

    Attributes:
      inputs, padded: float32 [B, T, D] or [B, D]; `padded` is zero past `num_frames`.
      num_frames: int32 [B], for `padded`.
      values: {published name without `:0`: value}.
      trainable: the published names of those that are trained.
    """

    inputs: np.ndarray
    padded: np.ndarray
    num_frames: np.ndarray
    values: dict[str, np.ndarray]
    trainable: set[str]

    @classmethod
    def of(cls, arrays: Any) -> Drawn:
        """What the rule draws for a file."""
        seed, frames, level = int(arrays["seed"]), int(arrays["frames"]), str(arrays["level"])
        counts = arrays["num_frames"] if "num_frames" in arrays else np.ones(ROWS, np.int32)
        x, padded = rule().inputs(seed, level, ROWS, frames, sum(SIZES), counts if level == "frame" else None)
        values = {}
        for line in arrays["variables"].tolist():
            name, _, sizes = line.partition(" ")
            values[name[:-2]] = rule().weight(name, tuple(int(size) for size in sizes.split(",")), seed)
        return cls(x, padded, counts, values, {name[:-2] for name in arrays["trainable"].tolist()})


@dataclasses.dataclass(frozen=True)
class Ran:
    """What our network gives; values of variables are in the published layout, by published name.

    Attributes:
      evaluation, training, padded: evaluated outputs.
      regularization: of the evaluation.
      gradients: of the sum that the vectors state, in evaluation.
      after: all variables after the update ops of the training tower.
      unused: published names that our network does without.
      missing: our names that no published variable stands for.
      trainable: published names of those that are trained.
    """

    evaluation: dict[str, Any]
    training: dict[str, Any]
    padded: dict[str, Any]
    regularization: float
    gradients: dict[str, np.ndarray]
    after: dict[str, np.ndarray]
    unused: set[str]
    missing: set[str]
    trainable: set[str]


def run(arrays: Any) -> Ran:
    """Runs our network for a file of vectors."""
    drawn, model, published_class = Drawn.of(arrays), network(arrays), str(arrays["class"])
    named = published_names.variables(published_class, {name: value.shape for name, value in drawn.values.items()})
    is_frames = drawn.inputs.ndim == 3
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, None, sum(SIZES)] if is_frames else [None, sum(SIZES)])
        counts = tf.placeholder(tf.int32, [None])
        with pytest.MonkeyPatch.context() as patch:
            # The vectors were made without drawing frames: a network saw the frames in their order.
            patch.setattr(frames, "sample", lambda inputs, *_, **__: inputs)
            evaluated, trained = (_tower(model, x, counts, is_training) for is_training in (False, True))
        ours = {variable.name[:-2]: variable for variable in tf.global_variables()}
        learnt = [named[name].name for name in drawn.trainable]
        slopes = _gradients(evaluated.predictions, [ours[name] for name in learnt if name in ours])
        for name, value in drawn.values.items():
            if named[name].name in ours:
                ours[named[name].name].load(named[name].to_ours(value), session)
        every = {x: drawn.inputs, counts: np.full(ROWS, max(drawn.inputs.shape[1], 1) if is_frames else 1, np.int32)}
        some = {x: drawn.padded, counts: drawn.num_frames}
        values = {
            "evaluation": session.run(_outputs(evaluated), every),
            "training": session.run(_outputs(trained), every),
            "padded": session.run(_outputs(evaluated), some),
            "regularization": float(session.run(evaluated.regularization_loss, every)),
            "gradients": session.run({name: slope for name, slope in slopes.items() if slope is not None}, every),
        }
        session.run(trained.update_ops, every)
        after = session.run(ours)
        trainable = {variable.name[:-2] for variable in tf.trainable_variables()}
    back = {variable.name: (name, variable) for name, variable in named.items() if variable.name in ours}
    values["gradients"] = {back[name][0]: back[name][1].to_theirs(v) for name, v in values["gradients"].items()}
    return Ran(
        **values,
        after={back[name][0]: back[name][1].to_theirs(value) for name, value in after.items() if name in back},
        unused={name for name, variable in named.items() if variable.name not in ours},
        missing=set(ours) - set(back),
        trainable={back[name][0] for name in trainable if name in back},
    )


def _tower(model: BaseModel, x: Any, counts: Any, is_training: bool) -> ModelOutput:
    with tf.variable_scope("tower", reuse=tf.AUTO_REUSE), random_keys.scope(7, tf.constant(5, tf.int64)):
        return model.create_model(x, vocab_size=CLASSES, num_frames=counts, is_training=is_training)


def _outputs(output: ModelOutput) -> dict[str, Any]:
    fetched = {"predictions": output.predictions, "sides": [tf.sigmoid(side.logits) for side in output.side_outputs]}
    return fetched if output.logits is None else {**fetched, "logits": output.logits}


def _gradients(predictions: Any, variables: list[Any]) -> dict[str, Any]:
    weighted = tf.sin(3.0 * predictions) * tf.cos(tf.range(CLASSES, dtype=tf.float32))
    slopes = tf.gradients(tf.reduce_sum(weighted), variables)
    return {variable.name[:-2]: slope for variable, slope in zip(variables, slopes, strict=True)}
