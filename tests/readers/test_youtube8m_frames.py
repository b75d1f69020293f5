from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reader_records import Parsed, error_of, frame_record, read_shard

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers import YT8MFrameFeatureReader

SMALL: dict[str, Any] = {"num_classes": 10, "feature_sizes": (3, 2), "max_frames": 4}


def record(name: bytes = b"good", rgb: Any = 2, audio: Any = 2, **context: Any) -> bytes:
    """`rgb` and `audio` are numbers of frames, or the frames; None leaves the list out."""
    frames = {"rgb": _frames(rgb, 3), "audio": _frames(audio, 2)}
    return frame_record(
        {"id": [name], "labels": [1], **context}, {key: value for key, value in frames.items() if value is not None}
    )


def _frames(given_: Any, size: int) -> Any:
    if not isinstance(given_, int):
        return given_
    return (np.arange(given_ * size) % 251).astype(np.uint8).reshape(given_, size)


@pytest.mark.parametrize("max_frames", [30, pytest.param(300, marks=pytest.mark.heavy)])
def test_gives_the_recorded_batch(max_frames: int) -> None:
    data = np.load(golden("readers.npz"))
    reader = YT8MFrameFeatureReader(20, (16, 8), max_frames=max_frames)
    parsed = Parsed(reader)(read_shard(golden("tiny_frame.tfrecord")))
    np.testing.assert_array_equal(parsed["video_ids"].astype("S"), data[f"frame/max{max_frames}/video_ids"])
    for name in ("video_matrix", "labels", "num_frames"):
        recorded = data[f"frame/max{max_frames}/{name}"]
        np.testing.assert_array_equal(parsed[name], recorded)
        assert parsed[name].dtype == recorded.dtype
    longest = min(max_frames, data["frame/true_frames"].max())
    assert [one.shape for one in parsed["features"]] == [(8, longest, 16), (8, longest, 8)]
    assert {one.dtype for one in parsed["features"]} == {np.dtype(np.uint8)}


def test_segment_records_can_be_read_as_videos() -> None:
    data = np.load(golden("readers.npz"))
    parsed = Parsed(YT8MFrameFeatureReader(20, (16, 8), max_frames=60))(read_shard(golden("tiny_segment.tfrecord")))
    for name in ("video_matrix", "labels", "num_frames"):
        np.testing.assert_array_equal(parsed[name], data[f"segment_as_frame/max60/{name}"])


def test_unequal_numbers_of_frames_are_refused() -> None:
    """The published reader takes the first feature's number; the second is then padded or cut unseen."""
    for row, counts in enumerate([("10 frames of rgb", "12 of audio"), ("12 frames of rgb", "10 of audio")]):
        records = read_shard(golden("tiny_frame_mismatch.tfrecord"))[row : row + 1]
        message = error_of(YT8MFrameFeatureReader(20, (16, 8)), records)
        assert all(words in message for words in (f"X00{row}", *counts)), message


@given(st.lists(st.tuples(st.integers(0, 7), st.lists(st.integers(0, 9), max_size=4)), max_size=5))
@examples(40)
def test_what_is_written_is_read(videos: list[tuple[int, list[int]]]) -> None:
    records = [record(b"v%d" % n, count, count, labels=labels) for n, (count, labels) in enumerate(videos)]
    parsed = _parsed(records)
    kept = np.array([min(count, 4) for count, _ in videos], np.int32)
    np.testing.assert_array_equal(parsed["num_frames"], kept)
    longest = max(1, kept.max(initial=0))
    matrix = np.zeros([len(videos), 4, 5], np.float32)
    labels = np.zeros([len(videos), 10], bool)
    for row, (count, classes) in enumerate(videos):
        frames = np.concatenate([_frames(count, 3), _frames(count, 2)], axis=1)[:4]
        matrix[row, : kept[row]] = frames * np.float32(4 / 255) + np.float32(4 / 512 - 2)
        labels[row, classes] = True
        for raw, part in zip(parsed["features"], (frames[:, :3], frames[:, 3:]), strict=True):
            np.testing.assert_array_equal(raw[row, : kept[row]], part)
            assert not raw[row, kept[row] :].any()
    assert [one.shape for one in parsed["features"]] == [(len(videos), longest, n) for n in (3, 2)]
    np.testing.assert_allclose(parsed["video_matrix"], matrix, atol=1e-6)
    np.testing.assert_array_equal(parsed["labels"], labels)


_session: list[Parsed] = []


@pytest.fixture(scope="module", autouse=True)
def _one_session() -> Iterator[None]:
    with Parsed(YT8MFrameFeatureReader(**SMALL)) as parsed:
        _session.append(parsed)
        yield
    _session.clear()


def _parsed(records: list[bytes]) -> dict[str, Any]:
    return _session[0](records)


def test_a_huge_record_is_cut() -> None:
    parsed = _parsed([record(b"huge", 10_000, 10_000), record()])
    assert parsed["num_frames"].tolist() == [4, 2]
    assert parsed["features"][0].shape == (2, 4, 3)


