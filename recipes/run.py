"""One small recipe from beginning to end: trained, evaluated, measured."""

from __future__ import annotations

import contextlib
import io
import json
import math
import pathlib
import statistics

from recipes import files
from recipes.figures import Row
from yt8m import eval as evaluation
from yt8m import train
from yt8m.command_line import flags
from yt8m.datasets.sample_data import SampleConfig, generate_once
from yt8m.lazy import tf

LEVELS = ("video", "frame")


def make_data(folder: pathlib.Path) -> None:
    """Generates the same videos at both levels, unless the files exist."""
    for level in LEVELS:
        words = [f"--flagfile={files.DATA}", f"--level={level}", f"--out={folder / level}"]
        generate_once(flags.read(SampleConfig, "recipes", "", words))


def run(name: str, data: pathlib.Path, folder: pathlib.Path) -> Row:
    """Trains and evaluates the small recipe of a model with the programs that users run.

    Raises:
      RuntimeError: a program failed.
    """
    level = files.level(name)
    shards = data / level / level
    words = [f"--flagfile={files.SMALL / name}.flags", f"--train_dir={folder}", "--start_new_model"]
    _call(train.main([*words, f"--train_data_pattern={shards}/train/*.tfrecord"]), name)
    words = [f"--train_dir={folder}", "--run_once", f"--eval_data_pattern={shards}/validate/*.tfrecord"]
    with contextlib.redirect_stdout(io.StringIO()):  # the best and worst classes are of no interest here
        _call(evaluation.main(words), name)
    gap = json.loads((folder / "eval" / "report.json").read_text())["gap"]
    return Row(gap, _parameters(folder), _speed(folder))


def _call(status: int, name: str) -> None:
    if status:
        raise RuntimeError(f"the recipe of {name} ended with status {status}")


def _parameters(folder: pathlib.Path) -> int:
    """The number of values in the newest export."""
    newest = max((folder / "export").iterdir(), key=lambda path: int(path.name))
    return sum(math.prod(shape) for _, shape in tf.train.list_variables(str(newest / "variables/variables")))


def _speed(folder: pathlib.Path) -> float:
    """The median of examples/s over the log lines except the first, which includes the warm-up."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return statistics.median(line["examples_per_second"] for line in lines[1:])
