"""The frames of cells as models get them: NumPy, and the readers of a graph, compared with loops."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reader_records import Parsed, frame_record

from yt8m.readers import EverySegmentReader, YT8MFrameFeatureReader
from yt8m.records.rated_cells import Cells


def by_loops(frames: np.ndarray, cell: int, size: int, context: int) -> list[np.ndarray]:
    """The frames of a cell, with the first and the last one of the video in the place of those outside of it."""
    first = cell * size - context
    if context:
        return [frames[min(max(number, 0), len(frames) - 1)] for number in range(first, first + size + 2 * context)]
    return list(frames[first : first + size])


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 6))
@examples(80)
def test_windows_are_those_of_loops(count: int, size: int, context: int) -> None:
    frames = np.random.default_rng(count).normal(size=(count, 3)).astype(np.float32)
    cells = Cells(size, 1.0)
    rows = np.arange(len(cells.parts(count)))
    windows, counts = cells.windows(frames, rows, context)
    assert windows.shape == (len(rows), size + 2 * context, 3)
    for row in rows.tolist():
        expected = by_loops(frames, row, size, context)
        assert counts[row] == len(expected)
        np.testing.assert_array_equal(windows[row, : len(expected)], expected)
        assert not windows[row, len(expected) :].any()


def records() -> tuple[list[bytes], list[np.ndarray]]:
    """Records of videos of 7, 1 and 0 frames, which are annotated as a whole."""
    made, videos = [], [np.arange(2 * count, dtype=np.uint8).reshape(count, 2) + 1 for count in (7, 1, 0)]
    for number, frames in enumerate(videos):
        ranges = {"annotated_start_times": [0], "annotated_end_times": [len(frames)]} if len(frames) else {}
        lists = {"segment_start_times": [0], "segment_labels": [2], "segment_scores": [1.0]} if len(frames) else {}
        made.append(frame_record({"id": [b"v%d" % number], **lists, **ranges}, {"rgb": frames}))
    return made, videos


@pytest.mark.parametrize("context", cases.all_of([2], heavy=[0, 9]))
@pytest.mark.parametrize("reads_all", [True, False])
def test_readers_give_the_same_frames(context: int, reads_all: bool) -> None:
    settings: dict[str, Any] = {"num_classes": 4, "feature_sizes": (2,), "feature_names": ("rgb",), "segment_size": 3}
    if reads_all:
        reader: Any = EverySegmentReader(**settings, context=context, repeats_ends=context > 0)
    else:
        reader = YT8MFrameFeatureReader(**settings, segment_labels=True, segment_context=context)
    payloads, videos = records()
    with Parsed(reader) as parsed:
        batch = parsed(payloads)
    expected = [by_loops(frames, cell, 3, context) for frames in videos for cell in range(-(-len(frames) // 3))]
    assert batch["num_frames"].tolist() == list(map(len, expected))
    (features,) = batch["features"]
    for row, frames in enumerate(expected):
        np.testing.assert_array_equal(features[row, : len(frames)], frames)
