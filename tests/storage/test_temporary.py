"""Whatever needs temporary files names TMPDIR where none can be made, in a read-only container or on a full disk."""

from __future__ import annotations

import errno
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from command_line.cloud_job.test_cloud_job import IMAGE, JOB, OUTPUT, TRAIN
from golden_data import golden

import yt8m
from yt8m import storage
from yt8m.classifier.run_folder import RunFolder
from yt8m.command_line import cli, doctor
from yt8m.errors import RunError
from yt8m.extractors.decoder_pool import Limits, _DecoderCheck
from yt8m.serving.bodies import BodyLimits
from yt8m.serving.named_videos import NamedVideos
from yt8m.serving.uploads import Upload
from yt8m.serving.video_uploads import VideoScorer
from yt8m.storage import copies, temporary

ROOT = pathlib.Path(__file__).resolve().parents[2]


class OpenedVideoScorer(VideoScorer):
    """One whose extractors are open: they are asked after the files were written."""

    def _opened(self) -> Any:
        return None


def private_folder() -> None:
    with copies.private_folder("x-"):
        pass


def a_call_with_arrays() -> None:
    yt8m.make_records(table=[{"id": "a", "labels": "b"}], array=np.zeros((1, 2), np.float32), out="never")


def a_fit_of_a_classifier() -> None:
    yt8m.Classifier(model="LogisticModel").fit(np.eye(8, dtype=np.float32), [["a"], ["b"]] * 4)


def an_upload() -> None:
    unused: Any = None
    OpenedVideoScorer(unused, unused, BodyLimits(1, 1), None, NamedVideos("")).extract([Upload("a.mp4", b"")])


FOLDERS = [private_folder, lambda: copies.process_folder("y-"), RunFolder, a_call_with_arrays, a_fit_of_a_classifier]


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder for temporary files is writable."""

    def none_is_usable() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(copies, "_process_folders", {})
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", none_is_usable)


@pytest.fixture
def folder_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that the system has found is removed, or becomes read-only, while the process runs."""
    monkeypatch.setattr(copies, "_process_folders", {})
    monkeypatch.setattr(tempfile, "tempdir", "/proc/no-such-folder")


@pytest.mark.parametrize("state", ["no_folder", "folder_is_gone"])
@pytest.mark.parametrize("call", [*FOLDERS, an_upload])
def test_each_folder_that_cannot_be_made_names_tmpdir(
    call: Callable[[], object], state: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(state)
    with pytest.raises(RunError, match="TMPDIR"):
        call()
    assert not os.path.exists("never")


_LIBRARIES = """
import errno, tempfile
from yt8m.errors import RunError
from yt8m.reports import report_writer
def none_is_usable():
    raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")
tempfile._get_default_tempdir = none_is_usable
try:
    report_writer.require_libraries()
except RunError as error:
    print(error)
"""


@pytest.mark.heavy
def test_a_report_without_a_home_names_tmpdir(tmp_path: pathlib.Path) -> None:
    """Before the evaluation: matplotlib keeps what it knows of fonts in a folder."""
    environment = {**os.environ, "HOME": "/proc/none", "PYTHONPATH": str(ROOT)}
    for name in ("MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        environment.pop(name, None)
    command = [sys.executable, "-c", _LIBRARIES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "TMPDIR" in done.stdout
    done = subprocess.run(command, env={**environment, "MPLCONFIGDIR": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_submitted_job_names_tmpdir(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_folder: None
) -> None:
    (tmp_path / "gcloud").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "gcloud").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert cli.main(["cloud-job", "train", *JOB, *TRAIN, IMAGE, OUTPUT, "--submit"]) == 1
    (error,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert "TMPDIR" in error


def test_objects_in_buckets_name_tmpdir(bucket: str, monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    """A small object needs no folder; a large one asks for it while it is read or written."""
    storage.write(f"{bucket}/a", b"x" * 100)
    request.getfixturevalue("no_folder")
    storage.write(f"{bucket}/small", b"y" * 100)
    assert storage.read_bytes(f"{bucket}/small") == b"y" * 100
    monkeypatch.setattr(temporary, "_IN_MEMORY", 10)
    with pytest.raises(RunError, match="TMPDIR"):
        storage.read_bytes(f"{bucket}/a")
    with pytest.raises(RunError, match="TMPDIR"):
        storage.write(f"{bucket}/b", b"x" * 100)
    assert storage.listdir(bucket) == ["a", "small"]


def test_a_full_disk_names_the_folder_and_tmpdir(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write(f"{bucket}/a", b"x" * 100)

    class Full(tempfile.SpooledTemporaryFile):  # type: ignore[type-arg]
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", Full)
    for call in (lambda: storage.read_bytes(f"{bucket}/a"), lambda: storage.write(f"{bucket}/b", b"x")):
        with pytest.raises(RunError, match=f"{re.escape(os.strerror(errno.ENOSPC))}.*TMPDIR"):
            call()


def test_what_writes_nothing_needs_no_folder(no_folder: None) -> None:
    assert list(doctor.machine()["free_disk_bytes"]) == [os.getcwd()]
    check = _DecoderCheck(Limits(60.0, 4096))
    assert check._try() == ""  # whether decoding works cannot be tried: the error of the video stands


def test_a_call_that_reads_files_needs_no_folder(no_folder: None) -> None:
    assert yt8m.inspect(golden("checkpoint_logistic/test.tfrecord")) is not None


@pytest.fixture
def uses() -> dict[str, set[str]]:
    """{name in `tempfile`: files of the package that use it}."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "yt8m").rglob("*.py"):
        for name in re.findall(r"\btempfile\.(\w+)|\bfrom (tempfile) import", path.read_text()):
            found.setdefault("".join(name), set()).add(str(path.relative_to(ROOT / "yt8m")))
    return found


def test_one_module_asks_for_temporary_files(uses: dict[str, set[str]]) -> None:
    """`lazy` lets `import tensorflow` work where there is no folder; it makes no file."""
    assert uses.pop("tempdir") == {"lazy.py", "storage/temporary.py"}
    assert uses.pop("gettempdir") == {"lazy.py", "storage/temporary.py"}
    assert uses.keys() == {"mkdtemp", "SpooledTemporaryFile"}
    assert set().union(*uses.values()) == {"storage/temporary.py"}
