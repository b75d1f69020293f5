"""`yt8m download` from a server that breaks every rule: cuts, stalls, wrong lengths, wrong bytes, errors."""

from __future__ import annotations

import hashlib
import os
import re
import threading

import pytest
from datasets.download import shard_server
from datasets.download.download_runs import assert_all_there, run
from datasets.download.shard_server import cut, lie, stall, status

from yt8m import storage
from yt8m.command_line import cli


def test_all_files_are_saved_under_their_names(server, tmp_path, capsys):
    assert run(server, tmp_path / "new/folder") == 0
    assert_all_there(server, tmp_path / "new/folder")
    shown = capsys.readouterr()
    assert "2/frame/train: 4 files, 0 there already, 4 to fetch (80.0 kB)" in shown.out
    assert "(4 of 4 files)" in shown.err


def test_only_the_files_of_the_shard_are_fetched(server, tmp_path):
    assert run(server, tmp_path, "--shard=1,100") == 0
    assert os.listdir(tmp_path) == ["train0093.tfrecord"]


def test_an_empty_shard_is_named(server, tmp_path, capsys):
    assert run(server, tmp_path, "--shard=2,100") == 2
    assert "--shard=2,100 selects no file of 2/frame/train" in capsys.readouterr().err


def test_a_dry_run_fetches_nothing(server, tmp_path, capsys):
    assert run(server, tmp_path, "--dry_run") == 0
    assert os.listdir(tmp_path) == []
    assert server.gets == []
    shown = capsys.readouterr().out
    target = tmp_path / "train0093.tfrecord"
    assert f"{server.url}/2/frame/train/trainbF.tfrecord -> {target} (20.0 kB)" in shown


def test_files_that_are_there_are_not_fetched_again(server, tmp_path, capsys):
    assert run(server, tmp_path) == 0
    server.gets.clear()
    assert run(server, tmp_path) == 0
    assert server.gets == []
    assert "4 there already, 0 to fetch" in capsys.readouterr().out


def test_files_are_fetched_at_the_same_time(server, tmp_path):
    server.gate = threading.Barrier(4)  # no transfer begins before all four are requested
    assert run(server, tmp_path, "--jobs=4") == 0
    assert server.most_at_once == 4


@pytest.mark.parametrize(
    "fault", [cut(5000), cut(0), stall(5000), pytest.param(stall(0), marks=pytest.mark.heavy), lie(+100), status(503)]
)
def test_a_broken_transfer_continues_where_it_ended(server, tmp_path, fault):
    server.faults["trainab.tfrecord"] = [fault, fault]
    stalls = fault.__qualname__.startswith(("stall", "lie"))
    assert run(server, tmp_path, *(["--stall_seconds=0.3"] if stalls else [])) == 0
    assert_all_there(server, tmp_path)
    starts = [start for name, start in server.gets if name == "trainab.tfrecord"]
    assert starts == sorted(starts)
    if fault.__qualname__.startswith("cut") and starts[1]:
        assert starts == [0, 5000, 10000]
    if stalls and 5000 in starts:
        assert starts[-1] >= 5000  # on a busy machine, more transfers than these two may seem stalled


def test_transfers_that_bring_some_bytes_do_not_count_as_retries(server, tmp_path):
    server.faults["trainab.tfrecord"] = [cut(1000) for _ in range(15)]
    assert run(server, tmp_path, "--retries=1") == 0
    assert_all_there(server, tmp_path)


def test_a_very_slow_transfer_counts_as_stalled(server, tmp_path):
    server.faults["trainab.tfrecord"] = [shard_server.drip]
    assert run(server, tmp_path, "--stall_seconds=0.3") == 0
    assert_all_there(server, tmp_path)


@pytest.mark.parametrize(
    "fault", [shard_server.wrong_bytes, lie(-100), shard_server.no_ranges, shard_server.other_range]
)
def test_a_file_with_another_md5_is_fetched_again(server, tmp_path, fault):
    server.faults["trainab.tfrecord"] = [cut(5000), fault]
    assert run(server, tmp_path) == 0
    assert_all_there(server, tmp_path)


def test_the_next_start_continues_with_the_bytes_that_came(server, tmp_path, capsys):
    server.faults["trainab.tfrecord"] = [cut(5000), *[status(503)] * 4]
    assert run(server, tmp_path) == 1
    shown = capsys.readouterr().err
    assert "failed: train0001.tfrecord: " in shown
    assert "503" in shown
    assert "1 of 4 files failed" in shown
    (partial,) = tmp_path.glob(".train0001*.part")
    assert partial.read_bytes() == server.files["trainab.tfrecord"][:5000]
    assert storage.glob(f"{tmp_path}/*") == sorted(
        str(tmp_path / f"train{n}.tfrecord") for n in ("0000", "0093", "0939")
    )
    server.gets.clear()
    assert run(server, tmp_path) == 0
    assert server.gets == [("trainab.tfrecord", 5000)]
    assert_all_there(server, tmp_path)


@pytest.mark.parametrize("left", [b"x" * 300, b"y" * 60_000])
def test_a_damaged_part_is_thrown_away(server, tmp_path, left):
    md5 = server.md5["trainaa.tfrecord"]
    (tmp_path / f".train0000.tfrecord.{md5[:8]}.part").write_bytes(left)
    assert run(server, tmp_path) == 0
    assert_all_there(server, tmp_path)


def test_a_whole_part_is_only_renamed(server, tmp_path):
    content, md5 = server.files["trainaa.tfrecord"], server.md5["trainaa.tfrecord"]
    (tmp_path / f".train0000.tfrecord.{md5[:8]}.part").write_bytes(content)
    assert run(server, tmp_path) == 0
    assert_all_there(server, tmp_path)
    assert "trainaa.tfrecord" not in {name for name, _ in server.gets}


def test_everything_that_failed_is_listed(server, tmp_path, capsys):
    server.faults["trainaa.tfrecord"] = [shard_server.wrong_bytes] * 2
    server.md5["trainzz.tfrecord"] = "0" * 32  # in the plan, not on the mirror
    server.faults["trainbF.tfrecord"] = [status(503)] * 20
    assert run(server, tmp_path) == 1
    lines = capsys.readouterr().err.splitlines()
    failed = sorted(line for line in lines if line.startswith("failed: "))
    assert [line.split(":")[1].strip() for line in failed] == [
        "train0000.tfrecord",
        "train0093.tfrecord",
        "train1575.tfrecord",
    ]
    wrong = hashlib.md5(bytes(byte ^ 1 for byte in server.files["trainaa.tfrecord"])).hexdigest()
    assert f"has the md5 {wrong}; expected {server.md5['trainaa.tfrecord']}" in failed[0]
    assert "503 Service Unavailable (given up after 5 tries" in failed[1]
    assert "404" in failed[2]
    assert re.fullmatch("yt8m download: error: 3 of 5 files failed.*", lines[-1])
    assert sorted(storage.glob(f"{tmp_path}/*")) == [
        str(tmp_path / "train0001.tfrecord"),
        str(tmp_path / "train0939.tfrecord"),
    ]
    assert not list(tmp_path.glob(".train0000*"))


def test_a_busy_server_is_asked_again_after_the_time_that_it_names(server, tmp_path):
    server.faults["plan"] = [status(503, "1"), status(429, "soon")]
    assert run(server, tmp_path) == 0
    assert_all_there(server, tmp_path)


@pytest.mark.parametrize(
    ("plan", "part"), [(b"<html>", "is not a download plan"), (b'{"files": {}}', "lists no files")]
)
def test_a_download_ends_if_the_plan_is_not_one(server, tmp_path, capsys, plan, part):
    server.plan = plan
    assert run(server, tmp_path) == 1
    assert part in capsys.readouterr().err


def test_a_partition_that_is_not_there_is_named(server, tmp_path, capsys):
    urls = [f"--plan_url={server.url}", f"--mirror_url={server.url}"]
    assert cli.main(["download", "--partition=9/video/test", f"--dest={tmp_path}", *urls]) == 1
    assert "/9/download_plans/video_test.json: the server answered 404" in capsys.readouterr().err


def test_no_server_is_named(tmp_path, capsys):
    words = ["--plan_url=http://127.0.0.1:9", "--retries=1", "--backoff_seconds=0"]
    assert cli.main(["download", "--partition=2/frame/train", f"--dest={tmp_path}", *words]) == 1
    assert "no answer (" in capsys.readouterr().err


def test_another_file_of_that_name_is_replaced_only_with_overwrite(server, tmp_path, capsys):
    (tmp_path / "train0000.tfrecord").write_bytes(b"mine")
    assert run(server, tmp_path) == 1
    assert "add --overwrite" in capsys.readouterr().err
    assert (tmp_path / "train0000.tfrecord").read_bytes() == b"mine"
    assert run(server, tmp_path, "--overwrite") == 0
    assert_all_there(server, tmp_path)


def test_a_file_that_another_process_fetches_is_left_to_it(server, tmp_path, capsys):
    md5 = server.md5["trainaa.tfrecord"]
    with storage.lock(str(tmp_path / f".train0000.tfrecord.{md5[:8]}.part.lock")):
        assert run(server, tmp_path) == 1
    assert f"is held by process {os.getpid()}" in capsys.readouterr().err


@pytest.mark.parametrize("status", [405, 501])
def test_a_server_that_gives_no_sizes_suffices(server, tmp_path, capsys, status):
    server.head_status = status
    assert run(server, tmp_path) == 0
    assert_all_there(server, tmp_path)
    assert run(server, tmp_path / "other", "--dry_run") == 0
    assert "(size not known)" in capsys.readouterr().out


def test_a_disk_without_room_is_refused_before_anything_is_fetched(server, tmp_path, capsys):
    server.head_sizes["trainab.tfrecord"] = 10**18
    assert run(server, tmp_path) == 2
    assert "free; the files take 1.0 EB more" in capsys.readouterr().err
    assert server.gets == []


@pytest.mark.parametrize("dest", ["file", "file/below"])
def test_a_file_is_no_folder_to_fetch_into(server, tmp_path, capsys, dest):
    (tmp_path / "file").touch()
    assert run(server, tmp_path / dest) == 2
    assert f"{tmp_path / 'file'} is a file" in capsys.readouterr().err
    assert server.gets == []
