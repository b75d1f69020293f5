"""The spans that a classifier finds, though it knows the labels of whole videos alone."""

from __future__ import annotations

import pathlib
import pickle

import numpy as np
import pytest
from planted_films import NAMES, OPTIONS, films, share_found

import yt8m


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


@pytest.mark.heavy
def test_whole_videos_have_no_thresholds_for_spans() -> None:
    x = np.eye(3, dtype=np.float32)[np.arange(60) % 3]
    fitted = yt8m.Classifier("LogisticModel", options={"max_steps": 2}).fit(x, [[NAMES[k % 3]] for k in range(60)])
    assert not hasattr(fitted, "span_thresholds_")
