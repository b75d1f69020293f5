"""Video-level records: what is parsed, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reader_records import Parsed, error_of, read_shard, video_record

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers import YT8MAggregatedFeatureReader

SMALL: dict[str, Any] = {"num_classes": 10, "feature_sizes": (3, 2)}


def record(**changes: Any) -> bytes:
    values = {"id": [b"abcd"], "labels": [1], "mean_rgb": [0.5, 1.5, 2.5], "mean_audio": [3.5, 4.5]}
    return video_record(**{**values, **changes})


def test_gives_the_recorded_batch() -> None:
    data = np.load(golden("readers.npz"))
    parsed = Parsed(YT8MAggregatedFeatureReader(20, (16, 8)))(read_shard(golden("tiny_video.tfrecord")))
    np.testing.assert_array_equal(parsed["video_ids"].astype("S"), data["video/video_ids"])
    np.testing.assert_array_equal(parsed["video_matrix"], data["video/video_matrix"])
    np.testing.assert_array_equal(parsed["labels"], data["video/labels"])
    np.testing.assert_array_equal(parsed["num_frames"], data["video/num_frames"])
    assert parsed["labels"].dtype == bool
    assert "label_weights" not in parsed


def test_reads_one_feature_of_two() -> None:
    data = np.load(golden("readers.npz"))
    reader = YT8MAggregatedFeatureReader(20, [8], ["mean_audio"])
    parsed = Parsed(reader)(read_shard(golden("tiny_video.tfrecord")))
    np.testing.assert_array_equal(parsed["video_matrix"], data["video/audio_only/video_matrix"])


def test_bytes_are_dequantised_to_their_range() -> None:
    reader = YT8MAggregatedFeatureReader(**SMALL, feature_ranges=[(-1.0, 7.0), ()])
    codes = np.array([0, 100, 255], np.uint8)
    parsed = Parsed(reader)([record(mean_rgb=[codes.tobytes()])])
    expected = np.append(codes * (8 / 255) + 8 / 512 - 1, [3.5, 4.5])
    np.testing.assert_allclose(parsed["video_matrix"], [expected], rtol=1e-5, atol=1e-6)
    short = error_of(reader, [record(mean_rgb=[b"ab"])])
    assert "video abcd: feature mean_rgb has 2 bytes, expected 3" in short


def test_static_shapes() -> None:
    with tf.Graph().as_default():
        batch = YT8MAggregatedFeatureReader().prepare_serialized_examples(tf.placeholder(tf.string, [None]))
    assert [one.shape.as_list() for one in batch.features] == [[None, 1024], [None, 128]]
    assert batch.labels.shape.as_list() == [None, 3862]
    assert batch.num_frames.dtype == tf.int32


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=8),
            st.sampled_from(["id", "video_id"]),
            st.none() | st.lists(st.integers(0, 9), max_size=12),
            st.lists(st.floats(-(2.0**53), 2.0**53, width=32), min_size=5, max_size=5),
        ),
        max_size=6,
    )
)
@examples(40)
def test_what_is_written_is_read(videos: list[tuple[bytes, str, list[int] | None, list[float]]]) -> None:
    records = [
        video_record(labels=labels, mean_rgb=values[:3], mean_audio=values[3:], **{key: [name]})
        for name, key, labels, values in videos
    ]
    parsed = _parsed(records)
    assert parsed["video_ids"].tolist() == [name for name, *_ in videos]
    matrix = np.array([values for *_, values in videos], np.float32).reshape(-1, 5)
    np.testing.assert_array_equal(parsed["video_matrix"], matrix)
    expected = np.zeros([len(videos), 10], bool)
    for row, (_, _, labels, _) in enumerate(videos):
        expected[row, labels or []] = True
    np.testing.assert_array_equal(parsed["labels"], expected)


_session: list[Parsed] = []


@pytest.fixture(scope="module", autouse=True)
def _one_session() -> Iterator[None]:
    with Parsed(YT8MAggregatedFeatureReader(**SMALL)) as parsed:
        _session.append(parsed)
        yield
    _session.clear()


def _parsed(records: list[bytes]) -> dict[str, Any]:
    return _session[0](records)


def test_id_goes_before_video_id() -> None:
    assert _parsed([record(video_id=[b"other"])])["video_ids"].tolist() == [b"abcd"]


def test_an_id_with_commas_quotes_and_other_scripts_stays_as_it_is() -> None:
    name = 'a,"b",日本'.encode()
    assert _parsed([record(id=[name])])["video_ids"].tolist() == [name]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"labels": [1, 10]}, ["label 10 ", "video bad!", "0..9", "num_classes=10"]),
        ({"labels": [-1]}, ["label -1 ", "video bad!", "0..9", "num_classes=10"]),
        ({"mean_rgb": [1.0, 2.0]}, ["mean_rgb", "video bad!", "2 values", "expected 3"]),
        ({"mean_audio": [1.0] * 4}, ["mean_audio", "video bad!", "4 values", "expected 2"]),
        ({"mean_audio": None}, ["mean_audio", "video bad!", "0 values", "expected 2"]),
        ({"mean_audio": [1, 2]}, ["mean_audio", "bad!", "int64", "float"]),
        ({"id": None}, ["record 1 of the batch", "video_id"]),
    ],
)
def test_a_wrong_record_is_named(changes: dict[str, Any], expected: list[str]) -> None:
    message = _session[0].error_of([record(), record(**{"id": [b"bad!"], **changes})])
    assert [words for words in expected if words not in message] == [], message


def test_what_is_no_proto_is_refused() -> None:
    assert "Invalid protocol message" in _session[0].error_of([record(), b"\xff\xff junk"])


@pytest.mark.parametrize(
    ("settings_", "expected"),
    [
        ({"feature_sizes": (3,)}, "--feature_names has 2 .*--feature_sizes 1"),
        ({"feature_sizes": (), "feature_names": ()}, "has 0 entries"),
        ({"feature_sizes": (3, 0)}, "--feature_sizes=3,0"),
        ({"num_classes": 0}, "--num_classes is 0"),
        ({"feature_names": ("mean_rgb", "mean_rgb")}, "twice"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings_: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        YT8MAggregatedFeatureReader(**{**SMALL, **settings_})
