"""Finds damaged records with the reader that will parse them, and lets the input skip them.

TensorFlow's `ignore_errors` does not report what it drops. Here the shards are read in Python, and `RecordCheck` parses
each block of records before the input does. Reading a shard ends at its first damaged record. Only runs with
--max_bad_records parse the records twice.
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

END = -1  # stands for the offset after the last record that is read
_RECORDS, _BYTES = 256, 8 << 20  # a block ends after this number of records, or of bytes
_LONGEST = 400  # number of characters that are shown of a parser's message, which may quote the record
_MISSING = re.compile(r"^Name: (.*), Feature list '(.*)' is required but could not be found")
# Error messages of TensorFlow's parser and of the DecodeProto op (`base.require_complete`).
_NO_PROTO = re.compile(r"Invalid protocol message|Failed skipping unrequested|CountFields|AccumulateFields")
_ASSERTION = re.compile(r"^assertion failed: \[(.*)\]$", re.DOTALL)


class RecordCheck:
    """Parses records to find those that cannot be parsed.

    Args:
      reader: the reader of the input.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = copy.copy(reader)
        if hasattr(reader, "zeroed"):
            self._reader.zeroed = None  # this check must not count values that the input will count
        self._lock = threading.Lock()
        self._session: tf.Session | None = None

    def first_bad(self, records: Sequence[bytes]) -> tuple[int, str] | None:
        """(index of the first record that cannot be parsed, what is wrong with it); None if all can be parsed."""
        with self._lock:
            if not records or not self._problem(records):
                return None
            for index, record in enumerate(records):
                problem = self._problem([record])
                if problem:
                    return index, _other_level(self._reader, record) or problem
        raise RuntimeError("records that can be parsed one by one cannot be parsed together")

    def close(self) -> None:
        """Closes the session; a later call opens another."""
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._session = None

    def _problem(self, records: Sequence[bytes]) -> str:
        session = self._session or self._open()
        try:
            session.run(self._parsed, {self._records: list(records)})
        except tf.errors.OpError as error:
            return plain_reason(str(error.message))
        except UnicodeDecodeError as error:  # the runtime's message quotes the record, which Python fails to decode
            return plain_reason(error.object.decode("utf-8", "backslashreplace"))
        return ""

    def _open(self) -> tf.Session:
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._records = tf.placeholder(tf.string, [None])
            batch = self._reader.prepare_serialized_examples(self._records)
            self._parsed = [leaf.op for leaf in tf.nest.flatten(batch) if leaf is not None]
        # Nothing uses the parsed values, so the graph optimizer would remove them, and the checks with them.
        self._session = cpu_session(graph, is_optimized=False)
        return self._session


def _other_level(reader: Any, payload: bytes) -> str:
    """The problem of a record whose level (video or frame) is not the one that `reader` reads; else empty."""
    try:
        record = shards.parse(payload)
    except ValueError:
        return ""
    reads_frames = hasattr(reader, "max_frames")
    if not hasattr(reader, "feature_names") or bool(record.lists) == reads_frames:
        return ""
    record_level, read = ("video", "frame") if reads_frames else ("frame", "video")
    names = ",".join(sorted(record.features(), reverse=True))  # rgb before audio, as in the published commands
    with_flag = "without" if reads_frames else "with"
    return (
        f"it is a {record_level}-level record ({names}), but {read}-level records are expected; name {read}-level "
        f"shards, or train {with_flag} --frame_features and with --feature_names={names}"
    )


def read_block(path: str, offset: int, number: int) -> tuple[list[bytes], int, DamagedError | None]:
    """Reads a block of serialized records from a shard.

    Args:
      path: the shard.
      offset: offset of the first record, in bytes.
      number: number of the first record in the shard.

    Returns:
      (records, offset after them or END, the damage that follows them or None).
    """
    records: list[bytes] = []
    size = 0
    try:
        with storage.open_read(path) as file:
            file.seek(offset)
            for record in shards.read_records(file, path, number):
                records.append(record)
                size += len(record)
                if len(records) == _RECORDS or size >= _BYTES:
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
    """Like `read_block`, but ends before the first record that cannot be parsed."""
    records, offset, damage = read_block(path, offset, number)
    bad = check.first_bad(records)
    if bad is None:
        return records, offset, damage
    return records[: bad[0]], END, DamagedError(path, number + bad[0], bad[1])


def sound_blocks(check: RecordCheck, path: str) -> Iterator[tuple[int, list[bytes], DamagedError | None]]:
    """Yields each `sound_block` of a shard: (number of the first record, records, the damage after them or None)."""
    offset = number = 0
    while offset != END:
        records, offset, damage = sound_block(check, path, offset, number)
        yield number, records, damage
        number += len(records)


def find_damage(check: RecordCheck, paths: Sequence[str]) -> DamagedError | None:
    """The first damage in the files, which are read until it is found; None if there is none. Closes `check`."""
    try:
        damages = (damage for path in paths for _, _, damage in sound_blocks(check, path))
        return next(filter(None, damages), None)
    finally:
        check.close()


def plain_reason(message: str) -> str:
    """The reason in an error message of TensorFlow's runtime, without stack frames and unprintable bytes."""
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
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


class TooManyBadError(RunError):
    """There are more damaged records than --max_bad_records allows; the message names the last one."""


class Tolerance:
    """Reads shards up to their first damaged record.

    Args:
      check: finds the damaged records.
      limit: number of damaged records that are tolerated.

    Attributes:
      skipped: {path of a shard that was not read to its end: its first damaged record}.
      failure: the error that was raised because there were too many damaged records; None if none was.
      find: maps the path of a shard to that of its local copy; by default to itself.
    """

    def __init__(self, check: RecordCheck, limit: int) -> None:
        self._check, self._limit, self._lock = check, limit, threading.Lock()
        self.skipped: dict[str, DamagedError] = {}
        self.failure: TooManyBadError | None = None
        self.find: Callable[[str], str] = str

    def records(self, files: tf.Tensor) -> tf.data.Dataset:
        """The sound records of `files` (a path, or a vector of them), one file after the other."""
        return tf.data.Dataset.from_tensor_slices(tf.reshape(files, [-1])).flat_map(self._records_of)

    def _records_of(self, path: tf.Tensor) -> tf.data.Dataset:
        def next_block(state: Any, _: Any) -> Any:
            types = [tf.string, tf.int64, tf.int64]
            records, offset, number = tf.numpy_function(self._block, [path, *state], types, stateful=False)
            records.set_shape([None])
            offset.set_shape([])
            number.set_shape([])
            return (offset, number), records

        # Offset and number are the whole state, so a saved position in the data restores this dataset too.
        zero = tf.zeros([], tf.int64)
        blocks = tf.data.Dataset.range(1 << 62).scan((zero, zero), next_block)
        return blocks.take_while(lambda records: tf.size(records) > 0).unbatch()

    def _block(self, path: bytes, offset: int, number: int) -> tuple[Any, Any, Any]:
        """(sound records from `offset` on, the offset of the next block, the number of its first record)."""
        records: list[bytes] = []
        if offset != END:
            records, offset, damage = sound_block(self._check, self.find(path.decode()), int(offset), int(number))
            if damage is not None:  # names the shard, because the error may name a local copy
                self.note(DamagedError(path.decode(), damage.record, damage.what))
        return np.array(records, object), np.int64(offset), np.int64(number + len(records))

    def note(self, damage: DamagedError) -> None:
        """Counts a damaged record once, however often its shard is read.

        This runs in a thread of TensorFlow, so it does not log; the caller of the session logs the record.

        Raises:
          TooManyBadError: the limit is exceeded.
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
