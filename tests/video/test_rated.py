"""An evaluation on rated pairs: the same figures and the same loss as from all scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evaluated_videos import add_rated

from yt8m import eval_util, losses
from yt8m.eval_util.segments import RatedPairs
from yt8m.graph.inputs import reduce_reports, split_batch
from yt8m.lazy import tf
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler

ROWS, WIDTH, CLASSES = 9, 6, 12


class Logistic:
    input_transform = "raw"

    def create_model(self, model_input: tf.Tensor, **unused: Any) -> ModelOutput:
        draw = np.random.default_rng(1)
        weights = draw.normal(size=(WIDTH, CLASSES)).astype(np.float32)
        logits = tf.nn.bias_add(tf.matmul(model_input, weights), draw.normal(size=CLASSES).astype(np.float32))
        return ModelOutput(tf.sigmoid(logits), logits)


@pytest.mark.parametrize("loss", ["CrossEntropyLoss", "LabelSmoothingLoss"])
@pytest.mark.parametrize(("rows", "towers", "keeps_videos"), [(ROWS, 1, False), (ROWS, 3, True), (2, 4, False)])
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_figures_are_those_of_all_scores(loss: str, rows: int, towers: int, keeps_videos: bool, share: float) -> None:
    draw = np.random.default_rng(7)
    inputs = draw.normal(size=(rows, WIDTH)).astype(np.float32)
    labels = (draw.random((rows, CLASSES)) < 0.5).astype(np.float32)
    weights = (draw.random(labels.shape) < share).astype(np.float32)
    modeler = VideoModeler(Logistic(), losses.create(loss), CLASSES, top_k=4, feature_sizes=(WIDTH,))
    modeler.keeps_videos = keeps_videos
    with tf.Graph().as_default(), tf.Session() as session:
        arrays = [tf.constant(array) for array in (inputs, labels, weights)]
        ids = tf.as_string(tf.range(rows))
        batch = Batch(ids, (arrays[0],), tf.ones([rows], tf.int32), arrays[1], arrays[2])
        shares = split_batch(batch, towers)
        outputs = [modeler.build(share.batch, is_training=False) for share in shares]
        parts = zip(shares, outputs, strict=True)
        reports = reduce_reports([modeler.reports(s.batch, output, "eval") for s, output in parts], shares)
        loss_of_all = tf.add_n([o.loss * s.weight for o, s in zip(outputs, shares, strict=True)])
        scores = modeler.build(batch, is_training=False).predictions
        expected_loss = modeler.label_loss.calculate_loss(scores, arrays[1], arrays[2])
        session.run(tf.local_variables_initializer())
        for _ in range(2):  # the first step turns the weights
            fetched, mean_loss, all_scores, all_loss = session.run([reports, loss_of_all, scores, expected_loss])
    evaluator, dense, pairs = (modeler.evaluator(), eval_util.EvaluationMetrics(CLASSES, 4), RatedPairs(CLASSES))
    evaluator.accumulate(modeler.completed(fetched), mean_loss)
    dense.accumulate(all_scores, labels, all_loss, label_weights=weights)
    add_rated(pairs, np.where(weights > 0, all_scores, -np.inf), labels)
    found, expected = evaluator.get(), dense.get()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    assert found["map_at_n"] == pytest.approx(pairs.get().map)
    assert (evaluator.sample is not None) is keeps_videos
    if keeps_videos:
        assert evaluator.sample.seen == expected["num_examples"]
