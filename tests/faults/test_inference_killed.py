"""Inference that is killed while it writes."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import pytest
from golden_data import golden
from small_run import run

from yt8m import inference

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The program, with a writer that dies in the middle of its second batch.
DIES = """
import os, signal, sys
from yt8m import inference
from yt8m.records.prediction_files import PredictionWriter

add = PredictionWriter.__call__

def dies(self, reports):
    add(self, reports)
    if self.count > 8:
        os.kill(os.getpid(), signal.SIGKILL)

PredictionWriter.__call__ = dies
inference.main(sys.argv[1:])
"""


@pytest.mark.heavy
@pytest.mark.promise("O1")
def test_a_second_run_writes_the_same_bytes(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path / "run", "--max_steps=2") == 0
    data = golden("checkpoint_logistic/test.tfrecord")
    words = [f"--train_dir={tmp_path}/run", f"--input_data_pattern={data}", "--batch_size=8"]
    assert inference.main([*words, f"--output_file={tmp_path}/whole.csv"]) == 0
    output = tmp_path / "out" / "out.csv"
    output.parent.mkdir()
    words.append(f"--output_file={output}")
    killed = subprocess.run([sys.executable, "-c", DIES, *words], cwd=ROOT, stderr=subprocess.DEVNULL)
    assert killed.returncode == -signal.SIGKILL
    assert not output.exists()
    assert len(list(output.parent.iterdir())) == 1
    assert inference.main(words) == 0
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert list(output.parent.iterdir()) == [output]
