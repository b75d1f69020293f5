"""Each line stands in the log once."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

_PROGRAM = """
from absl import logging
from yt8m import program
from yt8m.lazy import tf
program.set_up_log()
logging.info("from absl before")
tf.logging.warning("from TensorFlow")
program.set_up_log()
logging.info("from absl after")
tf.logging.warning("from TensorFlow again")
"""


def test_lines_of_absl_and_tensorflow_appear_once_in_one_format():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, env=environment)
    lines = [line for line in done.stderr.splitlines() if line.startswith("20")]
    assert [line.split(" ", 2)[2] for line in lines] == [
        "INFO from absl before",
        "WARNING from TensorFlow",
        "INFO from absl after",
        "WARNING from TensorFlow again",
    ]
