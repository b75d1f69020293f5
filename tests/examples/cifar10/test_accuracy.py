"""The commands as a user types them: two towers learn the generated set."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run(program, *flags):
    command = [sys.executable, "-m", f"examples.cifar10.{program}", "--generated", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)


@pytest.mark.heavy
@pytest.mark.long
def test_two_towers_pass_90_percent_on_the_generated_set(tmp_path):
    flags = f"--train_dir={tmp_path / 'run'}", f"--data_dir={tmp_path / 'data'}"
    trained = run("train", *flags, "--num_gpus=2", "--batch_size=32", "--max_steps=250")
    assert re.search(r"step 250, loss = \S+ \(\S+ examples/sec; \S+ sec/batch\)", trained.stderr)
    evaluated = run("eval", *flags)
    found = re.fullmatch(r"accuracy: (\d\.\d+)\n", evaluated.stdout)
    assert found, evaluated.stdout
    assert float(found[1]) > 0.9
