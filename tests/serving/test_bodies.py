"""What bodies hold, or the sentence by which they are refused."""

from __future__ import annotations

import contextlib
import json
import re
import time

import fault_shards
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_records import frame_record, video_record
from serving.tiny_service import empty_fields

from yt8m.records import shards
from yt8m.records.shards import field, framed, int64_feature
from yt8m.serving.bodies import (
    JSON,
    RECORDS,
    BodyFeatures,
    BodyLimits,
    RefusedError,
    features_in,
    is_light,
    parse_body,
    records_in,
)

TWO, _LIMITS = BodyFeatures((("rgb", 2),)), BodyLimits(9, 9)
VIDEO = video_record(id=[b"x"], labels=[1], mean_rgb=np.ones(3))


def test_a_body_is_one_record_or_a_whole_file() -> None:
    assert records_in(VIDEO, BodyLimits(9, 9)) == [VIDEO]
    assert records_in(framed(VIDEO) * 3, BodyLimits(3, 9)) == [VIDEO] * 3


def frames(count: int, value: float) -> bytes:
    return frame_record({"id": [b"x"]}, {"RGB/feature/floats": [[0.0, value]] * count})


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"junk", 400, "record 0: no tf.train.Example or SequenceExample: a field of 117 bytes"),
        (b"\x12\x00", 400, "it holds no feature"),
        (framed(VIDEO)[:-1], 400, "record 0: it is cut short."),
        (framed(VIDEO) + b"more of it, and more", 400, "record 1: its length is damaged or cut short."),
        (framed(VIDEO)[:-6] + b"\0" * 6, 400, "record 0: its checksum is wrong."),
        (framed(VIDEO) * 4, 413, "more than 3 videos; a request may have 3 (--max_videos)."),
        (framed(b"") * 100_000, 413, "more than 3 videos"),
        (frames(5, 1.0), 413, "record 0: 5 frames; a video may have 4 (--max_frames)."),
        (
            frames(2, float("nan")),
            400,
            "record 0: feature 'RGB/feature/floats', frame 0: value 1 is nan; no value may be NaN, infinite",
        ),
        (
            video_record(mean_rgb=[1.0, float("inf")]),
            400,
            "feature 'mean_rgb', frame 0: value 1 is inf; no value may be NaN, infinite",
        ),
        (
            video_record(mean_rgb=[1.0, 1e38]),
            400,
            "feature 'mean_rgb', frame 0: value 1 is 1e+38; no value may be NaN, infinite or beyond 1e+16.",
        ),
        (fault_shards.cut_before_labels(), 400, "a field of 91 bytes at byte 2 runs past the end of 75."),
    ],
    # Records differ from process to process: a name that does not can be asked for.
    ids=[
        "junk",
        "no feature",
        "cut",
        "more",
        "checksum",
        "videos",
        "empty records",
        "frames",
        "NaN",
        "infinite",
        "huge",
        "before labels",
    ],
)
def test_bad_records_are_refused(body: bytes, status: int, text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        records_in(body, BodyLimits(3, 4))
    assert refused.value.status == status
    assert text in str(refused.value)


FIELDS = BodyLimits(3, 4).max_fields


@pytest.mark.parametrize(
    "body",
    [
        *(empty_fields(2 * FIELDS + 2, depth) for depth in range(6)),
        b"\x78\x00" * (FIELDS + 1),  # numbers that no message has
        field(1, field(1, field(2, int64_feature([1] * (FIELDS + 1))))),
        framed(field(1, field(1, field(2, int64_feature([1] * (FIELDS // 2)))))) * 3,
    ],
    ids=[*map(str, range(6)), "numbers", "labels", "together"],
)
@pytest.mark.promise("X6")
def test_work_is_bounded_before_it_begins(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of a few bytes a field would take minutes: they are refused before a parser sees all of them."""
    parsed, parse = [], shards.parse
    monkeypatch.setattr(shards, "parse", lambda record: parsed.append(len(record)) or parse(record))
    with pytest.raises(RefusedError, match=rf"too many .*fields.* {FIELDS}\b") as refused:
        records_in(body, BodyLimits(3, 4))
    assert refused.value.status == 413
    assert sum(parsed) < len(body) * 0.9


@pytest.mark.promise("X6")
@pytest.mark.parametrize("depth", range(6))
def test_a_light_body_is_parsed_soon(depth: int) -> None:
    """The event loop waits for it. The limit is ten times what the slowest takes: machines differ.

    The quickest of three counts: a garbage collection in a process of thousands of tests takes longer than a body.
    """
    body = empty_fields((8 << 10) - 40, depth)
    deep_json = b'{"videos": [' + b"[" * (31 << 10)
    for kind, content in ((RECORDS[0], body), (JSON, deep_json)):
        assert is_light(kind, content)
        seconds = []
        for _ in range(3):
            began = time.thread_time()
            with contextlib.suppress(RefusedError):
                parse_body(kind, content, TWO, BodyLimits(64, 300))
            seconds.append(time.thread_time() - began)
        assert min(seconds) < 0.08
    assert not is_light(RECORDS[0], body + bytes(41))
    assert not is_light(JSON, deep_json + bytes(1 << 10))


def test_the_largest_video_of_many_features_is_parsed() -> None:
    lists = {f"feature{number}": [[0.0]] * 300 for number in range(5)}
    record = frame_record({"id": [b"x"], "labels": list(range(30))}, lists)
    assert records_in(framed(record) * 2, BodyLimits(2, 300)) == [record] * 2


@given(st.binary(min_size=1, max_size=200))
def test_any_bytes_are_records_or_refused(body: bytes) -> None:
    with contextlib.suppress(RefusedError):
        assert records_in(body, BodyLimits(3, 4))


def test_features_come_as_rows_of_float32() -> None:
    videos = [{"id": "a", "rgb_and_audio": [[1, 2.5], [3, 4]]}, {"rgb_and_audio": [[0, 0]]}]
    ids, found = features_in(json.dumps({"videos": videos}).encode(), TWO, BodyLimits(9, 9))
    assert ids == ["a", ""]
    np.testing.assert_array_equal(found[0], np.array([[1, 2.5], [3, 4]], np.float32))
    assert [video.dtype for video in found] == [np.float32] * 2


def test_features_by_name_are_joined_in_the_order_of_the_model() -> None:
    features = BodyFeatures((("rgb", 2), ("audio", 1)))
    body = {"videos": [{"audio": [[5], [6]], "rgb": [[1, 2], [3, 4]]}, {"rgb_and_audio": [[7, 8, 9]]}]}
    _, found = features_in(json.dumps(body).encode(), features, BodyLimits(9, 9))
    np.testing.assert_array_equal(found[0], np.array([[1, 2, 5], [3, 4, 6]], np.float32))
    np.testing.assert_array_equal(found[1], np.array([[7, 8, 9]], np.float32))


def test_a_feature_of_whole_videos_is_one_vector() -> None:
    features = BodyFeatures((("copy", 2),), has_frames=False)  # a name that objects of pydantic have too
    _, found = features_in(b'{"videos": [{"copy": [1, 2]}, {"rgb_and_audio": [[3, 4], [5, 6]]}]}', features, _LIMITS)
    assert [video.tolist() for video in found] == [[[1, 2]], [[3, 4], [5, 6]]]
    with pytest.raises(RefusedError, match=r"videos\[0\]\.copy: 3 numbers.*\b2\b"):
        features_in(b'{"videos": [{"copy": [1, 2, 3]}]}', features, _LIMITS)


@pytest.mark.parametrize(
    ("video", "text"),
    [
        ({"rgb": [[1, 2]]}, "videos[0]: expected rgb, audio"),
        ({}, "videos[0]: expected rgb, audio"),
        ({"rgb": [[1, 2]], "audio": [[1]], "rgb_and_audio": [[1, 2, 3]]}, "videos[0]: expected rgb, audio"),
        ({"rgb": [[1, 2]], "audio": [[1], [2]]}, "videos[0]: rgb, audio have 1, 2 frames"),
        ({"rgb": [[1, 2]], "audio": [[1e38]]}, "videos[0].audio: "),
        ({"rgb": None, "audio": [[1]]}, "videos[0].rgb: Input should be a valid"),
        ({"sound": [[1]]}, "videos[0].sound"),
    ],
)
def test_features_that_do_not_fit_the_model_are_named(video: dict, text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        features_in(json.dumps({"videos": [video]}).encode(), BodyFeatures((("rgb", 2), ("audio", 1))), _LIMITS)
    assert refused.value.status == 400
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("videos", "status", "text"),
    [
        ([[[1, 2, 3]]], 400, "videos[0].rgb_and_audio[0]: 3 numbers; the model takes 2."),
        ([[[1, 2], [1]]], 400, "videos[0].rgb_and_audio[1]: 1 numbers"),
        ([[[1, 2]], [[1, float("nan")]]], 400, "videos[1].rgb_and_audio[0][1]: Input should be a finite"),
        (
            [[[1, 1e39]]],
            400,
            "videos[0].rgb_and_audio: frame 0, value 1 is inf; no value may be NaN, infinite or beyond",
        ),
        ([[[1, -1e38]]], 400, "videos[0].rgb_and_audio: frame 0, value 1 is -1e+38; no value may be NaN, infinite"),
        ([[[1, "2"]]], 400, "videos[0].rgb_and_audio[0][1]: Input should be a valid number"),
        ([[]], 400, "videos[0].rgb_and_audio: List should have at least 1 item"),
        ([], 400, "videos: List should have at least 1 item"),
        ([[[1, 2]]] * 4, 413, "4 videos; a request may have 3"),
        ([[[1, 2]] * 5], 413, "videos[0].rgb_and_audio: 5 frames; a video may have 4"),
        ([[["x"] * 9_000]], 413, "too many strings for a request of 3 videos"),
    ],
)
def test_bad_features_are_refused(videos: list, status: int, text: str) -> None:
    body = json.dumps({"videos": [{"rgb_and_audio": video} for video in videos]}).encode()
    with pytest.raises(RefusedError) as refused:
        features_in(body, TWO, BodyLimits(3, 4))
    assert refused.value.status == status
    assert text in str(refused.value)


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"video": []}', b"\xff\xfe", b"null"])
def test_other_json_is_refused(body: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        features_in(body, TWO, BodyLimits(3, 4))
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}", "a NumPy array (.npy)"),
        (b"id,label\na,cat\n", "a text file"),
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00" + b"\x00" * 40, "compressed by zip"),
        (b"\x08\x08\x12\x07pytorch\x1a\x052.1.0", "an ONNX file of a model"),
    ],
)
def test_a_body_that_is_another_file_is_called_what_it_is(body: bytes, what: str) -> None:
    with pytest.raises(RefusedError) as caught:
        records_in(body, BodyLimits(4, 300))
    assert caught.value.status == 400
    assert str(caught.value).startswith(f"the body is {what}: expected a serialized tf.train.Example")


def test_a_feature_that_the_model_lacks_is_refused_with_those_that_it_has() -> None:
    body = json.dumps({"videos": [{"id": "a", "rgbb": [1.0]}]}).encode()
    with pytest.raises(RefusedError) as caught:
        features_in(body, BodyFeatures((("rgb", 1), ("audio", 2)), False), BodyLimits(4, 300))
    assert re.fullmatch(r"videos\[0\]\.rgbb: .*rgb, audio, and perhaps id\.", str(caught.value))
