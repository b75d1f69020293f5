"""Surroundings of classes in segment-level sample data: in every frame, whether the class shows or not."""

from __future__ import annotations

import itertools

import numpy as np

from yt8m.commands.sample_data import synthetic_videos
from yt8m.commands.sample_data.synthetic_videos import decoys, surroundings, surroundings_of_classes


def test_they_are_what_segments_without_the_class_have_in_common_with_it() -> None:
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
            synthetic_videos.frames(video, nothing, around=around),
        )
        shift = (with_them.astype(float) - plain).mean(axis=0) * 4 / 255
        assert np.corrcoef(shift, around)[0, 1] > 0.97
    assert 0 <= min(strengths) < 0.2
    assert 1.8 < max(strengths) <= 2.0001


def test_classes_look_like_themselves_not_like_their_surroundings() -> None:
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
