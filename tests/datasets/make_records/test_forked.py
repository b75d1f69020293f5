"""Records that forked processes write are those of one process, and so are the messages if something is wrong.

Each case runs in a process of its own, since this one may have threads and so may not be forked.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
from own_clips import contents, write_table

from yt8m.datasets.make_records import forked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")
_VIDEOS = 600
_PROGRAM = """
import os, signal, sys
from yt8m import errors
from yt8m.command_line.make_records import main
from yt8m.datasets import make_records
from yt8m.datasets.make_records import features, forked, output

folder, out, processes, trouble, *words = sys.argv[1:]
make_records._BATCH_BYTES, make_records._FORK_BYTES = 50 * 24 * 4, 0  # batches of 50 rows
forked.usable_cores = lambda: int(processes)
output._SECONDS = -1.0 if trouble else output._SECONDS
began, write, jobs = os.getpid(), output.Output.write_part, 0
submit = forked.ForkedWorkers.submit

def troubled(self, *given):
    global jobs
    jobs += 1
    if trouble == "kill" and os.getpid() != began and jobs == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(self, *given)

def interrupted(self, *given):
    global jobs
    jobs += 1
    if trouble in ("interrupt", "die") and jobs == 8:
        os.kill(began, signal.SIGINT if trouble == "interrupt" else signal.SIGKILL)
    return submit(self, *given)

if trouble == "full":
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))
output.Output.write_part, forked.ForkedWorkers.submit = troubled, interrupted
given = [f"--table={folder}/t.csv", f"--array={folder}/x.npy", f"--out={out}", "--shards=3", *words]
try:
    print("status", main(given))
except errors.RunError as error:
    print("error", str(error).replace(out, "OUT"))
print("children", os.path.exists(f"/proc/{began}/task/{began}/children") and
      open(f"/proc/{began}/task/{began}/children").read())
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A table whose ids and labels have several lengths, with float64 and float32 arrays."""
    folder = tmp_path_factory.mktemp("table")
    for name, kind in (("good", np.float32), ("double", np.float64), ("bad", np.float32)):
        (folder / name).mkdir()
        rows = [("v" * (n % 5) + str(n), f"{n % 400};{n % 7}") for n in range(_VIDEOS)]
        write_table(folder / name / "t.csv", rows, "id,labels")
        values = np.random.default_rng(1).normal(size=(_VIDEOS, 24)).astype(kind)
        if name == "bad":
            values[[430, 433, 501], 3] = np.nan
        np.save(folder / name / "x.npy", values)
    return folder


def _run(table: pathlib.Path, out: pathlib.Path, processes: int, trouble: str = "", *words: str) -> tuple[int, str]:
    """The exit status, and what was printed up to the summary."""
    given = [sys.executable, "-c", _PROGRAM, str(table), str(out), str(processes), trouble, *words]
    ended = subprocess.run(given, capture_output=True, text=True, timeout=300)
    return ended.returncode, ended.stdout + ended.stderr


def _records(out: pathlib.Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(out).items() if "progress" not in name}


@pytest.mark.parametrize(("kind", "words"), [("good", []), ("double", []), ("good", ["--bits=8"])])
def test_the_records_are_those_of_one_process(
    table: pathlib.Path, kind: str, words: list[str], tmp_path: pathlib.Path
) -> None:
    for processes in (1, 3):
        status, told = _run(table / kind, tmp_path / str(processes), processes, "", *words)
        assert (status, "status 0" in told) == (0, True), told
    assert len(contents(tmp_path / "1")) > 10
    assert contents(tmp_path / "3") == contents(tmp_path / "1")


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_bad_rows_are_told_as_by_one_process(table: pathlib.Path, most: int, tmp_path: pathlib.Path) -> None:
    found = [
        _run(table / "bad", tmp_path / str(processes), processes, "", f"--max_bad_rows={most}") for processes in (1, 3)
    ]
    one, other = (told.replace(str(tmp_path / name), "OUT") for name, (_, told) in zip("13", found, strict=True))
    assert other == one
    if most < 3:
        assert f"row {[431, 434, 502][most]}: feature features has 1 values that are NaN" in one
        assert not (tmp_path / "3" / "video").exists()
    else:
        assert _records(tmp_path / "3") == _records(tmp_path / "1")


@pytest.mark.parametrize("trouble", ["kill", "interrupt", "die", "full"])
def test_trouble_leaves_nothing_half_written(table: pathlib.Path, trouble: str, tmp_path: pathlib.Path) -> None:
    """`kill` is of a forked process, `die` of the one that forked them. `_run` returns when all have ended."""
    assert _run(table / "good", tmp_path / "whole", 1)[0] == 0
    status, told = _run(table / "good", tmp_path / "out", 2, trouble)
    if trouble == "die":
        assert status == -signal.SIGKILL
    elif trouble == "interrupt":
        assert status != 0
        assert "KeyboardInterrupt" in told
    else:
        assert status == 0, told
        assert "children \n" in told
    if trouble == "full":
        assert told.startswith("error cannot write OUT/.video.making/train/train0000.tfrecord: "), told
    assert (tmp_path / "out" / "video").exists() == (trouble == "kill")
    status, told = _run(table / "good", tmp_path / "out", 2)
    assert status == 0, told
    assert ("going on after row" in told) == (trouble != "kill")
    assert _records(tmp_path / "out") == _records(tmp_path / "whole")


def test_a_process_with_threads_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    assert forked.usable_cores() == 1
