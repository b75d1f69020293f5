"""Tiny training steps on the devices of this process, for `yt8m doctor`; prints their results as JSON.

`yt8m doctor` runs `python -m yt8m.training.trial_steps PLACE` in a process of its own, so that a crash of a GPU library
ends only that process, and CUDA_VISIBLE_DEVICES can choose the GPU.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from yt8m import deploy, graph, losses, models
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.graph import Inputter
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler

# The places of the steps, as the table of `yt8m doctor` shows them; a tower is a copy of the model on one device.
CPU, TWO_CPUS, GPU, TWO_GPUS = "CPU", "CPU, two towers", "GPU", "two GPUs, two towers"
_DEPLOYMENTS = {
    CPU: deploy.DeploymentConfig(clone_on_cpu=True),
    TWO_CPUS: deploy.DeploymentConfig(2, spread_on_cpu=True),
    GPU: deploy.DeploymentConfig(variables_on_clone=True),
    TWO_GPUS: deploy.DeploymentConfig(2),
}
PRECISIONS = ("float32", "bfloat16")
_VIDEOS, _FRAMES, _SIZE, _CLASSES = 16, 6, 64, 10  # of the batch: videos, frames of each, values of a frame, classes
# {name: hyper-parameters}: a video-level model of matrix products, and a frame-level one with a recurrent loop.
_MODELS = {"MoeModel": {}, "LstmModel": dict(lstm_cells=16, lstm_layers=1)}


class _RandomVideos(Inputter):
    """Gives the same random videos in every process, without reading files."""

    def __init__(self, batch_size: int, level: str) -> None:
        self.batch_size, self.level = batch_size, level

    def files(self) -> Sequence[str]:
        return ()

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        draw = np.random.default_rng(11)
        if self.level == "frame":
            features = draw.integers(0, 256, (_VIDEOS, _FRAMES, _SIZE), np.uint8)
        else:
            features = draw.normal(size=(_VIDEOS, _SIZE)).astype(np.float32)
        num_frames = np.full(_VIDEOS, _FRAMES if self.level == "frame" else 1, np.int32)
        labels = draw.random((_VIDEOS, _CLASSES)) < 0.2
        video_ids = np.array([f"video {number}" for number in range(_VIDEOS)])
        arrays = Batch(video_ids, (features,), num_frames, labels)
        return tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)


def run_step(model_name: str, deployment: deploy.DeploymentConfig, precision: str) -> dict[str, Any]:
    """Takes one step of gradient descent from seeded weights.

    Args:
      model_name: a key of `_MODELS`.
      deployment: the devices of the towers.
      precision: the dtype of matrix products, float32 or bfloat16.

    Returns:
      {"loss": the label loss, "change": the update of every trained weight, as one list of numbers}.
    """
    model = models.get(model_name)(**_MODELS[model_name])
    inputter = _RandomVideos(_VIDEOS // deployment.num_clones, model.level)
    modeler = VideoModeler(model, losses.get("CrossEntropyLoss")(), _CLASSES, feature_sizes=(_SIZE,))
    optimizer = OptimizerConfig(
        optimizer="GradientDescentOptimizer", base_learning_rate=1.0, clip_gradient_norm=0.0, regularization_penalty=0.0
    )
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        ops = graph.build(inputter, modeler, deployment, optimizer, DeviceConfig(precision=precision))
        weights = tf.trainable_variables()
        with tf.Session(config=deployment.session_config()) as session:
            session.run(tf.global_variables_initializer())
            session.run([tf.assign(variable, _draw(variable, index)) for index, variable in enumerate(weights)])
            session.run(ops.input.initializer, {ops.input.files: []})
            before = session.run(weights)
            loss, _ = session.run([ops.label_loss, ops.train_op])
            change = [after - start for after, start in zip(session.run(weights), before, strict=True)]
    return {"loss": float(loss), "change": np.concatenate([values.ravel() for values in change]).tolist()}


def _draw(variable: tf.Variable, seed: int) -> np.ndarray:
    """Draws initial values, float32 of the variable's shape, by NumPy: TensorFlow's may differ between devices."""
    return np.asarray(np.random.default_rng(seed).normal(0, 0.1, variable.shape.as_list()), np.float32)


def main(place: str) -> None:
    """Takes a training step of each model in each precision, and prints the results as JSON.

    The results are `{"gpus": names, "steps": [...]}`. A step has `model`, `precision`, and `loss` and `change` of
    `run_step`.

    Args:
      place: a key of `_DEPLOYMENTS`, which says on which devices the steps run.
    """
    gpus = [
        tf.config.experimental.get_device_details(gpu).get("device_name", "a GPU")
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    steps = [
        dict(run_step(model, _DEPLOYMENTS[place], precision), model=model, precision=precision)
        for model in _MODELS
        for precision in PRECISIONS
    ]
    print(json.dumps({"gpus": gpus, "steps": steps}))


if __name__ == "__main__":
    main(sys.argv[1])
