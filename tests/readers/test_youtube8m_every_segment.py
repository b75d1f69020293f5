"""All segments of videos: recorded ones, a loop over seconds, context frames."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from golden_data import golden
from reader_records import Parsed, frame_record, read_shard

from yt8m.readers import EverySegmentReader

SETTINGS: dict[str, Any] = {"num_classes": 3, "feature_sizes": (2,), "feature_names": ("rgb",)}


def frames_of(length: int) -> np.ndarray:
    return (1 + np.arange(length * 2) % 250).astype(np.uint8).reshape(length, 2)


def test_gives_the_recorded_segments() -> None:
    data = np.load(golden("readers.npz"))
    reader = EverySegmentReader(20, (16, 8), max_frames=60)
    parsed = Parsed(reader)(read_shard(golden("tiny_segment.tfrecord")))
    np.testing.assert_array_equal(parsed["video_matrix"], data["get_segments/video_batch"])
    np.testing.assert_array_equal(parsed["num_frames"], data["get_segments/num_frames_batch"])
    starts = [int(name.rpartition(b":")[2]) for name in parsed["video_ids"].tolist()]
    assert starts == data["get_segments/video_segment_ids"][:, 1].tolist()


@pytest.mark.parametrize(
    ("size", "context", "longest"), cases.all_of([(5, 0, 300), (2, 4, 7)], heavy=[(5, 3, 300), (3, 1, 11)])
)
def test_equals_a_loop(size: int, context: int, longest: int) -> None:
    lengths = [13, 0, 5, 4, 1, 12]
    records = [frame_record({"id": [b"v:%d" % n]}, {"rgb": frames_of(n)}) for n in lengths]
    reader = EverySegmentReader(**SETTINGS, max_frames=longest, segment_size=size, context=context)
    parsed = Parsed(reader)(records)
    names, windows, counts = [], [], []
    for length in lengths:
        usable = frames_of(length)[:longest]
        for start in range(0, len(usable), size):
            shown = usable[max(start - context, 0) : start + size + context]
            window = np.zeros((size + 2 * context, 2), np.uint8)
            window[: len(shown)] = shown
            names.append(b"v:%d:%d" % (length, start))
            windows.append(window)
            counts.append(len(shown))
    assert parsed["video_ids"].tolist() == names
    np.testing.assert_array_equal(parsed["features"][0], windows)
    assert parsed["num_frames"].tolist() == counts
    assert parsed["labels"].shape == (len(names), 3)


@pytest.mark.parametrize(("context", "shifts"), [(0, (-2, 0, 1)), (3, (4, -9))])
def test_shifted_windows_equal_a_loop(context: int, shifts: tuple[int, ...]) -> None:
    """Windows that would begin before or after the video begin with its first or its last frame."""
    lengths = [13, 0, 1, 10]
    records = [frame_record({"id": [b"v:%d" % n]}, {"rgb": frames_of(n)}) for n in lengths]
    reader = EverySegmentReader(**SETTINGS, max_frames=12, segment_size=5, context=context, shifts=shifts)
    parsed = Parsed(reader)(records)
    names, windows = [], []
    for length in lengths:
        usable = frames_of(length)[:12]
        for start in range(0, len(usable), 5):
            for shift in shifts:
                begin = min(max(start + shift, 0), len(usable) - 1)
                names.append(b"v:%d:%d" % (length, start))
                windows.append(usable[max(begin - context, 0) : begin + 5 + context])
    assert parsed["video_ids"].tolist() == names
    assert parsed["num_frames"].tolist() == [len(window) for window in windows]
    for row, window in zip(parsed["features"][0], windows, strict=True):
        np.testing.assert_array_equal(row[: len(window)], window)
        assert not row[len(window) :].any()
