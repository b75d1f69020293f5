"""Finds damaged records with the reader that will parse them, and lets the input skip them.

TensorFlow's own way to skip damaged records, `ignore_errors`, does not report what it drops. So with
--max_bad_records, the shards are read in Python, and `RecordCheck` parses each block of records before the input parses
it again. Reading a shard ends at its first damaged record. Without that flag, `RecordCheck` is used only after the
input has failed, to find the record at which it failed.
"""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from yt8m import storage
from yt8m.errors import RunError, first_line
from yt8m.lazy import tf
from yt8m.readers.pipeline import cpu_session
from yt8m.records import shards
from yt8m.records.shards import DamagedError

END = -1  # takes the place of the offset of the next block if no block is left to be read
_MAX_RECORDS, _MAX_BYTES = 256, 8 << 20  # a block ends as soon as it has this number of records, or of bytes
_MAX_MESSAGE = 400  # number of characters that are shown of a parser's message, which may quote the record
# TensorFlow's message about a missing feature list, with the id of the video and the name of the list.
_MISSING = re.compile(r"^Name: (.*), Feature list '(.*)' is required but could not be found")
# Error messages of TensorFlow's parser and of the DecodeProto op (`base.require_complete`).
_NO_PROTO = re.compile(r"Invalid protocol message|Failed skipping unrequested|CountFields|AccumulateFields")
# The message of an Assert op that failed, around the text that `base.require` gave it.
_ASSERTION = re.compile(r"^assertion failed: \[(.*)\]$", re.DOTALL)


class RecordCheck:
    """Parses records, in a TensorFlow session of its own, to find those that cannot be parsed.

    Several threads may call the methods at the same time.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = copy.copy(reader)
        if hasattr(reader, "zeroed"):
            self._reader.zeroed = None  # values set to 0 are counted when the input parses the records again
        self._lock = threading.Lock()
        self._session: tf.Session | None = None

    def first_bad(self, records: Sequence[bytes]) -> tuple[int, str] | None:
        """(index of the first record that cannot be parsed, what is wrong with it); None if all can be parsed."""
        with self._lock:
            if not records or not self._find_problem(records):
                return None
            for index, record in enumerate(records):
                problem = self._find_problem([record])
                if problem:
                    return index, _level_problem(self._reader, record) or problem
        raise RuntimeError("records that can be parsed one by one cannot be parsed together")

    def close(self) -> None:
        """Closes the session; a later call of `first_bad` opens another one."""
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._session = None

    def _find_problem(self, records: Sequence[bytes]) -> str:
        """What is wrong with one of the records; empty if all can be parsed."""
        session = self._session or self._open_session()
        try:
            session.run(self._parsed, {self._records: list(records)})
        except tf.errors.OpError as error:
            return plain_reason(str(error.message))
        except UnicodeDecodeError as error:  # the runtime's message quotes bytes of the record that are not UTF-8
            return plain_reason(error.object.decode("utf-8", "backslashreplace"))
        return ""

    def _open_session(self) -> tf.Session:
        """Builds the graph that parses records, and opens a session for it."""
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._records = tf.placeholder(tf.string, [None])
            batch = self._reader.prepare_serialized_examples(self._records)
            self._parsed = [leaf.op for leaf in tf.nest.flatten(batch) if leaf is not None]
        # Nothing uses the parsed values, so the graph optimizer would remove them, and the checks with them.
        self._session = cpu_session(graph, is_optimized=False)
        return self._session


def _level_problem(reader: Any, payload: bytes) -> str:
    """Says that a record's level (video or frame) is not the one that `reader` reads; empty if it is."""
    try:
        record = shards.parse(payload)
    except ValueError:
        return ""
    reads_frames = hasattr(reader, "max_frames")
    if not hasattr(reader, "feature_names") or bool(record.lists) == reads_frames:
        return ""
    record_level, reader_level = ("video", "frame") if reads_frames else ("frame", "video")
    names = ",".join(sorted(record.features(), reverse=True))  # rgb before audio, as in the published commands
    with_flag = "without" if reads_frames else "with"
    return (
        f"it is a {record_level}-level record ({names}), but {reader_level}-level records are expected; "
        f"name {reader_level}-level shards, or train {with_flag} --frame_features and with --feature_names={names}"
    )


def read_block(path: str, offset: int, number: int) -> tuple[list[bytes], int, DamagedError | None]:
    """Reads a block of serialized records from a shard.

    Args:
      offset: the offset in bytes at which the first record of the block begins.
      number: the number of this record in the shard, from 0.

    Returns:
      (the records before the first one that cannot be read; the offset of the next block, or `END`; the error of the
      record that cannot be read, or None).
    """
    records: list[bytes] = []
    size = 0
    try:
        with storage.open_read(path) as file:
            file.seek(offset)
            for record in shards.read_records(file, path, number):
                records.append(record)
                size += len(record)
                if len(records) == _MAX_RECORDS or size >= _MAX_BYTES:
                    return records, file.tell(), None
    except DamagedError as error:
        return records, END, error
    except RunError as error:
        return records, END, DamagedError(path, number + len(records), str(error))
    is_empty = number == 0 and not records
    return records, END, DamagedError(path, 0, shards.EMPTY) if is_empty else None


