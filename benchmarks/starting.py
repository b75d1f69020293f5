"""Start-up times: a page of help, the first step of a training, and the prediction of one record."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.measure import Measured, Sample, cpu_seconds
from yt8m.lazy import tf

_TOLD_IN = "YT8M_BENCH_TOLD_IN"
_IMPORT = "from yt8m.lazy import tf; tf.Graph"  # TensorFlow, imported as all programs here import it


def overview(repeats: int) -> Measured:
    """`yt8m --help`, the interpreter's own start included."""
    _process(["-m", "yt8m.command_line.cli", "--help"])  # fills the page cache
    return Measured(1, [_process(["-m", "yt8m.command_line.cli", "--help"]) for _ in range(repeats)], [])


def first_step(repeats: int) -> Measured:
    """Times the start up to the end of LogisticModel's first step. The floor only imports TensorFlow."""
    measured = Measured(1, [], [])
    for _ in range(repeats + 1):
        measured.samples.append(_first_step())
        measured.floors.append(_process(["-c", "import tensorflow"]))
    del measured.samples[0]
    return measured


def first_step_beside(repeats: int) -> Measured:
    """The time of `first_step` that a process that imports TensorFlow as this project does would not need."""
    return _beside(_in_turn(_first_step, repeats))


def predict(repeats: int) -> Measured:
    """Times `yt8m predict` on one record, to its end. The floor imports TensorFlow as this project does."""
    with _trained() as words:
        return _in_turn(lambda: _process(words), repeats)


def predict_beside(repeats: int) -> Measured:
    """The time of `predict` without that of its floor."""
    return _beside(predict(repeats))


def _in_turn(action: Callable[[], Sample], repeats: int) -> Measured:
    """Times `action` and the import of TensorFlow in turn, after one round that is not counted."""
    rounds = [(action(), _process(["-c", _IMPORT])) for _ in range(repeats + 1)][1:]
    return Measured(1, [one for one, _ in rounds], [floor for _, floor in rounds])


def _beside(measured: Measured) -> Measured:
    """Each sample less the floor that was taken next to it."""
    pairs = zip(measured.samples, measured.floors, strict=True)
    return Measured(1, [Sample(one.seconds - floor.seconds, one.cpu - floor.cpu) for one, floor in pairs], [])


@contextlib.contextmanager
def _trained() -> Iterator[list[str]]:
    """The words of `yt8m predict` on one record, with a model that was trained for a step."""
    shards = _shards()
    with tempfile.TemporaryDirectory() as folder:
        run = ("-m", "yt8m.command_line.cli")
        _process([*run, "train", f"--train_data_pattern={shards}", "--max_steps=1", f"--train_dir={folder}/run"])
        yield [*run, "predict", f"--train_dir={folder}/run", "--count=1", sorted(glob.glob(shards))[0]]


def _shards() -> str:
    from benchmarks import data  # imported here: a timed process imports this module for `told`

    return data.shards("video")


def _first_step() -> Sample:
    """Times from process start to the end of step 1; the checkpoint and export after it are left out."""
    with tempfile.TemporaryDirectory() as folder:
        told = pathlib.Path(folder, "told")
        start = time.time()
        _process(
            [
                *("-m", "yt8m.command_line.cli", "train", f"--train_data_pattern={_shards()}"),
                *("--max_steps=1", f"--train_dir={folder}/run", f"--callbacks={__name__}:told"),
            ],
            {_TOLD_IN: str(told)},
        )
        end, cpu = map(float, told.read_text().split())
        return Sample(end - start, cpu)


def told() -> tf.train.SessionRunHook:
    """A callback that records the time and the process's CPU time after the first step."""

    class Told(tf.train.SessionRunHook):
        def after_run(self, run_context: object, run_values: object) -> None:
            path = pathlib.Path(os.environ[_TOLD_IN])
            path.write_text(f"{time.time()} {cpu_seconds(resource.RUSAGE_SELF)}")

    return Told()


def _process(words: Sequence[str], told: dict[str, str] | None = None) -> Sample:
    """Times a process of this Python. Its modules are compiled already, as in all starts except the first."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before, start = cpu_seconds(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words], env={**environment, **(told or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return Sample(time.perf_counter() - start, cpu_seconds(resource.RUSAGE_CHILDREN) - before)
