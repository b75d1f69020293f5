"""What `yt8m verify --deep` calls sound is what the readers of the graph accept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fault_shards
import numpy as np
import pytest
from fault_shards import CLASSES, LEVELS, frames, video
from faults import mutations
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.readers.damage import RecordCheck
from yt8m.records import shards
from yt8m.records.deep_check import DeepCheck
from yt8m.records.shards import bytes_feature, float_feature, frame_features, int64_feature

RGB, AUDIO = np.full([2, 3], 200, np.uint8), np.full([2, 2], 100, np.uint8)
FLOATS = [float_feature([1.0, 2.0, 3.0])] * 2
PLACES = st.integers(0, 1 << 20)
CHANGES = st.builds(
    mutations.Change, st.sampled_from(mutations.KINDS), PLACES, PLACES, st.binary(min_size=1, max_size=20)
)


@pytest.fixture(scope="module")
def readers() -> Iterator[dict[str, RecordCheck]]:
    checks = {level: mutations.parser(level) for level in LEVELS}
    for level, check in checks.items():
        assert check.first_bad(fault_shards.sound(level)) is None  # opens its session
    yield checks
    for check in checks.values():
        check.close()


def problems(level: str, payload: bytes) -> list[str]:
    """What `verify --deep` says of a record that comes after a sound one, as in a shard without a manifest."""
    check = DeepCheck({}, CLASSES)
    assert check.problems(fault_shards.record(level, b"first"), "record 0") == []
    return check.problems(payload, "record 1")


def example(**context: Any) -> bytes:
    """A video whose entries are replaced."""
    whole = {"id": bytes_feature(b"odd"), "labels": int64_feature([1]), "mean_rgb": float_feature([0.5, -1.0, 2.0])}
    return shards.example({**whole, "mean_audio": float_feature([1.0, 0.0]), **context})


def sequence(rgb: list[bytes] | None = None, **context: Any) -> bytes:
    """Two frames whose context or pictures are replaced."""
    ratings = {name: int64_feature([1]) for name in ("segment_start_times", "segment_labels")}
    whole = {"id": bytes_feature(b"odd"), **ratings, "segment_scores": float_feature([1.0])}
    lists = {"rgb": frame_features(RGB) if rgb is None else rgb, "audio": frame_features(AUDIO)}
    return shards.sequence_example({**whole, **context}, lists)


@pytest.mark.promise("I4")
@pytest.mark.promise("I6")
@pytest.mark.parametrize(
    ("level", "payload", "words"),
    [
        ("video", example(id=bytes_feature(b"a", b"b")), "id holds 2 values of type bytes"),
        ("video", example(id=int64_feature([7])), "id holds 1 values of type int64"),
        ("video", example(mean_rgb=bytes_feature(b"abc")), "mean_rgb holds values of type bytes, expected float"),
        ("video", example(mean_rgb=int64_feature([1, 2, 3])), "mean_rgb holds values of type int64, expected float"),
        ("video", example(labels=float_feature([1.0])), "labels holds values of type float"),
        ("video", example(labels=bytes_feature(b"cat")), "labels holds values of type bytes, such as 'cat'; expected"),
        ("frame", sequence(rgb=FLOATS), "rgb, frame 0, holds values of type float, expected bytes"),
        ("frame", sequence(rgb=[frame_features(RGB)[0], FLOATS[0]]), "rgb, frame 1, holds values of type float"),
        ("frame", sequence(rgb=[bytes_feature(b"ab", b"c")] * 2), "rgb, frame 0, has 2 strings of bytes, expected 1"),
        ("segment", sequence(segment_start_times=int64_feature([-1 % 2**64])), "segment_start_times has -1"),
        ("segment", sequence(segment_scores=float_feature([1.5])), "segment_scores has 1.5; expected 0 to 1"),
        ("segment", sequence(segment_scores=int64_feature([1])), "segment_scores holds values of type int64"),
    ],
)
def test_what_the_readers_refuse_is_not_sound(
    readers: dict[str, RecordCheck], level: str, payload: bytes, words: str
) -> None:
    assert readers[level].first_bad([payload]) is not None
    assert words in " ".join(problems(level, payload))


def test_sound_records_are_sound_for_both(readers: dict[str, RecordCheck]) -> None:
    for level, payload in (("video", example()), ("frame", sequence()), ("segment", sequence())):
        assert readers[level].first_bad([payload]) is None
        assert problems(level, payload) == []


@pytest.mark.promise("I4")
@given(st.sampled_from(LEVELS), st.lists(CHANGES, min_size=1, max_size=3))
@examples(150)
def test_a_changed_record_that_is_sound_can_be_read(
    readers: dict[str, RecordCheck], level: str, changes: list[mutations.Change]
) -> None:
    payload = fault_shards.record(level, b"abcd")
    for change in changes:
        payload = change.of(payload)
    if not problems(level, payload):
        assert readers[level].first_bad([payload]) is None


def test_without_a_manifest_types_are_those_of_the_first_record() -> None:
    """A data set may hold floats in its frames, and context that is no feature."""
    check = DeepCheck({}, CLASSES)
    for number in range(2):
        assert check.problems(sequence(rgb=FLOATS, id=bytes_feature(b"%d" % number)), f"record {number}") == []
    check.begin_shard()
    for number in range(2, 4):
        context = {"id": bytes_feature(b"%d" % number), "timestamps": int64_feature(range(number))}
        assert check.problems(example(**context), f"record {number}") == []


def test_a_record_of_another_level_than_the_first_is_not_sound() -> None:
    assert "it is a video-level record, expected frame level" in problems("frame", video(b"odd"))[0]
    assert "it is a frame-level record, expected video level" in problems("video", frames(b"odd"))[0]
