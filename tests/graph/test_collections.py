"""The published collection names, in the graphs of training and of evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import golden

from yt8m import deploy, graph, losses, models, readers
from yt8m.config.train_config import OptimizerConfig
from yt8m.lazy import tf
from yt8m.numerics import expected_rows
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler

BOTH = ("global_step", "loss", "predictions", "input_batch_raw", "input_batch", "num_frames", "labels")
EVALUATION = ("video_id_batch", "label_weights", "summary_op")
CLASSES, SIZES = 20, (16, 8)


def parts(shuffle: bool) -> tuple[readers.BatchQueue, VideoModeler, deploy.DeploymentConfig]:
    reader = readers.YT8MFrameFeatureReader(
        num_classes=CLASSES, feature_sizes=SIZES, feature_names=("rgb", "audio"), segment_labels=True
    )
    queue = readers.BatchQueue(reader, str(golden("tiny_segment.tfrecord")), 4, 1, shuffle=shuffle)
    model, loss = models.get("FrameLevelLogisticModel")(), losses.get("CrossEntropyLoss")()
    return queue, VideoModeler(model, loss, CLASSES, 5, SIZES), deploy.local(2, 0)[0]


@pytest.mark.parametrize("mode", ["train", pytest.param("eval", marks=pytest.mark.heavy)])
def test_every_published_name_holds_one_thing_of_a_step(mode: str) -> None:
    queue, modeler, deployment = parts(shuffle=mode == "train")
    names = [*BOTH, *EVALUATION, *(["train_op"] if mode == "train" else [])]
    with tf.Graph().as_default():
        if mode == "train":
            ops = graph.build(queue, modeler, deployment, OptimizerConfig())
        else:
            ops = graph.build_eval(queue, modeler, deployment)
        found = {name: tf.get_collection(name) for name in names}
        assert {name: len(items) for name, items in found.items()} == dict.fromkeys(names, 1)
        assert found["labels"][0].dtype == tf.float32  # bool inside, as it takes a quarter of the memory
        model_variables = {variable.op.name for variable in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)}
        assert model_variables == {"tower/fully_connected/weights", "tower/fully_connected/biases"}
        with tf.Session(config=deployment.session_config()) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            session.run(ops.input.initializer, {ops.input.files: queue.files()})
            got = session.run({name: items[0] for name, items in found.items()})
    rows = 4 * deployment.num_clones
    assert got["predictions"].shape == got["labels"].shape == got["label_weights"].shape == (rows, CLASSES)
    assert got["input_batch_raw"].shape == (rows, 5, sum(SIZES))
    np.testing.assert_allclose(np.linalg.norm(got["input_batch"][0, 0]), 1, rtol=1e-5)
    assert got["num_frames"].shape == got["video_id_batch"].shape == (rows,)
    summaries = {value.tag: value.simple_value for value in tf.Summary.FromString(got["summary_op"]).value}
    assert summaries["label_loss"] == pytest.approx(got["loss"], rel=1e-6)


@pytest.mark.parametrize(("mode", "rows"), [("train", 0), ("eval", 4), ("infer", 4)])
def test_a_graph_that_scores_knows_how_many_examples_its_towers_get(
    mode: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, modeler, deployment = parts(shuffle=mode == "train")
    build, told = VideoModeler.build, []

    def watched(self: VideoModeler, batch: Batch, is_training: bool) -> ModelOutput:
        told.append(expected_rows.current())
        return build(self, batch, is_training)

    monkeypatch.setattr(VideoModeler, "build", watched)
    with tf.Graph().as_default():
        if mode == "train":
            graph.build(queue, modeler, deployment, OptimizerConfig())
        else:
            graph.build_eval(queue, modeler, deployment, mode)
    assert told == [rows, rows]
    assert expected_rows.current() == 0
