"""Builds one model of the contract suite and runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from contract.model_cases import CASES, SIZES, B, C, D, T

from yt8m import models
from yt8m.lazy import tf
from yt8m.types import ModelOutput

NUM_FRAMES = np.array([T, 1, 3, 0, T - 1, 2], np.int32)


def tiny(name: str) -> Any:
    """The model at the size of its case; `feature_sizes` filled as from a reader."""
    given = dict(CASES[name].hyper_parameters)
    if "feature_sizes" in models.hyper_parameters(models.get(name)):
        given["feature_sizes"] = SIZES
    return models.create(name, given)


def draw(name: str, seed: int = 0) -> np.ndarray:
    """L2-normalised input for the model's level, zero past NUM_FRAMES."""
    shape = (B, T, D) if models.get(name).level == "frame" else (B, D)
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    if x.ndim == 3:
        x[np.arange(T) >= NUM_FRAMES[:, None]] = 0
    return x


class Built:
    """A model with variables, in a session; `run` builds another tower of it."""

    def __init__(self, name: str, session: Any) -> None:
        self.model, self.session, self._started = tiny(name), session, False

    def build(self, x: Any, num_frames: Any = None, is_training: bool = False) -> ModelOutput:
        """One more tower over the same variables."""
        with tf.variable_scope("tower", reuse=tf.AUTO_REUSE):
            return ModelOutput.of(
                self.model.create_model(
                    tf.convert_to_tensor(x),
                    vocab_size=C,
                    num_frames=None if num_frames is None else tf.convert_to_tensor(num_frames),
                    is_training=is_training,
                    labels=None,
                )
            )

    def run(self, fetches: Any, feed: Any = None) -> Any:
        """Evaluates; the variables get reproducible random values at the first call."""
        if not self._started:
            self.session.run(tf.global_variables_initializer())
            self._perturb()
            self._started = True
        return self.session.run(fetches, feed)

    def predict(self, x: Any, num_frames: Any = None, is_training: bool = False) -> np.ndarray:
        """Predictions [B, C]."""
        return self.run(self.build(x, num_frames, is_training).predictions)

    def _perturb(self) -> None:
        """Moves variables off their initial zeros and ones, lest a dead path goes unseen."""
        rng = np.random.default_rng(3)
        for variable in tf.global_variables():
            value = variable.eval(self.session)
            noise = np.abs(rng.normal(size=value.shape)) * 0.2
            variable.load((value + noise).astype(value.dtype), self.session)


@contextlib.contextmanager
def built(name: str) -> Iterator[Built]:
    """A fresh graph and session with the model called `name`."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(4)
        yield Built(name, session)
