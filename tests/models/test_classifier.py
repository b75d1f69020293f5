from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from yt8m import models
from yt8m.errors import UsageError


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
