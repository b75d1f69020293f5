"""Copies among planted ones, against all products; and which of them training has seen."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import numpy as np
import pytest

from yt8m.labels import video_copies
from yt8m.labels.folds import AuditedVideos
from yt8m.labels.video_copies import CopyPairs, VectorWriter, VideoVectors, find_copies, seen_in_training, write_copies
from yt8m.records.record_parser import NumpyBatch

VIDEOS, SIZE = 600, 24


class Stored(NamedTuple):
    """Features [N, D], the vectors in a file, and the digests."""

    features: np.ndarray
    vectors: VideoVectors
    digests: np.ndarray


def store(folder: pathlib.Path, features: np.ndarray, num_frames: np.ndarray | None = None) -> Stored:
    path = folder / "vectors.f16"
    frames = np.ones(len(features), np.int32) if num_frames is None else num_frames
    with path.open("wb") as file:
        writer = VectorWriter(file)
        for start in range(0, len(features), 250):
            rows = slice(start, start + 250)
            ids = [str(row) for row in range(len(features[rows]))]
            writer.add(NumpyBatch(ids, {"a": features[rows]}, frames[rows], np.zeros((len(ids), 0), np.bool_)))
    return Stored(features, VideoVectors(str(path), len(features)), writer.digests())


@pytest.fixture
def planted(tmp_path: pathlib.Path) -> Stored:
    """Videos around a common vector; 500 to 549 are near copies of 0 to 49, 550 to 599 exact ones of 50 to 99."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(VIDEOS, SIZE)).astype(np.float32) + np.float32(5)
    features[500:550] = features[:50] + rng.normal(0, 0.02, (50, SIZE)).astype(np.float32)
    features[550:] = features[50:100]
    return store(tmp_path, features)


def pairs_of(pairs: CopyPairs) -> set[tuple[int, int]]:
    return set(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))


PLANTED = {(number, number + 500) for number in range(100)}


def test_planted_copies_are_found_and_no_others(planted: Stored) -> None:
    pairs = find_copies(planted.vectors, planted.digests, 0.9)
    assert pairs_of(pairs) == PLANTED
    assert (pairs.similarity[pairs.second >= 550] == 1).all()


def test_all_pairs_are_those_of_the_products(planted: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_copies, "_BLOCK", 64)
    values = (planted.features - planted.features.mean(0)) / planted.features.std(0)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    first, second = np.nonzero(np.triu(values[:550] @ values[:550].T, 1) >= 0.55)
    pairs = find_copies(planted.vectors, planted.digests, 0.55)
    expected, found = set(zip(first.tolist(), second.tolist(), strict=True)), pairs_of(pairs)
    near = {pair for pair in expected ^ found if pair[1] < 550}
    assert len(expected) > 100
    assert len(near) <= 0.01 * len(expected)  # products within a rounding of the bound


def test_more_videos_are_compared_by_pivots(planted: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_copies, "MOST_COMPARED_FULLY", 100)
    monkeypatch.setattr(video_copies, "_PER_PIVOT", 20)
    assert pairs_of(find_copies(planted.vectors, planted.digests, 0.9)) == PLANTED


def test_frames_after_the_end_of_a_video_do_not_count(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 256, (60, 9, 6)).astype(np.uint8)
    num_frames = np.full(60, 9, np.int32)
    features[30], num_frames[30] = features[3], 9
    features[40], num_frames[40], num_frames[4] = features[4], 5, 5
    features[40, 5:], features[4, 5:] = 7, 200  # what follows is not part of them
    stored = store(tmp_path, features, num_frames)
    assert {(3, 30), (4, 40)} <= pairs_of(find_copies(stored.vectors, stored.digests, 0.999))


def videos(splits: list[str]) -> AuditedVideos:
    names = sorted(set(splits))
    numbers = np.array([names.index(split) for split in splits], np.int32)
    return AuditedVideos([f"v{number}" for number in range(len(splits))], numbers, names, numbers)


def digests_of(*groups: int) -> np.ndarray:
    return np.array([number.to_bytes(16, "big") for number in groups], "V16")


def test_copies_that_training_has_seen_are_those_of_another_split() -> None:
    audited = videos(["train", "validate", "test", "validate", "train", "test"])
    # v1 is an exact copy of v0; v2 and v3 are exact copies, and near ones of v4; v5 is like v3 only by v2.
    pairs = CopyPairs(np.array([0, 2, 2]), np.array([1, 3, 4]), np.array([1, 1, 0.95], np.float32))
    seen = seen_in_training(pairs, audited, digests_of(0, 0, 2, 2, 4, 5))
    assert seen.tolist() == [False, True, True, True, False, False]


def test_pairs_across_splits_are_listed_first(tmp_path: pathlib.Path) -> None:
    pairs = CopyPairs(np.array([0, 1, 2]), np.array([2, 3, 3]), np.array([1, 0.95, 0.99], np.float32))
    write_copies(str(tmp_path / "copies.csv"), pairs, videos(["train", "train", "train", "test"]))
    assert (tmp_path / "copies.csv").read_text().splitlines() == [
        "video,other,split,other_split,similarity",
        "v2,v3,train,test,0.9900",
        "v1,v3,train,test,0.9500",
        "v0,v2,train,train,1.0000",
    ]
    video_copies.write_pairs(str(tmp_path / "pairs.npz"), pairs, digests_of(0, 1, 2, 3))
    again, digests = video_copies.read_pairs(str(tmp_path / "pairs.npz"))
    assert pairs_of(again) == pairs_of(pairs)
    assert digests.tolist() == digests_of(0, 1, 2, 3).tolist()


@pytest.mark.parametrize(("names", "warns"), [(("data",), True), (("train", "test"), False), (("validate",), True)])
def test_data_without_a_split_for_training_are_warned_of(
    names: tuple[str, ...], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    video_copies.warn_without_training_split(names)
    assert [f"the splits are {names[0]}." in message for message in caplog.messages] == [True] * warns
