"""Training on a GPU, as a share of its peak."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from benchmarks import products, runs
from benchmarks.measure import Measured
from benchmarks.products import Product
from yt8m import deploy
from yt8m.lazy import tf

# Dense peak in TFLOP/s from the vendors' data sheets: float32 (TF32 from Ampere on), and 16 bits on tensor cores.
_PEAKS = {
    "B200": (1100.0, 2250.0),
    "H200": (494.7, 989.4),
    "H100": (494.7, 989.4),
    "A100": (156.0, 312.0),
    "L40S": (183.0, 362.0),
    "L4": (60.0, 121.0),
    "V100": (15.7, 125.0),
    "T4": (8.1, 65.0),
}
_WITHOUT_BFLOAT16 = ("V100", "T4")  # whose tensor cores multiply float16 alone
MODELS = {
    "LogisticModel": (4096, lambda batch: products.dense(batch, 1152, 3862, to_input=False)),
    "MoeModel": (4096, lambda batch: products.mixture(batch, 1152, to_input=False)),
    "DbofModel": (512, products.dbof),
    "NetVladModel": (256, products.net_vlad),
    "LstmModel": (256, lambda batch: products.recurrent(batch, 1024, gates=(4,))),
    "TransformerModel": (256, products.transformer),
}
_FRAMES = {"DbofModel", "NetVladModel", "LstmModel", "TransformerModel"}


# Sizes with which a row runs on a CPU in a moment.
SMALL_SIZES: dict[str, dict[str, Any]] = {
    "DbofModel": {"dbof_cluster_size": 8, "dbof_hidden_size": 8},
    "NetVladModel": {"netvlad_cluster_size": 4, "netvlad_hidden_size": 8},
    "LstmModel": {"lstm_cells": 4},
    "TransformerModel": {"transformer_size": 8, "transformer_feed_forward": 8, "transformer_heads": 2},
}
_SMALL_BATCH, _SMALL_STEPS, _STEPS = 8, 2, 40


def train(model: str, precision: str, xla: bool, repeats: int) -> Measured:
    """Trains a model on the first GPU."""
    name = gpu_name()
    if name is None:
        raise SystemExit("no GPU found: this row needs one; `make bench` measures the CPU")
    measured = timed_training(model, repeats, precision=precision, xla=xla)
    rate = measured.summary()["rate"]["median"]
    note = describe_share(rate * operations_of(model), peak(name, precision))
    return dataclasses.replace(measured, notes=[f"{name}: {note}"])


def timed_training(
    model: str, repeats: int, is_small: bool = False, model_options: Mapping[str, Any] | None = None, **settings: Any
) -> Measured:
    """Times training steps of a model, on the first GPU if there is one.

    Args:
      is_small: whether the sizes are those that a CPU computes in a moment.
      model_options: hyper-parameters of the model that are not its defaults.
      **settings: fields of `RunnerConfig`.
    """
    batch = _SMALL_BATCH if is_small else MODELS[model][0]
    data = runs.frame_data(batch) if model in _FRAMES else runs.video_data(batch)
    steps, sizes = (_SMALL_STEPS, SMALL_SIZES.get(model, {})) if is_small else (_STEPS, {})
    return runs.train(data, model, repeats, steps=steps, model_options={**sizes, **(model_options or {})}, **settings)


def operations_of(model: str) -> float:
    """The multiplications and additions of one video in a training step."""
    batch, products_of = MODELS[model]
    return operations(products_of(batch)) / batch


def gpu_name() -> str | None:
    """The name of the first GPU; None if there is no GPU."""
    if not deploy.count_gpus():
        return None
    device = tf.config.list_physical_devices("GPU")[0]
    return str(tf.compat.v2.config.experimental.get_device_details(device).get("device_name", "a GPU"))


def operations(needed: list[Product]) -> float:
    """The number of multiplications and additions in the products."""
    return sum(2.0 * p.rows * p.inner * p.columns * max(p.side_by_side, 1) * p.in_turn for p in needed)


def peak(name: str, precision: str) -> float | None:
    """TFLOP/s of the GPU called `name`, such as `NVIDIA A100-SXM4-40GB`; None if the table lacks it."""
    chip = next((word for word in re.split(r"[\s-]+", name) if word in _PEAKS), None)
    if chip is None or (precision == "bfloat16" and chip in _WITHOUT_BFLOAT16):
        return None
    return _PEAKS[chip][precision != "float32"]


def describe_share(rate: float, limit: float | None) -> str:
    """`rate` operations a second, against `limit` TFLOP/s."""
    share = "peak unknown" if limit is None else f"{rate / 1e12 / limit:.1%} of the peak"
    return f"{rate / 1e12:.2f} TFLOP/s, {share}"
