"""`yt8m cache` parses shards, in several processes, as a training would, and continues after an interruption."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import cases
import fault_shards
import pytest

from yt8m.command_line.cli import main
from yt8m.readers import EverySegmentReader, YT8MFrameFeatureReader
from yt8m.readers.cached_input import format_of
from yt8m.records.shard_cache import ShardCache

RECORDS = ["--frame_features", "--feature_names=rgb,audio", "--feature_sizes=3,2", "--num_classes=10"]


@pytest.fixture
def shards(tmp_path: pathlib.Path) -> list[pathlib.Path]:
    folder = tmp_path / "data"
    folder.mkdir()
    paths = [folder / f"{number}.tfrecord" for number in range(5)]
    for path in paths:
        fault_shards.write(path, fault_shards.sound("frame", 4, path.stem))
    return paths


def cache_arguments(folder: pathlib.Path, *more: str) -> list[str]:
    return ["cache", f"--data={folder}/data/*", f"--out={folder}/cache", *RECORDS, *more]


def flip_a_bit(path: pathlib.Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])


@pytest.mark.parametrize("jobs", [1, pytest.param(3, marks=pytest.mark.heavy)])
def test_the_cache_has_what_a_training_reads(
    shards: list[pathlib.Path], tmp_path: pathlib.Path, jobs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "from yt8m.command_line.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *cache_arguments(tmp_path, f"--jobs={jobs}")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{tmp_path}/cache has 20 records of 5 shards; parsed now: 5 shards\n"
    assert re.search(r"0 of 5 parsed shards; .* 0\.00 GB", done.stderr)
    cache = ShardCache(f"{tmp_path}/cache", format_of(YT8MFrameFeatureReader(10, (3, 2))))
    made = {os.path.basename(cache.path_of(str(path))) for path in shards}
    assert {path.name for path in (tmp_path / "cache").iterdir()} == made
    shards[2].touch()
    assert main(cache_arguments(tmp_path)) == 0
    said = capsys.readouterr().out
    assert said == f"{tmp_path}/cache has 20 records of 5 shards; parsed now: 1 shard\n"


@pytest.mark.heavy
def test_every_segment_has_files_of_its_own(shards: list[pathlib.Path], tmp_path: pathlib.Path) -> None:
    assert main(cache_arguments(tmp_path, "--all_segments")) == 0
    cache = ShardCache(f"{tmp_path}/cache", format_of(EverySegmentReader(10, (3, 2))))
    assert len(cache.open_parsed(cache.path_of(str(shards[0]))) or ()) == 4
    assert main(cache_arguments(tmp_path, "--all_segments", "--segment_labels")) == 2


@pytest.mark.heavy
def test_a_bad_record_is_named_or_tolerated(
    shards: list[pathlib.Path], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in shards[:2]:
        flip_a_bit(path)
    assert main(cache_arguments(tmp_path)) == 1
    assert f"{shards[0]}: record 3: its checksum is wrong" in capsys.readouterr().err
    assert main(cache_arguments(tmp_path, "--max_bad_records=1")) == 1
    assert "2 records are bad; --max_bad_records allows 1" in capsys.readouterr().err
    assert main(cache_arguments(tmp_path, "--max_bad_records=2")) == 0
    assert "has 18 records of 5 shards" in capsys.readouterr().out


class Started:
    """A command that makes a cache in two processes."""

    def __init__(self, folder: pathlib.Path) -> None:
        command = [sys.executable, "-m", "yt8m", *cache_arguments(folder, "--jobs=2")]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, start_new_session=True, stdout=pipe, stderr=pipe, text=True)

    def workers(self) -> list[int]:
        """The ids of the two workers, once they have been started."""
        found = list[int]()
        while len(found) < 2:
            assert self.process.poll() is None
            tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
            with contextlib.suppress(OSError):
                found = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        return found

    def finish(self) -> tuple[int, str]:
        """(the status, what the command and its workers said); returns after the last of them has ended."""
        said = "".join(self.process.communicate(timeout=600))
        return self.process.returncode, said


@pytest.mark.heavy
@pytest.mark.promise("I11")
def test_a_start_after_a_kill_parses_the_missing_shards(shards: list[pathlib.Path], tmp_path: pathlib.Path) -> None:
    """The workers end with the killed process, and the next start does not take a half-written file for a shard."""
    cache, started = tmp_path / "cache", Started(tmp_path)
    workers = started.workers()
    while started.process.poll() is None and not any(cache.glob("*")):
        time.sleep(0.001)
    started.process.kill()
    started.finish()
    while any(pathlib.Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.001)
    assert main(cache_arguments(tmp_path)) == 0
    assert len(list(cache.iterdir())) == 5


@pytest.mark.parametrize(
    ("number", "reaches_workers"),
    cases.only(
        [*itertools.product([signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP], [False, True])],
        [(signal.SIGKILL, False)],
    ),
)
def test_a_killed_command_ends_its_workers_without_a_word(
    shards: list[pathlib.Path], tmp_path: pathlib.Path, number: signal.Signals, reaches_workers: bool
) -> None:
    """Helpers of multiprocessing outlived the command, and printed warnings and tracebacks."""
    started = Started(tmp_path)
    workers = started.workers()
    for process in [*(workers if reaches_workers else []), started.process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
    status, said = started.finish()
    assert status in (-number, 128 + number, 0)  # 0 if it had ended before
    assert not [text for text in ("Traceback", "Warning", "leaked") if text in said], said
    assert main(cache_arguments(tmp_path)) == 0


@pytest.mark.parametrize("number", cases.all_of([signal.SIGKILL], heavy=[signal.SIGSEGV, signal.SIGTERM]))
def test_a_worker_that_dies_costs_no_shard(
    shards: list[pathlib.Path], tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    started = Started(tmp_path)
    for worker in started.workers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, number)
    status, said = started.finish()
    assert status == 0
    assert "has 20 records of 5 shards; parsed now: 5 shards" in said
    assert "Traceback" not in said


@pytest.mark.heavy
def test_ctrl_c_while_processes_start_ends_with_one_line(shards: list[pathlib.Path], tmp_path: pathlib.Path) -> None:
    """The terminal sends Ctrl-C to all processes, also to workers that are still importing modules."""
    command = [sys.executable, "-m", "yt8m", *cache_arguments(tmp_path, "--jobs=2")]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and len(children.read_text().split()) < 2:
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=600)[1].splitlines()
    assert process.returncode == 130
    assert errors[-1] == "yt8m cache: stopped by Ctrl-C"
    assert not [line for line in errors if "Traceback" in line]
    assert main(cache_arguments(tmp_path)) == 0


def test_a_repeat_finds_more_parsed_shards_than_files_can_be_open(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(60):
        fault_shards.write(tmp_path / f"data/{number:02}.tfrecord", fault_shards.sound("frame", 1, str(number)))
    limits, used = resource.getrlimit(resource.RLIMIT_NOFILE), len(os.listdir("/proc/self/fd"))
    assert main(cache_arguments(tmp_path, "--jobs=1")) == 0
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, limits[1]))
        assert main(cache_arguments(tmp_path, "--jobs=1")) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
