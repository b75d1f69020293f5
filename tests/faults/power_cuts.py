"""Records what a command does to a folder, and shows the folder as it may be after a power cut at any point of it.

A disk promises only what was synced (`fsync`): the content of a file that was synced itself, and the names in a folder
that was synced itself. The rest may or may not have arrived, so each point has several outcomes, see `Outcome`.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

SOURCE = pathlib.Path(__file__).with_name("disk_recorder.c")
Files = dict[str, bytes]  # {path in the folder: content}


class Outcome(NamedTuple):
    """What a power cut leaves of all that was not synced.

    Attributes:
      names: whether names in folders that were not synced changed all the same.
      content: what stays of content that was not synced: `empty`, `halved` or `zeroed`.
    """

    names: bool
    content: str


OUTCOMES = [Outcome(names, content) for names in (False, True) for content in ("empty", "halved", "zeroed")]


def build(folder: pathlib.Path) -> pathlib.Path:
    """Compiles the recorder; skips the test where that, or preloading a library, is not possible."""
    library = folder / "recorder.so"
    if not (compiler := shutil.which("gcc")):
        pytest.skip("there is no gcc, which compiles the recorder of what a program does to the disk")
    built = subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=False)
    if built.returncode:
        pytest.skip("gcc cannot compile the recorder of what a program does to the disk")
    (folder / "probe").mkdir()
    recording = record(library, folder / "probe", [sys.executable, "-c", "import os; os.mkdir('folder')"])
    if [call.operation for call in recording.calls] != ["mkdir"]:
        pytest.skip("this machine does not allow LD_PRELOAD, by which the recorder works")
    return library


RUNNER = """
import json, os, sys
from yt8m.command_line import cli
for name, words in json.loads(sys.argv[1]):
    assert cli.main(words) == 0, name
    os.mkdir(f".end-of-{name}")
