"""Batch-norm averages after one training step, against those that the published DBoF model took."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import golden

from yt8m import deploy, graph, losses, models
from yt8m.config.train_config import OptimizerConfig
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler

pytestmark = [pytest.mark.long, pytest.mark.heavy]


class Recorded(graph.Inputter):
    """An inputter that gives the recorded batch again and again."""

    batch_size = 7

    def __init__(self, data: dict[str, np.ndarray]) -> None:
        self.data = data

    def files(self) -> list[str]:
        return ["recorded"]

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        labels = np.eye(10, dtype=bool)[np.arange(7)]
        arrays = (self.data["input_raw"],), self.data["num_frames"], labels
        ids = np.array([b"id"] * 7)
        batch = Batch(ids, arrays[0], arrays[1], arrays[2])
        return tf.data.Dataset.from_tensors(batch._replace(label_weights=np.ones((7, 10), np.float32))).repeat()


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    with np.load(golden("model_dbof_const_train.npz")) as file:
        return dict(file)


def fetched(data: dict[str, np.ndarray], fetch: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """All variables before and after `fetch` alone was fetched from one step of training."""
    model = models.create(
        "DbofModel", {"iterations": 6, "dbof_cluster_size": 16, "dbof_hidden_size": 12, "moe_num_mixtures": 2}
    )
    modeler = VideoModeler(model, losses.get("CrossEntropyLoss")(), 10)
    with tf.Graph().as_default(), tf.Session() as session:
        ops = graph.build(Recorded(data), modeler, deploy.DeploymentConfig(1, True), OptimizerConfig())
        session.run(tf.global_variables_initializer())
        session.run(ops.input.initializer, {ops.input.files: ["recorded"]})
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        for key, value in data.items():
            if key.startswith("var:"):
                variable = variables[key[len("var:") :].removesuffix(":0")]
                session.run(variable.initializer, {variable.initializer.inputs[1]: value})
        before = session.run(variables)
        session.run(getattr(ops, fetch))
        return before, session.run(variables)


@pytest.mark.parametrize("fetch", ["train_op", "step"])
def test_a_step_moves_the_averages_once(data: dict[str, np.ndarray], fetch: str) -> None:
    _, after = fetched(data, fetch)
    moved = [key for key in data if key.startswith("after:")]
    assert len(moved) == 6
    for key in moved:
        name = key[len("after:") :].removesuffix(":0")
        np.testing.assert_allclose(after[name], data[key], rtol=1e-5, atol=1e-6, err_msg=name)
        assert np.abs(data[key] - data[f"var:{name}:0"]).max() > 1e-5


@pytest.mark.parametrize("fetch", ["total_loss", "summary_op", "gradient_norms", "bad_tower", "reports"])
def test_what_is_only_looked_at_changes_no_variable(data: dict[str, np.ndarray], fetch: str) -> None:
    before, after = fetched(data, fetch)
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
