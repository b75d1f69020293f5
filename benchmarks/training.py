"""Rows of training: each model at its default size, with the products that it cannot do without as its floor."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from benchmarks import input as reading
from benchmarks import products, runs
from benchmarks.floors import Floor
from benchmarks.measure import Measured, Sample, take_turns, timed
from benchmarks.peers.ours import OPTIMIZER, Stored
from benchmarks.rows import Measure, Row
from yt8m import deploy, graph
from yt8m.config.train_config import DeviceConfig
from yt8m.lazy import tf
from yt8m.readers import BatchQueue

BATCH = 1024


def train_videos(model: str, needed: Sequence[products.Product] = (), precision: str = "float32") -> Measure:
    """The `measure` of a row that trains a model on videos."""

    def measure(repeats: int) -> Measured:
        floors = _floors(needed, 20, precision)
        return runs.train(runs.video_data(BATCH), model, repeats, floors, precision=precision)

    return measure


def train_frames(
    model: str, batch: int, needed: Sequence[products.Product] = (), precision: str = "float32"
) -> Measure:
    """The `measure` of a row that trains a large model on frames: few steps, since each takes a second or more."""

    def measure(repeats: int) -> Measured:
        floors, config = _floors(needed, 2, precision), runs.frame_data(batch)
        return runs.train(config, model, repeats, floors, steps=runs.FEW_STEPS, precision=precision)

    return measure


def _floors(needed: Sequence[products.Product], steps: int, precision: str) -> dict[str, Floor]:
    return {"products": Floor(needed, steps, precision)} if needed else {}


def train_frame_logistic(repeats: int) -> Measured:
    """The floor only reads the same batches. The second floor adds the products of the classifier."""
    config = runs.frame_data()
    read = reading.Reading(BatchQueue.for_config(config, "train"), steps=20)
    multiply = Floor(products.dense(config.batch_size, products.FEATURES, products.CLASSES, to_input=False))
    floors = {"reading": read, "reading and products": lambda: Sample(*map(operator.add, read(), multiply()))}
    return runs.train(config, "FrameLevelLogisticModel", repeats, floors)


def train_cached(repeats: int) -> Measured:
    """LogisticModel on a cache of parsed videos."""
    with reading.cached(runs.video_data(BATCH)) as config:
        return runs.train(config, "LogisticModel", repeats, _floors(LOGISTIC, 20, "float32"))


def train_cached_frames(repeats: int) -> Measured:
    """FrameLevelLogisticModel on a cache of parsed frames."""
    with reading.cached(runs.frame_data()) as config:
        return runs.train(config, "FrameLevelLogisticModel", repeats)


def steps_cached(model: str, batch: int) -> Measure:
    """The `measure` of a row of bare training steps from a cache of frames. The floor takes batches in memory."""

    def measure(repeats: int) -> Measured:
        with reading.cached(runs.frame_data(batch)) as config:
            cached, plain = (runs.create_workload("train", config, model) for _ in range(2))
            work = _Steps(cached.inputter, cached.modeler)
            floor = _Steps(Stored(plain.inputter, draws_frames=False), plain.modeler)
            return take_turns(batch, work, {"batches in memory": floor}, repeats)

    return measure


class _Steps:
    """Bare training steps, without log lines and summaries.

    Args:
      inputter: makes the batches.
      modeler: the model.
      steps: steps of a sample.
    """

    def __init__(self, inputter: graph.Inputter, modeler: graph.Modeler, steps: int = 5) -> None:
        self._steps, (deployment, _) = steps, deploy.local(1, 0)
        with tf.Graph().as_default():
            tf.set_random_seed(0)
            ops = graph.build(inputter, modeler, deployment, OPTIMIZER, DeviceConfig())
            self._session, self._fetch = tf.Session(config=deployment.session_config()), ops.train_op
            self._session.run(tf.global_variables_initializer())
            self._session.run(ops.input.initializer, {ops.input.files: inputter.files()})

    def __call__(self) -> Sample:
        """Seconds of one step."""
        self._run(2)
        return timed(lambda: self._run(self._steps), self._steps)()

    def _run(self, steps: int) -> None:
        for _ in range(steps):
            self._session.run(self._fetch)


def evaluate_logistic(repeats: int) -> Measured:
    """LogisticModel evaluated, metrics included."""
    needed = products.dense(BATCH, products.FEATURES, products.CLASSES, training=False)
    return runs.evaluate(runs.video_data(BATCH), "LogisticModel", repeats, _floors(needed, 20, "float32"))


LOGISTIC = products.dense(BATCH, products.FEATURES, products.CLASSES, to_input=False)
_MIXTURE = products.mixture(BATCH, products.FEATURES, to_input=False)
_LSTM, _GRU = products.recurrent(32, 1024, gates=(4,)), products.recurrent(32, 1200, gates=(2, 1))

# (products, target ratio in float32, target ratio in bfloat16); models on frames begin with the batch size.
_VIDEO_MODELS = {"LogisticModel": (LOGISTIC, 0.70, 0.58), "MoeModel": (_MIXTURE, 0.68, 0.55)}
_FRAME_MODELS = {
    "DbofModel": (64, products.dbof(64), 0.62, 0.55),
    "NetVladModel": (80, products.net_vlad(80), 0.55, None),
    "LstmModel": (32, _LSTM, 0.50, None),
    "GruModel": (32, _GRU, 0.50, None),
    "TransformerModel": (32, products.transformer(32), 0.60, None),
}


def models() -> dict[str, Row]:
    """The rows of every model with a floor, in both precisions."""
    rows = {}
    for model, (needed, *ratios) in _VIDEO_MODELS.items():
        for precision, ratio in zip(("float32", "bfloat16"), ratios, strict=True):
            rows[row_name("train", model, precision)] = Row(train_videos(model, needed, precision), ratio=ratio)
    for model, (batch, needed, *ratios) in _FRAME_MODELS.items():
        for precision, ratio in zip(("float32", "bfloat16"), ratios, strict=True):
            rows[row_name("train", model, precision)] = Row(train_frames(model, batch, needed, precision), ratio=ratio)
    return rows


def row_name(group: str, model: str, precision: str) -> str:
    """The name of a row on the command line and in the table."""
    return f"{group}/{model}" if precision == "float32" else f"{group}/{model}, {precision}"
