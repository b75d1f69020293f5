"""The spans that a classifier finds, though it knows the labels of whole videos alone."""

from __future__ import annotations

import pathlib
import pickle

import numpy as np
import pytest

import yt8m

NAMES = ("cut", "drill", "weld")
Span = tuple[float, float, str]
OPTIONS = {
    "max_steps": 400,
    "base_learning_rate": 0.1,
    "input_transform": "standardize",
    "batch_size": 32,
    "l2_penalty": 1e-3,
}


def films(count: int, seed: int) -> tuple[list[np.ndarray], list[list[Span]]]:
    """The frames of films, float32 [T, 12], and the spans that are planted in them."""
    draw, frames, spans = np.random.default_rng(seed), [], []
    for _ in range(count):
        values, planted = draw.normal(size=(int(draw.integers(60, 90)), 12)), list[Span]()
        for name in [name for name in NAMES if draw.random() < 0.4]:
            start = int(draw.integers(0, len(values) - 20))
            end = start + int(draw.integers(12, 20))
            values[start:end, NAMES.index(name)] += 4
            planted.append((start, end, name))
        frames.append(values.astype(np.float32))
        spans.append(planted)
    return frames, spans


def share_found(found: list[list[tuple[float, float, str, float]]], planted: list[list[Span]]) -> tuple[float, float]:
    """(share of the planted spans that were found, share of the found ones that are right), at tIoU 0.4."""
    pairs = [
        [_overlap(one, other) >= 0.4 and one[2] == other[2] for one in those for other in these]
        for those, these in zip(planted, found, strict=True)
    ]
    hits = sum(map(sum, pairs))
    return hits / sum(map(len, planted)), hits / sum(map(len, found))


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    shared = max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
    return shared / (one[1] - one[0] + other[1] - other[0] - shared)


@pytest.fixture(scope="module")
def classifier() -> yt8m.Classifier:
    frames, spans = films(150, 0)
    labels = [[name for _, _, name in planted] for planted in spans]
    return yt8m.Classifier("FrameLevelLogisticModel", options=OPTIONS).fit(frames, labels)


def test_most_spans_are_found_and_most_that_are_found_are_right(classifier: yt8m.Classifier) -> None:
    frames, spans = films(40, 1)
    recall, precision = share_found(classifier.spans(frames), spans)
    assert recall > 0.7
    assert precision > 0.7
    of_videos = pickle.loads(pickle.dumps(classifier))
    of_videos.span_thresholds_ = classifier.thresholds_
    assert share_found(of_videos.spans(frames), spans)[1] < 0.3


def test_a_saved_run_finds_the_same(classifier: yt8m.Classifier, tmp_path: pathlib.Path) -> None:
    frames, _ = films(4, 2)
    classifier.save(tmp_path / "run")
    with yt8m.load(tmp_path / "run", trust_code=True) as model:
        table = model.spans(frames)
    found = [(str(row), *span) for row, spans in enumerate(classifier.spans(frames)) for span in spans]
    assert found
    rows = [(row["video"], row["start"], row["end"], row["class"], row["score"]) for row in table]
    assert [row[1:4] for row in rows] == [span[1:4] for span in found]


def test_whole_videos_have_no_thresholds_for_spans() -> None:
    x = np.eye(3, dtype=np.float32)[np.arange(60) % 3]
    fitted = yt8m.Classifier("LogisticModel", options={"max_steps": 2}).fit(x, [[NAMES[k % 3]] for k in range(60)])
    assert not hasattr(fitted, "span_thresholds_")
