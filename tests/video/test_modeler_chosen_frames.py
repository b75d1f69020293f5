"""A model that takes but some frames is given these alone, and they are what they would be among all."""

from __future__ import annotations

import contextlib
from typing import Any

import cases
import numpy as np
import pytest

from yt8m import losses, models
from yt8m.config.run_options import AugmentConfig
from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.numerics import random_keys
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler
from yt8m.video.teachers import TrainingModeler

SIZES, ROWS, FRAMES, CLASSES = (6, 3), 5, 11, 4
NUM_FRAMES = [11, 0, 1, 4, 7]
SAMPLING = {
    "DbofModel": {"iterations": 4, "dbof_cluster_size": 8, "dbof_hidden_size": 5},
    "GatedDbofModel": {"iterations": 4, "dbof_cluster_size": 8, "dbof_hidden_size": 5},
    "LstmModel": {"sequence_frames": 3, "lstm_cells": 4, "lstm_layers": 1},
}


def batch(dtype: Any, sizes: tuple[int, ...] = SIZES) -> Batch:
    """Padding holds what no frame does, so that taking some of it shows."""
    draw = np.random.default_rng(1)
    features = [draw.integers(0, 256, (ROWS, FRAMES, size)) for size in sizes]
    labels = draw.random((ROWS, CLASSES)) < 0.5
    placed = tuple(tf.constant(feature.astype(dtype)) for feature in features)
    ids, counts = tf.fill([ROWS], "v"), tf.constant(NUM_FRAMES, tf.int32)
    return Batch(ids, placed, counts, tf.constant(labels))


def built(name: str, dtype: Any, *, is_training: bool) -> tuple[tf.Tensor, ...]:
    """Predictions and gradients, with fixed weights."""
    modeler = VideoModeler(models.create(name, SAMPLING[name]), losses.create("CrossEntropyLoss"), CLASSES, 4, SIZES)
    tf.set_random_seed(3)
    with random_keys.scope(7, tf.zeros([], tf.int64)):
        output = modeler.build(batch(dtype), is_training)
    found = (output.predictions,)
    return found + tuple(tf.gradients(output.loss, tf.trainable_variables())) if is_training else found


@pytest.mark.parametrize("is_training", cases.all_of([True], heavy=[False]))
@pytest.mark.parametrize("dtype", [np.uint8, pytest.param(np.float32, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("name", cases.only(SAMPLING, ["DbofModel"]))
def test_equal_those_among_all(name: str, dtype: Any, is_training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for build_on_demand in (frames.build_on_demand, lambda *_: contextlib.nullcontext()):
        monkeypatch.setattr(frames, "build_on_demand", build_on_demand)
        with tf.Graph().as_default(), tf.Session() as session:
            fetches = built(name, dtype, is_training=is_training)
            session.run(tf.global_variables_initializer())
            found.append(session.run(fetches))
    for alone, among_all in zip(*found, strict=True):
        np.testing.assert_allclose(alone, among_all, rtol=1e-4, atol=1e-6)


class Padded(models.BaseModel):
    """Asks for frames that are padding, too."""

    level = "frame"

    def forward(self, net: Any, inputs: tf.Tensor, vocab_size: int, num_frames: Any) -> ModelOutput:
        numbers = tf.tile([[0, 10, 3]], [tf.shape(num_frames)[0], 1])
        return ModelOutput(frames.pick(inputs, numbers)[:, :, 0])


@pytest.mark.parametrize("transform", ["l2_normalize", "reverse_whitening", "raw"])
def test_padding_is_zero(transform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Padded, "input_transform", transform)
    with tf.Graph().as_default(), tf.Session() as session:
        given = batch(np.uint8) if transform != "reverse_whitening" else batch(np.uint8, (1024, 3))
        modeler = VideoModeler(Padded(), None, CLASSES, 4, tuple(int(f.shape[-1]) for f in given.features))
        found = session.run(modeler.build(given, is_training=False).predictions)
    is_real = np.array([0, 10, 3]) < np.array(NUM_FRAMES)[:, None]
    np.testing.assert_array_equal(found != 0, is_real)


def test_no_other_frame_is_made() -> None:
    with tf.Graph().as_default() as graph:
        (predictions,) = built("DbofModel", np.uint8, is_training=False)
        needed = tf.graph_util.extract_sub_graph(graph.as_graph_def(add_shapes=True), [predictions.op.name])
    shapes = {
        tuple(size.size for size in shape.dim)
        for node in needed.node
        if node.op == "Cast" and node.attr["SrcT"].type == tf.uint8.as_datatype_enum
        for shape in node.attr["_output_shapes"].list.shape
    }
    assert shapes == {(ROWS, 4, sum(SIZES))}


def test_other_inputs_are_taken_as_they_are() -> None:
    inputs, other = np.arange(12.0, dtype=np.float32).reshape(2, 3, 2), np.zeros((2, 3, 2), np.float32)
    numbers = [[2, 0], [1, 1]]
    with tf.Graph().as_default(), tf.Session() as session:
        given, unlike = tf.constant(inputs), tf.constant(other)
        with frames.build_on_demand(unlike, unlike, lambda _: tf.fill([2, 2, 2], 7.0)):
            fetches = frames.pick(given, tf.constant(numbers)), frames.pick(unlike, tf.constant(numbers))
        found = session.run([*fetches, frames.pick(unlike, tf.constant(numbers))])
    np.testing.assert_array_equal(found[0], np.stack([inputs[0][[2, 0]], inputs[1][[1, 1]]]))
    assert (found[1] == 7).all()
    assert (found[2] == 0).all()


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("DbofModel", {"iterations": 30}, True),
        ("DbofModel", {"iterations": 200}, False),
        ("LstmModel", {}, False),
        ("LstmModel", {"sequence_frames": 50}, True),
        ("MoeModel", {}, False),
    ],
)
def test_a_training_reads_parts_of_a_batch_if_the_model_picks_few_frames(
    name: str, settings: dict[str, Any], expected: bool
) -> None:
    model = models.create(name, settings)
    assert VideoModeler(model, None, 3).reads_parts is expected
    assert not VideoModeler(frames.with_video_means(model), None, 3).reads_parts
    teaching = {"teacher": None, "distill_weight": 0.0}
    plain = TrainingModeler(model, None, 3, augmentation=AugmentConfig(), **teaching)
    assert plain.reads_parts is expected
    changed = TrainingModeler(model, None, 3, augmentation=AugmentConfig(augment_noise=0.1), **teaching)
    assert not changed.reads_parts
