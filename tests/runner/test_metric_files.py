"""Summaries for TensorBoard's plugins, read by TensorBoard's own code and held to its own curve."""

from __future__ import annotations

import pathlib
import time

import numpy as np
import pytest
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.plugins.pr_curve import metadata as curve_metadata
from tensorboard.plugins.pr_curve import summary as curves

from yt8m.eval_util import EvaluationMetrics
from yt8m.lazy import tf
from yt8m.runner import metric_files
from yt8m.runner.lines import StepValues


def test_hyper_parameters_are_those_that_were_given() -> None:
    given = {"model": "MoeModel", "seed": 3, "base_learning_rate": 0.01, "frame_features": False, "é": ""}
    (value,) = metric_files.session_start(given).value
    assert (value.tag, value.metadata.plugin_data.plugin_name) == (
        metadata.SESSION_START_INFO_TAG,
        metadata.PLUGIN_NAME,
    )
    found = metadata.parse_session_start_info_plugin_data(value.metadata.plugin_data.content)
    read = {name: getattr(one, one.WhichOneof("kind")) for name, one in found.hparams.items()}
    assert read == given
    assert type(read["frame_features"]) is bool
    assert found.start_time_secs == pytest.approx(time.time(), abs=600)


@pytest.mark.parametrize(("is_well", "status"), [(True, api_pb2.STATUS_SUCCESS), (False, api_pb2.STATUS_FAILURE)])
def test_how_a_run_ended(is_well: bool, status: int) -> None:
    (value,) = metric_files.session_end(is_well).value
    assert value.tag == metadata.SESSION_END_INFO_TAG
    found = metadata.parse_session_end_info_plugin_data(value.metadata.plugin_data.content)
    assert found.status == status
    assert found.end_time_secs == pytest.approx(time.time(), abs=600)


def test_a_resumed_run_removes_the_rows_of_steps_that_it_takes_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "metrics.jsonl"
    stays = b'{"step": 2, "loss": 1.0}\nnot a row\n{"step": 4, "mode": "validate", "loss": 1.5}\n'
    path.write_bytes(stays + b'{"step": 6, "loss": 0.5}\n{"step": 8, "lo')
    file = metric_files.MetricsFile(str(path))
    file.go_back_to(4)
    assert path.read_bytes() == stays
    before = path.stat().st_ino
    file.go_back_to(4)
    assert path.stat().st_ino == before  # what is right is not written anew
    file.add(StepValues(step=6, loss=0.25))
    assert [row["step"] for row in metric_files.rows(str(tmp_path))] == [2, 4, 6]


def test_a_run_without_metrics_has_none_to_remove(tmp_path: pathlib.Path) -> None:
    metric_files.MetricsFile(str(tmp_path / "metrics.jsonl")).go_back_to(0)
    assert list(tmp_path.iterdir()) == []


def test_the_curve_is_the_one_that_tensorboard_draws_from_the_same_predictions() -> None:
    draw = np.random.default_rng(2)
    scores = draw.random((40, 6)).astype(np.float32)
    scores[0, :2] = 0, 1
    labels = draw.random((40, 6)) < scores * 0.7
    metrics = EvaluationMetrics(6, top_k=6)
    for part in (slice(0, 17), slice(17, 40)):
        metrics.accumulate(scores[part], labels[part])
    for count in (7, metric_files.NUM_THRESHOLDS):
        (ours,) = metric_files.precision_recall("curve", metrics.threshold_counts(count)).value
        (theirs,) = curves.pb("curve", labels.ravel(), scores.ravel(), num_thresholds=count).value
        found, expected = tf.make_ndarray(ours.tensor), tf.make_ndarray(theirs.tensor)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        plugin = ours.metadata.plugin_data
        assert plugin.plugin_name == curve_metadata.PLUGIN_NAME
        assert curve_metadata.parse_plugin_metadata(plugin.content).num_thresholds == count


def test_what_is_not_among_the_top_k_is_not_predicted() -> None:
    metrics = EvaluationMetrics(4, top_k=2)
    metrics.accumulate([[0.9, 0.6, 0.3, 0.1], [0.2, 0.4, 0.8, 0.7]], [[1, 0, 1, 0], [0, 0, 1, 0]])
    true, false, negative, missed = metrics.threshold_counts(3)
    assert true.tolist() == [2, 2, 0]  # at 0, 1/2 and 1
    assert false.tolist() == [2, 2, 0]
    assert missed.tolist() == [1, 1, 3]
    assert negative.tolist() == [3, 3, 5]
