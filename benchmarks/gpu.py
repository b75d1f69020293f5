"""`python -m benchmarks.gpu [--models DbofModel] [--xla]`: training on a GPU, as a share of its peak."""

from __future__ import annotations

import argparse
import sys

from benchmarks import products, runs
from benchmarks.products import Product
from yt8m import deploy
from yt8m.lazy import tf

# Dense peak in TFLOP/s from the vendors' data sheets: float32 (TF32 from Ampere on), and 16 bits on
# tensor cores, which support only float16 before Ampere.
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
_MODELS = {
    "LogisticModel": (4096, lambda batch: products.dense(batch, 1152, 3862, to_input=False)),
    "MoeModel": (4096, lambda batch: products.mixture(batch, 1152, to_input=False)),
    "DbofModel": (512, products.dbof),
    "NetVladModel": (256, products.net_vlad),
    "LstmModel": (256, lambda batch: products.recurrent(batch, 1024, gates=(4,))),
    "TransformerModel": (256, products.transformer),
}
_FRAMES = {"DbofModel", "NetVladModel", "LstmModel", "TransformerModel"}


def main() -> int:
    """Prints a line for each model and precision; returns 1 if there is no GPU."""
    arguments = _arguments()
    name = gpu_name()
    if name is None:
        print("no GPU found: this benchmark needs one; `make bench` measures the CPU", file=sys.stderr)
        return 1
    print(name, f"{'row':34s} {'examples/s':>12s} {'TFLOP/s':>9s} of peak", sep="\n")
    for model in arguments.models.split(","):
        for precision in arguments.precisions.split(","):
            batch, needed = _MODELS[model]
            data = runs.frame_data(batch) if model in _FRAMES else runs.video_data(batch)
            rate = runs.train(data, model, arguments.repeat, steps=40, precision=precision, xla=arguments.xla)
            median = rate.summary()["rate"]["median"]
            print(line(f"{model}, {precision}", median, operations(needed(batch)) / batch, peak(name, precision)))
    return 0


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
    """TFLOP/s of the GPU called `name`; None if the table lacks it."""
    found = next((values for chip, values in _PEAKS.items() if chip in name.split()), None)
    return None if found is None else found[precision != "float32"]


def line(row: str, rate: float, each: float, limit: float | None) -> str:
    """One row: `rate` examples a second of `each` operations, against `limit` TFLOP/s."""
    reached = rate * each / 1e12
    share = "peak unknown" if limit is None else f"{reached / limit:.1%}"
    return f"{row:34s} {rate:12,.0f} {reached:9.2f} {share}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--models", default=",".join(_MODELS), help="commas between")
    parser.add_argument("--precisions", default="float32,bfloat16", help="commas between; float16 is the third")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each row")
    parser.add_argument("--xla", action="store_true", help="compile the steps")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
