"""The mean of the whole video beside its segments."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from reader_records import frame_record, write_shard

from yt8m.lazy import tf
from yt8m.readers import BatchQueue, EverySegmentReader, YT8MFrameFeatureReader

LENGTHS = (7, 2, 0, 11)
RANGES = ((-1.0, 3.0), ())
READERS: dict[str, Any] = {
    "rated": YT8MFrameFeatureReader(6, (3, 1), max_frames=9, segment_labels=True, segment_size=2),
    "every": EverySegmentReader(6, (3, 1), max_frames=9, segment_size=4, shifts=(-1, 0)),
    "own range": EverySegmentReader(6, (3, 1), max_frames=9, segment_size=4, feature_ranges=RANGES),
}


def features(video: int, kind: str) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(video)
    rgb = draw.integers(0, 256, (LENGTHS[video], 3)).astype(np.uint8)
    audio = draw.normal(size=(LENGTHS[video], 1)).astype(np.float32)
    return {"rgb": rgb, "audio": audio if kind == "own range" else rgb[:, :1]}


def expected_mean(video: int, kind: str) -> np.ndarray:
    """Of the first nine frames, dequantised."""
    values = features(video, kind)
    rgb = values["rgb"][:9] * (4 / 255) + 4 / 512 + (-1 if kind == "own range" else -2)
    audio = values["audio"][:9] if kind == "own range" else rgb[:, :1]
    joined = np.concatenate([rgb, audio], 1)
    return joined.mean(0) if len(joined) else np.zeros(4)


@pytest.mark.parametrize(
    ("kind", "is_cached"),
    [
        ("rated", True),
        *(
            pytest.param(*case, marks=pytest.mark.heavy)
            for case in (("own range", False), ("rated", False), ("every", True), ("every", False), ("own range", True))
        ),
    ],
)
def test_means_of_the_videos(kind: str, is_cached: bool, tmp_path: pathlib.Path) -> None:
    records = []
    for video in range(len(LENGTHS)):
        ratings = {"segment_start_times": [0, 5], "segment_labels": [1, 2], "segment_scores": [1.0, 0.0]}
        context = {"id": [b"v%d" % video], "labels": [1], **(ratings if kind == "rated" else {})}
        records.append(frame_record(context, features(video, kind)))
    path = write_shard(tmp_path / "a.tfrecord", records)
    reader = READERS[kind]
    for sees_film in (True, False):
        reader.film_mean = sees_film
        queue = BatchQueue(reader, path, 100, cache=str(tmp_path / "cache") if is_cached else "")
        with tf.Graph().as_default(), tf.Session() as session:
            batch = tf.data.make_one_shot_iterator(queue.dataset(tf.constant(queue.files()), 100)).get_next()
            if not sees_film:
                assert batch.film_means is None
                continue
            ids, means = session.run([batch.video_ids, tf.concat(batch.film_means, -1)])
        assert len(ids) > 4
        for name, mean in zip(ids, means, strict=True):
            np.testing.assert_allclose(mean, expected_mean(int(name[1:2]), kind), atol=1e-6)
