"""What holds for every registered model."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
from contract.model_cases import CASES, FEW, VARIANTS, B, C, D, class_of, quick
from contract.model_session import EVERY_FRAME, NUM_FRAMES, Built, Tower, built, quick_session

from yt8m import models
from yt8m.lazy import tf

EVERY = [*models.built_in_names(), *VARIANTS]
FRAME_LEVEL = [name for name in EVERY if models.get(class_of(name)).level == "frame"]
# The variants are compared with published vectors too. These models differ in one piece from another one; it has
# tests of its own in tests/models.
SIBLINGS = (
    "AttentionLstmModel",
    "BiLstmModel",
    "GatedDbofModel",
    "GruModel",
    "LstmAttentionMaxModel",
    "MixNeXtVladModel",
    "NetFvModel",
    "NetVlagdModel",
    "NetRvladModel",
    "NetVladModel",
)
QUICK = [name for name in models.built_in_names() if name not in SIBLINGS]

# One of each way to use the number of frames: a mean, a draw, a loop, a mask of scores.
WITHOUT_COUNT = ["FrameLevelLogisticModel", "DbofModel", "LstmModel", "AttentionPoolingModel"]

every_model = pytest.mark.parametrize("model", quick(QUICK, EVERY), indirect=True)
every_frame_level_model = pytest.mark.parametrize("model", quick(QUICK, FRAME_LEVEL), indirect=True)
both_modes = pytest.mark.parametrize("mode", ["evaluation", "training"])


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> Iterator[Built]:
    with built(request.param) as one:
        yield one


def tower(model: Built, mode: str) -> Tower:
    return model.evaluation if mode == "evaluation" else model.training


def test_every_model_has_a_case() -> None:
    assert {class_of(name) for name in CASES} == set(models.built_in_names())


@every_model
@both_modes
def test_shapes_and_range(model: Built, mode: str) -> None:
    predictions, heads = model.run([tower(model, mode).predictions, tower(model, mode).heads], model.draw())
    assert tower(model, mode).predictions.shape[1] == C
    assert predictions.shape == (B, C)
    assert ((predictions >= 0) & (predictions <= 1)).all()
    assert all(head.shape == (B, C) and np.isfinite(head).all() for head in heads)


@every_model
def test_the_hidden_layer_has_one_vector_a_video(model: Built) -> None:
    hidden = model.evaluation.hidden
    assert (hidden is not None) == CASES[model.name].has_hidden
    if hidden is not None:
        vectors = model.run(hidden, model.draw())
        assert vectors.shape == (B, hidden.shape[1])
        assert np.isfinite(vectors).all()
        assert len(np.unique(vectors, axis=0)) > 1


@every_model
@both_modes
def test_every_variable_is_trained(model: Built, mode: str) -> None:
    gradients = tower(model, mode).gradients
    assert [v.name for v, g in zip(model.variables, gradients, strict=True) if g is None] == []
    slopes = model.run(gradients, model.draw())
    assert all(np.isfinite(slope).all() for slope in slopes)
    assert [v.name for v, slope in zip(model.variables, slopes, strict=True) if not slope.any()] == []


@every_model
def test_predictions_are_the_sigmoid_of_the_logits(model: Built) -> None:
    if model.evaluation.logits is None:
        pytest.skip("the model gives no logits")
    predictions, logits = model.run([model.evaluation.predictions, model.evaluation.logits], model.draw())
    np.testing.assert_allclose(predictions, 1 / (1 + np.exp(-logits)), rtol=1e-5, atol=1e-7)


@every_model
def test_parameter_count(model: Built) -> None:
    count = sum(variable.shape.num_elements() for variable in model.variables)
    assert count == CASES[model.name].parameters()


@pytest.mark.promise("N3")
@every_model
def test_two_towers_are_one(model: Built) -> None:
    """Predictions and gradients of a batch are those of its two parts. In evaluation mode: in training,
    batch statistics and random draws are a tower's own, for the models that have them."""
    x, fetches = model.draw(), [model.evaluation.predictions, model.evaluation.gradients]
    whole, slopes = model.run(fetches, x)
    parts = [model.run(fetches, x[rows], NUM_FRAMES[rows]) for rows in (slice(0, 4), slice(4, B))]
    np.testing.assert_allclose(whole, np.concatenate([part[0] for part in parts]), rtol=1e-5, atol=1e-7)
    for of_whole, first, second in zip(slopes, parts[0][1], parts[1][1], strict=True):
        np.testing.assert_allclose(of_whole, first + second, rtol=1e-3, atol=1e-4)


