"""Between this machine and a bucket: copies, the folders they lie in, growing files, locks that are renewed."""

from __future__ import annotations

import datetime
import errno
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

import pytest
from gs_proxy import Fault, Proxy, running_proxy

from yt8m import storage
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.storage import base, copies, gcs, gcs_client, sending


@pytest.fixture(autouse=True)
def own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_settings", base.BucketSettings(cache_dir=str(tmp_path / "cache")))
    monkeypatch.setattr(gcs_client, "_FIRST_WAIT", 0.02)


@pytest.fixture
def proxy(bucket: str, emulator_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with running_proxy(emulator_address) as running:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", running.address)
        yield running


def put(path: str, content: bytes) -> None:
    with storage.write_atomic(path) as file:
        file.write(content)


@pytest.mark.parametrize("name", ["/etc/passwd", "variables/../../../x"])
def test_names_that_lead_out_of_a_folder_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(copies, "_versions", lambda *_, **__: {"saved_model.pb": 1, name: 1})
    monkeypatch.setattr(copies, "_fetch", lambda *paths: fetched.append(paths[1]))
    with pytest.raises(RunError, match=rf"gs://bucket/model .*out of .*folder: '{name}'"):
        copies.folder_copy("gs://bucket/model")
    assert not fetched


def test_a_copy_is_fetched_once_and_anew_when_it_has_changed(bucket: str, proxy: Proxy) -> None:
    prefix = f"{bucket}/run/model.ckpt-5"
    for name in ("index", "data-00000-of-00001"):
        put(f"{prefix}.{name}", name.encode())
    put(f"{prefix}0.index", b"of another step")
    first = copies.copy_of(prefix)
    assert sorted(os.listdir(os.path.dirname(first))) == ["model.ckpt-5.data-00000-of-00001", "model.ckpt-5.index"]
    assert pathlib.Path(f"{first}.index").read_bytes() == b"index"
    before = len([request for request in proxy.requests if "/download/" in request])
    assert copies.copy_of(prefix) == first
    assert len([request for request in proxy.requests if "/download/" in request]) == before == 2
    put(f"{prefix}.index", b"new")
    second = copies.copy_of(prefix)
    assert pathlib.Path(f"{second}.index").read_bytes() == b"new"
    assert not os.path.exists(f"{first}.index")
    with pytest.raises(storage.NotFoundError, match="ckpt-7"):
        copies.copy_of(f"{bucket}/run/model.ckpt-7")
    assert copies.copy_of("/a/local/path") == "/a/local/path"


@pytest.mark.parametrize("folder", ["run[1]", "a\\b", "a\\b/[x]"])
def test_tensorflow_reads_a_local_checkpoint_whose_path_is_a_pattern(tmp_path: pathlib.Path, folder: str) -> None:
    os.makedirs(tmp_path / folder)
    prefix = str(tmp_path / folder / "model.ckpt-5")
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.get_variable("w", initializer=3.0).initializer)
        tf.train.Saver().save(session, prefix)
    for local in (copies.copy_of(prefix), f"{copies.folder_copy(os.path.dirname(prefix))}/model.ckpt-5"):
        assert tf.train.load_checkpoint(local).get_tensor("w") == 3.0
    assert copies.copy_of(prefix) == copies.copy_of(prefix)


def test_a_replaced_folder_is_never_a_mixture(bucket: str, proxy: Proxy) -> None:
    """The files by which a model is recognised are deleted first and uploaded last."""
    folder = f"{bucket}/model"
    for name in ("saved_model.pb", "variables/variables.index", "assets/stale"):
        put(f"{folder}/{name}", b"old")
    proxy.requests.clear()
    with sending.replaced_folder(folder) as part:
        os.makedirs(f"{part}/variables")
        for name in ("saved_model.pb", "variables/variables.index", "README.md"):
            pathlib.Path(part, name).write_bytes(b"new")
        assert storage.read_bytes(f"{folder}/saved_model.pb") == b"old"
        proxy.requests.clear()
    writes = [request for request in proxy.requests if not request.startswith("GET")]
    assert [request.split()[0] for request in writes] == ["DELETE", "DELETE", "POST", "POST", "POST", "DELETE"]
    assert "saved_model.pb" in writes[0] + writes[1]
    assert "assets/stale" in writes[-1]
    assert {path: storage.read_bytes(path) for path in storage.glob(f"{folder}/*.*")} == {
        f"{folder}/README.md": b"new",
        f"{folder}/saved_model.pb": b"new",
    }


def test_a_folder_that_fails_is_not_sent(bucket: str) -> None:
    def fail(part: str) -> None:
        os.makedirs(f"{part}/assets")
        raise ValueError(part)

    with pytest.raises(ValueError, match="model"), sending.replaced_folder(f"{bucket}/model") as part:
        fail(part)
    assert not storage.exists(f"{bucket}/model")


