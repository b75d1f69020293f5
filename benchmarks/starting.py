"""Start-up times: a page of help, the first step of a training, and the prediction of one record."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.measure import Measured, Sample, Work, run_process, take_turns, timed
from yt8m.lazy import tf

_TIMES_FILE = "YT8M_BENCH_TIMES_FILE"
_IMPORT = ("-c", "from yt8m.lazy import tf; tf.Graph")  # TensorFlow, imported as all programs here import it
_PLAIN_IMPORT = ("-c", "import tensorflow")
_CLI = ("-m", "yt8m.command_line.cli")


def overview(repeats: int) -> Measured:
    """`yt8m --help`, the interpreter's own start included."""
    return take_turns(1, _process(*_CLI, "--help"), {}, repeats)


def first_step(repeats: int) -> Measured:
    """Times the start up to the end of LogisticModel's first step. The floor only imports TensorFlow."""
    return take_turns(1, _first_step, {"import": _process(*_PLAIN_IMPORT)}, repeats)


def first_step_beside(repeats: int) -> Measured:
    """The time of `first_step` that a process that imports TensorFlow as this project does would not need."""
    return _beside(take_turns(1, _first_step, {"import": _process(*_IMPORT)}, repeats))


def resumed_step_beside(repeats: int) -> Measured:
    """Likewise the time up to the end of step 2 of a run that has ended at step 1: it imports its meta-graph."""
    with tempfile.TemporaryDirectory() as folder:
        _trained_step(f"{folder}/run", 1)
        return _beside(take_turns(1, lambda: _resumed_step(f"{folder}/run"), {"import": _process(*_IMPORT)}, repeats))


def predict(repeats: int) -> Measured:
    """Times `yt8m predict` on one record, to its end. The floor imports TensorFlow as this project does."""
    with _trained() as words:
        return take_turns(1, _process(*words), {"import": _process(*_IMPORT)}, repeats)


def predict_by_onnx(repeats: int) -> Measured:
    """Times `yt8m predict` on one record with an ONNX file, to its end: no TensorFlow is imported."""
    with _trained(is_onnx=True) as words:
        return take_turns(1, _process(*words), {}, repeats)


def predict_beside(repeats: int) -> Measured:
    """The time of `predict` without that of its floor."""
    return _beside(predict(repeats))


def _beside(measured: Measured) -> Measured:
    """Each sample less the floor that was taken before it."""
    pairs = zip(measured.samples, measured.floors["import"], strict=False)
    return Measured(1, [Sample(each.seconds - floor.seconds, each.cpu - floor.cpu) for each, floor in pairs])


@contextlib.contextmanager
def _trained(is_onnx: bool = False) -> Iterator[list[str]]:
    """The words of `yt8m predict` on one record, with a model that was trained for a step, or its ONNX file."""
    shards = _shards()
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/run"
        _process(*_CLI, "train", f"--train_data_pattern={shards}", "--max_steps=1", f"--train_dir={model}")()
        if is_onnx:
            run, model = model, f"{folder}/model.onnx"
            _process(*_CLI, "export", f"--model={run}", "--format=onnx", f"--out={model}")()
        yield [*_CLI, "predict", f"--model={model}", "--count=1", sorted(glob.glob(shards))[0]]


def _shards() -> str:
    from benchmarks import data  # imported here: a timed process imports this module for `note_first_step`

    return data.shards("video")


def _first_step() -> Sample:
    with tempfile.TemporaryDirectory() as folder:
        return _trained_step(f"{folder}/run", 1)


def _resumed_step(run: str) -> Sample:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(run, f"{folder}/run")
        return _trained_step(f"{folder}/run", 2)


def _trained_step(run: str, number: int) -> Sample:
    """Times from process start to the end of a step, after which the run ends; its checkpoint and export do not count.

    Args:
      run: the folder of the run, whose last step is `number` - 1, or that is new.
      number: of the step.
    """
    with tempfile.TemporaryDirectory() as folder:
        times = pathlib.Path(folder, "times")
        flags = (f"--train_data_pattern={_shards()}", f"--max_steps={number}", f"--train_dir={run}")
        start = time.time()
        _process(*_CLI, "train", *flags, f"--callbacks={__name__}:note_first_step", **{_TIMES_FILE: str(times)})()
        end, cpu = map(float, times.read_text().split())
        return Sample(end - start, cpu)


def note_first_step() -> tf.train.SessionRunHook:
    """A callback that records the time and the process's CPU time after the first step."""

    class FirstStep(tf.train.SessionRunHook):
        def after_run(self, run_context: object, run_values: object) -> None:
            used = resource.getrusage(resource.RUSAGE_SELF)
            pathlib.Path(os.environ[_TIMES_FILE]).write_text(f"{time.time()} {used.ru_utime + used.ru_stime}")

    return FirstStep()


def _process(*words: str, **variables: str) -> Work:
    """A process of this Python. Its modules are compiled already, as in all starts except the first."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | variables

    return timed(lambda: run_process([sys.executable, *words], environment))
