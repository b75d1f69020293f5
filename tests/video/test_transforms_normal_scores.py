"""The transform by normal scores: straight lines between its knots, its padding, and its variables."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.records.normal_scores import KNOTS, DrawnRows, NormalScores
from yt8m.video import fitted_transforms, transforms


def statistics_of(values: np.ndarray) -> NormalScores:
    rows = DrawnRows()
    rows.add(values)
    return rows.statistics()


def transformed(raw: np.ndarray, statistics: NormalScores | None, lengths: list[int] | None = None) -> np.ndarray:
    with tf.Graph().as_default(), tf.Session() as session:
        values = transforms.transform(
            "normal_scores", tf.constant(raw), (), None if lengths is None else tf.constant(lengths), statistics
        )
        session.run(tf.global_variables_initializer())
        assert [(v.op.name, v.trainable, v.shape.rank) for v in tf.global_variables()] == [
            ("normal_scores/knots", False, 1),
            ("normal_scores/scores", False, 1),
        ]
        found: np.ndarray = session.run(values)
        return found


def by_numpy(raw: np.ndarray, statistics: NormalScores) -> np.ndarray:
    knots, scores = (array.reshape(-1, KNOTS) for array in statistics)
    return np.stack([np.interp(raw[..., k], knots[k], scores[k]) for k in range(raw.shape[-1])], -1)


@pytest.mark.parametrize("shape", [(50, 6), (5, 4, 6)])
def test_a_value_has_the_score_between_those_of_its_knots(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(300, 6)).astype(np.float32)
    values[:, 1] = np.exp(4 * values[:, 1])
    values[::50, 2] *= 1e6
    values[:, 3] = values[:, 3] > 2
    values[:, 4] = 7
    values[:, 5] = 1e6 + values[:, 5]
    statistics = statistics_of(values)
    raw = np.resize(values * np.float32([1, 1, 1, 1, 1, 1.0000002]), shape)
    raw[0] = 1e30  # beyond every knot
    found = transformed(raw, statistics)
    np.testing.assert_allclose(found, by_numpy(raw, statistics), atol=1e-5)
    assert np.abs(found).max() < 20
    assert not found[..., 4].any()


def test_the_padding_of_frames_stays_zero() -> None:
    draw = np.random.default_rng(1)
    statistics, raw = statistics_of(draw.normal(2, 1, (90, 3)).astype("f")), np.zeros((2, 4, 3), np.float32)
    found = transformed(raw, statistics, [3, 0])
    np.testing.assert_allclose(found[0, :3], np.stack([by_numpy(np.zeros(3), statistics)] * 3), atol=1e-5)
    assert not found[0, 3].any()
    assert not found[1].any()


def test_a_graph_without_statistics_has_the_variables_that_a_checkpoint_fills() -> None:
    assert not transformed(np.ones((2, 3), np.float32), None).any()


def test_every_such_transform_is_a_choice_of_the_models() -> None:
    from yt8m.models.base import INPUT_TRANSFORMS

    assert {*fitted_transforms.NAMES, *transforms._TRANSFORMS} == {*INPUT_TRANSFORMS}
