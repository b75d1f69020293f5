"""The sample of videos: the same whatever the order and the cutting; never larger than asked."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
from evaluated_videos import batch, drawn
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.eval_util.videos import VideoSample

SCORES, LABELS = drawn(3, videos=50, classes=7)


def expected_rows(most: int) -> list[int]:
    """The videos with the smallest hashes, by Python alone."""
    digest = {n: hashlib.blake2b(b"v%d" % n, digest_size=8).digest()[::-1] for n in range(len(SCORES))}
    return sorted(digest, key=digest.__getitem__)[:most]


@examples(30)
@given(most=st.integers(1, 60), cuts=st.lists(st.integers(1, 49), max_size=6, unique=True), turned=st.booleans())
def test_the_sample_depends_on_the_videos_alone(most, cuts, turned):
    edges = [0, *sorted(cuts), 50]
    parts = [batch(SCORES[a:b], LABELS[a:b], 4, a) for a, b in itertools.pairwise(edges)]
    sample = VideoSample(most)
    for part in parts[::-1] if turned else parts:
        sample.add(part)
    videos, rows = sample.videos(), expected_rows(most)
    assert sample.seen == 50
    assert len(videos) == len(rows)
    best = np.argsort(-SCORES[rows], axis=1)[:, :4]
    np.testing.assert_array_equal(videos.classes, best)
    np.testing.assert_array_equal(videos.hits, np.take_along_axis(LABELS[rows], best, axis=1))
    np.testing.assert_array_equal(videos.labels, np.nonzero(LABELS[rows])[1])
    np.testing.assert_array_equal(videos.num_labels, LABELS[rows].sum(1))
    np.testing.assert_array_equal(videos.label_scores, np.concatenate([SCORES[row][LABELS[row]] for row in rows]))
    right = np.where(LABELS, SCORES, 1 - SCORES)[rows]
    np.testing.assert_allclose(videos.losses, -np.log(right + 1e-5).sum(1))
    assert videos.num_frames.tolist() == [row % 7 + 1 for row in rows]
    assert videos.ids.tolist() == [b"v%d" % row for row in rows]


def test_memory_is_bounded():
    sample = VideoSample(10)
    for _ in range(100):
        sample.add(batch(SCORES[:5], LABELS[:5], 4))
        assert sum(map(len, sample._parts)) <= 20
    assert sample.seen == 500


def test_a_row_that_nobody_judged_is_left_out():
    scores, labels = SCORES[:3].copy(), LABELS[:3].copy()
    scores[1], labels[1] = -np.inf, False
    sample = VideoSample()
    sample.add(batch(scores, labels, 4))
    assert (sample.seen, len(sample.videos())) == (2, 2)
    assert VideoSample().videos() is None
