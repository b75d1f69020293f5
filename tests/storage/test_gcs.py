"""What only buckets have: missing ones, permissions, locks of dead processes elsewhere."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import cases
import pytest
from google.auth.exceptions import RefreshError

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.storage import base, copies, gcs_client, sending


def test_a_missing_bucket_is_named(bucket: str) -> None:
    for call in (storage.glob, storage.read_bytes, storage.exists, storage.listdir, storage.size):
        with pytest.raises(UsageError, match="no bucket no-such-bucket"):
            call("gs://no-such-bucket/a*")
    with pytest.raises(UsageError, match="no bucket"), storage.write_atomic("gs://no-such-bucket/a"):
        pass


def test_a_bucket_is_no_file_and_has_no_wildcards(bucket: str) -> None:
    assert storage.listdir(bucket) == []
    with pytest.raises(UsageError, match="whole bucket"):
        storage.read_bytes(bucket)
    with pytest.raises(UsageError, match="full name"):
        storage.glob("gs://buck*/x")


def test_a_folder_that_was_made_in_the_console_is_copied(
    bucket: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, content in (("m/", ""), ("m/v/", ""), ("m/saved_model.pb", "graph"), ("m/v/a", "weights")):
        gcs_client.blob_at(f"{bucket}/{name}").upload_from_string(content)
    copy = pathlib.Path(copies.folder_copy(f"{bucket}/m"))
    assert {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()} == {"saved_model.pb", "v/a"}
    assert sending.contents(f"{bucket}/m").keys() == {"saved_model.pb", "v/a"}


def test_a_lock_of_another_host_stands(bucket: str) -> None:
    path = f"{bucket}/run.lock"
    with storage.write_atomic(path, "w") as file:
        json.dump({"pid": 1, "host": "elsewhere", "since": "2020-01-01T00:00:00+00:00"}, file)
    with pytest.raises(storage.Locked, match="process 1 on elsewhere since 2020-01-01"), storage.lock(path):
        pass


def test_a_lock_by_the_same_pid_of_a_former_container_is_taken_over(bucket: str) -> None:
    path = f"{bucket}/run.lock"
    with storage.write_atomic(path, "w") as file:
        json.dump({"pid": os.getpid(), "host": os.uname().nodename, "since": "2020"}, file)
    with storage.lock(path):
        assert json.loads(storage.read_bytes(path))["since"] > "2020"


def test_a_lock_whose_pid_another_program_has_since_a_restart_is_taken_over(bucket: str) -> None:
    path = f"{bucket}/run.lock"
    with storage.write_atomic(path, "w") as file:
        json.dump({"pid": os.getppid(), "host": os.uname().nodename, "since": "2020"}, file)
    assert storage.is_locked(path)  # until it was not renewed for five minutes
    blob = gcs_client.blob_at(path)
    blob.metadata = {"beat": (datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=301)).isoformat()}
    blob.patch()
    assert not storage.is_locked(path)
    with storage.lock(path):
        assert json.loads(storage.read_bytes(path))["pid"] == os.getpid()


@contextlib.contextmanager
def server_that_answers(*statuses: int) -> Iterator[str]:
    """A server that gives these statuses in turn, the last one for ever, with an empty listing as body."""
    left = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = left.pop(0) if len(left) > 1 else left[0]
            body = b'{"items": [{"name": "x"}]}' if status == 200 else b"{}"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("status", cases.all_of([503], heavy=[408, 429]))
def test_busy_then_well(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    with server_that_answers(status, 200) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        assert storage.listdir("gs://some") == ["x"]


@pytest.mark.parametrize(
    ("is_busy", "raised", "text"),
    [(True, RunError, "cannot read gs://some/x: the server is busy"), (False, UsageError, "credentials")],
)
def test_only_a_busy_server_of_credentials_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, is_busy: bool, raised: type[Exception], text: str
) -> None:
    monkeypatch.setattr(gcs_client, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(base, "_settings", base.BucketSettings(gs_retry_seconds=0.3))
    requests = []

    def request() -> None:
        requests.append(1)
        raise RefreshError("unavailable", retryable=is_busy)

    with pytest.raises(raised, match=text):
        gcs_client.with_retries("read", "gs://some/x", request)
    assert (len(requests) > 1) == is_busy


@pytest.mark.parametrize(
    ("status", "raised", "text"),
    [
        (403, UsageError, "no permission"),
        (401, UsageError, "gcloud auth"),
        (400, RunError, "gs://some/x"),
        (413, RunError, "cannot read gs://some/x: 413"),
    ],
)
def test_refusals_are_named(monkeypatch: pytest.MonkeyPatch, status: int, raised: type[Exception], text: str) -> None:
    with server_that_answers(status) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        with pytest.raises(raised, match=text):
            storage.read_bytes("gs://some/x")
