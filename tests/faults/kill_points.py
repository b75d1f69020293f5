"""Kills a command at calls that change names or sync, repeats it, and compares what it wrote with a whole run.

To kill a command at all of its calls, it is run once: at each call its processes stand still while everything that a
kill would leave there is read. A killed process loses nothing that it has written, for the kernel holds it. Each
distinct state is then restored, and the command is repeated on it; of a command that leaves hundreds, on some of them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import re
import select
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from faults.saved_states import Bucket, State, read_folder, standing_still, write_folder
from fork_server import Forked, ForkServer

Tree = dict[str, bytes | str | None]  # {path: content of a file, target of a link, None for a folder}
# Names that hold a time and a process, contents that hold a time, and a log that is written if workers have work left.
_UNSTABLE = re.compile(
    r"(.*/)?(events\.out\.tfevents\..*|ended\.json|metrics\.jsonl|checkpoint|README\.md|workers\.log)"
)
_POLL = 0.02  # seconds between two looks at whether a command has ended
# A checkpoint is whole without its meta-graph, which is written last: a run then goes on by the code of its model.
_OPTIONAL = re.compile(r"(.*/)?model\.ckpt-\d+\.meta")


class Command(NamedTuple):
    """A command that writes.

    Attributes:
      words: the command line, in which `{name}` is replaced by a path.
      before: another command line that is run first.
      copied: the name of a folder that is copied before, to the folder of the same name.
      unstable: a pattern of paths whose contents are not the same in each run.
      clocked: a pattern of paths that not each run has, because a clock decides how many steps it takes.
    """

    words: Sequence[str]
    before: Sequence[str] = ()
    copied: str = ""
    unstable: str = ""
    clocked: str = ""


class Killer:
    """Runs commands in a folder, in processes that count their calls and are killed at one of them.

    Args:
      server: forks the processes.
      folder: an empty folder, in which commands run, with `home` for the user's files.
      count: a file outside of it.
    """

    def __init__(self, server: ForkServer, folder: pathlib.Path, count: pathlib.Path) -> None:
        self._server, self.folder, self._count = server, folder, count

    def clear(self) -> None:
        """Empties the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def run(self, words: Sequence[str], kill_at: int = 0) -> tuple[int, str]:
        """Runs a command; returns its status and what it said. It is killed at a call if `kill_at` is not 0."""
        process = self._start(words, DISK_KILL_AT=str(kill_at))
        said = "".join(process.communicate())
        return process.returncode or 0, said

    def look(self, words: Sequence[str], at_call: Callable[[], None], kill_at: int = 0) -> tuple[int, str]:
        """Runs a command as `run` does; before each call its processes stand still while `at_call` looks around.

        It is killed while they stand still, so that no other thread writes between the look and the kill.
        """
        calls = itertools.count(1)
        with _pipe(self._count.with_suffix(".called")) as called, _pipe(self._count.with_suffix(".go")) as go:
            process = self._start(words, DISK_STOPS=str(self._count))
            with ThreadPoolExecutor(1) as pool:
                read = pool.submit(process.communicate)
                while not read.done():
                    if select.select([called], [], [], _POLL)[0]:
                        os.read(called, 1)
                        with standing_still(process.pid):
                            at_call()
                            if next(calls) == kill_at:
                                process.kill()
                        os.write(go, b"g")
        return process.returncode or 0, "".join(read.result())

    def _start(self, words: Sequence[str], **settings: str) -> Forked:
        self._count.unlink(missing_ok=True)
        environment = {"HOME": str(self.folder / "home"), "DISK_ROOT": os.path.realpath(self.folder)}
        environment |= {name: os.environ[name] for name in ("STORAGE_EMULATOR_HOST",) if name in os.environ}
        environment |= {"DISK_COUNT": str(self._count), **settings}
        return self._server.start(
            json.dumps({"words": list(words), "folder": str(self.folder), "environment": environment})
        )

    def calls(self) -> str:
        """The kinds of the calls that the last command made, a letter for each."""
        return self._count.read_text() if self._count.exists() else ""


@contextlib.contextmanager
def _pipe(path: pathlib.Path) -> Iterator[int]:
    """Makes a named pipe during the block; yields a descriptor of both of its ends."""
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()


@contextlib.contextmanager
def killer(library: pathlib.Path, folder: pathlib.Path, imports: Sequence[str] = ()) -> Iterator[Killer]:
    """Starts a server that has loaded the recorder and imported these modules.

    Args:
      library: the recorder, built by `power_cuts.build`.
      folder: a folder for the commands.
      imports: the names of the modules.
    """
    before = dict(os.environ)
    os.environ.update(LD_PRELOAD=str(library), KILLED_IMPORTS=" ".join(imports))
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # its kernels take longer to choose than these graphs to run
    try:
        server = ForkServer("faults.killed_command")
    finally:
        os.environ.clear()
        os.environ.update(before)
    with server:
        yield Killer(server, folder / "work", folder / "count")


