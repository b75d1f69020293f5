"""Kills a command at each call that changes names or syncs, repeats it, and compares what it wrote with a whole run."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fork_server import ForkServer

Tree = dict[str, bytes | str | None]  # {path: content of a file, target of a link, None for a folder}
# Names that hold a time and a process, contents that hold a time, and a log that is written if workers have work left.
_UNSTABLE = re.compile(
    r"(.*/)?(events\.out\.tfevents\..*|ended\.json|metrics\.jsonl|checkpoint|README\.md|workers\.log)"
)
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
      refusal: what the repeat may say if the killed process had already written everything; empty for commands that end
        well then.
    """

    words: Sequence[str]
    before: Sequence[str] = ()
    copied: str = ""
    unstable: str = ""
    clocked: str = ""
    refusal: str = ""


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
        self._count.unlink(missing_ok=True)
        environment = {"HOME": str(self.folder / "home"), "DISK_ROOT": os.path.realpath(self.folder)}
        environment |= {name: os.environ[name] for name in ("STORAGE_EMULATOR_HOST",) if name in os.environ}
        environment |= {"DISK_COUNT": str(self._count), "DISK_KILL_AT": str(kill_at)}
        process = self._server.start(
            json.dumps({"words": list(words), "folder": str(self.folder), "environment": environment})
        )
        said = "".join(process.communicate())
        return process.returncode or 0, said

    def calls(self) -> str:
        """The kinds of the calls that the last command made, a letter for each."""
        return self._count.read_text() if self._count.exists() else ""


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


def chosen(calls: str, count: int) -> list[int]:
    """Which calls to kill a command at, counted from 1.

    Args:
      calls: the kind of each call, a letter.
      count: so many calls, among them the last; all if it is 0 or larger than their number.
    """
    numbers = range(1, len(calls) + 1)
    if not count or count >= len(calls):
        return list(numbers)
    return sorted({max(1, round(len(calls) * (place + 1) / count)) for place in range(count)})


def problems(killed: Killer, command: Command, places: dict[str, str], count: int, bucket: str = "") -> list[str]:
    """Kills a command at `count` of its calls (0 for all), repeats it each time, and says what is not as it should be.

    Args:
      killed: runs the commands.
      command: the command.
      places: {name: path} in its command lines.
      count: number of calls, as in `chosen`.
      bucket: an empty bucket; if it is given, `{out}` in the command lines is a new folder there each time.
    """
    trials = itertools.count()

    def prepare() -> tuple[list[str], str]:
        """Returns the command line for the prepared folder, and the folder in the bucket."""
        out = places["out"] = f"{bucket}/{next(trials)}" if bucket else ""
        killed.clear()
        if command.copied:
            shutil.copytree(places[command.copied], killed.folder / command.copied)
        if command.before:
            status, said = killed.run([word.format_map(places) for word in command.before])
            assert status == 0, said
        return [word.format_map(places) for word in command.words], out

    words, out = prepare()
    status, said = killed.run(words)
    assert status == 0, said
    calls, whole, found = killed.calls(), tree(killed.folder) | objects(out), list[str]()
    assert calls, words
    for call in chosen(calls, count):
        where = f"call {call} of {len(calls)} ({calls[call - 1]})"
        words, out = prepare()
        status, said = killed.run(words, call)
        if status != -signal.SIGKILL:  # perhaps it made fewer calls this time
            found += [f"{where}: ended with {status}: {said[-300:]}"] if status else []
            continue
        status, said = killed.run(words)
        names = _differences(tree(killed.folder) | objects(out), whole, command.unstable)
        names = [name for name in names if not re.fullmatch(command.clocked, name)]
        is_refused = bool(command.refusal) and command.refusal in said and not names
        if (status or names or "Traceback" in said) and not is_refused:
            found.append(f"{where}: repeated {status}, differs in {names[:5]}: {said[-300:]}")
    return found


def _differences(found: Tree, whole: Tree, unstable: str) -> list[str]:
    """The paths that only one of two trees has, or that have other contents, unless these match `unstable`."""
    names = {name for name in found.keys() | whole.keys() if found.get(name, "") != whole.get(name, "")}
    names -= {name for name in whole.keys() - found.keys() if _OPTIONAL.fullmatch(name)}
    of_both = {name for name in found.keys() & whole.keys() if unstable and re.fullmatch(unstable, name)}
    return sorted(names - of_both)
