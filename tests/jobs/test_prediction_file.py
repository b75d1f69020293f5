"""The prediction file against Python's own CSV and numbers."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from yt8m.errors import RunError
from yt8m.jobs.prediction_file import PredictionWriter

IDS = [
    b"plain",
    b"a,b",
    b'say "so"',
    b"two\nlines",
    b"\r",
    "\u00e9\u4e2d".encode(),
    b"\xff",
    b"",
    b"two words",
]


def reports(width: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    scores = (10.0 ** draw.uniform(-9, 1, (len(IDS), width))).astype(np.float32)
    scores[0, :5] = [0, 1, -0.0, np.inf, 0.9999999]
    classes = draw.integers(0, 5000, scores.shape, dtype=np.int32)
    return {"video_ids": np.array(IDS, object), "classes": classes, "scores": scores}


@pytest.mark.parametrize("top_k", [5, 20, 30])
def test_rows_are_those_of_the_csv_module(top_k: int) -> None:
    step, file = reports(20), io.StringIO(newline="")
    writer = PredictionWriter(file, top_k)
    writer(step)
    writer(step)
    rows = list(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert rows[0] == ["VideoId", "LabelConfidencePairs"]
    assert rows[1 : len(IDS) + 1] == rows[len(IDS) + 1 :]
    assert writer.count == 2 * len(IDS)
    for row, name, classes, scores in zip(
        rows[1:], IDS, step["classes"].tolist(), step["scores"].tolist(), strict=False
    ):
        pairs = zip(classes[:top_k], scores[:top_k], strict=True)
        assert row == [
            name.decode("utf-8", "backslashreplace"),
            " ".join(f"{number:d} {score:g}" for number, score in pairs),
        ]


def test_nan_is_no_prediction() -> None:
    step = reports(20)
    step["scores"][3, 7] = np.nan
    with pytest.raises(RunError, match="NaN"):
        PredictionWriter(io.StringIO(), 20)(step)
