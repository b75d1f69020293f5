"""Workers and jobs of `yt8m bulk` that are killed."""

from __future__ import annotations

import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import pytest
from bulk_data import lines_of, predictions, same_rows, trained_on_videos
from bulk_jobs import finish, is_worker, start, workers_of

SIZES = (5, 9, 2, 7) * 10


@pytest.fixture(autouse=True)
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


def test_workers_can_print_where_the_disk_is_full() -> None:
    """If they could not, an error in a worker would not reach the job, which would wait forever."""
    from yt8m.bulk import beam_runs

    saved = [os.dup(1), os.dup(2)]
    try:
        beam_runs._redirect_to_file("/dev/full")
        assert [os.write(target, bytes(200_000)) for target in (1, 2)] == [200_000, 200_000]
    finally:
        for target, source in zip((1, 2), saved, strict=True):
            os.dup2(source, target)
            os.close(source)


@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_job_goes_on_where_its_own_output_is_lost(tmp_path: pathlib.Path, descriptor: int) -> None:
    from yt8m.bulk import beam_runs

    saved, full = os.dup(descriptor), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, descriptor)
    try:
        with beam_runs._log_of_workers(beam_runs.BeamJob("DirectRunner", 1, (), "", str(tmp_path))):
            (sys.stdout if descriptor == 1 else sys.stderr).write("a line that is written when the block ends")
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)
        os.close(full)
    assert os.listdir(tmp_path) == []


def test_an_error_of_ours_in_a_worker_is_told_as_it_is() -> None:
    from yt8m.bulk import beam_runs

    job = beam_runs.BeamJob("DirectRunner", 1, (), "", "")
    traceback = "Traceback (most recent call last):\n  File x\nyt8m.errors.RunError: cannot write x: No space left."
    assert (
        beam_runs._failure_message(job, f"{traceback} [while running 'note']\n\nmore")
        == "cannot write x: No space left."
    )
    assert (
        beam_runs._failure_message(job, "No such option\nmore") == "the Beam runner DirectRunner failed: No such option"
    )


@pytest.mark.heavy
def test_a_job_whose_disk_is_full_ends_with_one_line(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    output = tmp_path / "out"
    job = start("eval", *video, output, "--workers=1")
    for worker in workers_of(job):
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    errors = finish(job, 1)
    assert [line for line in errors.splitlines() if "error: " in line] == [errors.splitlines()[-1]]
    assert errors.splitlines()[-1].startswith(f"yt8m bulk: error: cannot write {output}/parts/figures.json: File too")
    assert "Traceback" not in errors
    assert not (output / "report.json").exists()


@pytest.mark.heavy
@pytest.mark.promise("O3")
@pytest.mark.parametrize("has_begun", [False, True], ids=["at its start", "at work"])
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
def test_workers_end_with_a_job_that_is_killed(
    video: tuple[str, str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam's own workers went on for more than 20 seconds."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # the folder that the killed job leaves there goes with the test's
    job = start("infer", *video, tmp_path / "out", "--batch_size=1", "--workers=2")
    workers = workers_of(job)
    job.kill()
    job.communicate()
    while any(map(is_worker, workers)):  # a worker that stays is a time-out of the test
        time.sleep(0.05)


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
