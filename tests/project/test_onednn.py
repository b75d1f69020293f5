"""As TensorFlow runs graphs by default, with oneDNN and rewritten, results are the same; `make test` does without."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import plain_graphs
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.heavy
@pytest.mark.long
def test_recorded_runs_and_models_give_their_values(tmp_path: pathlib.Path) -> None:
    tests = ["tests/project/test_golden_run.py", "tests/models/test_golden.py"]
    words = ["-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/inner", *tests]
    done = subprocess.run(
        [sys.executable, *words, "-k", "evaluated or forward_pass"],
        cwd=ROOT,
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", plain_graphs.VARIABLE: "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ".." * 5 in done.stdout