def test_a_growing_file_goes_on_and_outlives_an_outage(bucket: str, proxy: Proxy) -> None:
    path = f"{bucket}/run/metrics.jsonl"
    put(path, b"before\n")
    file = sending.GrowingFile(path, go_on=True)
    storage.append_line(file.local, "one")
    sending.send_growing()
    assert storage.read_text(path) == "before\none\n"
    sent = len(proxy.requests)
    sending.send_growing()
    assert len(proxy.requests) == sent  # nothing has grown
    storage.append_line(file.local, "two")
    proxy.faults = [Fault("POST", status=403)]
    sending.send_growing()  # is logged, and does no harm
    proxy.faults = []
    file.close()
    assert storage.read_text(path) == "before\none\ntwo\n"


def test_the_folder_of_a_killed_process_is_removed(tmp_path: pathlib.Path) -> None:
    code = "import os; from yt8m.storage import copies as w; print(w.workspace()); "
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    base.configure_storage(base.BucketSettings(cache_dir=str(tmp_path / "yt8m")))

    def start(more: str) -> str:
        words = [sys.executable, "-c", code + more]
        return subprocess.run(words, env=environment, capture_output=True, text=True).stdout.strip()

    killed = start("import sys; sys.stdout.flush(); os.kill(os.getpid(), 9)")
    assert os.path.isdir(killed)
    assert not os.path.exists(start("pass"))  # ended well
    mine = copies.workspace()
    assert not os.path.exists(killed)
    start("pass")
    assert os.path.isdir(mine)  # of a process that lives


def lock_of_another_host(path: str, beat: datetime.datetime) -> None:
    blob = gcs_client.blob_at(path)
    blob.metadata = {"beat": beat.isoformat()}
    blob.upload_from_string('{"pid": 1, "host": "elsewhere", "since": "2020"}')


def test_a_lock_of_a_holder_that_has_long_been_silent_is_taken_over(bucket: str) -> None:
    path, now = f"{bucket}/train.lock", datetime.datetime.now(datetime.UTC)
    lock_of_another_host(path, now - datetime.timedelta(seconds=200))
    with pytest.raises(storage.Locked, match="process 1 on elsewhere"), storage.lock(path):
        pass
    lock_of_another_host(path, now - datetime.timedelta(seconds=400))
    with storage.lock(path):
        assert f'"pid": {os.getpid()}' in storage.read_text(path)


def test_a_holder_keeps_its_lock_fresh_and_notes_that_it_is_lost(
    bucket: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcs, "BEAT_SECONDS", 0.02)
    beaten, lost = threading.Event(), threading.Event()
    proxy.faults = [Fault("PATCH", times=1, before=beaten.set)]
    with storage.lock(f"{bucket}/run/train.lock"):
        assert beaten.wait(600)
        storage.refuse_lost_lock(f"{bucket}/run")
        monkeypatch.setattr(gcs.logging, "error", lambda *_: lost.set())  # first: the next beat may notice the loss
        storage.remove(f"{bucket}/run/train.lock")
        assert lost.wait(600)
        storage.refuse_lost_lock(f"{bucket}/other")
        with pytest.raises(RunError, match=rf"{bucket}/run/train\.lock .*another process"):
            storage.refuse_lost_lock(f"{bucket}/run")
    storage.refuse_lost_lock(f"{bucket}/run")


@pytest.mark.promise("C7")
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_what_is_held_stays_when_it_is_deleted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, is_elsewhere: bool
) -> None:
    """By a second name; on another file system, which is stood in for here, by a copy."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if is_elsewhere:
        monkeypatch.setattr(os, "link", refuse)
    prefix = str(tmp_path / "model.ckpt-3")
    for name in (".index", ".data-00000-of-00001", "0.index"):
        pathlib.Path(prefix + name).write_text(name)
    with copies.hold(prefix):
        for path in tmp_path.glob("model.ckpt*"):
            path.unlink()
        here = pathlib.Path(copies.copy_of(prefix))
        assert copies.is_held(prefix)
        found = {path.name: path.read_text() for path in here.parent.iterdir()}
        assert found == {"model.ckpt-3.index": ".index", "model.ckpt-3.data-00000-of-00001": ".data-00000-of-00001"}
    assert not here.parent.exists()
    assert copies.copy_of(prefix) == prefix
    with pytest.raises(storage.NotFoundError, match=r"model\.ckpt-3"), copies.hold(prefix):
        pass
    assert not copies.is_held(prefix)


LIVES = """
import os, sys
from yt8m.storage import copies

with copies.private_folder("mine-") as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.promise("X5")
def test_private_folders_of_killed_processes_go_and_those_of_living_ones_stay(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "mine-of-nobody").mkdir()  # made by hand: it holds no lock
    command, environment = [sys.executable, "-c", LIVES], {**os.environ, "TMPDIR": str(tmp_path)}
    processes = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, living = processes
    try:
        left, kept = (process.stdout.readline().strip() for process in processes)
        assert stat.S_IMODE(os.stat(left).st_mode) == 0o700
        killed.kill()
        killed.wait()
        assert os.path.isdir(left)
        with copies.private_folder("other-"):
            assert os.path.isdir(left)  # not this one's business
        with copies.private_folder("mine-") as folder:
            assert not os.path.exists(left)
            assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, ["mine-of-nobody", kept, folder]))
    finally:
        for process in processes:
            process.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert living.returncode == 0
    assert os.listdir(tmp_path) == ["mine-of-nobody"]
