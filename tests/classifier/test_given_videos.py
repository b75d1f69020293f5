"""All forms of `X` give the same values; what does not fit is refused with its place."""

from __future__ import annotations

import pathlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from yt8m.classifier.given_videos import FEATURE, paths_of, videos_of
from yt8m.python_api.data_errors import DataError

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
FRAMES = np.arange(24, dtype=np.float32).reshape(4, 2, 3)


@pytest.mark.parametrize(
    "x",
    [
        ROWS,
        ROWS.astype(np.float64),
        ROWS.astype(np.uint8),
        np.asfortranarray(ROWS),
        ROWS.tolist(),
        list(ROWS),
        ROWS.astype(object),
        {FEATURE: ROWS},
        pd.DataFrame(ROWS),
        pd.DataFrame({FEATURE: list(ROWS)}),
        pd.Series(list(ROWS)),
    ],
    ids=lambda x: type(x).__name__,
)
def test_values_of_whole_videos(x: object) -> None:
    videos = videos_of(x)
    assert list(videos.features) == [FEATURE]
    assert videos.features[FEATURE].dtype == np.float32
    assert videos.features[FEATURE].tolist() == ROWS.tolist()
    assert (len(videos), videos.has_frames, videos.sizes()) == (4, False, {FEATURE: 3})


@pytest.mark.parametrize(
    "x",
    [FRAMES, list(FRAMES), FRAMES.tolist(), pd.Series(list(FRAMES)), {FEATURE: FRAMES}],
    ids=lambda x: type(x).__name__,
)
def test_values_of_frames(x: object) -> None:
    videos = videos_of(x)
    assert [frames.tolist() for frames in videos.features[FEATURE]] == FRAMES.tolist()
    assert (videos.has_frames, videos.lengths().tolist()) == (True, [2, 2, 2, 2])


def test_videos_of_different_lengths_are_padded_in_their_batch() -> None:
    videos = videos_of([FRAMES[0], FRAMES[1][:1], FRAMES[2]])
    ((batch, rows),) = videos.batches()
    assert batch.num_frames.tolist() == [2, 1, 2]
    assert batch.features[FEATURE][1].tolist() == [FRAMES[1][0].tolist(), [0, 0, 0]]
    assert rows == 32


def test_several_features() -> None:
    videos = videos_of({"rgb": ROWS, "audio": ROWS[:, :1]})
    assert videos.sizes() == {"rgb": 3, "audio": 1}
    assert videos.take(np.array([2, 0])).features["audio"].tolist() == [[6], [0]]


def test_an_array_stands_for_the_only_feature_that_is_known() -> None:
    assert videos_of(ROWS, ("clip",)).sizes() == {"clip": 3}


def test_columns_of_numbers_are_remembered_by_name() -> None:
    assert videos_of(pd.DataFrame(ROWS, columns=["a", "b", "c"])).columns == ("a", "b", "c")
    assert videos_of(pd.DataFrame(ROWS)).columns is None


def test_batches_cover_all_videos_in_order() -> None:
    values = np.arange(600, dtype=np.float32)[:, np.newaxis]
    batches = list(videos_of(values).batches())
    assert [len(batch) for batch, _ in batches] == [256, 256, 88]
    assert np.concatenate([batch.features[FEATURE] for batch, _ in batches]).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("x", "problem"),
    [
        (ROWS[0], "Reshape your data"),
        (FRAMES[np.newaxis], "Reshape your data"),
        (ROWS[:0], "0 sample"),
        (ROWS[:, :0], "0 feature"),
        (np.ma.masked_equal(ROWS, 5), "masked values"),
        (np.where(ROWS == 5, np.nan, ROWS), r"NaN or inf\b.* row 1\b"),
        (np.where(ROWS == 5, np.inf, ROWS), r"NaN or inf\b.* row 1\b"),
        (np.where(ROWS == 5, 1e300, ROWS.astype(float)), "row 1"),
        (scipy.sparse.csr_matrix(ROWS), "sparse"),
        (ROWS + 1j, "Complex data not supported"),
        ([[1, 2], [3]], "different shapes"),
        ([FRAMES[0], FRAMES[1][:0]], r"X\[1\] is \[0, 3\]"),
        ([FRAMES[0], FRAMES[1][:1, :2]], "2 and 3 values"),
        ({"a": ROWS, "b": ROWS[:3]}, "4 videos and b has 3"),
        ({"a": ROWS, "b": FRAMES}, "of frames"),
        ({"a": FRAMES, "b": FRAMES[:, :1]}, "number of frames"),
        ({}, "empty dict"),
        ([["a", "b"]], "not numbers"),
        (pd.DataFrame({"a": [1.0], "b": ["x"]}), "column 'b' of X has 'x' in row 0"),
        (pd.DataFrame({"a": list(ROWS), "n": 1}), "'n'"),
    ],
)
def test_refusals(x: object, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        videos_of(x)


def test_paths_are_recognised() -> None:
    assert paths_of(["a.mp4", pathlib.Path("b.mp4")]) == ["a.mp4", "b.mp4"]
    assert paths_of(np.array(["a.mp4"])) == ["a.mp4"]
    assert paths_of(pd.Series(["gs://films/a.mp4"])) == ["gs://films/a.mp4"]
    for other in (ROWS, list(ROWS), {"a": ROWS}, pd.DataFrame(ROWS), []):
        assert paths_of(other) is None


@pytest.mark.parametrize("x", ["a.mp4", "gs://films/train*.tfrecord", ["x.tfrecord"], ["x.npy"], pathlib.Path("t.csv")])
def test_files_that_are_no_videos_are_refused_with_what_takes_them(x: object) -> None:
    with pytest.raises(DataError, match=r"list of .*paths|yt8m\.fit\(train_data_pattern"):
        paths_of(x)
