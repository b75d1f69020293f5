"""What a model takes: joined frames in its own features, and what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.errors import UsageError
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring.model_input import ModelInput, batches_of

FEATURES = (FeatureFormat("b", 2), FeatureFormat("a", 3))


def takes(level: str) -> ModelInput:
    return ModelInput("m", DataFormat(level, FEATURES, num_classes=4), (), is_own=True, has_own_reader=False)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.sampled_from(["frame", "video"]))
def test_joined_frames_are_cut_into_the_features_of_the_model(lengths: list[int], level: str) -> None:
    """A model of frames gets them padded with zeros, a model of videos gets their means."""
    draw = np.random.default_rng(sum(lengths))
    videos = [draw.normal(size=(length, 5)).astype(np.float32) for length in lengths]
    batch = takes(level).batch_of_frames(videos)
    assert list(batch.features) == ["b", "a"]
    assert batch.num_frames.tolist() == (lengths if level == "frame" else [1] * len(lengths))
    for row, video in enumerate(videos):
        columns = {"b": video[:, :2], "a": video[:, 2:]}
        for name, values in columns.items():
            found = batch.features[name][row]
            if level == "video":
                np.testing.assert_allclose(found, [np.mean(column, dtype=float) for column in values.T], rtol=1e-6)
                continue
            np.testing.assert_array_equal(found[: len(video)], values)
            assert not found[len(video) :].any()
    assert batch.labels.shape == (len(videos), 4)


def test_a_batch_is_put_in_the_order_of_the_model() -> None:
    more = {"a": np.ones((2, 3)), "c": np.ones((2, 1)), "b": np.zeros((2, 2))}
    batch = takes("video").arranged(NumpyBatch(["x", "y"], more, np.ones(2), np.zeros((2, 0), bool)))
    assert {name: values.dtype for name, values in batch.features.items()} == {"b": np.float32, "a": np.float32}
    assert list(batch.features) == ["b", "a"]
    assert batch.labels.shape == (2, 4)


@pytest.mark.parametrize(
    ("level", "features", "labels", "what"),
    [
        ("video", {"a": (2, 3)}, (2, 4), r"video level.*b of 2, a of 3; .*\[2, 3\]"),
        ("frame", {"a": (2, 3), "b": (2, 2)}, (2, 4), r"frame level.*b of 2, a of 3\b"),
        ("frame", {"a": (7, 3), "b": (7, 2)}, (2, 4), r"one video.* \[1, 7, 2\], .*array\[np\.newaxis\]"),
        ("frame", {"a": (7, 9), "b": (7, 9)}, (2, 4), r"has a \[7, 9\], b \[7, 9\]\.$"),
        ("video", {"a": (2, 3), "b": (2, 2)}, (2, 5), r"labels .*\[2, 5\], .*\[2, 4\]"),
    ],
)
def test_what_does_not_fit_is_refused(
    level: str, features: dict[str, tuple[int, ...]], labels: tuple[int, int], what: str
) -> None:
    arrays = {name: np.zeros(shape, np.float32) for name, shape in features.items()}
    with pytest.raises(UsageError, match=what):
        takes(level).arranged(NumpyBatch(["x", "y"], arrays, np.ones(2), np.zeros(labels, bool)))


def test_whole_numbers_of_one_video_do_not_cut_the_fractions_of_another() -> None:
    (batch,) = batches_of({"x": [np.zeros((2, 3), np.int64), np.full((1, 3), 0.75, np.float32)]})
    assert batch.features["x"][1, 0].tolist() == [0.75] * 3
