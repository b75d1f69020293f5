"""`make bench-gpu`: all that a machine with a GPU can tell about training, by one command of at most eight minutes.

It says first what it will measure. Each row runs in a process of its own; if one fails or takes too long, that is noted
and the next row runs. The table at the end has the rates, their share of the chip's peak, and the bytes that a step
copies to the device beside what it must copy; rows that the time was too short for stand there too.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import functools
import json
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks import data, gpu, measure
from yt8m.lazy import tf

MINUTES = 8.0
_ROW_SECONDS = 60.0  # a row should take 10 to 25 s on a GPU, the start of TensorFlow included
_DATA_SECONDS = 240.0  # likewise for the making of the videos, which later runs find
_CUDNN = (("lstm_kernel", "cudnn"),)
_PRECISIONS = ("float32", "bfloat16", "float16")
_LINK_MB, _MATRIX = 256, 8192  # what is copied to the device, and the rows of the square matrices that are multiplied
_SMALL_LINK_MB, _SMALL_MATRIX = 1, 128
_NO_GPU = """TensorFlow found no GPU. It needs a driver that `nvidia-smi` shows, and CUDA, which `make bench-gpu`
installs where nvidia-smi is (or `pip install -e '.[gpu]'`, by the pip of this Python). `make bench` measures the CPU,
and --small tries this script on it."""
_ERROR_CHARACTERS = 100  # of a message are shown


@dataclasses.dataclass(frozen=True)
class Part:
    """One row: a kind of measurement, of a model.

    Attributes:
      kind: `data`, `device`, `rate` or `bytes`.
      model: name of the model; empty for `data` and `device`.
      settings: further devices options of a training, such as the precision.
      model_options: hyper-parameters of the model that are not its defaults.
    """

    kind: str
    model: str = ""
    settings: tuple[tuple[str, Any], ...] = ()
    model_options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Its name in the table and in the file of results."""
        options = [value if isinstance(value, str) else key for key, value in self.settings + self.model_options]
        return f"gpu/{', '.join([self.model or self.kind, *options])}" + (" bytes" if self.kind == "bytes" else "")


def parts(models: Sequence[str]) -> list[Part]:
    """The rows, those first that tell most: if the data take long to make, the last ones do not fit into the time."""

    def rates(names: Sequence[str], **settings: Any) -> list[Part]:
        return [Part("rate", model, tuple(settings.items())) for model in models if model in names]

    return [
        Part("data"),
        Part("device"),
        *rates(models, precision="float32"),
        *(Part("bytes", model) for model in models),
        *rates(models, precision="bfloat16"),
        *(dataclasses.replace(part, model_options=_CUDNN) for part in rates(["LstmModel"], precision="float32")),
        *rates(["LogisticModel", "DbofModel"], precision="bfloat16", prefetch_to_device=True),
        *rates(["MoeModel", "DbofModel"], precision="float16"),
        *rates(["MoeModel", "DbofModel"], precision="bfloat16", xla=True),
    ]


def run(part: Part, is_small: bool) -> dict[str, Any]:
    """Measures a row in this process."""
    if part.kind == "data":
        return {"notes": [f"{data.EXAMPLES[level]:,} {level}s in {data.shards(level)}" for level in ("video", "frame")]}
    if part.kind == "device":
        return _device(is_small)
    if part.kind == "bytes":
        return _bytes(part.model, is_small)
    settings = dict(part.settings)
    timed = functools.partial(gpu.timed_training, part.model, is_small=is_small, model_options=dict(part.model_options))
    measured = measure.watched(lambda repeats: timed(repeats, **settings), 2)
    needed = gpu.operations_of(part.model)
    rate = measured["rate"]["median"]
    share = gpu.describe_share(rate * needed, gpu.peak(gpu.gpu_name() or "", str(settings["precision"])))
    return {**measured, "notes": [share]}


def _device(is_small: bool) -> dict[str, Any]:
    """How fast the device gets bytes, and multiplies matrices."""
    size, rows = (_SMALL_LINK_MB, _SMALL_MATRIX) if is_small else (_LINK_MB, _MATRIX)
    device = "/device:GPU:0" if gpu.gpu_name() else "/device:CPU:0"
    notes = [f"{_copied_per_second(device, size) / 1e9:.2f} GB/s to the device"]
    for precision in _PRECISIONS:
        with contextlib.suppress(tf.errors.OpError):  # the chip lacks this precision
            notes.append(f"{_operations_per_second(device, rows, precision) / 1e12:.2f} TFLOP/s in {precision}")
    return {"notes": notes}


def _copied_per_second(device: str, megabytes: int) -> float:
    """Bytes per second from the host to a device."""
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device("/device:CPU:0"):
            source = tf.get_variable("source", [megabytes << 18], initializer=tf.zeros_initializer())
        with tf.device(device):
            arrived = tf.reduce_max(tf.identity(source.read_value())[:1])
        session.run(tf.global_variables_initializer())
        return (megabytes << 20) / measure.timed_steps(session, arrived, 5)().seconds