"""


def record(library: pathlib.Path, folder: pathlib.Path, *commands: Sequence[str], **more: str) -> Recording:
    """Runs programs in `folder`, one after another, and records what they do to it. Each must end with status 0.

    Args:
      library: the recorder.
      folder: the folder.
      *commands: the words of each program.
      **more: environment variables.
    """
    place = folder.with_name(f"{folder.name}.record")
    place.mkdir(exist_ok=True)
    before, root = _numbered(folder), os.path.realpath(folder)
    preloaded = {"LD_PRELOAD": str(library), "DISK_RECORD": str(place), "DISK_ROOT": root}
    for words in commands:
        run = subprocess.run(
            words, cwd=folder, env=os.environ | more | preloaded, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, f"{words}: {run.stdout[-2000:]}{run.stderr[-4000:]}"
    return Recording(before, _calls(place, root), _numbered(folder))


def yt8m_words(commands: Mapping[str, Sequence[str]]) -> list[str]:
    """A program that runs commands of yt8m in one process; the calls of each end with the folder `.end-of-NAME`."""
    return [sys.executable, "-c", RUNNER, json.dumps(list(commands.items()))]


class Numbered(NamedTuple):
    """A file or folder on the disk: the number of its inode, and its content; None for a folder."""

    inode: int
    content: bytes | None


def _numbered(folder: pathlib.Path) -> dict[str, Numbered]:
    """Everything in a folder, by its path in the folder; a folder comes before what is in it."""
    found = {"": Numbered(folder.stat().st_ino, None)}
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            content = path.read_bytes() if path.is_file() else None
            found[str(path.relative_to(folder))] = Numbered(path.stat().st_ino, content)
    return found


class Call(NamedTuple):
    """A call that was recorded; paths are in the folder, None if they lie outside."""

    operation: str
    inode: int
    path: str | None
    target: str | None
    content: bytes | None


def _calls(place: pathlib.Path, root: str) -> list[Call]:
    calls = []
    text = (place / "log").read_text() if (place / "log").exists() else ""
    for line in text.splitlines():
        operation, inode, path, target, copy = line.split("\t")
        content = (place / copy).read_bytes() if copy else None
        calls.append(Call(operation, int(inode), _inside(path, root), _inside(target, root), content))
    return calls


def _inside(path: str, root: str) -> str | None:
    return f"{path}/".removeprefix(f"{root}/").rstrip("/") if f"{path}/".startswith(f"{root}/") else None


@dataclass(eq=False)
class Node:
    """A file or folder, whatever its names.

    Attributes:
      entries: {name: node} of a folder as programs see it.
      synced_entries: the same as it is on the disk.
      contents: [(number of a call, content just before it)] of a file.
      synced: what is on the disk of a file's content; None if nothing is.
    """

    is_folder: bool
    entries: dict[str, Node] = field(default_factory=dict)
    synced_entries: dict[str, Node] = field(default_factory=dict)
    contents: list[tuple[int, bytes]] = field(default_factory=list)
    synced: bytes | None = None

    def content(self, point: int) -> bytes:
        """A file's content as programs see it after `point` calls."""
        later = [content for number, content in self.contents if number >= point]
        return later[0] if later else self.contents[-1][1] if self.contents else b""

    def remains(self, point: int, outcome: Outcome) -> bytes:
        """What a power cut leaves of the content."""
        content, synced = self.content(point), self.synced or b""
        if content == self.synced:
            return content
        safe = synced if content.startswith(synced) else b""
        lost = content[len(safe) :]
        return safe + {"empty": b"", "halved": lost[: len(lost) // 2], "zeroed": bytes(len(lost))}[outcome.content]


@dataclass
class Recording:
    """What commands did to a folder.

    Attributes:
      before: what the folder held before.
      calls: the calls that changed names, or that synced, in their order.
      after: what it holds at the end.
    """

    before: dict[str, Numbered]
    calls: list[Call]
    after: dict[str, Numbered]

    def replay(self, points: Sequence[int]) -> Iterator[tuple[int, Disk]]:
        """Yields the disk after each number of calls in `points`, ascending."""
        disk = Disk(self)
        for number in range(len(self.calls) + 1):
            if number in points:
                yield number, disk
            if number < len(self.calls):
                disk.do(number, self.calls[number])

    def points(self, count: int, command: str) -> list[int]:
        """`count` points in a command, equally far apart, of which the last is its end; all if it has fewer calls."""
        ends = [number for number, call in enumerate(self.calls) if (call.path or "").startswith(".end-of-")]
        (last,) = [number for number in ends if self.calls[number].path == f".end-of-{command}"]
        first = max((number + 1 for number in ends if number < last), default=0)
        return sorted({first + round((last - first) * place / count) for place in range(1, count + 1)})


class Disk:
    """A folder while a recording is played."""

    def __init__(self, recording: Recording) -> None:
        self.point = 0
        self._nodes: dict[int, Node] = {}
        for path, (inode, content) in recording.before.items():
            node = self._nodes[inode] = Node(content is None, synced=content)
            if path:
                self._folder(path).entries[os.path.basename(path)] = node
            else:
                self.root = node
        for node in self._nodes.values():
            node.synced_entries = dict(node.entries)
        self._look_ahead(recording)

    def _look_ahead(self, recording: Recording) -> None:
        """Notes what each file holds before each call: a content is recorded later than it is written."""
        self._made: dict[int, Node] = {}  # by the number of the call
        nodes = dict(self._nodes)
        for number, call in enumerate(recording.calls):
            if call.operation in ("create", "mkdir") or call.inode not in nodes:
                nodes[call.inode] = self._made[number] = Node(call.operation == "mkdir")
            if call.content is not None:
                nodes[call.inode].contents.append((number, call.content))
        for inode, content in recording.after.values():
            if content is not None and inode in nodes:
                nodes[inode].contents.append((len(recording.calls), content))

    def do(self, number: int, call: Call) -> None:
        """Plays the next call."""
        self.point = number + 1
        if number in self._made:
            self._nodes[call.inode] = self._made[number]
        node = self._nodes[call.inode]
        if call.operation == "sync":
            node.synced, node.synced_entries = call.content, dict(node.entries)
        elif call.operation in ("create", "mkdir"):
            self._put(call.path, node)
        elif call.operation == "remove":
            self._take(call.path)
        else:
            if call.operation == "rename":
                self._take(call.path)
            self._put(call.target, node)

    def _put(self, path: str | None, node: Node) -> None:
        if path is not None:
            self._folder(path).entries[os.path.basename(path)] = node

    def _take(self, path: str | None) -> None:
        if path is not None:
            self._folder(path).entries.pop(os.path.basename(path), None)

    def _folder(self, path: str) -> Node:
        node = self.root
        for name in pathlib.PurePath(path).parts[:-1]:
            node = node.entries[name]
        return node

    def files(self) -> Files:
        """What programs see."""
        return {name: node.content(self.point) for name, node in _walk(self.root, is_synced=False)}

    def after_power_cut(self, outcome: Outcome) -> Files:
        """The files that are left."""
        nodes = _walk(self.root, is_synced=not outcome.names)
        return {name: node.remains(self.point, outcome) for name, node in nodes}


def _walk(folder: Node, is_synced: bool) -> Iterator[tuple[str, Node]]:
    for name, node in (folder.synced_entries if is_synced else folder.entries).items():
        if node.is_folder:
            yield from ((f"{name}/{below}", one) for below, one in _walk(node, is_synced))
        else:
            yield name, node


@dataclass
class Promises:
    """What the names of a recording promise to readers.

    Attributes:
      files: {path: contents that it may have}, of files that were renamed into place, alone or in their folder.
      folders: {path: [paths of all files in it]} of folders that were renamed into place, for each time.
    """

    files: dict[str, set[bytes]] = field(default_factory=dict)
    folders: dict[str, list[set[str]]] = field(default_factory=dict)

    def broken(self, files: Mapping[str, bytes]) -> list[str]:
        """What a reader of these files would take as finished although it is not."""
        names = [path for path, content in files.items() if path in self.files and content not in self.files[path]]
        for folder, versions in self.folders.items():
            there = {path for path in files if path.startswith(f"{folder}/")}
            if there and not any(version <= there for version in versions):
                names.append(folder)
        return names


def promises(recording: Recording) -> Promises:
    """The promises of all names that a reader may take as finished; hidden and partial ones promise nothing."""
    found = Promises()
    for path, (_, content) in recording.before.items():
        if content is not None:
            found.files.setdefault(path, set()).add(content)
    for point, disk in recording.replay(range(1, len(recording.calls) + 1)):
        call = recording.calls[point - 1]
        if call.operation != "rename" or call.target is None or _is_unfinished(call.target) or _is_of_saver(call.path):
            continue
        if call.content is not None:
            found.files.setdefault(call.target, set()).add(call.content)
            continue
        below = {path: content for path, content in disk.files().items() if path.startswith(f"{call.target}/")}
        found.folders.setdefault(call.target, []).append(set(below))
        for path, content in below.items():
            found.files.setdefault(path, set()).add(content)
    for folder in found.folders:
        earlier = {path for path, (_, content) in recording.before.items() if content is not None}
        found.folders[folder] += [versions] if (versions := {p for p in earlier if p.startswith(f"{folder}/")}) else []
    return found


def written_in_place(recording: Recording) -> list[str]:
    """The files at the end whose names promise nothing: they were neither there before nor renamed into place."""
    names = {path for path, (_, content) in recording.after.items() if content is not None}
    return sorted(path for path in names - promises(recording).files.keys() if not _is_unfinished(path))


def _is_unfinished(path: str) -> bool:
    return any(name.startswith(".") or name.endswith(".partial") for name in pathlib.PurePath(path).parts)


def _is_of_saver(path: str | None) -> bool:
    """Whether TensorFlow's saver made this file: its name promises nothing until the state file names it.

    The suffix `.tmp` alone is this package's: such a file is whole and synced when it gets its name.
    """
    return path is not None and re.fullmatch(r"\.tempstate\d+|\.tmp\w+", pathlib.PurePath(path).suffix) is not None


def write_files(folder: pathlib.Path, files: Mapping[str, bytes]) -> pathlib.Path:
    """Makes a folder of these files."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder
