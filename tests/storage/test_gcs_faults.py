"""What goes wrong between here and a bucket, over real connections through a proxy that injects it."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import cases
import pytest
from emulator import free_port
from gs_proxy import Fault, Proxy, running_proxy

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.storage import base, gcs_client

pytestmark = pytest.mark.promise("I10")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs_client, "_FIRST_WAIT", 0.02)
    monkeypatch.setattr(gcs_client, "_LONGEST_WAIT", 0.1)
    monkeypatch.setattr(base, "_settings", base.BucketSettings(gs_retry_seconds=20.0))


@pytest.fixture
def proxy(bucket: str, emulator_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with running_proxy(emulator_address) as running:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", running.address)
        yield running


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request has half a second."""
    monkeypatch.setattr(base, "_settings", base.BucketSettings(gs_retry_seconds=0.5))


def put(path: str, content: bytes) -> None:
    with storage.write_atomic(path) as file:
        file.write(content)


def test_a_busy_server_is_asked_again(bucket: str, proxy: Proxy) -> None:
    proxy.faults = [Fault(method, times=2, status=503) for method in ("POST", "DELETE")]
    proxy.faults += [Fault("GET", "/download/", times=2, status=429), Fault("GET", times=2, status=502)]
    path = f"{bucket}/folder/a"
    put(path, b"content")
    assert storage.read_bytes(path) == b"content"
    assert storage.glob(f"{bucket}/folder/*") == [path]
    with storage.lock(f"{bucket}/run.lock"):
        assert storage.exists(f"{bucket}/run.lock")
    assert not storage.exists(f"{bucket}/run.lock")
    storage.remove(path)
    assert not storage.exists(path)
    assert all(not fault.times for fault in proxy.faults)


def test_a_server_that_stays_out_of_order_is_named_in_bounded_time(bucket: str, proxy: Proxy, brief: None) -> None:
    proxy.faults = [Fault("GET", status=503)]
    with pytest.raises(RunError, match=rf"cannot read {bucket}/x: .*busy.*503.* 0\.5 s \(--gs_retry_seconds"):
        storage.read_bytes(f"{bucket}/x")
    assert len(proxy.requests) > 2


def test_a_server_out_of_reach_is_named(bucket: str, monkeypatch: pytest.MonkeyPatch, brief: None) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(RunError, match=r"cannot look up gs://b/\*: .*cannot be reached .*firewall"):
        storage.glob("gs://b/*")


def test_no_permission_is_named_at_once(bucket: str, proxy: Proxy) -> None:
    proxy.faults = [Fault("POST", status=403)]
    with pytest.raises(UsageError, match=f"cannot write {bucket}/x: no permission .*gcloud auth"):
        put(f"{bucket}/x", b"content")
    assert sum(request.startswith("POST") for request in proxy.requests) == 1


def test_a_missing_bucket_is_named_before_the_work(bucket: str, proxy: Proxy) -> None:
    with (
        pytest.raises(UsageError, match=r"no bucket nowhere\b.*gcloud storage buckets create"),
        storage.write_atomic("gs://nowhere/x"),
    ):
        raise AssertionError("the work began")


def test_damaged_bytes_are_fetched_again(bucket: str, proxy: Proxy) -> None:
    put(f"{bucket}/x", b"content")
    proxy.faults = [Fault("GET", "/download/", times=2, flip=True)]
    assert storage.read_bytes(f"{bucket}/x") == b"content"
    assert not proxy.faults[0].times


@pytest.mark.heavy
def test_bytes_that_stay_damaged_are_refused(bucket: str, proxy: Proxy, brief: None) -> None:
    put(f"{bucket}/x", b"content")
    proxy.faults = [Fault("GET", "/download/", flip=True)]
    with pytest.raises(RunError, match=f"cannot read {bucket}/x: it arrives damaged .*crc32c"):
        storage.read_bytes(f"{bucket}/x")


