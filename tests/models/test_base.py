"""Models by name, their hyper-parameters, their classifiers, and the decay of batch normalisation."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from yt8m import losses, models
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.options import option
from yt8m.types import ModelOutput


class Published:
    """A model in the published style: no dataclass, a dict back."""

    def create_model(self, model_input: Any, vocab_size: int, **unused_params: Any) -> dict[str, Any]:
        return {"predictions": tf.zeros([tf.shape(model_input)[0], vocab_size])}


@dataclass(frozen=True)
class Own(models.BaseModel):
    sizes: tuple[int, ...] = option((), "sizes")
    width: float = option(1.0, "a width", maximum=2)
    deep: bool = option(False, "deep")

    def forward(self, net: Any, inputs: Any, vocab_size: int, num_frames: Any) -> ModelOutput:
        raise AssertionError("these tests make the model, and do not build it")


def test_names_and_get() -> None:
    assert {"LogisticModel", "MoeModel", "FrameLevelLogisticModel"} <= set(models.built_in_names())
    assert models.get("MoeModel").level == "video"
    assert models.get("FrameLevelLogisticModel").level == "frame"
    with pytest.raises(UsageError, match="did you mean LogisticModel"):
        models.get("logisticmodle")


@pytest.mark.parametrize("name", ["BaseModel", "ClassifiedModel", "BaseModl"])
def test_a_base_class_is_no_choice_and_no_suggestion(name: str) -> None:
    with pytest.raises(UsageError, match=f"unknown model '{name}'") as caught:
        models.get(name)
    assert "did you mean" not in str(caught.value)
    assert ("base class" in str(caught.value)) is (name != "BaseModl")


@pytest.mark.parametrize(
    ("catalogue", "path"),
    [
        (models, "yt8m.models.base:BaseModel"),
        (models, "yt8m.models.base:ClassifiedModel"),
        (losses, "yt8m.losses.base:BaseLoss"),
        (losses, "yt8m.losses.base:ClassLoss"),
    ],
)
def test_a_base_class_is_refused_by_its_path_too(catalogue: Any, path: str) -> None:
    with pytest.raises(UsageError, match=rf"{path}: .*base class"):
        catalogue.get(path)


def test_hyper_parameters_are_declared() -> None:
    declared = models.hyper_parameters(models.get("MoeModel"))
    assert list(declared)[:3] == ["batch_norm_decay", "moe_num_mixtures", "l2_penalty"]
    assert declared["moe_num_mixtures"][:2] == (int, 2)
    assert "experts" in declared["moe_num_mixtures"].help
    assert models.hyper_parameters(Published) == {}


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("MoeModel", {"moe_num_mixture": 3}, "did you mean moe_num_mixtures"),
        ("MoeModel", {"moe_num_mixtures": 0}, "moe_num_mixtures must be at least 1; it is 0"),
        ("MoeModel", {"moe_num_mixtures": True}, "moe_num_mixtures must be an int"),
        ("MoeModel", {"moe_num_mixtures": 2.5}, "moe_num_mixtures must be an int"),
        ("MoeModel", {"l2_penalty": float("nan")}, "l2_penalty must be at least 0"),
        (f"{__name__}:Own", {"deep": 1}, r"deep .*\bbool\b"),
        (f"{__name__}:Own", {"width": 3}, r"width .*at most 2\b"),
        (f"{__name__}:Own", {"sizes": ["a"]}, r"sizes .*tuple of int\b"),
        (f"{__name__}:Published", {"cells": 1}, "no hyper-parameter 'cells'. It has: none"),
    ],
)
def test_refusals(name: str, values: dict[str, Any], message: str) -> None:
    sys.modules.setdefault(__name__, sys.modules[Own.__module__])
    with pytest.raises(UsageError, match=message):
        models.create(name, values)


def test_lists_become_tuples_and_ints_serve_as_floats() -> None:
    own = models.create(f"{__name__}:Own", {"sizes": [3, 4], "width": 2})
    assert own == Own(sizes=(3, 4), width=2.0)


def test_a_published_model_works() -> None:
    with tf.Graph().as_default():
        output = models.create(f"{__name__}:Published").create_model(
            tf.ones([2, 3]), vocab_size=4, num_frames=None, is_training=True, labels=None
        )
        assert ModelOutput.of_returned(output).predictions.shape.as_list() == [2, 4]


def test_hyper_parameters_cost_no_tensorflow() -> None:
    code = (
        "import sys; from yt8m import losses, models\n"
        "for n in models.built_in_names(): models.hyper_parameters(models.get(n)); models.create(n)\n"
        "for n in losses.built_in_names(): losses.create(n)\n"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
        ({"dbof_pooling_method": "maximum"}, r"max, average, attention, none\b.*did you mean max"),
    ],
)
def test_what_a_classifier_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        models.create("DbofModel", values)


def moving_means(decay: float) -> dict[str, np.ndarray]:
    """Of a model of three layers after one training step."""
    x = np.random.default_rng(2).normal(size=(4, 8)).astype(np.float32)
    model = models.create("ResidualMlpModel", {"mlp_hidden_size": 4, "batch_norm_decay": decay})
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        output = ModelOutput.of_returned(model.create_model(tf.constant(x), vocab_size=3, is_training=True))
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
