"""Models that end in a classifier, and models with batch normalisation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from yt8m import models
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.types import ModelOutput


def test_hyper_parameters_reach_the_classifier() -> None:
    model = models.create("DbofModel", {"iterations": 5, "moe_num_mixtures": 4, "l2_penalty": 1e-3})
    assert model.iterations == 5
    assert model.classifier() == models.create("MoeModel", {"moe_num_mixtures": 4, "l2_penalty": 1e-3})


def test_a_saved_configuration_gives_the_same_model() -> None:
    model = models.create("DbofModel", {"video_level_classifier_model": "LogisticModel", "l2_penalty": 1e-3})
    saved = dataclasses.asdict(model)
    assert models.create("DbofModel", saved) == model


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"video_level_classifier_model": "FrameLevelLogisticModel"}, "must be a video-level model"),
        ({"video_level_classifier_model": "MoModel"}, "did you mean MoeModel"),
        ({"video_level_classifier_model": "LogisticModel", "moe_num_mixtures": 3}, "no hyper-parameter"),
        ({"moe_num_mixtures": 0}, "moe_num_mixtures must be at least 1"),
        ({"dbof_pooling_method": "maximum"}, "one of max, average, attention, none; did you mean max"),
    ],
)
def test_refusals(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        models.create("DbofModel", values)


def moving_means(decay: float) -> dict[str, np.ndarray]:
    """Of a model of three layers after one training step."""
    x = np.random.default_rng(2).normal(size=(4, 8)).astype(np.float32)
    model = models.create("ResidualMlpModel", {"mlp_hidden_size": 4, "batch_norm_decay": decay})
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        output = ModelOutput.of(model.create_model(tf.constant(x), vocab_size=3, is_training=True))
        session.run(tf.global_variables_initializer())
        session.run(output.update_ops)
        return {v.name: v.eval(session) for v in tf.global_variables() if "moving_mean" in v.name}


def test_the_averages_move_by_what_the_decay_leaves() -> None:
    at_once, slowly = moving_means(0.0), moving_means(0.99)
    assert len(at_once) == 3
    for name, mean in at_once.items():
        assert mean.any()
        np.testing.assert_allclose(slowly[name], mean * 0.01, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("model", ["DbofModel", "LstmModel"])
def test_the_classifier_takes_the_decay_too(model: str) -> None:
    """Whether the model has it for itself or not."""
    given = {"video_level_classifier_model": "GatedMoeModel", "batch_norm_decay": 0.5}
    assert models.create(model, given).classifier().batch_norm_decay == 0.5
