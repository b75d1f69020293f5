"""Inference by a packed model: where it is unpacked, and what stays of that."""

from __future__ import annotations

import os
import pathlib
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator

import cases
import pytest
from golden_data import golden
from small_run import run

from yt8m import inference

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The program, with a writer that waits for a word after its first batch.
WAITS = """
import sys
from yt8m import inference
from yt8m.records.prediction_files import PredictionWriter

add = PredictionWriter.__call__

def waits(self, reports):
    if not self.count:
        print("at work", flush=True)
        sys.stdin.readline()
    add(self, reports)

PredictionWriter.__call__ = waits
sys.exit(inference.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("packed")
    assert run(folder / "run", "--max_steps=2") == 0
    assert inference.main([f"--train_dir={folder}/run", f"--output_model_tgz={folder}/m.tgz"]) == 0
    return f"{folder}/m.tgz"


@pytest.fixture
def temporary(tmp_path: pathlib.Path) -> pathlib.Path:
    """The temporary folder of the processes of a test."""
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@pytest.fixture
def started(temporary: pathlib.Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that end with the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(temporary: pathlib.Path, model: object, output: pathlib.Path) -> subprocess.Popen[str]:
    data = golden("checkpoint_logistic/test.tfrecord")
    words = [f"--input_model_tgz={model}", f"--input_data_pattern={data}", f"--output_file={output}"]
    return subprocess.Popen(
        [sys.executable, "-c", WAITS, *words, "--batch_size=8"],
        env={**os.environ, "TMPDIR": str(temporary)},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.heavy
@pytest.mark.promise("X5")
@pytest.mark.long
def test_each_process_has_a_private_folder_that_goes_with_it(
    packed: str, temporary: pathlib.Path, tmp_path: pathlib.Path, started: list[subprocess.Popen[str]]
) -> None:
    """Two run at once; one ends by itself, the other by SIGTERM in the middle of its work."""
    started += [start(temporary, packed, tmp_path / f"{name}.csv") for name in "ab"]
    assert [process.stdout.readline() for process in started] == ["at work\n"] * 2
    folders = list(temporary.iterdir())
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 2
    assert all((folder / "model/inference_model.meta").exists() for folder in folders)
    second = started[1]
    second.send_signal(signal.SIGTERM)
    assert any("stopping after this step" in line for line in second.stderr)
    ends = [process.communicate("\n") for process in started]
    assert [process.returncode for process in started] == [0, 143], ends
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 22
    assert list(temporary.iterdir()) == []


@pytest.mark.promise("X5")
@pytest.mark.parametrize("number", cases.all_of([signal.SIGTERM], heavy=[signal.SIGINT]))
def test_stopped_while_it_unpacks(
    temporary: pathlib.Path, tmp_path: pathlib.Path, started: list[subprocess.Popen[str]], number: int
) -> None:
    os.mkfifo(tmp_path / "m.tgz")
    started.append(start(temporary, tmp_path / "m.tgz", tmp_path / "o.csv"))
    with open(tmp_path / "m.tgz", "wb"):  # waits until the process opens it
        assert len(list(temporary.glob("yt8m-model-*"))) == 1
        while not list(temporary.glob("yt8m-pipes-*/*")):  # into this file the process copies the pipe
            assert started[0].poll() is None
            time.sleep(0.01)
        started[0].send_signal(number)
    # The pipe is closed first: Python does not see a signal that comes just before a call of the system that waits.
    _, said = started[0].communicate()
    assert started[0].returncode == 128 + number, said
    assert list(temporary.iterdir()) == []
