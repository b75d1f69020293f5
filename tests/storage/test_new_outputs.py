"""An output whose command was killed after it had written it is complete only while its sources are the same."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import pytest
import requests

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.storage import new_outputs
from yt8m.storage.new_outputs import new_output

ROOT = pathlib.Path(__file__).resolve().parents[2]
_KILLED = """
import os, pathlib, signal, sys
from yt8m.storage.new_outputs import new_output
path, *sources = sys.argv[1:]
with new_output(path, "export", sources=sources):
    pathlib.Path(path).mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(tmp_path: pathlib.Path) -> list[str]:
    """The sources of an output `out` that is written, a run and a checkpoint beside others; its command was killed."""
    (tmp_path / "run").mkdir()
    for name in ("run/checkpoint", "run/events.out", "run/metrics.jsonl", "old-1.index", "labels.csv"):
        (tmp_path / name).write_text("old")
    sources = [str(tmp_path / name) for name in ("run", "old-1", "labels.csv")]
    words = [sys.executable, "-c", _KILLED, str(tmp_path / "out"), *sources]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return sources


@pytest.mark.parametrize(
    "name", ["run/events.out", "run/metrics.jsonl", "run/.lock", "other.csv", "run/eval/report.json"]
)
def test_what_was_written_is_complete(tmp_path: pathlib.Path, killed: list[str], name: str) -> None:
    """A training that goes on and an evaluation write figures; what is beside the sources is none."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("new and longer")
    with new_output(str(tmp_path / "out"), "export", sources=killed) as is_done:
        assert is_done


@pytest.mark.parametrize("name", ["run/checkpoint", "run/model.ckpt-9.index", "old-1.index", "labels.csv"])
def test_what_was_written_of_older_sources_is_refused(tmp_path: pathlib.Path, killed: list[str], name: str) -> None:
    (tmp_path / name).write_text("new and longer")
    with pytest.raises(UsageError, match="exists already"), new_output(str(tmp_path / "out"), "export", sources=killed):
        pass
    assert (tmp_path / "out").is_dir()


def test_each_folder_of_many_shards_is_listed_once(tmp_path: pathlib.Path, bucket: str) -> None:
    """A request for each shard would cost minutes before an evaluation of a bucket begins."""
    shards = [f"{bucket}/shards/{number}.tfrecord" for number in range(5)]
    for path in shards:
        storage.write(path, "x")
    methods = list[str]()

    def counted(session: requests.Session, request: requests.PreparedRequest, **more: Any) -> requests.Response:
        methods.append(str(request.method))
        return send(session, request, **more)

    send = requests.Session.send
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests.Session, "send", counted)
        with new_output(str(tmp_path / "out"), "eval", sources=shards):
            pass
    assert 0 < len(methods) < len(shards)


def refuse(folder: pathlib.Path, kept: str = "") -> None:
    """A command that has locked the folder of its results, and may have written a file, when it refuses its input."""
    with new_outputs.locked_folder(str(folder)):
        assert storage.is_locked(folder / ".lock")
        if kept:
            pathlib.Path(kept).write_text("kept")
        raise RunError("a bad row")


def test_a_folder_of_results_is_removed_again_if_nothing_is_in_it(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RunError):
        refuse(tmp_path / "a" / "b")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a/b/kept", "a/kept"])
def test_a_folder_of_results_with_a_file_stays(name: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(RunError):
        refuse(tmp_path / "a" / "b", str(tmp_path / name))
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == [name]


def test_an_empty_folder_of_the_user_stays(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RunError):
        refuse(tmp_path)
    assert tmp_path.is_dir()
