"""One model of the contract suite: a tower in evaluation, one in training, fed as the checks need."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from contract.model_cases import CASES, SIZES, B, C, D, T, class_of

from yt8m import models
from yt8m.lazy import tf
from yt8m.numerics import precision, random_keys
from yt8m.types import ModelOutput

NUM_FRAMES = np.array([T, 1, 3, 0, T - 1, 2], np.int32)
EVERY_FRAME = np.full(B, T, np.int32)


def tiny(name: str, other: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """The model at the size of its case, or as `other` says; `feature_sizes` filled as from a reader."""
    given = {**CASES[name].hyper_parameters, **other}
    if "feature_sizes" in models.hyper_parameters(models.get(class_of(name))):
        given["feature_sizes"] = SIZES
    return models.create(class_of(name), given)


class Tower:
    """One tower: its output, the heads that are trained, and gradients of a weighted sum of them."""

    def __init__(self, output: ModelOutput, variables: list[Any]) -> None:
        self.predictions, self.logits, self.hidden = output.predictions, output.logits, output.hidden()
        self.heads = [output.predictions if output.logits is None else output.logits]
        self.heads += [side.logits for side in output.side_outputs]
        slope = tf.reshape(tf.cos(tf.range(C, dtype=tf.float32)), [1, C])
        self.gradients = tf.gradients([tf.reduce_sum(slope * tf.sin(head)) for head in self.heads], variables)


class Built:
    """A model in a session.

    Attributes:
      evaluation, training: the two towers, over the same variables.
      variables: the trainable ones.
      train: one step of gradient descent, with the update ops.
      computed_in: type of the products.
    """

    def __init__(self, name: str, session: Any, computed_in: str = "float32") -> None:
        self.name, self.session, self._model = name, session, tiny(name)
        self.computed_in = computed_in
        shape = [None, None, D] if models.get(class_of(name)).level == "frame" else [None, D]
        self._x = tf.placeholder(tf.float32, shape)
        self._num_frames = tf.placeholder(tf.int32, [None])
        self._step = tf.placeholder_with_default(tf.constant(5, tf.int64), [])
        evaluated = self._build(is_training=False)
        self.variables = tf.trainable_variables()
        with random_keys.scope(7, self._step):
            trained = self._build(is_training=True)
        assert tf.trainable_variables() == self.variables, "a second tower made variables of its own"
        self.evaluation, self.training = (Tower(output, self.variables) for output in (evaluated, trained))
        self.train = tf.group(*self._descent(), *trained.update_ops)
        self._start()

    @functools.cached_property
    def uncounted(self) -> Any:
        """Predictions in evaluation without num_frames."""
        with self.session.graph.as_default():
            return self._build(is_training=False, counted=False).predictions

    def _build(self, is_training: bool, counted: bool = True) -> ModelOutput:
        with tf.variable_scope("tower", reuse=tf.AUTO_REUSE), precision.scope(self.computed_in):
            return ModelOutput.of_returned(
                self._model.create_model(
                    self._x,
                    vocab_size=C,
                    num_frames=self._num_frames if counted else None,
                    is_training=is_training,
                    labels=None,
                )
            )

    def _descent(self) -> list[Any]:
        slopes = zip(self.variables, self.training.gradients, strict=True)
        return [variable.assign_sub(0.01 * slope) for variable, slope in slopes]

    def _start(self) -> None:
        """Moves variables off their initial zeros and ones, lest a dead path goes unseen."""
        variables, rng = tf.global_variables(), np.random.default_rng(3)
        self.session.run(tf.global_variables_initializer())
        moved = {
            variable.initial_value: value + np.abs(rng.normal(size=value.shape)).astype(value.dtype) * 0.2
            for variable, value in zip(variables, self.session.run(variables), strict=True)
        }
        self.session.run([variable.initializer for variable in variables], moved)

    def draw(self) -> np.ndarray:
        """L2-normalised input for the model's level, zero past NUM_FRAMES."""
        frames = self._x.shape.rank == 3
        x = np.random.default_rng(0).normal(size=(B, T, D) if frames else (B, D)).astype(np.float32)
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
        return x * (np.arange(T) < NUM_FRAMES[:, None])[:, :, None] if frames else x

    def run(self, fetches: Any, x: np.ndarray, num_frames: np.ndarray = NUM_FRAMES, step: int = 5) -> Any:
        """Evaluates `fetches` for one batch."""
        return self.session.run(fetches, {self._x: x, self._num_frames: num_frames, self._step: step})

    def run_imported(self, session: Any, fetch: Any, x: np.ndarray) -> Any:
        """Evaluates what stands for `fetch` in the imported graph of `session`, found by name."""
        feed = {self._x.name: x, self._num_frames.name: NUM_FRAMES, self._step.name: 5}
        return session.run(fetch.name, feed)


@contextlib.contextmanager
def built(name: str, computed_in: str = "float32") -> Iterator[Built]:
    """A fresh graph and session with the model called `name`."""
    with quick_session() as session:
        tf.set_random_seed(4)
        yield Built(name, session, computed_in)


@contextlib.contextmanager
def quick_session() -> Iterator[Any]:
    """A session on a graph of its own that runs a few times only: optimising it costs more than it saves."""
    options = tf.GraphOptions(optimizer_options=tf.OptimizerOptions(opt_level=tf.OptimizerOptions.L0))
    options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(graph_options=options)) as session:
        yield session
