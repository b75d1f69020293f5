"""Labels that ground truth is read from must be numbers of classes."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from reader_records import video_record, write_shard

from yt8m.datasets import ground_truth
from yt8m.errors import RunError
from yt8m.records.opened_data import open_data


@pytest.mark.parametrize("labels", [[float("nan")], [1.5], [b"cat"]])
def test_labels_that_are_no_whole_numbers_are_refused(tmp_path: pathlib.Path, labels: list[Any]) -> None:
    records = [video_record(id=[b"a"], labels=[2]), video_record(id=[b"b"], labels=labels)]
    path = write_shard(tmp_path / "a.tfrecord", records)
    with pytest.raises(RunError, match=r"record 1: video b .*labels .*whole numbers"):
        ground_truth.video_labels(open_data(path), 3)
