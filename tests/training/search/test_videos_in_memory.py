"""The parts of the videos of a search."""

from __future__ import annotations

import numpy as np

from yt8m.training.search import videos_in_memory
from yt8m.training.search.videos_in_memory import VideosInMemory


def test_each_video_is_compared_in_one_fold_and_trained_on_in_the_others() -> None:
    keys = np.random.default_rng(0).permutation(np.arange(1, 32, dtype=np.uint64))
    features = keys[:, np.newaxis].astype(np.float32)
    videos = VideosInMemory(features, np.ones(31, np.int32), np.ones((31, 2), bool), keys)
    folds = videos_in_memory.folds(videos, 4)
    assert sorted(key for _, part in folds for key in part.keys.tolist()) == list(range(1, 32))
    assert [len(part) for _, part in folds] == [8, 8, 8, 7]
    for others, part in folds:
        assert set(others.keys.tolist()) | set(part.keys.tolist()) == set(keys.tolist())
        assert len(others) + len(part) == 31
        np.testing.assert_array_equal(others.features[:, 0], others.keys)
    again = videos_in_memory.folds(videos.take(np.arange(31)[::-1]), 4)
    assert [set(part.keys.tolist()) for _, part in again] == [set(part.keys.tolist()) for _, part in folds]
