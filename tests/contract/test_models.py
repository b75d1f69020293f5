"""What holds for every registered model."""

from __future__ import annotations

import numpy as np
import pytest
from contract.model_cases import CASES, B, C, D, T
from contract.model_session import NUM_FRAMES, built, draw

from yt8m import models
from yt8m.lazy import tf

ALL = models.names()
FRAME_LEVEL = [name for name in ALL if models.get(name).level == "frame"]


def test_every_model_has_a_case() -> None:
    assert set(CASES) == set(ALL)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("is_training", [False, True])
def test_shapes_and_gradients(name: str, is_training: bool) -> None:
    with built(name) as model:
        output = model.build(draw(name), NUM_FRAMES, is_training)
        heads = [output.logits] if output.logits is not None else []
        heads += [side.logits for side in output.side_outputs]
        assert output.predictions.shape.as_list() in ([B, C], [None, C])
        variables = tf.trainable_variables()
        weight = np.random.default_rng(1).normal(size=(B, C)).astype(np.float32)
        loss = tf.add_n([tf.reduce_sum(weight * head) for head in heads or [output.predictions]])
        if output.regularization_loss is not None:
            loss += output.regularization_loss
        gradients = tf.gradients(loss, variables)
        assert [v.name for v, g in zip(variables, gradients, strict=True) if g is None] == []
        values = model.run([output.predictions, *heads, *map(tf.convert_to_tensor, gradients)])
    predictions, slopes = values[0], values[1 + len(heads) :]
    assert ((predictions >= 0) & (predictions <= 1)).all()
    assert all(np.isfinite(value).all() for value in values)
    dead = [v.name for v, g in zip(variables, slopes, strict=True) if not np.any(g)]
    assert dead == []


@pytest.mark.parametrize("name", ALL)
def test_predictions_are_the_sigmoid_of_the_logits(name: str) -> None:
    with built(name) as model:
        output = model.build(draw(name), NUM_FRAMES)
        if output.logits is None:
            pytest.skip("the model gives no logits")
        predictions, odds = model.run([output.predictions, tf.sigmoid(output.logits)])
    np.testing.assert_allclose(predictions, odds, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ALL)
def test_parameter_count(name: str) -> None:
    with built(name) as model:
        model.build(draw(name), NUM_FRAMES)
        count = sum(variable.shape.num_elements() for variable in tf.trainable_variables())
    assert count == CASES[name].parameters()


@pytest.mark.parametrize("name", ALL)
def test_rows_and_towers_do_not_touch_each_other(name: str) -> None:
    """Two towers give what one gives, and the same gradient. In evaluation mode: in training, batch
    statistics are those of a tower and random draws those of a tower, for the models that have them."""
    x = draw(name)
    with built(name) as model:
        whole = model.build(x, NUM_FRAMES).predictions
        variables = tf.trainable_variables()
        parts = [model.build(x[rows], NUM_FRAMES[rows]).predictions for rows in (slice(0, 4), slice(4, B))]
        assert tf.trainable_variables() == variables
        one = tf.gradients(tf.reduce_sum(whole**2), variables)
        two = [tf.gradients(tf.reduce_sum(part**2), variables) for part in parts]
        both = [tf.add_n(pair) for pair in zip(*two, strict=True)]
        got = model.run([whole, tf.concat(parts, 0), one, both])
    np.testing.assert_allclose(got[0], got[1], rtol=1e-5, atol=1e-7)
    for of_one, of_two in zip(got[2], got[3], strict=True):
        np.testing.assert_allclose(of_one, of_two, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_evaluation_is_deterministic(name: str) -> None:
    with built(name) as model:
        predictions = model.build(draw(name), NUM_FRAMES).predictions
        assert (model.run(predictions) == model.run(predictions)).all()


@pytest.mark.parametrize("name", ALL)
def test_training_draws_by_the_key_alone(name: str) -> None:
    """The same key gives the same predictions, another tower's another draw where the model draws."""
    from yt8m import random_keys

    with built(name) as model:
        outputs = []
        for tower in (0, 0, 1):
            with random_keys.scope(7, tf.constant(5, tf.int64), tower):
                outputs.append(model.build(draw(name), NUM_FRAMES, is_training=True).predictions)
        first, again, other = model.run(outputs)
    assert (first == again).all()
    assert (first != other).any() == CASES[name].random


@pytest.mark.parametrize("name", FRAME_LEVEL)
@pytest.mark.parametrize("is_training", [False, True])
def test_padding_changes_nothing(name: str, is_training: bool) -> None:
    x = draw(name)
    padded = np.concatenate([x, np.zeros((B, 4, D), np.float32)], 1)
    with built(name) as model:
        short = model.predict(x, NUM_FRAMES, is_training)
        np.testing.assert_allclose(
            model.predict(padded, NUM_FRAMES, is_training), short, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", FRAME_LEVEL)
def test_no_count_means_every_frame(name: str) -> None:
    x = draw(name)
    with built(name) as model:
        np.testing.assert_allclose(
            model.predict(x), model.predict(x, np.full(B, T, np.int32)), rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize("name", FRAME_LEVEL)
@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("frames", [0, 1])
def test_short_videos_survive(name: str, is_training: bool, frames: int) -> None:
    """A batch of nothing but videos of one frame, or of none."""
    x = draw(name)
    x[:, frames:] = 0
    with built(name) as model:
        output = model.build(x, np.full(B, frames, np.int32), is_training)
        gradients = tf.gradients(output.predictions, tf.trainable_variables())
        values = model.run([output.predictions, *map(tf.convert_to_tensor, gradients)])
    assert all(np.isfinite(value).all() for value in values)


@pytest.mark.parametrize("name", FRAME_LEVEL)
def test_order_of_frames(name: str) -> None:
    """It changes something where the model is sequential, and nothing where it is not."""
    x = draw(name)
    counts = np.full(B, T, np.int32)
    with built(name) as model:
        forward, backward = model.predict(x, counts), model.predict(x[:, ::-1].copy(), counts)
    difference = np.abs(forward - backward).max()
    assert difference > 1e-5 if CASES[name].ordered else difference < 1e-5
