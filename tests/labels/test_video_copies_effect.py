"""What seen copies add to the GAP, against the metrics of all scores."""

from __future__ import annotations

import numpy as np
import pytest
from labels.kept_scores import kept

from yt8m.eval_util import calculate_gap
from yt8m.labels.video_copies import measure_effect

VIDEOS, CLASSES = 400, 12


def test_the_gap_without_copies_is_that_of_the_others() -> None:
    rng = np.random.default_rng(0)
    labels = rng.random((VIDEOS, CLASSES)) < 0.2
    seen = rng.random(VIDEOS) < 0.25
    scores = (rng.normal(size=labels.shape) + labels * np.where(seen, 6, 1)[:, np.newaxis]).astype(np.float32)
    ids = [b"v%d" % number for number in range(VIDEOS)]
    effect = measure_effect(kept(scores, labels), ids, seen, CLASSES)
    assert effect is not None
    assert (effect.videos, effect.copies) == (VIDEOS, seen.sum())
    assert effect.gap == pytest.approx(calculate_gap(scores, labels))
    assert effect.gap_without == pytest.approx(calculate_gap(scores[~seen], labels[~seen]))
    assert effect.gap > effect.gap_without + 0.05
    assert effect.interval_without.low < effect.gap_without < effect.interval_without.high < effect.gap
    assert f"{effect.gap_without:.3f} (" in str(effect)
    assert measure_effect(kept(scores, labels), ids, np.zeros(VIDEOS, np.bool_), CLASSES) is None
