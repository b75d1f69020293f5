"""Builds our network for a file of vectors that published code made, and runs it with the variables of that file."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import pathlib
from typing import Any

import numpy as np
import pytest
from golden_data import published

from yt8m import models
from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.models import published as published_code
from yt8m.models.base import BaseModel
from yt8m.models.published import Network, Variable
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
    kind = described(arrays)
    values = published_code.options(kind, given_for(arrays))
    known = models.hyper_parameters(models.get(kind.model))
    # The vectors were made without drawing frames, so as many are drawn as there are.
    others = {"feature_sizes": SIZES, "iterations": int(arrays["frames"])}
    values |= {name: value for name, value in others.items() if name in known}
    return models.create(kind.model, values)


# Sizes that these vectors have although neither the flags nor the published defaults say so: those of wangheda.
_SIZES: dict[str, dict[str, Any]] = {
    "DeepCombineChainModel": {"deep_chain_layers": 2, "deep_chain_relu_cells": 3},
    "BiLstmModel": {"lstm_cells": 5, "lstm_layers": 2},
    "LstmAttentionMaxModel": {"lstm_cells": 5, "lstm_layers": 2, "lstm_attentions": 3, "moe_num_mixtures": 2},
}
# Flags of WILLOW that are called otherwise here, or say which network a class is.
_RENAMED = {"moe_l2": "l2_penalty"}
_LEFT_OUT = {"lightvlad", "vlagd", "fv_couple_weights"}


def described(arrays: Any) -> Network:
    """The network of a file; vectors whose class several groups have were made by WILLOW."""
    given = switches(arrays)
    assert given.get("fv_couple_weights", "False") == "False"
    of_class = [
        one for one in published_code.NETWORKS if one.published_class == str(arrays["class"]) and one.source != "google"
    ]
    chosen = [one for one in of_class if given.get(one.switch) == "True" and one.model != "GatedMoeModel"]
    return (chosen or of_class)[0]


def given_for(arrays: Any) -> dict[str, Any]:
    """The hyper-parameters of our model that a file gives."""
    own = {
        _RENAMED.get(name, name): _parsed(value) for name, value in switches(arrays).items() if name not in _LEFT_OUT
    }
    values = {**_SIZES.get(described(arrays).model, {}), **own}
    # A rate of 1e-5 still drops a value now and then.
    return {name: 0.0 if name == "drop_rate" else value for name, value in values.items()}


def _parsed(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


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
    drawn, model = Drawn.of(arrays), network(arrays)
    shapes = {name: value.shape for name, value in drawn.values.items()}
    named = published_code.variables(described(arrays), shapes)
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
    back = {variable.name: name for name, variable in named.items() if variable.name in ours}

    def by_their_names(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        kept = {back[name]: value for name, value in given.items() if name in back}
        return {name: to_theirs(named[name], value, shapes[name]) for name, value in kept.items()}

    values["gradients"] = by_their_names(values["gradients"])
    return Ran(
        **values,
        after=by_their_names(after),
        unused={name for name, variable in named.items() if variable.name not in ours},
        missing=set(ours) - set(back),
        trainable={back[name] for name in trainable if name in back},
    )


def to_theirs(variable: Variable, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A value of ours in the published layout: `to_ours` tells where each number came from."""
    came_from = variable.to_ours(np.arange(value.size).reshape(shape))
    assert came_from.shape == value.shape
    theirs = np.empty(value.size, value.dtype)
    theirs[came_from.ravel()] = value.ravel()
    return theirs.reshape(shape)


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
