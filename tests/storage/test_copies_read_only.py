"""A read-only container: no folder for temporary files, and no home."""

from __future__ import annotations

import logging
import pathlib
import subprocess
import sys
import tempfile

import pytest
from google.api_core import exceptions as api
from small_run import ROOT

from yt8m.errors import RunError
from yt8m.storage import base, copies, gcs_client


def test_a_local_checkpoint_is_read_where_it_is(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = str(tmp_path / "model.ckpt-5")
    (tmp_path / "model.ckpt-5.index").write_bytes(b"x")
    monkeypatch.setattr(base, "cache_dir", lambda: "/dev/null/no folder can be made here")
    with copies.hold(prefix):
        assert copies.copy_of(prefix) == prefix
        assert copies.is_held(prefix)
    assert (tmp_path / "model.ckpt-5.index").exists()
    assert not copies.is_held(prefix)


def test_where_a_temporary_folder_is_needed_tmpdir_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_is_usable() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none_is_usable)
    with pytest.raises(RunError, match="TMPDIR"), copies.private_folder("x-"):
        pass


_IMPORT = """
import tempfile
def none_is_usable():
    raise FileNotFoundError(2, "No usable temporary directory found")
tempfile._get_default_tempdir = none_is_usable
from yt8m.lazy import tf
print(tf.constant(1).dtype.name, tempfile.tempdir)
"""


@pytest.mark.heavy
def test_tensorflow_can_be_imported_without_a_temporary_folder() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "int32 None\n", done.stderr


def test_the_first_warning_says_until_when_it_tries(caplog: pytest.LogCaptureFixture) -> None:
    answers = [api.ServiceUnavailable("busy"), api.ServiceUnavailable("busy"), "content"]

    def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    caplog.set_level(logging.WARNING)
    assert gcs_client.with_retries("read", "gs://b/o", call) == "content"
    first, second = (record.getMessage() for record in caplog.records)
    assert "trying again until " in first
    assert f"(--gs_retry_seconds or YT8M_GS_RETRY_SECONDS: {base.retry_seconds():g} s)" in first
    assert "until" not in second