@every_model
def test_evaluation_is_deterministic(model: Built) -> None:
    """The same input gives the same output, at any step."""
    x = model.draw()
    first, later = (model.run(model.evaluation.predictions, x, step=step) for step in (5, 6))
    assert (first == later).all()


@every_model
def test_training_draws_by_the_key_alone(model: Built) -> None:
    """The same step draws the same, another step something else where the model draws at all."""
    x = model.draw()
    first, again, later = (model.run(model.training.predictions, x, step=step) for step in (5, 5, 6))
    assert (first == again).all()
    assert (first != later).any() == CASES[model.name].random


@pytest.mark.parametrize("model", quick(FEW[:1]), indirect=True)
def test_checkpoints_and_meta_graphs_go_on_alike(model: Built, tmp_path: pathlib.Path) -> None:
    """The stored graph predicts and trains on as the live one; a rebuilt one predicts the same."""
    x, path = model.draw(), str(tmp_path / "model.ckpt")
    with model.session.graph.as_default():
        model.run(model.train, x)
        tf.train.Saver().save(model.session, path)
    states = []
    with quick_session() as session:
        tf.train.import_meta_graph(f"{path}.meta").restore(session, path)
        for _ in range(2):
            states.append(model.run_imported(session, model.evaluation.predictions, x))
            model.run_imported(session, model.train, x)
    with built(model.name) as again:
        tf.train.Saver().restore(again.session, path)
        rebuilt = again.run(again.evaluation.predictions, x)
    first = model.run(model.evaluation.predictions, x)
    model.run(model.train, x)
    second = model.run(model.evaluation.predictions, x)
    np.testing.assert_allclose([states[0], rebuilt], [first, first], rtol=1e-6)
    np.testing.assert_allclose(states[1], second, rtol=1e-6)
    assert (first != second).any()


@pytest.mark.promise("I7")
@every_frame_level_model
@both_modes
def test_padding_changes_nothing(model: Built, mode: str) -> None:
    x = model.draw()
    padded = np.concatenate([x, np.zeros((B, 4, D), np.float32)], 1)
    short, long = (model.run(tower(model, mode).predictions, given) for given in (x, padded))
    np.testing.assert_allclose(long, short, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", quick(WITHOUT_COUNT, FRAME_LEVEL), indirect=True)
def test_no_count_means_every_frame(model: Built) -> None:
    x = model.draw()
    uncounted, counted = (model.run(fetch, x, EVERY_FRAME) for fetch in (model.uncounted, model.evaluation.predictions))
    np.testing.assert_allclose(uncounted, counted, rtol=1e-5, atol=1e-7)


@pytest.mark.promise("I7")
@every_frame_level_model
@both_modes
@pytest.mark.parametrize("frames", [0, 1])
def test_short_videos_survive(model: Built, mode: str, frames: int) -> None:
    """A batch of nothing but videos of one frame, or of none."""
    x = model.draw()
    x[:, frames:] = 0
    fetches = [tower(model, mode).predictions, *tower(model, mode).gradients]
    values = model.run(fetches, x, np.full(B, frames, np.int32))
    assert all(np.isfinite(value).all() for value in values)


@every_frame_level_model
def test_order_of_frames(model: Built) -> None:
    """It changes something where the model is sequential, and nothing where it is not."""
    x = model.draw()
    forward, backward = (model.run(model.evaluation.predictions, given, EVERY_FRAME) for given in (x, x[:, ::-1]))
    difference = np.abs(forward - backward).max()
    assert difference > 1e-5 if CASES[model.name].ordered else difference < 1e-5
