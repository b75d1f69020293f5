"""Changed bytes in shards and records, and what must hold of whatever reads them."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any, NamedTuple

import fault_shards

from yt8m.datasets.verification import DeepCheck
from yt8m.lazy import tf
from yt8m.readers import damage
from yt8m.records import manifest, shards
from yt8m.records.shards import DamagedError

KINDS = ("flip", "cut", "insert", "swap", "delete")
COUNT = 6  # records of a shard


class Change(NamedTuple):
    """One change: its kind, two places (taken modulo the length) and some bytes."""

    kind: str
    first: int
    second: int
    data: bytes

    def of(self, whole: bytes) -> bytes:
        """`whole`, changed."""
        if not whole:
            return self.data
        first, second = sorted((self.first % len(whole), self.second % len(whole)))
        if self.kind == "flip":
            return whole[:first] + bytes([whole[first] ^ (1 << self.second % 8)]) + whole[first + 1 :]
        if self.kind == "cut":
            return whole[:first]
        if self.kind == "insert":
            return whole[:first] + self.data + whole[first:]
        if self.kind == "delete":
            return whole[:first] + whole[second:]
        length = min(len(self.data) or 1, second - first, len(whole) - second)
        one, other = whole[first : first + length], whole[second : second + length]
        return whole[:first] + other + whole[first + length : second] + one + whole[second + length :]


def read(path: pathlib.Path) -> tuple[list[bytes], DamagedError | None]:
    """The records of a shard by the reader without TensorFlow, and what ended them."""
    found: list[bytes] = []
    try:
        for payload in shards.read_shard(str(path)):
            found.append(payload)
    except DamagedError as error:
        return found, error
    return found, None


def check_shard(path: pathlib.Path, changed: bytes, sound: list[bytes]) -> str:
    """Writes and reads a changed shard; returns what came of it.

    Nothing but the named error may be raised; what is read is what was written; fewer records than were
    written come without an error only where the shard was cut between two of them.
    """
    path.write_bytes(changed)
    found, error = read(path)
    try:
        counted: int | None = manifest.count_records(str(path))
    except DamagedError:
        counted = None
    if changed == fault_shards.shard(sound):
        assert (found, error, counted) == (sound, None, len(sound))
        return "unchanged"
    if error is not None:
        assert str(path) in str(error)
        assert error.record == len(found)
    else:
        assert (counted or 0) == len(found)
    if error is None and len(found) < len(sound) and found == sound[: len(found)]:
        ends = itertools.accumulate((len(payload) + 16 for payload in sound), initial=0)
        assert len(changed) in ends
        return "cut between records" if found else "empty"
    for payload in found:
        assert payload in sound
    return "named" if error is not None else "whole records moved"


def check_record(payload: bytes, checker: DeepCheck) -> str:
    """Decodes a changed record without TensorFlow: a proto, or ValueError; the deep check raises nothing."""
    checker.problems(payload, "here")
    try:
        record = shards.parse(payload)
        record.id()
        for feature in itertools.chain(record.context.values(), *record.lists.values()):
            feature.values()
    except ValueError:
        return "no proto"
    return "a proto"


class GraphReader:
    """A queue in a session of its own, for one shard after the other."""

    def __init__(self, level: str, path: pathlib.Path, **more: Any) -> None:
        self._queue, self._path = fault_shards.queue(level, path, **more), path
        with tf.Graph().as_default() as graph:
            self._files = tf.placeholder(tf.string, [None])
            iterator = tf.data.make_initializable_iterator(self._queue.dataset(self._files, 4))
            self._start, self._ids = iterator.initializer, iterator.get_next().video_ids
        self._session = tf.Session(graph=graph)

    def ids(self) -> tuple[list[bytes], Exception | None]:
        """The ids that come out of the shard as it is now, and the error that ended them."""
        found: list[bytes] = []
        self._session.run(self._start, {self._files: [str(self._path)]})
        try:
            while True:
                found += self._session.run(self._ids).tolist()
        except tf.errors.OutOfRangeError:
            return found, None
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            return found, error

    def close(self) -> None:
        """Ends the session."""
        self._session.close()
        self._queue.close()


def check_graph(reader: GraphReader, path: pathlib.Path, per_record: int) -> str:
    """Reads the shard at `path` through the graph as programs do: walked first, then read."""
    try:
        manifest.count_records(str(path))
    except DamagedError:
        return "refused"
    found, error = read(path)
    ids, raised = reader.ids()
    if error is not None:
        assert isinstance(raised, tf.errors.DataLossError)
        return "named"
    assert raised is not None or len(ids) == per_record * len(found)
    return "read" if raised is None else "named by the parser"


def parser(level: str) -> damage.RecordCheck:
    """The graph's parser for single records; raises nothing, whatever they hold."""
    return damage.RecordCheck(fault_shards.reader(level))
