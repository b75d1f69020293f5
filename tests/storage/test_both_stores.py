"""What holds for local paths and for gs:// alike, each run against the real thing."""

from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import re

import pytest

from yt8m import storage
from yt8m.errors import RunError, UsageError


@pytest.fixture(params=["local", "gs"])
def root(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    return str(tmp_path) if request.param == "local" else request.getfixturevalue("bucket")


def put(path: str, content: bytes = b"x") -> None:
    with storage.write_atomic(path) as file:
        file.write(content)


def test_what_is_written_is_read(root: str) -> None:
    path = storage.join(root, "a", "b.bin")
    content = bytes(range(256)) * 50_000
    put(path, content)
    assert storage.read_bytes(path) == content
    assert storage.size(path) == len(content)
    with storage.open_read(path) as file:
        file.seek(256 * 40_000 + 3)
        assert file.read(2) == b"\x03\x04"


def test_text(root: str) -> None:
    path = storage.join(root, "t.csv")
    with storage.write_atomic(path, "w") as file:
        file.write("häuser\nzwei\n")
    assert storage.read_text(path) == "häuser\nzwei\n"
    assert storage.read_bytes(path) == "häuser\nzwei\n".encode()


def test_text_with_a_name_that_is_not_utf8_is_json_that_gives_the_name_back(root: str) -> None:
    path, name = storage.join(root, "names.json"), os.fsdecode(b"h\xe4user")  # in Latin-1
    line = json.dumps({"name": name}, ensure_ascii=False)
    storage.write(path, line)
    storage.append_line(storage.join(root, "lines"), line)
    for written in (path, storage.join(root, "lines")):
        assert storage.read_text(written).strip() == r'{"name": "h\udce4user"}'
        assert json.loads(storage.read_text(written)) == {"name": name}


def test_replaces_what_was_there(root: str) -> None:
    path = storage.join(root, "f")
    put(path, b"old and longer")
    put(path, b"new")
    assert storage.read_bytes(path) == b"new"


def test_whole_files_are_not_unfinished(root: str) -> None:
    path = storage.join(root, "f")
    storage.discard_unfinished(path)
    put(path)
    storage.discard_unfinished(path)
    storage.discard_unfinished(storage.join(root, "no folder", "f"))
    assert storage.listdir(root) == ["f"]


def put_half(path: str, raised: type[BaseException]) -> None:
    with storage.write_atomic(path) as file:
        file.write(b"half")
        file.flush()
        raise raised


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt, OSError])
def test_an_exception_leaves_the_old_content_and_nothing_beside(root: str, raised: type[BaseException]) -> None:
    path = storage.join(root, "f")
    put(path, b"old")
    with pytest.raises(raised):
        put_half(path, raised)
    assert storage.read_bytes(path) == b"old"
    assert storage.listdir(root) == ["f"]


def test_glob(root: str) -> None:
    for name in ("d/train0.tfrecord", "d/train1.tfrecord", "d/.train2.tmp", "d/deep/train3.tfrecord", "e/x"):
        put(storage.join(root, name))
    shards = [storage.join(root, "d", f"train{i}.tfrecord") for i in range(2)]
    assert storage.glob(f"{root}/d/train*") == shards
    assert storage.glob(f"{root}/d/train[1-9].tfrecord") == shards[1:]
    assert storage.glob(f"{root}/d/train?.tfrecord, {root}/d/train0*,{root}/e/x") == [*shards, f"{root}/e/x"]
    assert storage.glob(f"{root}/*/x") == [f"{root}/e/x"]
    assert storage.glob(f"{root}/d/*") == [f"{root}/d/deep", *shards]
    assert storage.glob(f"{root}/d/**x") == []
    assert storage.glob(f"{root}/nothing/*") == []


def test_an_existing_path_matches_itself(root: str) -> None:
    path = storage.join(root, "odd[1]*.tfrecord")
    put(path)
    assert storage.glob(path) == [path]