def _operations_per_second(device: str, rows: int, precision: str) -> float:
    """Multiplications and additions per second in a product of two square matrices."""
    with tf.Graph().as_default(), tf.device(device), tf.Session() as session:
        factor = tf.get_variable("factor", [rows, rows], tf.as_dtype(precision), tf.zeros_initializer())
        product = tf.matmul(factor, factor)[0, 0]
        session.run(tf.global_variables_initializer())
        return 2 * rows**3 / measure.timed_steps(session, product, 5)().seconds


def _bytes(model: str, is_small: bool) -> dict[str, Any]:
    """What a step with one tower copies, by `benchmarks.copies`."""
    from benchmarks import copies  # replaces devices, so only here

    settings = gpu.SMALL_SIZES.get(model, {}) if is_small else {}
    copied = copies.Crossing.of(copies.copies(model, 1, **settings))
    least = copies.floor(model, 1, **settings)
    return {"notes": [f"{copied.bytes / 1e6:.1f} MB a step of 1,024 videos, {copied.bytes / least:.2f} of the floor"]}


def main() -> int:
    """Runs the rows within the time, and prints the table."""
    arguments = _arguments()
    planned = [part for part in parts(arguments.models.split(",")) if fnmatch.fnmatch(part.name, arguments.rows)]
    if arguments.row:
        [part] = [part for part in planned if part.name == arguments.row]
        print(json.dumps(run(part, arguments.small)))
        return 0
    end = time.monotonic() + 60 * arguments.minutes
    name = "small sizes" if arguments.small else _gpu_of_a_process()
    if not name:
        print(_NO_GPU, file=sys.stderr)
        return 1
    print(f"{name}: at most {arguments.minutes:g} minutes for these rows, in this order:", flush=True)
    print("".join(f"  {part.name}\n" for part in planned), flush=True)
    results = dict(_run_all(planned, arguments, end))
    print(_table(name, results), flush=True)
    if arguments.json:
        rows = {name: result for name, result in results.items() if "rate" in result}
        text = json.dumps({"machine": name, "rows": rows, "all": results}, indent=1)
        pathlib.Path(arguments.json).write_text(text + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_report", description=__doc__)
    parser.add_argument("--models", default=",".join(gpu.MODELS), help="names with commas between")
    parser.add_argument("--rows", default="*", help="names of rows, with * as in a shell")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="after which no row is begun, and the one that runs is given up"
    )
    parser.add_argument("--row_seconds", type=float, default=_ROW_SECONDS, help="after which a row is given up")
    parser.add_argument("--small", action="store_true", help="tiny sizes, on the CPU too: tries the script")
    parser.add_argument("--json", help="file to write the results to; compare two by -m benchmarks.compare")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    return parser.parse_args()


def _gpu_of_a_process() -> str:
    """The name of the first GPU, which another process finds: this one must not occupy its memory."""
    words = [sys.executable, "-c", "from benchmarks import gpu; print(gpu.gpu_name() or '')"]
    return measure.run_process(words).strip()


def _run_all(
    planned: Sequence[Part], arguments: argparse.Namespace, end: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs each row in a process of its own, until the time is over."""
    for part in planned:
        most = _DATA_SECONDS if part.kind == "data" else arguments.row_seconds
        seconds = min(most, end - time.monotonic())
        result = _in_process(part, arguments, seconds) if seconds > 0 else {"error": "not run: the time is over"}
        print(f"{part.name:45s} {_line(result)}", flush=True)
        yield part.name, result


def _in_process(part: Part, arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """The result of a row, or its error."""
    words = [sys.executable, "-m", "benchmarks.gpu_report", f"--row={part.name}", f"--models={arguments.models}"]
    words += ["--small"] if arguments.small else []
    try:
        output = measure.run_process(words, seconds=seconds)
        result: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    except SystemExit as error:
        return {"error": str(error).strip().splitlines()[-1]}
    except (IndexError, ValueError):  # it ended with status 0 and yet without a result
        return {"error": "printed no result"}
    return result


def _line(result: Mapping[str, Any]) -> str:
    """A result as text."""
    if "error" in result:
        return f"FAILED: {result['error'][:_ERROR_CHARACTERS]}"
    rate = f"{result['rate']['median']:,.0f} videos/s; " if "rate" in result else ""
    return rate + "; ".join(result["notes"])


def _table(machine: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """All rows below one another, with the number of those that failed."""
    failed = sum("error" in result for result in results.values())
    lines = [f"{name:45s} {_line(result)}" for name, result in results.items()]
    return "\n".join(["", f"{machine}: {len(results) - failed} of {len(results)} rows were measured", *lines])


if __name__ == "__main__":
    sys.exit(main())
