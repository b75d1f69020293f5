"""What a manifest says of its records: written, read, joined, refused; and values as bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.errors import RunError
from yt8m.records import data_format
from yt8m.records.data_format import PUBLISHED, DataFormat, FeatureFormat, Range, features_of

CLIP, AUDIO = FeatureFormat("clip", 16, (-1.5, 3.0)), FeatureFormat("audio", 4)
DATA = DataFormat("frame", (CLIP, AUDIO), False, 3, 300, (5, 0, 7))


def test_the_json() -> None:
    clip = {"name": "clip", "size": 16, "range": (-1.5, 3.0)}
    whole = {"level": "frame", "features": [clip, {"name": "audio", "size": 4}], "segment_labels": False}
    assert DATA.as_json() == {**whole, "num_classes": 3, "max_frames": 300, "positives": (5, 0, 7)}
    assert data_format.parse(DATA.as_json()) == DATA
    assert data_format.parse(whole) == DataFormat("frame", (CLIP, AUDIO))
    assert data_format.parse(whole | {"segment_labels": True}).segment_labels
    assert data_format.parse({"level": "video", "features": [clip], "new": 1}) == DataFormat("video", (CLIP,))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"level": "segment"}, "the level is 'segment', not video or frame"),
        ({"features": []}, "at least one feature"),
        ({"features": [{"name": "a", "size": 1}, {"name": "a", "size": 2}]}, "their names must differ"),
        ({"features": [{"name": "a", "size": 0}]}, "size is 0; expected at least 1"),
        ({"features": [{"name": "a"}]}, "feature a has no"),
        ({"features": [{"name": "a", "size": 1, "range": [2, 2]}]}, "feature a is [2, 2]"),
        ({"features": [{"name": "a", "size": 1, "range": [0, float("inf")]}]}, "feature a is ["),
        ({"features": [{"name": "a", "size": 1, "range": [float("-inf"), 0]}]}, "feature a is ["),
        ({"num_classes": 0}, "num_classes is 0"),
        ({"max_frames": -1}, "max_frames is -1"),
    ],
)
def test_what_is_no_format_is_refused(changed: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        data_format.parse(DATA.as_json() | changed)


def test_formats_are_joined() -> None:
    open_ended = DataFormat("frame", (CLIP, AUDIO), positives=(1, 2, 3, 4))
    assert data_format.joined([]) is None
    assert data_format.joined([("a", DATA)]) == DATA
    assert data_format.joined([("a", open_ended), ("b", DATA)]) == DATA._replace(positives=(6, 2, 10, 4))
    assert data_format.joined([("a", DATA._replace(positives=None)), ("b", DATA)]) == DATA._replace(positives=None)
    longer = DATA._replace(max_frames=400, positives=None)
    for both in ([("a", longer), ("b", DATA)], [("a", DATA), ("b", longer)]):
        assert data_format.joined(both) == longer


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (DATA._replace(level="video"), "level (frame and video)"),
        (DATA._replace(segment_labels=True), "segment_labels (False and True)"),
        (DATA._replace(num_classes=4), "num_classes (3 and 4)"),
        (DATA._replace(features=(CLIP,)), "the features (audio of 4 and none)"),
        (DATA._replace(features=(AUDIO, CLIP)), "the features (clip of 16 in -1.5..3 and audio of 4)"),
        (DATA._replace(features=(CLIP._replace(range=None), AUDIO)), "(clip of 16 in -1.5..3 and clip of 16)"),
    ],
)
def test_a_contradiction_is_refused(other: DataFormat, difference: str) -> None:
    silent = DATA._replace(num_classes=None, max_frames=None)  # says nothing that could differ, and hides nothing
    between = [("m", silent)] if other.features == DATA.features and other.level == "frame" else []
    with pytest.raises(RunError, match=r"^a and b .*differ") as refusal:
        data_format.joined([("a", DATA), *(between if not other.segment_labels else []), ("b", other)])
    assert difference in str(refusal.value)


@given(st.integers(1, 1 << 30), st.integers(1, 5000))
def test_a_default_batch_takes_at_most_512_mib_as_floats(values: int, most: int) -> None:
    count = data_format.videos_in_batch(values, most)
    assert 1 <= count <= most
    assert count * values * 4 <= 2**29 or count == 1
    assert count == most or (count.bit_count() == 1 and 2 * count * values * 4 > 2**29)


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_bytes_stand_for_the_nearest_of_256_values(low: float, span: float, shares: list[float]) -> None:
    bounds: Range = (low, low + span)
    values = low + span * np.array(shares)
    steps = low + np.arange(256) * span / 255 + span / 512  # the published formula
    nearest = np.abs(values[:, None] - steps).min(axis=1)
    found = data_format.quantized(values, bounds)
    assert found.dtype == np.uint8
    np.testing.assert_allclose(np.abs(values - steps[found]), nearest, atol=1e-9 * span)
    read = data_format.dequantized(found, bounds)
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, steps[found], rtol=1e-6, atol=1e-6 * (abs(low) + span))
    assert (data_format.quantized(np.array([low - 9 * span, low + 9 * span]), bounds) == [0, 255]).all()


def test_the_range_of_the_published_features() -> None:
    assert data_format.PUBLISHED == (-2, 2)
    every = np.arange(256, dtype=np.uint8)
    np.testing.assert_allclose(data_format.dequantized(every, (-2, 2)), every / 255 * 4 + 4 / 512 - 2, atol=1e-6)
    assert (data_format.quantized(data_format.dequantized(every, (-2, 2)), (-2, 2)) == every).all()


def test_features_have_the_given_ranges_or_those_of_youtube8m() -> None:
    assert features_of("frame", ["rgb", "mine"], [4, 2], [(-1.0, 3.0), ()]) == (
        FeatureFormat("rgb", 4, (-1.0, 3.0)),
        FeatureFormat("mine", 2, None),
    )
    assert features_of("frame", ["rgb"], [4]) == (FeatureFormat("rgb", 4, PUBLISHED),)
    assert features_of("video", ["mean_rgb"], [4]) == (FeatureFormat("mean_rgb", 4, None),)
