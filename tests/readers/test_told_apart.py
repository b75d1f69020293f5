"""A whole video with as many frames as a cell and its context is told from a cell: each of its frames comes twice."""

from __future__ import annotations

import numpy as np
import pytest
from reader_records import frame_record

from yt8m.lazy import tf
from yt8m.readers import YT8MFrameFeatureReader
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring.model_input import told_from_cells

LENGTHS = (5, 4, 7, 5, 1)


def values_of(length: int) -> np.ndarray:
    """The frames of a video, float32 [length, 2]."""
    return np.arange(1, 2 * length + 1, dtype=np.float32).reshape(length, 2)


@pytest.mark.parametrize("context", [0, 2])
@pytest.mark.parametrize("lengths", [LENGTHS, (4, 7, 1)])
def test_videos_as_long_as_a_cell_have_each_frame_twice(context: int, lengths: tuple[int, ...]) -> None:
    records = [frame_record({"id": [b"v"]}, {"x": values_of(length).tolist()}) for length in lengths]
    settings = {"num_classes": 3, "feature_sizes": (2,), "feature_names": ("x",), "feature_ranges": ((),)}
    reader = YT8MFrameFeatureReader(**settings, segment_size=1, segment_context=context)  # type: ignore[arg-type]
    with tf.Graph().as_default(), tf.Session() as session:
        batch = reader.prepare_serialized_examples(tf.constant(records))
        values, counts = session.run([batch.features[0], batch.num_frames])
    longest = max(lengths)
    plain = np.stack([np.pad(values_of(length), ((0, longest - length), (0, 0))) for length in lengths])
    given = NumpyBatch(
        [""] * len(lengths), {"x": plain}, np.array(lengths, np.int32), np.zeros((len(lengths), 3), bool)
    )
    told = told_from_cells(given, 5 if context else 0)
    np.testing.assert_array_equal(told.num_frames, counts)
    for row, length in enumerate(lengths):
        expected = np.repeat(values_of(length), 2, axis=0) if context and length == 5 else values_of(length)
        for array in (values, told.features["x"]):
            np.testing.assert_array_equal(array[row, : len(expected)], expected)
            assert not array[row, len(expected) :].any()
        assert counts[row] == len(expected)