@pytest.mark.parametrize("name", ["odd[1]", "a*", "all?", "x,y"])
def test_the_name_of_a_folder_is_no_pattern(root: str, name: str) -> None:
    for folder in (name, "odd1", "ab", "all1", "x"):
        put(storage.join(root, folder, "train0.tfrecord"))
    folder, expected = storage.join(root, name), [storage.join(root, name, "train0.tfrecord")]
    assert storage.glob_in(folder, "*.tfrecord") == expected
    if "," not in name:
        assert storage.glob(storage.pattern_in(folder, "*.tfrecord")) == expected


def test_an_existing_path_with_commas_matches_itself_in_a_list(root: str) -> None:
    paths = [storage.join(root, name) for name in ("a,b,c.mp4", "d.mp4", "e, f.mp4")]
    for path in paths:
        put(path)
    assert storage.glob(",".join(paths)) == paths
    assert [storage.glob(path) for path in paths] == [[path] for path in paths]
    missing = storage.join(root, "nothing")
    assert dict(storage.paths_by_pattern(f"{paths[0]},{missing},{root}/d*")) == {
        paths[0]: paths[:1],
        missing: [],
        f"{root}/d*": paths[1:2],
    }


def test_a_pattern_may_have_commas(root: str) -> None:
    for name in ("a,b/1.mp4", "a,b/2.mp4", "c.mp4"):
        put(storage.join(root, name))
    assert list(storage.paths_by_pattern(f"{root}/c*,{root}/a,b/*.mp4,{root}/d*")) == [
        (f"{root}/c*", [f"{root}/c.mp4"]),
        (f"{root}/a,b/*.mp4", [f"{root}/a,b/1.mp4", f"{root}/a,b/2.mp4"]),
        (f"{root}/d*", []),
    ]
    assert storage.listed(f"{root}/a,b/1.mp4,{root}/nothing,") == [f"{root}/a,b/1.mp4", f"{root}/nothing"]


@pytest.mark.promise("I8")
def test_each_pattern_must_match_a_file_that_counts(root: str) -> None:
    for name in ("a.mp4", "b.mp4", "notes.txt"):
        put(storage.join(root, name))

    def videos(paths: list[str]) -> list[str]:
        return [path for path in paths if path.endswith(".mp4")]

    assert storage.named_files([f"{root}/b*", f"{root}/*"], videos) == [f"{root}/b.mp4", f"{root}/a.mp4"]
    for bad in ("notes.txt", "nothere.mp4", "*.webm"):
        for patterns in (f"{root}/{bad}", [f"{root}/a.mp4", f"{root}/{bad}"], f"{root}/{bad},{root}/a.mp4"):
            with pytest.raises(UsageError, match=f"no video matches '{re.escape(root)}/{re.escape(bad)}'"):
                storage.named_files(patterns, videos, "video")
    with pytest.raises(UsageError, match=r"no file.*named"):
        storage.named_files([])
    with pytest.raises(UsageError, match="no file matches ''"):
        storage.named_files(f"{root}/a.mp4,")


def test_listing_and_kinds(root: str) -> None:
    put(storage.join(root, "d/one"))
    put(storage.join(root, "d/sub/two"))
    folder = storage.join(root, "d")
    assert storage.listdir(folder) == ["one", "sub"]
    assert storage.exists(folder)
    assert storage.is_dir(folder)
    assert storage.exists(storage.join(folder, "one"))
    assert not storage.is_dir(storage.join(folder, "one"))
    assert storage.why_no_folder(storage.join(folder, "one")) == "this is a file"
    assert "no such folder" in storage.why_no_folder(storage.join(folder, "nowhere"))
    assert not storage.exists(storage.join(folder, "on"))


def test_rename_and_remove(root: str) -> None:
    put(storage.join(root, "a"), b"a")
    put(storage.join(root, "d/sub/two"), b"two")
    storage.rename(storage.join(root, "a"), storage.join(root, "b"))
    storage.rename(storage.join(root, "d"), storage.join(root, "e"))
    assert storage.listdir(root) == ["b", "e"]
    assert storage.read_bytes(storage.join(root, "e/sub/two")) == b"two"
    storage.remove(storage.join(root, "b"))
    storage.remove_tree(storage.join(root, "e"))
    assert storage.glob(f"{root}/*") == []


