"""Graphs from files: collections round trip, step for step, and the published code's own meta-graph."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from golden_data import golden
from graph.graph_toy import Linear, Session, rows

from yt8m import graph
from yt8m.config.train_config import OptimizerConfig
from yt8m.errors import RunError
from yt8m.graph.restore import signature_of
from yt8m.lazy import tf


def saved(run: Session, folder: pathlib.Path) -> str:
    with run.graph.as_default():
        return tf.train.Saver().save(run.session, str(folder / "model.ckpt"), global_step=2)


@pytest.mark.parametrize("towers", [pytest.param(1, marks=pytest.mark.heavy), 2])
def test_an_imported_graph_goes_on_as_the_one_that_was_saved(tmp_path: pathlib.Path, towers: int) -> None:
    config = OptimizerConfig(moving_average_decay=0.9)
    with Session(Linear(True, noise=True), rows(7), towers, config, signature={"lr": 0.5}) as run:
        run.run([run.ops.train_op])
        run.run([run.ops.train_op])
        path = saved(run, tmp_path)
        expected = [run.run([run.ops.label_loss, run.ops.step, run.ops.reports]) for _ in range(4)]
        fields = run.ops
    assert signature_of(path + ".meta") == {"lr": 0.5}
    with tf.Graph().as_default():
        ops = graph.restore_train(path + ".meta")
        restorer = graph.Restorer()
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": towers})) as session:
            assert restorer.restore(session, path) == 2
            session.run(ops.input.initializer, {ops.input.files: ["rows"]})
            found = [session.run([ops.label_loss, ops.step, ops.reports]) for _ in range(4)]
    assert ops.gradient_variables == fields.gradient_variables
    assert ops.averages == fields.averages
    for (loss, step, reports), (loss_, step_, reports_) in zip(expected, found, strict=True):
        assert (loss, step) == (loss_, step_)
        assert sorted(reports) == sorted(reports_) == ["accuracy", "count", "labels"]
        np.testing.assert_array_equal(reports["labels"], reports_["labels"])


@pytest.mark.parametrize("config", [{"moving_average_decay": 0.9}, {"accumulate_steps": 2}])
def test_the_collection_holds_the_whole_training_step(tmp_path: pathlib.Path, config: dict[str, Any]) -> None:
    with Session(Linear(True), rows(7), 1, OptimizerConfig(**config)) as run:
        path = saved(run, tmp_path)
        name = run.ops.train_op.name
    with tf.Graph().as_default() as imported:
        recovered = graph.restore_train(f"{path}.meta")
        assert recovered.train_op.name == name
        assert [op.name for op in tf.get_collection("train_op")] == [name]
        assert imported.is_fetchable(recovered.train_op)


def test_the_published_meta_graph_predicts_as_recorded(tmp_path: pathlib.Path) -> None:
    folder = golden("checkpoint_logistic/train_dir/inference_model")
    expected = np.load(golden("checkpoint_logistic/expected.npz"))
    with tf.Graph().as_default():
        ops, saver = graph.restore_predict(str(folder / "inference_model.meta"))
        with tf.Session() as session:
            saver.restore(session, str(folder / "inference_model"))
            feeds = {ops.input_batch_raw: expected["video_matrix"], ops.num_frames: np.ones(21)}
            predictions = session.run(ops.predictions, feeds)
    np.testing.assert_allclose(predictions, expected["predictions"], atol=5e-7)


def test_a_published_meta_graph_is_no_training_graph_of_ours() -> None:
    path = golden("checkpoint_logistic/train_dir/model.ckpt-30.meta")
    assert signature_of(str(path)) is None
    with tf.Graph().as_default(), pytest.raises(RunError, match=r"model\.ckpt-30\.meta .*no training step"):
        graph.restore_train(str(path))


def test_another_models_checkpoint_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    with Session(Linear(), rows(4), 1) as run:
        path = saved(run, tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("other", [3])
        with pytest.raises(RunError, match=r"lacks other, .*beta1_power"):
            graph.Restorer().restore(session, path)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("weights", [3])
        with pytest.raises(RunError, match=r"weights .*\[6, 4\].*\[3\]"):
            graph.Restorer().restore(session, path)


def test_averages_are_read_in_place_of_the_weights(tmp_path: pathlib.Path) -> None:
    with Session(Linear(), rows(4), 1, OptimizerConfig(moving_average_decay=0.5)) as run:
        run.run(run.ops.train_op)
        path = saved(run, tmp_path)
        average, weights = run.value(run.ops.averages[0][1]), run.value("weights")
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("weights", average.shape)
        graph.Restorer(0.5).restore(session, path)
        np.testing.assert_array_equal(session.run(variable), average)
        assert np.abs(average - weights).max() > 0
