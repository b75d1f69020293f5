"""Weights in few bits: bounds of the error, sizes of the files, and every model read back from them."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest
from contract.model_cases import SIZES, C, T
from contract.model_session import tiny
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from laws import examples

from yt8m import graph, models
from yt8m.export.saved_model import ModelFacts, write_inference_model
from yt8m.export.small_weights import KINDS, pack
from yt8m.lazy import tf
from yt8m.video.modeler import VideoModeler

matrices = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=3), elements=st.floats(-100, 100, width=32))


@examples(50)
@given(matrices)
def test_a_byte_moves_a_weight_by_half_a_step_at_most(value: np.ndarray) -> None:
    packed = pack(value, "int8")
    assert packed.codes.dtype == np.uint8
    columns = value.reshape(-1, value.shape[-1])
    half = (columns.max(0) - columns.min(0)) / 255 / 2
    assert np.all(np.abs(packed.value() - value).reshape(columns.shape) <= half * 1.01 + 1e-5)
    half_float = pack(value, "float16")
    np.testing.assert_allclose(half_float.value(), value, rtol=2**-11, atol=1e-7)
    assert half_float.codes.nbytes * 2 == value.nbytes


def test_what_must_not_suffer_stays() -> None:
    for value in (np.ones(7, np.float32), np.ones((2, 2), np.int64), np.full((2, 2), 1e6, np.float32)):
        assert pack(value, "float16").codes is value
    assert pack(np.ones(7, np.float32), "int8").codes.dtype == np.float32
    assert pack(np.full((3, 2), 0.25, np.float32), "int8").value().tolist() == [[0.25] * 2] * 3


def predict(prefix: str, raw: np.ndarray, frames: np.ndarray) -> np.ndarray:
    with tf.Graph().as_default(), tf.Session() as session:
        ops, saver = graph.restore_predict(f"{prefix}.meta")
        saver.restore(session, prefix)
        return session.run(ops.predictions, {ops.input_batch_raw: raw, ops.num_frames: frames})


def size_of(prefix: str) -> int:
    return os.path.getsize(f"{prefix}.data-00000-of-00001")


def checkpoint_of(modeler: VideoModeler, has_frames: bool, path: pathlib.Path) -> str:
    """Random weights of a model, all of them off their initial values."""
    generator, width = np.random.default_rng(1), sum(modeler.feature_sizes)
    with tf.Graph().as_default(), tf.Session() as session:
        raw = tf.placeholder(tf.float32, [None, None, width] if has_frames else [None, width])
        modeler.predict_raw(raw, tf.placeholder(tf.int32, [None]))
        tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        for variable in tf.global_variables():
            if variable.dtype.base_dtype == tf.float32:
                value = session.run(variable)
                variable.load(value + 0.1 * np.abs(generator.normal(size=value.shape)), session)
        return tf.train.Saver().save(session, str(path / "model.ckpt-1"))


@pytest.mark.parametrize("name", ["LogisticModel", "MoeModel", "DbofModel", "LstmModel", "NetVladModel"])
@pytest.mark.heavy
def test_a_model_in_few_bits_predicts_nearly_the_same(name: str, tmp_path: pathlib.Path) -> None:
    has_frames = models.get(name).level == "frame"
    modeler = VideoModeler(tiny(name), None, C, feature_sizes=SIZES)
    checkpoint = checkpoint_of(modeler, has_frames, tmp_path)
    generator = np.random.default_rng(2)
    shape = (5, T, sum(SIZES)) if has_frames else (5, sum(SIZES))
    raw, frames = generator.normal(size=shape).astype(np.float32), np.full(5, T, np.int32)
    found, sizes = {}, {}
    for kind in KINDS:
        seen: list[int] = []
        prefix = write_inference_model(
            str(tmp_path / kind),
            checkpoint,
            modeler,
            ModelFacts(weights=kind),
            frame_features=has_frames,
            describe=lambda _, parameters, seen=seen: seen.append(parameters),
        )
        found[kind], sizes[kind] = predict(prefix, raw, frames), size_of(prefix)
        assert seen[0] > 0
    np.testing.assert_allclose(found["float16"], found["float32"], atol=2e-3)
    np.testing.assert_allclose(found["int8"], found["float32"], atol=3e-2)
    assert sizes["float16"] < sizes["float32"]


def test_the_file_shrinks_to_a_half_and_a_quarter(tmp_path: pathlib.Path) -> None:
    modeler = VideoModeler(models.create("LogisticModel"), None, 400, feature_sizes=(300,))
    checkpoint = checkpoint_of(modeler, False, tmp_path)
    sizes = {
        kind: size_of(
            write_inference_model(
                str(tmp_path / kind), checkpoint, modeler, ModelFacts(weights=kind), frame_features=False
            )
        )
        for kind in KINDS
    }
    assert sizes["float16"] / sizes["float32"] == pytest.approx(0.5, abs=0.01)
    assert sizes["int8"] / sizes["float32"] == pytest.approx(0.25, abs=0.02)
