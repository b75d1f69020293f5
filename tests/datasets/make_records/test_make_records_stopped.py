"""If a start is killed, interrupted or runs out of disk space, no unfinished records appear; the next begins anew."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
from own_clips import contents, write_table

_VIDEOS = 600
_PROGRAM = """
import itertools, os, resource, signal, sys
from yt8m import errors
from yt8m.datasets import make_records
from yt8m.datasets.make_records import output

folder, out, trouble = sys.argv[1:]
make_records._BATCH_BYTES = 50 * 24 * 4  # batches of 50 rows
write, parts = output.Output.write_records, itertools.count(1)  # several threads count together

def troubled(self, *part):
    if next(parts) == 20 and trouble in ("SIGINT", "SIGKILL"):
        os.kill(os.getpid(), getattr(signal, trouble))
    return write(self, *part)

output.Output.write_records = troubled
if trouble == "no room":
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))
try:
    make_records.make(make_records.RecordsConfig(out, table=f"{folder}/t.csv", array=f"{folder}/x.npy", shards=3))
except errors.RunError as error:
    sys.exit(str(error).replace(out, "OUT"))
"""


def _run(table: pathlib.Path, out: pathlib.Path, trouble: str = "") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", _PROGRAM, str(table), str(out), trouble]
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a table whose ids and labels have several lengths, an array, and the records of both."""
    folder = tmp_path_factory.mktemp("table")
    write_table(folder / "t.csv", [("v" * (n % 5) + str(n), f"{n % 400};{n % 7}") for n in range(_VIDEOS)], "id,labels")
    np.save(folder / "x.npy", np.random.default_rng(1).normal(size=(_VIDEOS, 24)).astype(np.float32))
    ended = _run(folder, folder / "whole")
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("trouble", "status", "message"),
    [
        ("SIGKILL", -signal.SIGKILL, ""),
        ("SIGINT", -signal.SIGINT, "KeyboardInterrupt"),
        ("no room", 1, "cannot write OUT/.video.making/train/train0000.tfrecord: "),
    ],
)
def test_after_trouble_no_unfinished_records_appear_and_the_next_start_makes_all(
    table: pathlib.Path, trouble: str, status: int, message: str, tmp_path: pathlib.Path
) -> None:
    ended = _run(table, tmp_path / "out", trouble)
    assert (ended.returncode, message in ended.stderr) == (status, True), ended.stderr
    assert not (tmp_path / "out" / "video").exists()
    ended = _run(table, tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    records, whole = (
        {name: data for name, data in contents(folder).items() if "progress" not in name}
        for folder in (tmp_path / "out", table / "whole")
    )
    assert records == whole
