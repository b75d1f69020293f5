"""Rows of training, evaluation and inference from files.

Models have their default sizes. The floor of a training is mostly the products that the model cannot do without.
"""

from __future__ import annotations

import operator
import os
import tempfile
from collections.abc import Sequence
from functools import partial

from benchmarks import data, products, runs
from benchmarks.input import cached, reading
from benchmarks.measure import Measured, Sample, Work, take_turns, timed_steps
from benchmarks.peers.ours import OPTIMIZER, Stored
from benchmarks.rows import Row
from yt8m import deploy, graph, runner
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import DeviceConfig
from yt8m.lazy import tf
from yt8m.records.prediction_files import PredictionWriter

BATCH = 1024


def train_videos(needed: Sequence[products.Product], model: str, precision: str, repeats: int) -> Measured:
    """Trains a model on videos; `needed` are the products of its floor."""
    floors = {"products": products.floor(needed, 20, precision)}
    return runs.train(runs.video_data(BATCH), model, repeats, floors, precision=precision)


def train_frames(batch: int, needed: Sequence[products.Product], model: str, precision: str, repeats: int) -> Measured:
    """Trains a large model on frames: few steps, since each takes a second or more."""
    floors, config = {"products": products.floor(needed, 2, precision)}, runs.frame_data(batch)
    return runs.train(config, model, repeats, floors, steps=runs.FEW_STEPS, precision=precision)


def train_frame_logistic(repeats: int) -> Measured:
    """The floor only reads the same batches. The second floor adds the products of the classifier."""
    config = runs.frame_data()
    read = reading(config, steps=20)
    multiply = products.floor(products.dense(config.batch_size, products.FEATURES, products.CLASSES, to_input=False))
    floors = {"reading": read, "reading and products": lambda: Sample(*map(operator.add, read(), multiply()))}
    return runs.train(config, "FrameLevelLogisticModel", repeats, floors)


def train_cached(repeats: int) -> Measured:
    """LogisticModel on a cache of parsed videos."""
    with cached(runs.video_data(BATCH)) as config:
        return runs.train(config, "LogisticModel", repeats, {"products": products.floor(LOGISTIC)})


def train_cached_frames(repeats: int) -> Measured:
    """FrameLevelLogisticModel on a cache of parsed frames."""
    with cached(runs.frame_data()) as config:
        return runs.train(config, "FrameLevelLogisticModel", repeats)


def steps_cached(model: str, batch: int, repeats: int) -> Measured:
    """Bare training steps from a cache of frames. The floor takes batches in memory."""
    with cached(runs.frame_data(batch)) as config:
        work, plain = (runs.create_workload("train", config, model) for _ in range(2))
        floor = _bare_steps(Stored(plain.inputter, draws_frames=False), plain.modeler)
        return take_turns(batch, _bare_steps(work.inputter, work.modeler), {"batches in memory": floor}, repeats)


def _bare_steps(inputter: graph.Inputter, modeler: graph.Modeler) -> Work:
    """Training steps without log lines and summaries."""
    deployment, _ = deploy.local(1, 0)
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        ops = graph.build(inputter, modeler, deployment, OPTIMIZER, DeviceConfig())
        session = tf.Session(config=deployment.session_config())
        session.run(tf.global_variables_initializer())
        session.run(ops.input.initializer, {ops.input.files: inputter.files()})
    return timed_steps(session, ops.train_op, steps=5)


def evaluate_logistic(repeats: int) -> Measured:
    """LogisticModel evaluated, metrics included."""
    floor = products.floor(products.dense(BATCH, products.FEATURES, products.CLASSES, training=False))
    return runs.evaluate(runs.video_data(BATCH), "LogisticModel", repeats, {"products": floor})


def evaluate_frames(repeats: int) -> Measured:
    """FrameLevelLogisticModel, whole videos; the floor only reads the same batches."""
    config = runs.frame_data(128)
    floors = {"reading": reading(config, steps=20, is_shuffled=False)}
    return runs.evaluate(config, "FrameLevelLogisticModel", repeats, floors)


def evaluate_segments(repeats: int) -> Measured:
    """FrameLevelLogisticModel on rated segments, a few of each video."""
    config = DataConfig(
        data_pattern=data.shards("segment"),
        feature_names=("rgb", "audio"),
        frame_features=True,
        segment_labels=True,
        batch_size=1024,
        num_epochs=None,
    )
    return runs.evaluate(config, "FrameLevelLogisticModel", repeats, {})


def write_predictions(repeats: int) -> Measured:
    """LogisticModel, from data files to the submission CSV of the challenges."""
    config = runs.video_data()
    floor = products.floor(products.dense(1024, products.FEATURES, products.CLASSES, training=False))
    with tempfile.TemporaryDirectory() as folder:
        runs.train_one_step(config, "LogisticModel", folder)
        videos = runs.create_workload("infer", config, "LogisticModel")
        with open(os.path.join(folder, "predictions.csv"), "w") as file:
            job, writer = runner.RunnerConfig("infer", folder), {"consumer": PredictionWriter(file, 20)}
            return runs.run(job, videos, repeats, {"products": floor}, runs.EVAL_BLOCK, infer_writer=writer)


LOGISTIC = products.dense(BATCH, products.FEATURES, products.CLASSES, to_input=False)
_MIXTURE = products.mixture(BATCH, products.FEATURES, to_input=False)
_LSTM, _GRU = products.recurrent(32, 1024, gates=(4,)), products.recurrent(32, 1200, gates=(2, 1))

# (measure of a row but for model and precision, target ratio in float32, target ratio in bfloat16)
_MODELS = {
    "LogisticModel": (partial(train_videos, LOGISTIC), 0.70, 0.58),
    "MoeModel": (partial(train_videos, _MIXTURE), 0.68, 0.55),
    "DbofModel": (partial(train_frames, 64, products.dbof(64)), 0.62, 0.55),
    "NetVladModel": (partial(train_frames, 80, products.net_vlad(80)), 0.55, None),
    "LstmModel": (partial(train_frames, 32, _LSTM), 0.50, None),
    "GruModel": (partial(train_frames, 32, _GRU), 0.50, None),
    "TransformerModel": (partial(train_frames, 32, products.transformer(32)), 0.60, None),
}


def models() -> dict[str, Row]:
    """The rows of every model with a floor, in both precisions."""
    return {
        f"train/{model}" + ("" if precision == "float32" else f", {precision}"): Row(
            partial(measure, model, precision), ratio=ratio
        )
        for model, (measure, *ratios) in _MODELS.items()
        for precision, ratio in zip(("float32", "bfloat16"), ratios, strict=True)
    }
