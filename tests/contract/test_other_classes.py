"""A model whose classes change keeps what it learned of the others: variables move by class, for every model."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from contract.model_cases import VARIANTS, C, D, class_of, quick
from contract.model_session import NUM_FRAMES, quick_session, tiny

from yt8m import models
from yt8m.graph.restore import NEW, ClassAxis, ClassMap, class_axes
from yt8m.lazy import tf
from yt8m.numerics import whole_blocks
from yt8m.types import ModelOutput

EVERY = [*models.built_in_names(), *VARIANTS]
QUICK = ["LogisticModel", "MoeModel", "GatedMoeModel"]  # classifiers of each kind

# Heads in which classes read each other: a class that is gone changes the scores of the others.
COUPLED = {"GatedMoeModel", "DeepCombineChainModel", "NetVladModel/published", "NetFvModel/published"}

# Classes 0 to 4 of the old model: one is gone, all change places, and three are new.
CHANGED = (NEW, 4, 0, NEW, 2, 1, NEW)
ADDED = (3, NEW, 4, 0, NEW, 2, 1)

Values = Mapping[str, np.ndarray]


@functools.cache
def shapes(name: str, count: int) -> Mapping[str, tuple[int, ...]]:
    with tf.Graph().as_default():
        output_of(name, count)
        return {variable.op.name: tuple(variable.shape.as_list()) for variable in tf.global_variables()}


def axes(name: str, count: int) -> dict[str, tuple[ClassAxis, ...]]:
    return class_axes(shapes(name, count), shapes(name, count + 1), count)


def output_of(name: str, count: int) -> ModelOutput:
    """The model in the current graph, in evaluation, on six videos."""
    x = np.random.default_rng(0).normal(size=(6, 7, D)).astype(np.float32)
    x = x * (np.arange(7) < NUM_FRAMES[:, None])[:, :, None] if models.get(class_of(name)).level == "frame" else x[:, 0]
    with tf.variable_scope("tower"), whole_blocks.scope():
        given = tiny(name).create_model(
            tf.constant(x / 3), vocab_size=count, num_frames=tf.constant(NUM_FRAMES), is_training=False
        )
    return ModelOutput.of_returned(given)


def evaluated(name: str, count: int, start: Any) -> tuple[Values, np.ndarray]:
    """The values of the variables, which `start` changes, and the scores of some videos."""
    with quick_session() as session:
        tf.set_random_seed(count)
        output = output_of(name, count)
        session.run(tf.global_variables_initializer())
        by_name = {variable.op.name: variable for variable in tf.global_variables()}
        values = {key: start(key, value) for key, value in session.run(by_name).items()}
        session.run(
            [variable.initializer for variable in by_name.values()],
            {by_name[key].initializer.inputs[1]: value for key, value in values.items()},
        )
        whole_blocks.fill(session)
        return values, session.run(output.predictions)


def random_values(name: str, value: np.ndarray) -> np.ndarray:
    """Away from zeros and ones, lest a dead path goes unseen."""
    return value + np.abs(np.random.default_rng(len(name)).normal(size=value.shape)).astype(value.dtype) * 0.3


def grown(name: str, sources: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The scores of the kept classes by the old and by the new model."""
    old, before = evaluated(name, C, random_values)
    classes = ClassMap(sources, C, axes(name, len(sources)))

    def start(key: str, initial: np.ndarray) -> np.ndarray:
        moved = random_values(key, initial)
        return classes.merge_values(key, moved, old[key]) if key in classes.axes else old[key]

    after = evaluated(name, len(sources), start)[1]
    places = [place for place, source in enumerate(sources) if source != NEW]
    return before[:, [sources[place] for place in places]], after[:, places]


@pytest.mark.parametrize("name", quick(QUICK, EVERY))
def test_every_class_axis_is_known(name: str) -> None:
    assert axes(name, C)
    assert all(axes(name, C).values())
    assert any(axis != -1 for by_class in axes(name, C).values() for axis, _ in by_class) == (name in COUPLED)


@pytest.mark.parametrize("name", quick(QUICK, [name for name in EVERY if name not in COUPLED]))
def test_scores_of_classes_that_stay_are_the_same(name: str) -> None:
    before, after = grown(name, CHANGED)
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("name", quick(QUICK, sorted(COUPLED)))
def test_classes_that_read_each_other_do_not_read_new_ones_at_first(name: str) -> None:
    before, after = grown(name, ADDED)
    np.testing.assert_allclose(after, before, rtol=1e-5)
    before, after = grown(name, CHANGED)
    assert np.abs(after - before).max() > 1e-4, "the class that is gone counts"
