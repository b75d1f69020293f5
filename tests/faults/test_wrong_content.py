"""Records of other content than expected: the message names what, where, and what was expected."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import fault_shards
import numpy as np
import pytest
from fault_shards import frames, ids_read, queue, video
from faults import mutations

from yt8m.lazy import tf
from yt8m.readers import YT8MFrameFeatureReader, ZeroedCount
from yt8m.readers.damage import RecordCheck, find_damage
from yt8m.records import shards
from yt8m.records.shards import LARGEST

NAN = float("nan")


@pytest.fixture(scope="module")
def parsers() -> Iterator[dict[str, RecordCheck]]:
    """What finds the bad record when the graph has failed; a graph each, opened here."""
    found = {level: mutations.parser(level) for level in fault_shards.LEVELS}
    for level, parser in found.items():
        assert parser.first_bad(fault_shards.sound(level, 2)) is None
    yield found
    for parser in found.values():
        parser.close()


@pytest.mark.promise("I4")
@pytest.mark.promise("I5")
@pytest.mark.parametrize(
    ("level", "bad", "words"),
    [
        ("video", video(b"odd", mean_rgb=[1.0]), ("odd", "mean_rgb has 1 values, expected 3")),
        ("video", video(b"odd", mean_audio=None), ("odd", "mean_audio has 0 values, expected 2", "missing")),
        ("frame", frames(b"odd", 3, 4), ("odd", "3 frames of rgb and 4 of audio")),
        pytest.param(
            "frame",
            frames(b"odd", sizes=(3, 5)),
            ("odd", "audio, frame 0, has 5 bytes, expected 2"),
            marks=pytest.mark.heavy,
        ),
        ("segment", frames(b"odd", 4, None, rated=True), ("odd", "4 frames of rgb and 0 of audio", "missing")),
        ("frame", video(b"whole"), ("it is a video-level record", "but frame-level records are expected")),
        pytest.param(
            "segment",
            video(b"whole"),
            ("it is a video-level record", "but frame-level records are expected"),
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            "video",
            video("é\udcff".encode("utf-8", "surrogateescape"), mean_rgb=[]),
            ("mean_rgb has 0",),
            marks=pytest.mark.heavy,
        ),
        ("video", video(b"far", labels=[10]), ("far", "label 10", "0..9")),
        pytest.param("video", video(b"under", labels=[-2]), ("under", "label -2", "0..9"), marks=pytest.mark.heavy),
        ("video", video(b"nan", mean_audio=[NAN, 1.0]), ("nan", "mean_audio has 1 values that are NaN")),
        pytest.param(
            "video",
            video(b"huge", mean_rgb=[0.5, -1e38, 0.0]),
            ("huge", "mean_rgb has 1 values", "1e+16"),
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            "video",
            video(b"inf", mean_rgb=[NAN, float("inf"), 0]),
            ("inf", "mean_rgb has 2 values", "--nan_policy"),
            marks=pytest.mark.heavy,
        ),
    ],
)
def test_message(
    parsers: dict[str, RecordCheck], tmp_path: pathlib.Path, level: str, bad: bytes, words: tuple[str, ...]
) -> None:
    path = fault_shards.write(tmp_path / "x.tfrecord", [*fault_shards.sound(level, 2), bad])
    text = str(find_damage(parsers[level], [path]))
    assert text.startswith(f"{path}: record 2: ")
    assert [word for word in words if word not in text] == []


@pytest.mark.promise("I6")
def test_labels_none_and_repeated_and_ids_repeated(tmp_path: pathlib.Path) -> None:
    payloads = [video(b"same", []), video(b"same", [3, 3, 1]), video(b"same", [1])]
    reading = queue("video", fault_shards.write(tmp_path / "x.tfrecord", payloads))
    with tf.Graph().as_default(), tf.Session() as session:
        batch = reading.reader.prepare_serialized_examples(tf.constant(payloads))
        ids, labels = session.run([batch.video_ids, batch.labels])
    assert ids.tolist() == [b"same"] * 3
    assert [np.flatnonzero(row).tolist() for row in labels] == [[], [1, 3], [1]]


@pytest.mark.promise("I5")
def test_zeroed_and_counted(tmp_path: pathlib.Path) -> None:
    whole = [0.5, -1.0, 2.0]
    large = [LARGEST, -LARGEST, 1.0]
    payloads = [video(b"a"), video(b"b", mean_rgb=[NAN, 5.0, -np.inf]), video(b"c", mean_rgb=large)]
    payloads.append(video(b"d", mean_rgb=[1e38, 5.0, -1.01 * LARGEST]))
    given = fault_shards.reader("video", nan_policy="zero")
    given.zeroed = ZeroedCount()
    with tf.Graph().as_default(), tf.Session() as session:
        rgb = session.run(given.prepare_serialized_examples(tf.constant(payloads)).features[0])
    np.testing.assert_array_equal(rgb, np.array([whole, [0, 5, 0], large, [0, 5, 0]], np.float32))
    assert given.zeroed.count == 4
    assert ids_read(queue("video", fault_shards.write(tmp_path / "x.tfrecord", payloads[::2]))) == ["a", "c"]


@pytest.mark.promise("I5")
def test_the_largest_values_have_a_norm() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        values = tf.fill([2, 1 << 16], tf.constant(LARGEST))
        unit = session.run(tf.nn.l2_normalize(values, 1))
    np.testing.assert_allclose(unit, 1 / 256, rtol=1e-5)


@pytest.mark.promise("I5")
def test_floats_of_frames() -> None:
    names = ("RGB/feature/floats",)
    feature = [shards.float_feature([1.0, NAN]), shards.float_feature([2.0, 3.0])]
    record = shards.sequence_example({"id": shards.bytes_feature(b"mp")}, {names[0]: feature})
    for policy in ("refuse", "zero"):
        given = YT8MFrameFeatureReader(10, (2,), names, nan_policy=policy)
        with tf.Graph().as_default(), tf.Session() as session:
            batch = given.prepare_serialized_examples(tf.constant([record]))
            if policy == "zero":
                assert session.run(batch.features[0]).tolist() == [[[1.0, 0.0], [2.0, 3.0]]]
                continue
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"video mp: feature RGB.* has 1 values"):
                session.run(batch.features)


@pytest.mark.promise("I7")
def test_ten_thousand_frames_and_none(tmp_path: pathlib.Path) -> None:
    payloads = [frames(b"long", 10_000, 10_000), frames(b"none", 0, 0)]
    given = fault_shards.reader("frame")
    with tf.Graph().as_default(), tf.Session() as session:
        batch = given.prepare_serialized_examples(tf.constant(payloads))
        counts, rgb = session.run([batch.num_frames, batch.features[0]])
    assert counts.tolist() == [20, 0]
    assert rgb.shape == (2, 20, 3)
    assert not rgb[1].any()
