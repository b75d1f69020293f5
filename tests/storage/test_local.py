"""What only local files have: limits, kills, links, devices."""

from __future__ import annotations

import fcntl
import os
import pathlib
import resource
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from yt8m import storage
from yt8m.errors import RunError


def run(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def put(path: pathlib.Path, pieces: list[bytes]) -> None:
    with storage.write_atomic(path) as file:
        for piece in pieces:
            file.write(piece)


def test_a_process_killed_while_writing_leaves_nothing_under_the_name(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "out.csv"
    ended = run(
        """
        import os, sys
        from yt8m import storage
        with storage.write_atomic(sys.argv[1]) as file:
            file.write(b"half" * 100_000)
            file.flush()
            os.kill(os.getpid(), 9)
        """,
        target,
    )
    assert ended.returncode == -signal.SIGKILL
    assert not target.exists()
    assert storage.glob(f"{tmp_path}/*") == []  # the orphan is hidden from patterns
    (tmp_path / ".out.csv.tmp").touch()
    storage.discard_unfinished(tmp_path / "out")
    assert len(storage.listdir(tmp_path)) == 2
    storage.discard_unfinished(target)
    assert storage.listdir(tmp_path) == [".out.csv.tmp"]  # that is another's


WRITES = """
import sys
from yt8m import storage
with storage.write_atomic(sys.argv[1]):
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.promise("O1")
def test_orphans_of_killed_writers_go_and_files_of_living_ones_stay(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "out.csv"
    command = [sys.executable, "-c", WRITES, str(target)]
    killed, living = (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    )
    assert [process.stdout.readline() for process in (killed, living)] == ["writing\n"] * 2
    killed.kill()
    killed.communicate()
    (left,) = tmp_path.glob(f".out.csv.{killed.pid}.*")
    (kept,) = tmp_path.glob(f".out.csv.{living.pid}.*")
    host = left.name.split(".")[4][:8]
    other_host = "0" * 8 if host != "0" * 8 else "1" * 8
    of_others = [
        tmp_path / f".out.csv.{killed.pid}.{other_host}01234567.tmp",  # of another machine
        tmp_path / f".out.csv.{killed.pid}.01234567.tmp",  # of a machine that is not known
        tmp_path / f".other.csv.{killed.pid}.{host}01234567.tmp",
    ]
    of_a_container = tmp_path / f".out.csv.{killed.pid}.{host}89abcdef.tmp"  # with processes of its own
    for each in (*of_others, of_a_container):
        each.touch()
    with open(of_a_container) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        storage.discard_orphans(target)
    assert sorted(tmp_path.iterdir()) == sorted([kept, *of_others, of_a_container])
    living.communicate()
    storage.discard_orphans(target)
    assert sorted(tmp_path.iterdir()) == sorted([target, *of_others])
    storage.discard_orphans(tmp_path / "no folder/out.csv")


def test_a_full_disk_is_named_and_cleaned_up(tmp_path: pathlib.Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        for size in (200_000, 100_001):  # at once, and only when the buffer is flushed
            with pytest.raises(RunError, match=r"cannot write .*/f"):
                put(tmp_path / "f", [b"x" * 99_999, b"x" * (size - 99_999)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert storage.listdir(tmp_path) == ["f"]
    assert storage.read_bytes(tmp_path / "f") == b"old"


def test_a_lock_without_room_is_named_and_left_free(tmp_path: pathlib.Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(RunError, match=r"cannot write .*/l: File too large"), storage.lock(tmp_path / "l"):
            raise AssertionError("the lock was given")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert storage.listdir(tmp_path) == []


def test_a_link_stays_and_its_target_is_replaced(tmp_path: pathlib.Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    with storage.write_atomic(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_standard_output_is_written_through(tmp_path: pathlib.Path) -> None:
    ended = run(
        """
        from yt8m import storage
        with storage.write_atomic("/dev/stdout", "w") as file:
            file.write("to the pipe\\n")
        """
    )
    assert (ended.returncode, ended.stdout) == (0, "to the pipe\n")


def test_usual_permissions(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with storage.write_atomic(tmp_path / "atomic"):
        pass
    assert os.stat(tmp_path / "atomic").st_mode == os.stat(tmp_path / "plain").st_mode


def test_folders_in_the_way(tmp_path: pathlib.Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(RunError, match="Is a directory"), storage.write_atomic(tmp_path / "d"):
        pass
    with pytest.raises(RunError, match=r"Not a directory|File exists"), storage.write_atomic(tmp_path / "f/x"):
        pass
    with pytest.raises(RunError, match="Is a directory"):
        storage.read_bytes(tmp_path / "d")
    assert sorted(os.listdir(tmp_path)) == ["d", "f"]


def test_an_unreadable_lock_file_still_locks(tmp_path: pathlib.Path) -> None:
    (tmp_path / "l").write_bytes(b"\xff no json")
    with storage.lock(tmp_path / "l"):  # left behind by nobody who still holds it
        (tmp_path / "l").write_bytes(b"[1]")
        with pytest.raises(storage.Locked, match="another process"), storage.lock(tmp_path / "l"):
            pass


def test_local_paths_need_no_cloud_library() -> None:
    ended = run(
        """
        import sys
        from yt8m import storage
        storage.glob("/tmp/*")
        print([name for name in sys.modules if name.startswith(("google", "tensorflow"))])
        """
    )
    assert ended.stdout == "[]\n", ended.stderr


def test_a_tree_follows_links_but_counts_no_folder_twice(tmp_path: pathlib.Path) -> None:
    (tmp_path / "elsewhere/run").mkdir(parents=True)
    (tmp_path / "elsewhere/run/f").touch()
    (tmp_path / "top").mkdir()
    (tmp_path / "top/link").symlink_to(tmp_path / "elsewhere/run")
    (tmp_path / "top/other").symlink_to(tmp_path / "elsewhere/run")
    (tmp_path / "elsewhere/run/loop").symlink_to(tmp_path / "top")
    assert storage.tree(tmp_path / "top") == {f"{tmp_path}/top": [], f"{tmp_path}/top/link": ["f"]}


def test_a_look_at_a_left_lock_does_not_refuse_who_takes_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "l"
    path.touch()
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))  # the look ends meanwhile
        with storage.lock(path):
            assert storage.is_locked(path)