def sound_block(
    check: RecordCheck, path: str, offset: int, number: int
) -> tuple[list[bytes], int, DamagedError | None]:
    """Like `read_block`, but the block ends before the first record that cannot be read or parsed."""
    records, offset, damage = read_block(path, offset, number)
    bad_record = check.first_bad(records)
    if bad_record is None:
        return records, offset, damage
    index, problem = bad_record
    return records[:index], END, DamagedError(path, number + index, problem)


def sound_blocks(check: RecordCheck, path: str) -> Iterator[tuple[int, list[bytes], DamagedError | None]]:
    """Yields the blocks of a shard that can be read and parsed, up to the first damaged record.

    Yields:
      (the number of the block's first record, the records, the error of the damaged record after them or None).
    """
    offset = number = 0
    while offset != END:
        records, offset, damage = sound_block(check, path, offset, number)
        yield number, records, damage
        number += len(records)


def find_damage(check: RecordCheck, paths: Sequence[str]) -> DamagedError | None:
    """Reads files up to the first damaged record, and returns its error; None if no record is damaged."""
    try:
        damages = (damage for path in paths for _, _, damage in sound_blocks(check, path))
        return next(filter(None, damages), None)
    finally:
        check.close()


def plain_reason(message: str) -> str:
    """The reason in an error message of TensorFlow's runtime, without stack frames and unprintable characters."""
    line = first_line(message)
    missing = _MISSING.match(line)
    if missing:
        return (
            f"video {missing[1]} has no feature list {missing[2]}; check --feature_names, and that the "
            "records are frame-level ones"
        )
    if _NO_PROTO.match(line):
        return f"{shards.NO_PROTO}, or is cut short; `yt8m verify` tells more"
    assertion = _ASSERTION.match(line)
    text = assertion[1] if assertion else line
    printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return printable if len(printable) <= _MAX_MESSAGE else f"{printable[:_MAX_MESSAGE]}..."


class TooManyBadError(RunError):
    """There are more damaged records than --max_bad_records allows; the message names the last one."""


class Tolerance:
    """Reads each shard up to its first damaged record, and counts these records.

    Attributes:
      skipped: {path of a shard that was not read to its end: its first damaged record}.
      failure: the error that was raised because there were too many damaged records; None if there were not.
      local_path: takes the path of a shard, returns the path of its local copy; by default it returns the same path.
    """

    def __init__(self, check: RecordCheck, limit: int) -> None:
        self._check, self._limit, self._lock = check, limit, threading.Lock()
        self.skipped: dict[str, DamagedError] = {}
        self.failure: TooManyBadError | None = None
        self.local_path: Callable[[str], str] = str

    def records(self, files: tf.Tensor) -> tf.data.Dataset:
        """A dataset of the sound records of `files` (a path, or a vector of paths), one file after the other."""
        return tf.data.Dataset.from_tensor_slices(tf.reshape(files, [-1])).flat_map(self._sound_records)

    def _sound_records(self, path: tf.Tensor) -> tf.data.Dataset:
        """A dataset of the records of one file, up to its first damaged one."""

        def next_block(state: Any, _: Any) -> Any:
            types = [tf.string, tf.int64, tf.int64]
            records, offset, number = tf.numpy_function(self._next_block, [path, *state], types, stateful=False)
            records.set_shape([None])
            offset.set_shape([])
            number.set_shape([])
            return (offset, number), records

        # (offset, number) is the whole state of this dataset, which TensorFlow saves with the position of the input.
        zero = tf.zeros([], tf.int64)
        blocks = tf.data.Dataset.range(1 << 62).scan((zero, zero), next_block)
        return blocks.take_while(lambda records: tf.size(records) > 0).unbatch()

    def _next_block(self, path: bytes, offset: int, number: int) -> tuple[Any, Any, Any]:
        """Reads a block of sound records, and counts the damaged record after it, if there is one.

        Args:
          offset: the offset in bytes at which the block begins; `END` for an empty block.
        """
        records: list[bytes] = []
        if offset != END:
            records, offset, damage = sound_block(self._check, self.local_path(path.decode()), int(offset), int(number))
            if damage is not None:  # this error may name a local copy, so another one that names the shard is noted
                self.note(DamagedError(path.decode(), damage.record, damage.what))
        return np.array(records, object), np.int64(offset), np.int64(number + len(records))

    def note(self, damage: DamagedError) -> None:
        """Counts a damaged record once, even if its shard is read several times.

        It does not log the record, because it runs in a thread of TensorFlow; the code that runs the session does.
        """
        with self._lock:
            if damage.path in self.skipped:
                return
            self.skipped[damage.path] = damage
            count = len(self.skipped)
            if count > self._limit:
                self.failure = TooManyBadError(
                    f"{damage} {count} records are bad; --max_bad_records allows {self._limit}."
                )
                raise self.failure
