"""Synthetic videos: classes that only the order of frames shows, lengths, surroundings, decoys, events and noise."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np
import pytest
from datasets.sample_data.sample_shards import dequantized, read_frames, read_split

from yt8m.datasets.sample_data import SampleConfig, generate, synthetic_videos
from yt8m.datasets.sample_data.synthetic_videos import decoys, surroundings, surroundings_of_classes
from yt8m.errors import UsageError

SIZES = {"train": 6, "validate": 2, "test": 0, "num_classes": 24}


def floats(example: object) -> np.ndarray:
    """The features of an Example, float [1152]."""
    feature = example.features.feature  # type: ignore[attr-defined]
    return np.concatenate([feature[name].float_list.value for name in ("mean_rgb", "mean_audio")])


def test_videos_are_the_means_of_their_frames(tmp_path: pathlib.Path) -> None:
    """Both levels have the same videos, so that a model that averages frames gets what a video-level model gets."""
    for level in ("video", "frame"):
        generate(SampleConfig(str(tmp_path), level, temporal=True, min_frames=20, max_frames=40, **SIZES))
    videos, frames = (read_split(tmp_path, level, "train") for level in ("video", "frame"))
    lengths = set()
    for video, framed in zip(videos, frames, strict=True):
        made = dequantized(read_frames(framed))
        lengths.add(len(made))
        assert video.features.feature["id"] == framed.context.feature["id"]
        # A flash goes beyond the range that is quantised, and is cut there.
        assert np.median(np.abs(made.mean(axis=0) - floats(video))) < 0.02
    assert len(lengths) > 1
    assert min(lengths) >= 20
    assert max(lengths) <= 40


def test_the_mean_is_the_same_for_both_orders_of_the_halves() -> None:
    """Videos of even length of two classes that differ only in the order of the halves have the same mean."""
    made = [
        synthetic_videos.Video(
            (0, 0, 7), np.array([label]), np.float32([1]), 40, np.zeros(synthetic_videos.SIZE, np.float32)
        )
        for label in (4, 5)
    ]
    first, second = (synthetic_videos.mean_features(video, temporal=True) for video in made)
    np.testing.assert_allclose(first, second, atol=1e-5)


@pytest.mark.parametrize(("frames", "flashes"), [(20, 1), (99, 1), (100, 2), (300, 6)])
def test_a_class_flashes_in_one_frame_of_fifty(frames: int, flashes: int) -> None:
    looks, _ = synthetic_videos.prototypes()
    video = synthetic_videos.Video(
        (0, 0, 7), np.array([6]), np.float32([1]), frames, np.zeros(synthetic_videos.SIZE, np.float32)
    )
    along = dequantized(synthetic_videos.frames(video, temporal=True)) @ looks[6]
    assert (along > 0.5 * along.max()).sum() == flashes


def test_a_shortest_length_above_the_longest_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--min_frames=50 is more than --max_frames=40"):
        SampleConfig("x", min_frames=50, max_frames=40)


def test_surroundings_are_added_to_all_frames_with_a_random_strength() -> None:
    strengths = []
    for video in itertools.islice(synthetic_videos.videos(0, 0, 40, 30, segments=True), 40):
        around = surroundings(video)
        np.testing.assert_array_equal(around, surroundings(video))
        # Least squares: the looks of different classes are nearly at right angles.
        found, *_ = np.linalg.lstsq(surroundings_of_classes()[video.labels].T, around, rcond=None)
        np.testing.assert_allclose(surroundings_of_classes()[video.labels].T @ found, around, atol=1e-4)
        strengths += found.tolist()
        nothing = np.zeros((video.num_frames, len(video.labels)), np.float32)
        plain, with_them = (
            synthetic_videos.frames(video, nothing),
            synthetic_videos.frames(video, nothing, extra=around),
        )
        shift = (with_them.astype(float) - plain).mean(axis=0) * 4 / 255
        assert np.corrcoef(shift, around)[0, 1] > 0.97
    assert 0 <= min(strengths) < 0.2
    assert 1.8 < max(strengths) <= 2.0001


def test_surroundings_do_not_resemble_the_prototypes_of_their_classes() -> None:
    prototypes, _ = synthetic_videos.prototypes()
    alike = [np.corrcoef(prototypes[number], surroundings_of_classes()[number])[0, 1] for number in range(100)]
    assert np.abs(alike).max() < 0.15


def test_decoys_are_of_classes_that_the_video_does_not_have() -> None:
    for video in itertools.islice(synthetic_videos.videos(0, 0, 20, 30, segments=True), 20):
        shown = decoys(video, 30)
        segments = shown[: len(shown) // 5 * 5].reshape(-1, 5, synthetic_videos.SIZE)
        seen = np.flatnonzero(np.abs(segments).sum(axis=(1, 2)))
        assert len(seen) == 10
        likeness = segments[seen].mean(axis=1) @ synthetic_videos.prototypes()[0][:30].T
        assert not np.isin(likeness.argmax(axis=1), video.labels).any()
    assert not decoys(next(synthetic_videos.videos(0, 0, 1, 1, segments=True)), 1).any()


def test_a_segment_shows_a_class_if_most_of_its_frames_do() -> None:
    shown = np.zeros((14, 2), np.bool_)
    shown[3:8, 0] = True  # two frames of the first segment, three of the second
    shown[7:14, 1] = True  # the last four frames are no segment
    np.testing.assert_array_equal(synthetic_videos.shown_in_segments(shown), [[False, False], [True, True]])


def test_events_begin_at_any_frame_and_have_their_length() -> None:
    begins, lengths, shares = set(), [], []
    for video in itertools.islice(synthetic_videos.videos(0, 0, 40, 30, segments=True), 40):
        shown = synthetic_videos.activity(video, 7)
        shares += shown.mean(axis=0).tolist()
        edges = np.diff(np.pad(shown.astype(int), ((1, 1), (0, 0))), axis=0).T
        for row in edges:
            starts, ends = np.flatnonzero(row == 1), np.flatnonzero(row == -1)
            begins |= set((starts % synthetic_videos.SEGMENT).tolist())
            lengths += (ends - starts).tolist()
        whole = synthetic_videos.activity(video)[: video.num_frames // 5 * 5].reshape(-1, 5, len(video.labels))
        assert (whole.all(axis=1) == whole.any(axis=1)).all()
    assert begins == set(range(5))
    assert np.median(lengths) >= 7  # events overlap; a few are cut short at the end and by a segment without them
    assert 0.25 < np.mean(shares) < 0.45


def test_noise_has_the_requested_strength() -> None:
    for noise in (0.1, 0.4):
        video = next(synthetic_videos.videos(0, 0, 1, 30, lengths=(300, 300), noise=noise))
        frames = dequantized(synthetic_videos.frames(video))
        assert np.median(frames.std(axis=0)) == pytest.approx(noise, rel=0.03)
