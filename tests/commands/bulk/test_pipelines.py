"""`yt8m bulk` with real worker processes of Beam's DirectRunner."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from bulk_data import FRAME, VIDEO, frame_shards, trained, video_shards

from yt8m import eval as evaluation
from yt8m import inference

pytestmark = [pytest.mark.heavy]
ROOT = pathlib.Path(__file__).resolve().parents[3]
SIZES = (5, 9, 2, 7)


@pytest.fixture(scope="module", autouse=True)
def beam() -> None:
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A run, and the pattern of its shards."""
    folder = tmp_path_factory.mktemp("video")
    pattern = video_shards(folder, SIZES)
    return trained(folder, pattern, "MoeModel", *VIDEO), pattern


def start(name: str, run: str, pattern: str, output: pathlib.Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "yt8m", "bulk", name, f"--model={run}", f"--input={pattern}", f"--output={output}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    return subprocess.Popen([*words, *more], stdout=pipe, stderr=pipe, text=True, env=environment, cwd=output.parent)


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    """The standard error of a job, which must end with this status."""
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == status, errors
    return errors


def lines_of(output: pathlib.Path) -> list[str]:
    """The rows of all prediction files, in the order of the shards, after one header."""
    texts = [path.read_text().splitlines() for path in sorted(output.glob("part*.csv"))]
    return [texts[0][0], *(line for text in texts for line in text[1:])]


def predictions(run: str, pattern: str, folder: pathlib.Path) -> list[str]:
    """The lines of inference.py's file."""
    words = [f"--train_dir={run}", f"--input_data_pattern={pattern}", f"--output_file={folder}/whole.csv"]
    assert inference.main([*words, "--batch_size=4"]) == 0
    return (folder / "whole.csv").read_text().splitlines()


def test_predictions_are_those_of_inference_and_a_used_folder_is_refused(
    video: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    output = tmp_path / "out"
    said = finish(start("infer", *video, output, "--batch_size=4"))
    assert lines_of(output) == predictions(*video, tmp_path)
    assert json.loads((output / "predictions.json").read_text())["global_step"] == 6
    assert sorted(path.name for path in output.iterdir()) == [
        "job.json",
        *(f"part{number}.csv" for number in range(len(SIZES))),
        "predictions.json",
    ]
    assert "23 records of 4 shards were read" in said
    assert "add --resume" in finish(start("infer", *video, output), 2)
    other = finish(start("infer", *video, output, "--batch_size=4", "--resume", "--top_k=3"), 2)
    assert "another top_k (20, and now 3)" in other


@pytest.mark.promise("O3")
def test_resuming_writes_what_is_missing(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    output = tmp_path / "out"
    finish(start("infer", *video, output, "--batch_size=4"))
    whole = lines_of(output)
    (output / "part1.csv").unlink()
    kept = (output / "part0.csv").stat().st_mtime_ns
    assert "3 of 4 shards are done already" in finish(start("infer", *video, output, "--batch_size=4", "--resume"))
    assert lines_of(output) == whole
    assert (output / "part0.csv").stat().st_mtime_ns == kept


def test_figures_are_those_of_eval(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    run, pattern = video
    process = start("eval", run, pattern, tmp_path / "out", "--batch_size=4")
    table = process.communicate(timeout=600)[0]
    assert process.returncode == 0
    words = [f"--train_dir={run}", f"--eval_data_pattern={pattern}", "--run_once", f"--eval_dir={tmp_path}"]
    assert evaluation.main([*words, "--batch_size=4"]) == 0
    expected = json.loads((tmp_path / "eval/report.json").read_text())
    found = json.loads((tmp_path / "out/report.json").read_text())
    assert found["classes"] == expected["classes"]
    assert found["metrics"] == expected["metrics"]
    for key in ("gap", "map", "hit_at_one", "perr"):
        assert found[key] == pytest.approx(expected[key], abs=1e-12)
        assert f"{expected[key]:.4f}" in table
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-6)
    assert (found["num_examples"], found["global_step"], found["model"]) == (23, 6, "MoeModel")


def test_lists_of_segments_are_those_of_inference(tmp_path: pathlib.Path) -> None:
    pattern = frame_shards(tmp_path, (3, 4, 1))
    run = trained(tmp_path, pattern, "FrameLevelLogisticModel", *FRAME)
    finish(start("rank", run, pattern, tmp_path / "out", "--batch_size=8", "--segment_max_pred=6"))
    words = [f"--train_dir={run}", f"--input_data_pattern={pattern}", f"--output_file={tmp_path}/whole.csv"]
    assert inference.main([*words, "--batch_size=8", "--segment_labels", "--segment_max_pred=6"]) == 0
    assert (tmp_path / "out/segments.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_a_damaged_shard_ends_the_job_or_is_counted(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for path in pathlib.Path(video[1]).parent.glob("*.tfrecord"):
        content = path.read_bytes()
        (folder / path.name).write_bytes(content[:-5] if path.name == "part1.tfrecord" else content)
    pattern = f"{folder}/part*.tfrecord"
    said = finish(start("infer", video[0], pattern, tmp_path / "strict"), 1)
    assert "part1.tfrecord: record 8" in said
    assert not (tmp_path / "strict/part1.csv").exists()
    assert not (tmp_path / "strict/predictions.json").exists()
    finish(start("infer", video[0], pattern, tmp_path / "lenient", "--max_bad_records=1"))
    assert len(lines_of(tmp_path / "lenient")) == 1 + sum(SIZES) - 1
    assert "part1.tfrecord: record 8" in (tmp_path / "lenient/bad_records.txt").read_text()


def is_worker(pid: int) -> bool:
    """Whether this process is a worker of Beam and still runs."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return status != "Z" and b"sdk_worker_main" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    """All processes that descend from this one."""
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        found = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return found + [below for child in found for below in children_of(child)]


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The worker processes of a job; waits until there is one."""
    while process.poll() is None:
        if found := [pid for pid in children_of(process.pid) if is_worker(pid)]:
            return found
        time.sleep(0.1)
    raise AssertionError(f"the job ended: {process.communicate()[1]}")


@pytest.mark.promise("O3")
@pytest.mark.parametrize("has_begun", [False, True], ids=["at its start", "at work"])
def test_a_worker_that_is_killed_is_replaced(video: tuple[str, str], tmp_path: pathlib.Path, has_begun: bool) -> None:
    output = tmp_path / "out"
    process = start("infer", *video, output, "--batch_size=4")
    victim = workers_of(process)[0]
    while has_begun and process.poll() is None and not list(output.glob("*part*")):
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    finish(process)
    assert lines_of(output) == predictions(*video, tmp_path)
    assert not list(output.glob(".*part*"))


@pytest.mark.promise("O3")
def test_a_job_that_is_killed_leaves_only_whole_files(video: tuple[str, str], tmp_path: pathlib.Path) -> None:
    output = tmp_path / "out"
    process = start("eval", *video, output, "--batch_size=4")
    workers = workers_of(process)
    process.kill()
    process.communicate()
    assert not (output / "report.json").exists()
    while any(map(is_worker, workers)):  # they end by themselves; a worker that stays is a time-out of the test
        time.sleep(0.2)
    finish(start("eval", *video, tmp_path / "again", "--batch_size=4"))
    assert json.loads((tmp_path / "again/report.json").read_text())["num_examples"] == sum(SIZES)
