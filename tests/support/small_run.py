"""A small video-level run on recorded data, for tests of commands that need a trained run."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
from golden_data import golden

from yt8m import eval as evaluation
from yt8m import train
from yt8m.lazy import tf

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITHOUT_EXPORT = ("--export_model_steps=none",)
FEATURES = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]


def train_words(folder: pathlib.Path, *more: str) -> list[str]:
    """The arguments of train.py for a small run in `folder`; `more` replaces arguments with the same flag."""
    usual = [
        f"--train_data_pattern={golden('checkpoint_logistic/train.tfrecord')}",
        f"--train_dir={folder}",
        "--num_epochs=100",
        "--batch_size=16",
        "--max_steps=12",
        "--exact_resume",
        "--log_every_n_steps=1",
        "--seed=3",
        *FEATURES,
    ]
    given = {word.partition("=")[0] for word in more}
    return [word for word in usual if word.partition("=")[0] not in given] + list(more)


def run(folder: pathlib.Path, *more: str) -> int:
    """Trains, without an export unless `more` asks for one: an export takes a third of the time of such a training."""
    asks = any(word.startswith(("--export_model_steps", "--export_dir")) for word in more)
    return train.main(train_words(folder, *more, *(() if asks else WITHOUT_EXPORT)))


def kill_in_the_middle(words: list[str], line: str) -> None:
    """Starts train.py with the arguments `words`, and kills it by SIGKILL as soon as it has logged `line`."""
    process = subprocess.Popen([sys.executable, "train.py", *words], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert any(line in said for said in process.stderr)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -9


def evaluate(folder: pathlib.Path, *more: str) -> dict:
    """Evaluates the run in `folder`; returns the content of report.json."""
    data = golden("checkpoint_logistic/test.tfrecord")
    words = [f"--train_dir={folder}", f"--eval_data_pattern={data}", "--run_once", *more]
    assert evaluation.main(words) == 0
    return json.loads((folder / "eval/report.json").read_text())


def losses(folder: pathlib.Path) -> dict[int, float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines}


def weights(folder: pathlib.Path, step: int) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(folder / f"model.ckpt-{step}"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