def tree(folder: pathlib.Path) -> Tree:
    """What a folder holds, without the user's own folder and without what differs in each run."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.split("/")[0] != "home" and not _UNSTABLE.fullmatch(name):
            found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def objects(prefix: str) -> Tree:
    """What a folder of a bucket holds; empty if `prefix` is."""
    if not prefix:
        return {}
    from google.cloud import storage as gcs

    bucket, _, folder = prefix.removeprefix("gs://").partition("/")
    client = gcs.Client.create_anonymous_client()
    blobs = {blob.name.removeprefix(f"{folder}/"): blob for blob in client.list_blobs(bucket, prefix=f"{folder}/")}
    return {f"gs://{name}": blob.download_as_bytes() for name, blob in blobs.items() if not _UNSTABLE.fullmatch(name)}


def chosen(most: int, count: int) -> list[int]:
    """`count` of the numbers from 1 to `most`, evenly spread, the last among them; all if `count` is 0 or larger."""
    if not count or count >= most:
        return list(range(1, most + 1))
    return sorted({max(1, round(most * (place + 1) / count)) for place in range(count)})


class Case:
    """A command that is prepared, run and repeated.

    Args:
      killed: runs the commands.
      command: the command.
      places: {name: path} in its command lines.
      bucket: an empty bucket; if it is given, `{out}` in the command lines is a new folder there each time.
    """

    def __init__(self, killed: Killer, command: Command, places: dict[str, str], bucket: str = "") -> None:
        self.killed, self._command, self._places, self._bucket = killed, command, places, bucket
        self._trials, self._out = itertools.count(), ""
        self._whole: Tree = {}

    def prepare(self) -> list[str]:
        """Empties the folder, and runs what comes before the command; returns the words of the command."""
        killed, command, places = self.killed, self._command, self._places
        self._out = places["out"] = f"{self._bucket}/{next(self._trials)}" if self._bucket else ""
        killed.clear()
        if command.copied:
            shutil.copytree(places[command.copied], killed.folder / command.copied)
        if command.before:
            status, said = killed.run([word.format_map(places) for word in command.before])
            assert status == 0, said
        return [word.format_map(places) for word in command.words]

    def expect(self, status: int, said: str) -> str:
        """Takes what is there as what a whole run leaves; returns the kinds of its calls."""
        assert status == 0, said
        calls, self._whole = self.killed.calls(), self._tree()
        assert calls, self._command.words
        return calls

    def repeat(self, words: Sequence[str], where: str) -> list[str]:
        """Runs the command where it was killed, and says what is not as it should be."""
        command = self._command
        status, said = self.killed.run(words)
        names = _differences(self._tree(), self._whole, command.unstable)
        names = [name for name in names if not re.fullmatch(command.clocked, name)]
        is_wrong = status or names or "Traceback" in said
        return [f"{where}: repeated {status}, differs in {names[:5]}: {said[-300:]}"] if is_wrong else []

    def read_state(self, bucket: Bucket | None) -> State:
        """What is there, also in the user's folder."""
        return State(read_folder(self.killed.folder), bucket.read() if bucket else None)

    def _tree(self) -> Tree:
        return tree(self.killed.folder) | objects(self._out)


def problems(case: Case, count: int) -> list[str]:
    """Kills a command at `count` of its calls, repeats it each time, and says what is not as it should be."""
    calls = case.expect(*case.killed.run(case.prepare()))
    found = list[str]()
    for call in chosen(len(calls), count):
        where = f"call {call} of {len(calls)} ({calls[call - 1]})"
        words = case.prepare()
        status, said = case.killed.run(words, call)
        if status == -signal.SIGKILL:
            found += case.repeat(words, where)
        elif status:  # with 0 it made fewer calls this time
            found.append(f"{where}: ended with {status}: {said[-300:]}")
    return found


class Recording(NamedTuple):
    """What kills of one run at each of its calls would have left.

    Attributes:
      calls: the kinds of the calls.
      states: {number of a call, from 1: state before it}; calls that change nothing share one object.
    """

    calls: str
    states: dict[int, State]

    def distinct(self) -> dict[int, State]:
        """The states that differ from all before them, by the first call of each."""
        firsts = {id(state): call for call, state in reversed(self.states.items())}
        return {call: self.states[call] for call in sorted(firsts.values())}


def record(case: Case, words: Sequence[str], bucket: Bucket | None = None) -> Recording:
    """Runs the prepared command, and reads the state before each of its calls."""
    states, known = dict[int, State](), dict[bytes, State]()

    def keep_state() -> None:
        state = case.read_state(bucket)
        states[len(states) + 1] = known.setdefault(state.digest(), state)

    status, said = case.killed.look(words, keep_state)
    return Recording(case.expect(status, said), states)


def problems_in_states(case: Case, bucket: Bucket | None = None, count: int = 0) -> list[str]:
    """Repeats a command on the states that kills at its calls leave, and says what is not as it should be.

    Args:
      case: the command.
      bucket: the bucket that it writes into, if it does.
      count: so many of the distinct states, evenly spread; all if it is 0.
    """
    words = case.prepare()
    recording, found = record(case, words, bucket), list[str]()
    states = list(recording.distinct().items())
    for call, state in (states[number - 1] for number in chosen(len(states), count)):
        write_folder(case.killed.folder, state.entries)
        if bucket and state.stored:
            bucket.restore(state.stored)
        found += case.repeat(words, f"call {call} of {len(recording.calls)} ({recording.calls[call - 1]})")
    return found


def _differences(found: Tree, whole: Tree, unstable: str) -> list[str]:
    """The paths that only one of two trees has, or that have other contents, unless these match `unstable`."""
    names = {name for name in found.keys() | whole.keys() if found.get(name, "") != whole.get(name, "")}
    names -= {name for name in whole.keys() - found.keys() if _OPTIONAL.fullmatch(name)}
    of_both = {name for name in found.keys() & whole.keys() if unstable and re.fullmatch(unstable, name)}
    return sorted(names - of_both)