@pytest.mark.parametrize("size", cases.all_of([1000], heavy=[9 << 20]))  # at once, and in a session of several requests
def test_an_upload_that_is_cut_leaves_the_old_content_and_is_sent_again(bucket: str, proxy: Proxy, size: int) -> None:
    path = f"{bucket}/x"
    put(path, b"old")
    seen: list[bytes] = []

    def look() -> None:
        seen.append(storage.read_bytes(path))

    method = "POST" if size < 8 << 20 else "PUT"
    proxy.faults = [Fault(method, times=2, cut=True), Fault(method, times=1, before=look)]
    content = bytes(range(250)) * (size // 250)
    put(path, content)
    assert seen == [b"old"]
    assert storage.read_bytes(path) == content


def test_an_upload_that_is_too_slow_is_sent_again(bucket: str, proxy: Proxy) -> None:
    proxy.faults = [Fault("POST", times=2, status=408)]
    put(f"{bucket}/x", b"content")
    assert storage.read_bytes(f"{bucket}/x") == b"content"


def test_an_answer_that_is_lost_does_no_harm(bucket: str, proxy: Proxy) -> None:
    proxy.faults = [
        Fault("POST", times=1, status=503, lose_answer=True),
        Fault("DELETE", times=1, status=503, lose_answer=True),
    ]
    put(f"{bucket}/x", b"content")
    assert storage.read_bytes(f"{bucket}/x") == b"content"
    storage.remove(f"{bucket}/x")
    assert not storage.exists(f"{bucket}/x")


def test_a_lock_whose_answer_is_lost_is_ours(bucket: str, proxy: Proxy) -> None:
    proxy.faults = [Fault("POST", times=1, status=503, lose_answer=True)]
    with storage.lock(f"{bucket}/run.lock"), pytest.raises(storage.Locked), storage.lock(f"{bucket}/run.lock"):
        pass


def test_two_writers_do_not_undo_each_other(bucket: str, proxy: Proxy) -> None:
    path = f"{bucket}/x"
    with pytest.raises(RunError, match=f"cannot write {path}: another program"), storage.write_atomic(path):
        put(path, b"two")
    assert storage.read_bytes(path) == b"two"


def test_two_that_lock_at_once(bucket: str, proxy: Proxy) -> None:
    """The other's lock comes between our look and our writing."""
    other = b'{"pid": 1, "host": "elsewhere", "since": "2020"}'

    def meanwhile() -> None:
        put(f"{bucket}/run.lock", other)

    proxy.faults = [Fault("POST", times=1, before=meanwhile)]
    with pytest.raises(storage.Locked, match="process 1 on elsewhere"), storage.lock(f"{bucket}/run.lock"):
        raise AssertionError("both have it")


@pytest.mark.parametrize("answers", cases.all_of([1], heavy=[0, 2]))
def test_a_lock_that_is_released_while_it_is_looked_at_is_free(bucket: str, proxy: Proxy, answers: int) -> None:
    put(path := f"{bucket}/run.lock", b'{"pid": 1, "host": "elsewhere", "since": "2020"}')

    def release() -> None:
        proxy.faults = []
        storage.remove(path)

    proxy.faults = [Fault("GET", times=answers), Fault("GET", before=release)]
    if answers > 1:  # all that is read of the lock was read before
        with pytest.raises(storage.Locked), storage.lock(path):
            pass
        release()
    with storage.lock(path):
        assert storage.is_locked(path)


def test_a_lock_of_another_that_is_released_at_once_is_ours(bucket: str, proxy: Proxy) -> None:
    path = f"{bucket}/run.lock"

    def release() -> None:
        proxy.faults = []
        storage.remove(path)

    def meanwhile() -> None:
        put(path, b'{"pid": 1, "host": "elsewhere", "since": "2020"}')
        proxy.faults = [Fault("GET", before=release)]

    proxy.faults = [Fault("POST", times=1, before=meanwhile)]
    with storage.lock(path):
        assert storage.is_locked(path)


def test_a_file_read_while_it_is_replaced_is_of_one_piece(bucket: str, proxy: Proxy, tmp_path: pathlib.Path) -> None:
    path = f"{bucket}/x"
    put(path, b"old" * 1000)
    proxy.faults = [Fault("GET", "/download/", times=1, before=lambda: put(path, b"new"))]
    assert storage.read_bytes(path) == b"new"
