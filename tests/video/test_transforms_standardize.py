"""The transform that standardises: its formula, its padding, and its variables, which a checkpoint has."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m import deploy, models
from yt8m.graph.inputs import split_batch
from yt8m.graph.towers import build_towers
from yt8m.lazy import tf
from yt8m.numerics import whole_blocks
from yt8m.records.input_statistics import InputStatistics
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler

STATISTICS = InputStatistics(np.array([1, -2, 3], np.float32), np.array([2, 0.5, 0], np.float32))


def modeler_of(name: str, statistics: InputStatistics | None = STATISTICS) -> VideoModeler:
    model = models.create(name, {"input_transform": "standardize"})
    modeler = VideoModeler(model, None, 4, feature_sizes=(2, 1))
    modeler.input_statistics = statistics
    return modeler


def test_videos_are_standardised_and_constant_values_are_zero() -> None:
    raw = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        ops = modeler_of("LogisticModel").predict_placeholders(has_frames=False)
        session.run(tf.global_variables_initializer())
        found = session.run(ops.input_batch, {ops.input_batch_raw: raw, ops.num_frames: np.ones(5)})
        names = {variable.op.name: variable.trainable for variable in tf.global_variables()}
    expected = np.stack([(raw[:, 0] - 1) / 2, (raw[:, 1] + 2) / 0.5, np.zeros(5)], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not names["tower/standardize/mean"]
    assert not names["tower/standardize/deviation"]


def test_the_padding_of_frames_stays_zero_and_a_frame_of_zeros_does_not() -> None:
    raw = np.zeros((2, 3, 3), np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        ops = modeler_of("FrameLevelLogisticModel").predict_placeholders(has_frames=True)
        session.run(tf.global_variables_initializer())
        found = session.run(ops.input_batch, {ops.input_batch_raw: raw, ops.num_frames: [2, 0]})
    np.testing.assert_allclose(found[0, :2], [[-0.5, 4, 0]] * 2)
    assert not found[0, 2].any()
    assert not found[1].any()


def test_towers_share_the_statistics() -> None:
    features = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        parts = tf.constant(features[:, :2]), tf.constant(features[:, 2:])
        batch = Batch(tf.fill([6], ""), parts, tf.ones([6], tf.int32), tf.zeros([6, 4], tf.bool))
        deployment = deploy.DeploymentConfig(2, clone_on_cpu=True)
        shares = split_batch(batch, 2)
        towers = build_towers(
            modeler_of("LogisticModel"), deployment, shares, mode="infer", seed=0, step=tf.zeros([], tf.int64)
        )
        names = [variable.op.name for variable in tf.global_variables()]
        session.run(tf.global_variables_initializer())
        whole_blocks.fill(session)
        assert session.run(towers.predictions()).shape == (6, 4)
    assert sorted(names) == sorted(set(names))
    assert names.count("tower/standardize/mean") == 1


def test_without_statistics_the_variables_change_nothing_until_a_checkpoint_is_read() -> None:
    raw = np.random.default_rng(2).normal(size=(2, 3)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        ops = modeler_of("LogisticModel", None).predict_placeholders(has_frames=False)
        session.run(tf.global_variables_initializer())
        found = session.run(ops.input_batch, {ops.input_batch_raw: raw, ops.num_frames: [1, 1]})
    np.testing.assert_array_equal(found, raw)


def test_a_class_attribute_of_a_model_of_the_user_is_its_transform() -> None:
    from dataclasses import dataclass

    from yt8m.models.video_level import LogisticModel

    @dataclass(frozen=True)
    class Raw(LogisticModel):
        input_transform = "raw"

    assert Raw().input_transform == "raw"
    assert Raw(input_transform="standardize").input_transform == "standardize"
    with pytest.raises(Exception, match="input_transform"):
        LogisticModel(input_transform="no such")
