"""`build_graph`, with the published arguments."""

from __future__ import annotations

import pathlib

import pytest

from yt8m import models, readers
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.video.modeler import build_graph


def test_a_pattern_without_files_is_refused_when_the_graph_is_built(tmp_path: pathlib.Path) -> None:
    reader = readers.YT8MAggregatedFeatureReader(num_classes=3, feature_sizes=(4,), feature_names=("mean_rgb",))
    with tf.Graph().as_default(), pytest.raises(UsageError, match="no file matches"):
        build_graph(reader, models.get("LogisticModel")(), f"{tmp_path}/*.tfrecord")


@pytest.mark.parametrize(("pattern", "found"), [(None, "found None"), (5, "found a int"), ([], "empty"), ("", "file")])
def test_what_is_no_pattern_is_refused(pattern: object, found: str) -> None:
    reader = readers.YT8MAggregatedFeatureReader(num_classes=3, feature_sizes=(4,), feature_names=("mean_rgb",))
    with tf.Graph().as_default(), pytest.raises(UsageError, match=found):
        build_graph(reader, models.get("LogisticModel")(), pattern)
