"""The sessions of TensorFlow that this package makes; what forks change is in test_python_api_forks.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

_OPEN_TWO = """
from yt8m import forks
from yt8m.lazy import tf

for _ in range(2):
    with forks.new_session(graph=tf.Graph()) as session:
        assert session.run(tf.constant(3)) == 3
"""


@pytest.mark.heavy
def test_a_machine_without_a_gpu_is_no_error() -> None:
    done = subprocess.run([sys.executable, "-c", _OPEN_TWO], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