def test_video_id_is_read_too_and_labels_may_be_missing() -> None:
    frames = {"rgb": _frames(2, 3), "audio": _frames(2, 2)}
    parsed = _parsed([frame_record({"video_id": [b"old"]}, frames)])
    assert parsed["video_ids"].tolist() == [b"old"]
    assert not parsed["labels"].any()


@pytest.mark.parametrize("length", [3, 6])
def test_float_features_are_not_dequantised(length: int) -> None:
    reader = YT8MFrameFeatureReader(10, (3, 2), ("RGB/feature/floats", "AUDIO/feature/floats"), max_frames=4)
    rgb, audio = (np.random.default_rng(n).normal(size=[length, n]).astype(np.float32) for n in (3, 2))
    frames = {"RGB/feature/floats": rgb, "AUDIO/feature/floats": audio}
    parsed = Parsed(reader)([frame_record({"id": [b"mine"]}, frames)])
    kept = min(length, 4)
    np.testing.assert_array_equal(parsed["features"][0][0], rgb[:4])
    np.testing.assert_array_equal(parsed["video_matrix"][0, :kept], np.concatenate([rgb, audio], 1)[:4])
    assert not parsed["video_matrix"][0, kept:].any()


def test_ranges_say_what_is_stored_and_what_bytes_stand_for() -> None:
    ranges = [(-1.0, 7.0), (), (-2.0, 2.0)]
    reader = YT8MFrameFeatureReader(10, (3, 2, 2), ("a", "b", "c"), max_frames=4, feature_ranges=ranges)
    a, c = (np.random.default_rng(size).integers(0, 256, [2, size], np.uint8) for size in (3, 2))
    b = np.random.default_rng(9).normal(size=[2, 2]).astype(np.float32)
    parsed = Parsed(reader)([frame_record({"id": [b"mine"]}, {"a": a, "b": b, "c": c})])
    assert [one.dtype for one in parsed["features"]] == [np.float32, np.float32, np.uint8]
    expected = [a * (8 / 255) + 8 / 512 - 1, b, c / 255 * 4 + 4 / 512 - 2]
    np.testing.assert_allclose(parsed["video_matrix"][0, :2], np.concatenate(expected, 1), rtol=1e-5, atol=1e-6)
    assert not parsed["video_matrix"][0, 2:].any()  # also frames of the dequantised feature that do not exist


def test_as_many_ranges_as_features() -> None:
    with pytest.raises(UsageError, match="rgb,audio"):
        YT8MFrameFeatureReader(feature_ranges=[(-1, 1)])


def test_static_shapes() -> None:
    with tf.Graph().as_default():
        reader = YT8MFrameFeatureReader()
        batch = reader.prepare_serialized_examples(tf.placeholder(tf.string, [None]))
        assert reader.video_matrix(batch).shape.as_list() == [None, 300, 1152]
    assert [one.shape.as_list() for one in batch.features] == [[None, None, 1024], [None, None, 128]]


BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"rgb": 2, "audio": 3}, ["2 frames of rgb", "3 of audio"]),
    ({"rgb": 2, "audio": None}, ["2 frames of rgb", "0 of audio", "missing"]),
    ({"rgb": None, "audio": None}, ["'audio'", "could not be found"]),
    ({"rgb": np.zeros([2, 4], np.uint8)}, ["feature rgb", "frame 0", "4 bytes", "expected 3"]),
    ({"rgb": [[b"abc"], [b"de"]]}, ["feature rgb", "frame 1", "2 bytes", "expected 3"]),
    ({"rgb": [[b"abc"], [b"abc", b"def"]]}, ["feature rgb", "frame 1", "2 strings", "expected 1"]),
    ({"rgb": [[], [b"abc"]]}, ["feature rgb", "frame 0", "0 strings", "expected 1"]),
    ({"rgb": [[0.1, 0.2, 0.3]] * 2}, ["rgb", "types don't match"]),
    ({"labels": [3, 10]}, ["label 10 ", "0..9", "num_classes=10"]),
    ({"labels": [-2]}, ["label -2 ", "0..9"]),
]


@pytest.mark.parametrize(("changes", "expected"), BAD)
def test_a_wrong_record_is_named(changes: dict[str, Any], expected: list[str]) -> None:
    message = _session[0].error_of([record(), record(b"bad!", **changes)])
    assert [words for words in ["bad!", *expected] if words not in message] == [], message


def test_a_float_frame_of_another_size_is_named() -> None:
    reader = YT8MFrameFeatureReader(10, (3,), ("RGB/feature/floats",))
    frames = {"RGB/feature/floats": [[1.0, 2.0, 3.0], [1.0, 2.0]]}
    message = error_of(reader, [frame_record({"id": [b"mine"]}, frames)])
    expected = ["RGB/feature/floats", "mine", "frame 1", "2 values", "expected 3"]
    assert [words for words in expected if words not in message] == [], message


def test_settings_below_one_are_refused() -> None:
    with pytest.raises(UsageError, match="--max_frames is 0"):
        YT8MFrameFeatureReader(max_frames=0)
