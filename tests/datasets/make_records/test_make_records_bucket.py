"""Records for a bucket: made on this machine, sent when they are complete, and sent further after an interruption."""

from __future__ import annotations

import itertools
import os
import pathlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gs_proxy import Fault, Proxy, running_proxy

from yt8m import storage
from yt8m.datasets import make_records
from yt8m.datasets.make_records import RecordsConfig, output
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest
from yt8m.storage import base, gcs, gcs_client, local

Make = Callable[..., None]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes batches of 20 rows. The order of the records depends on them."""
    monkeypatch.setattr("yt8m.datasets.make_records._MOST_ROWS", 20)


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder in which records are made before they are sent."""
    settings = base.BucketSettings(cache_dir=str(tmp_path / "cache"), gs_retry_seconds=0.1)
    monkeypatch.setattr(base, "_settings", settings)
    monkeypatch.setattr(gcs_client, "_FIRST_WAIT", 0.02)
    return tmp_path / "cache" / "staged"


@pytest.fixture
def make(clips: pathlib.Path) -> Make:
    """A function that makes records of the generated videos in the folder `out`."""

    def call(out: str, **given: Any) -> None:
        make_records.make(RecordsConfig(**{"table": str(clips / "clips.csv"), "out": out, "shards": 3, **given}))

    return call


@pytest.fixture
def whole(make: Make, tmp_path: pathlib.Path) -> dict[str, bytes]:
    """The content of the files that the same command writes into a local folder."""
    make(str(tmp_path / "whole"))
    return contents(str(tmp_path / "whole"))


@pytest.fixture
def proxy(bucket: str, emulator_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with running_proxy(emulator_address) as running:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", running.address)
        yield running


def contents(out: str) -> dict[str, bytes]:
    """{path in the folder: content} of all files, without the progress, which has times."""
    if not storage.exists(out):
        return {}
    paths = {
        storage.join(at, name): storage.join(at, name) for at, names in storage.tree(out).items() for name in names
    }
    return {path.removeprefix(out): storage.read_bytes(path) for path in paths if not path.endswith(output.PROGRESS)}


def test_a_bucket_gets_the_records_of_a_local_folder(
    make: Make, whole: dict[str, bytes], bucket: str, cache: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = f"{bucket}/data"
    make(out)
    assert contents(out) == whole
    assert f"written to {cache}/" in capsys.readouterr().err
    assert not list(cache.glob("*/*"))
    assert list(gcs.contents(f"{out}/.video.making")) == []
    assert manifest.read(f"{out}/video/train/{manifest.NAME}").shards
    make(out)
    assert "nothing was written" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"data/video already exists, .* other flags; add --overwrite"):
        make(out, bits=8)
    make(out, bits=8, overwrite=True)
    assert contents(out)["/video/train/train0000.tfrecord"] != whole["/video/train/train0000.tfrecord"]


@pytest.mark.heavy
def test_a_shard_that_changed_in_the_bucket_is_noticed(make: Make, bucket: str) -> None:
    out = f"{bucket}/data"
    make(out)
    shard = f"{out}/video/train/train0001.tfrecord"
    data = storage.read_bytes(shard)
    storage.write(shard, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(UsageError, match=r"train0001\.tfrecord .*not what.*written.*--overwrite"):
        make(out)


@pytest.mark.heavy
def test_the_start_after_a_kill_makes_all_records(
    make: Make, whole: dict[str, bytes], bucket: str, cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, write, parts = f"{bucket}/data", output.Output.write_records, itertools.count(1)

    def killing(self: output.Output, *part: Any) -> manifest.Shard:
        if next(parts) == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(self, *part)

    with monkeypatch.context() as troubled:
        troubled.setattr(output.Output, "write_records", killing)
        child = os.fork()
        if not child:
            make(out)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert list(cache.glob("*/train/*.tfrecord"))
    assert list(gcs.contents(out)) == [".lock"]
    make(out)
    assert contents(out) == whole


@pytest.mark.heavy
def test_after_a_lost_network_only_the_missing_files_are_sent(
    make: Make, whole: dict[str, bytes], bucket: str, proxy: Proxy, cache: pathlib.Path
) -> None:
    out = f"{bucket}/data"
    proxy.faults.append(Fault("POST", "video.making/train/train0001.tfrecord", status=503))
    with pytest.raises(
        RunError, match=r"cannot write .*/\.video\.making/train/train0001\.tfrecord: .*start again later"
    ):
        make(out)
    assert "train/train0000.tfrecord" in gcs.contents(f"{out}/.video.making")
    assert not storage.exists(f"{out}/video")
    assert len(list(cache.glob("*/*/*.tfrecord"))) == len([name for name in whole if name.endswith(".tfrecord")])
    proxy.faults.clear()
    proxy.requests.clear()
    make(out)
    assert contents(out) == whole
    assert not [request for request in proxy.requests if "upload" in request and "train0000" in request]


@pytest.mark.heavy
def test_the_start_after_a_kill_finishes_the_renaming(make: Make, whole: dict[str, bytes], bucket: str) -> None:
    out = f"{bucket}/data"
    make(out)
    storage.rename(f"{out}/video/train", f"{out}/.video.making/train")
    make(out)
    assert contents(out) == whole
    storage.rename(f"{out}/video/train", f"{out}/.video.making/train")
    progress = storage.read_bytes(f"{out}/video/{output.PROGRESS}")  # as if it was copied, but not yet removed
    storage.write(f"{out}/.video.making/{output.PROGRESS}", progress)
    make(out)
    assert contents(out) == whole
    assert list(gcs.contents(f"{out}/.video.making")) == []


def test_begun_records_of_other_inputs_do_not_replace_complete_ones(
    make: Make, whole: dict[str, bytes], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    make(str(out))
    (out / ".video.making").mkdir()
    (out / ".video.making" / output.PROGRESS).write_text('{"inputs": "others", "features": []}')
    make(str(out))
    assert "nothing was written" in capsys.readouterr().err
    assert contents(str(out)) == whole


def test_one_process_at_a_time_makes_records(make: Make, bucket: str, cache: pathlib.Path) -> None:
    out = f"{bucket}/data"
    with storage.lock(f"{out}/.lock"), pytest.raises(storage.Locked, match=rf"data/\.lock .*process {os.getpid()}\b"):
        make(out)
    assert list(gcs.contents(out)) == []


@pytest.mark.heavy
def test_the_start_after_a_full_disk_makes_all_records(
    make: Make, whole: dict[str, bytes], bucket: str, cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, write, parts = f"{bucket}/data", local.LocalStore.write_at, itertools.count(1)

    def full(self: local.LocalStore, path: str, *rest: Any) -> None:
        if next(parts) == 20:
            with local.naming_errors("write", path):
                raise OSError(28, "No space left on device")
        write(self, path, *rest)

    with monkeypatch.context() as troubled:
        troubled.setattr(local.LocalStore, "write_at", full)
        with pytest.raises(RunError, match=rf"cannot write {cache}/.*: No space left"):
            make(out)
    make(out)
    assert contents(out) == whole