@pytest.mark.parametrize("call", ["read_bytes", "size", "remove", "remove_tree", "listdir"])
def test_a_missing_path_is_named(root: str, call: str) -> None:
    path = storage.join(root, "missing")
    with pytest.raises(storage.NotFoundError, match="missing"):
        getattr(storage, call)(path)
    with pytest.raises(storage.NotFoundError, match="missing"):
        storage.rename(path, storage.join(root, "other"))


def _try_to_lock(path: str, answer: multiprocessing.Queue[str]) -> None:
    try:
        with storage.lock(path):
            answer.put("")
    except storage.Locked as error:
        answer.put(str(error))


def _hold(path: str, taken: multiprocessing.Queue[str]) -> None:
    with storage.lock(path):
        taken.put("")
        taken.close()
        taken.join_thread()
        os.kill(os.getpid(), 9)


def test_a_second_process_is_told_who_holds_the_lock(root: str) -> None:
    path = storage.join(root, "run.lock")
    spawn = multiprocessing.get_context("spawn")
    answer = spawn.Queue()
    with storage.lock(path):
        other = spawn.Process(target=_try_to_lock, args=(path, answer))
        other.start()
        said = answer.get()
        other.join()
    assert path in said
    assert f"process {os.getpid()} on {os.uname().nodename} since 20" in said
    assert not storage.exists(path)


def test_within_a_process_too_and_free_afterwards(root: str) -> None:
    path = storage.join(root, "run.lock")
    with storage.lock(path):
        with pytest.raises(storage.Locked) as caught, storage.lock(path):
            pass
        assert caught.value.holder["pid"] == os.getpid()
        assert json.loads(storage.read_bytes(path))["host"] == os.uname().nodename
    with storage.lock(path):
        pass


def test_a_killed_holder_lets_go(root: str) -> None:
    path = storage.join(root, "run.lock")
    spawn = multiprocessing.get_context("spawn")
    taken = spawn.Queue()
    holder = spawn.Process(target=_hold, args=(path, taken))
    holder.start()
    taken.get()
    holder.join()
    assert holder.exitcode == -9
    assert storage.exists(path)
    assert not storage.is_locked(path)
    with storage.lock(path):
        assert json.loads(storage.read_bytes(path))["pid"] == os.getpid()


def test_an_error_of_the_block_is_not_renamed(root: str) -> None:
    put(storage.join(root, "f"))
    with pytest.raises(FileNotFoundError), storage.open_read(storage.join(root, "f")):
        open("/nonexistent/of/the/caller")  # noqa: SIM115
    with pytest.raises(RunError), storage.lock(storage.join(root, "l")):
        raise RunError("its own")


def test_paths_that_cannot_be() -> None:
    for path in ("s3://bucket/x", "hdfs://x", ""):
        with pytest.raises(UsageError):
            storage.exists(path)
    with pytest.raises(UsageError, match="one is local"):
        storage.rename("/tmp/x", "gs://b/x")
    with pytest.raises(ValueError, match="mode"), storage.write_atomic("/tmp/x", "a"):
        pass
    assert storage.is_remote("gs://b/x")
    assert not storage.is_remote("b/x")
    assert storage.join("gs://b/", "/x", "y/") == "gs://b/x/y"


def test_appended_lines_follow_one_another(root: str) -> None:
    path = storage.join(root, "folder", "metrics.jsonl")
    for line in ("one", "zwei ä"):
        storage.append_line(path, line)
    assert storage.read_text(path) == "one\nzwei ä\n"


def test_a_tree_has_the_files_of_every_folder_below(root: str) -> None:
    for name in ("f", "a/g", "a/b/h", "a/b/c", ".hidden/x"):
        put(storage.join(root, "t", *name.split("/")))
    top = storage.join(root, "t")
    expected = {top: ["f"], storage.join(top, "a"): ["g"], storage.join(top, "a", "b"): ["c", "h"]}
    assert storage.tree(top) == expected
    with pytest.raises(storage.NotFoundError, match="missing"):
        storage.tree(storage.join(root, "missing"))


def test_a_lock_is_alive_as_long_as_it_is_held(root: str) -> None:
    path = storage.join(root, "run.lock")
    assert not storage.is_locked(path)
    with storage.lock(path):
        assert storage.is_locked(path)
    assert not storage.is_locked(path)
