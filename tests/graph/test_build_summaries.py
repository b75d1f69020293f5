"""What a training step writes for TensorBoard, and which batch each tower takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph.graph_toy import Linear, Rows, Session, initial_weights, rows

from yt8m import deploy, graph
from yt8m.config.train_config import OptimizerConfig
from yt8m.graph import Report
from yt8m.graph.build import _histogram, _sample_values
from yt8m.lazy import tf
from yt8m.types import ModelOutput

SGD = OptimizerConfig(optimizer="GradientDescentOptimizer", base_learning_rate=0.1, clip_gradient_norm=0)


class Collecting(Linear):
    """Puts its single losses where TensorFlow's own loss functions put theirs."""

    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        output = super().build(batch, is_training)
        with tf.name_scope("parts"):
            tf.add_to_collection(tf.GraphKeys.LOSSES, tf.identity(output.loss, name="cross_entropy"))
        return output


@pytest.mark.parametrize("towers", [1, 3])
def test_the_tags_are_the_names_of_losses_gradients_and_weights(towers: int) -> None:
    with Session(Collecting(), rows(7), towers, SGD) as run:
        fetched = run.run([run.ops.summary_op, run.ops.label_loss, run.ops.total_loss, run.ops.train_op])
    values = {value.tag: value for value in tf.Summary.FromString(fetched[0]).value}
    assert set(values) == {
        "parts/cross_entropy",
        "label_loss",
        "reg_loss",
        "total_loss",
        "learning_rate",
        "weights",
        "weights/gradient",
    }
    assert values["parts/cross_entropy"].simple_value == pytest.approx(fetched[1], rel=1e-6)
    assert values["label_loss"].simple_value == pytest.approx(fetched[1], rel=1e-6)
    assert values["total_loss"].simple_value == pytest.approx(fetched[2], rel=1e-6)
    assert values["weights"].histo.num == initial_weights().size


def test_without_a_penalty_the_regularisation_loss_has_no_summary() -> None:
    with Session(Linear(), rows(4), 1, OptimizerConfig(regularization_penalty=0.0)) as run:
        summary = run.run(run.ops.summary_op)
    tags = {value.tag for value in tf.Summary.FromString(summary).value}
    assert {"label_loss", "total_loss"} <= tags
    assert "reg_loss" not in tags


class Summarising(Linear):
    """Has summaries of its own, as any model of TensorFlow 1 may have."""

    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        output = super().build(batch, is_training)
        with tf.name_scope("mine"):
            tf.summary.scalar("twice", 2.0 * output.loss)
            tf.summary.histogram("predictions", output.predictions)
            tf.summary.image("pictures", tf.zeros([2, 4, 4, 1]), max_outputs=2)
        return output


@pytest.mark.parametrize(("towers", "prefix"), [(1, ""), (3, "clone_0/")])
def test_the_models_own_summaries_are_written_with_the_others(towers: int, prefix: str) -> None:
    """Those of the first tower, in the very step that is run; those of the predict path are not."""
    with Session(Summarising(), rows(9), towers, SGD) as run:
        fetched = run.run([run.ops.summary_op, run.ops.label_loss])
        tags = graph.summary_tags(run.ops.summary_op)
    values = {value.tag: value for value in tf.Summary.FromString(fetched[0]).value}
    own = {tag.removeprefix(f"{prefix}mine/") for tag in values if "mine" in tag}
    assert own == {"twice", "predictions", "pictures/image/0", "pictures/image/1"}
    assert values[f"{prefix}mine/predictions"].histo.num == 9 // towers * initial_weights().shape[1]
    if towers == 1:
        assert values["mine/twice"].simple_value == pytest.approx(2 * fetched[1], rel=1e-6)
    assert set(tags) == set(values)


@pytest.mark.parametrize("shape", [(1200, 330), (1000, 300, 2), (400_000,), (512, 256), (1152, 3862), (128, 256)])
def test_a_histogram_of_many_values_takes_some_of_every_column(shape: tuple[int, ...]) -> None:
    columns = np.broadcast_to(np.arange(shape[-1], dtype=np.float32), shape)
    with tf.Graph().as_default(), tf.Session() as session:
        shown = session.run(_sample_values(tf.constant(columns)))
    whole = int(np.prod(shape))
    assert shown.size == whole if whole <= 1 << 15 else (1 << 14) < shown.size <= 1 << 15
    if len(shape) > 1:
        found = np.bincount(shown.ravel().astype(int), minlength=shape[-1])
        assert found.max() - found.min() <= 2


@pytest.mark.parametrize("shape", [(), (0,), (7,), (6, 5), (2, 3, 4)])
def test_a_histogram_leaves_out_values_that_are_not_finite(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    values[values == 3] = np.nan
    values[values == 5] = -np.inf
    with tf.Graph().as_default(), tf.Session() as session:
        (shown,) = tf.Summary.FromString(session.run(_histogram("values", tf.constant(values)))).value
    finite = values[np.isfinite(values)]
    assert (shown.tag, shown.histo.num) == ("values", finite.size)
    assert shown.histo.sum == finite.sum()
    assert shown.histo.sum_squares == np.square(finite).sum()
    if finite.size:
        assert (shown.histo.min, shown.histo.max) == (finite.min(), finite.max())


class Ordered(Linear):
    """Reports the rows of each tower."""

    def reports(self, batch: Any, output: ModelOutput, mode: str) -> dict[str, Report]:
        return {"labels": Report(batch[1])}


def test_each_tower_takes_the_batches_in_order() -> None:
    labels = np.repeat(np.arange(12), 2).astype(np.int32) % 4
    with tf.Graph().as_default():
        deployment = deploy.DeploymentConfig(num_clones=3, spread_on_cpu=True)
        inputter = Rows(rows(24)[0], labels, batch_size=2)
        ops = graph.build(inputter, Ordered(), deployment, SGD, split=False)
        with tf.Session(config=deployment.session_config()) as session:
            session.run(tf.global_variables_initializer())
            session.run(ops.input.initializer, {ops.input.files: ["rows"]})
            got = [session.run([ops.reports["labels"], ops.train_op])[0].tolist() for _ in range(4)]
    assert got == [[0, 0, 1, 1, 2, 2], [3, 3, 0, 0, 1, 1], [2, 2, 3, 3, 0, 0], [1, 1, 2, 2, 3, 3]]
