"""Workers and jobs of `yt8m bulk` that are killed."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time

import pytest
from bulk_data import lines_of, predictions, same_rows, trained_on_videos
from bulk_jobs import finish, is_worker, start, workers_of

SIZES = (5, 9, 2, 7) * 10


@pytest.fixture(scope="module", autouse=True)
def beam() -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A run, and the pattern of its shards."""
    return trained_on_videos(tmp_path_factory.mktemp("video"), SIZES)


def wait_for_predictions(job: subprocess.Popen[str], output: pathlib.Path) -> None:
    """Returns when the first shard is predicted."""
    while not list(output.glob("part*.csv")):
        assert job.poll() is None
        time.sleep(0.005)


@pytest.mark.promise("O3")
@pytest.mark.parametrize(
    "has_begun", [False, pytest.param(True, marks=pytest.mark.heavy)], ids=["at its start", "at work"]
)
def test_a_worker_that_is_killed_is_replaced(video: tuple[str, str], tmp_path: pathlib.Path, has_begun: bool) -> None:
    output = tmp_path / "out"
    job = start("infer", *video, output, "--batch_size=1", "--workers=1")
    (victim,) = workers_of(job)
    if has_begun:
        wait_for_predictions(job, output)
    os.kill(victim, signal.SIGSTOP)  # it cannot end by itself any more
    assert is_worker(victim)
    os.kill(victim, signal.SIGKILL)
    assert "a worker process died" in finish(job)
    assert same_rows(lines_of(output), predictions(*video, tmp_path))
    assert not list(output.glob(".*part*"))


@pytest.mark.heavy
@pytest.mark.promise("O3")
def test_a_job_that_is_killed_leaves_only_whole_files_and_goes_on(
    video: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    output = tmp_path / "out"
    job = start("infer", *video, output, "--batch_size=1", "--workers=1")
    workers = workers_of(job)
    wait_for_predictions(job, output)
    assert not (output / "predictions.json").exists()
    job.kill()
    job.communicate()
    assert job.returncode == -signal.SIGKILL
    while any(map(is_worker, workers)):  # they end by themselves; a worker that stays is a time-out of the test
        time.sleep(0.2)
    left = {path.name: path.read_bytes() for path in output.glob("part*.csv")}
    assert "shards are done already" in finish(start("infer", *video, output, "--batch_size=1", "--resume"))
    assert same_rows(lines_of(output), predictions(*video, tmp_path))
    assert {name: (output / name).read_bytes() for name in left} == left
