"""Event files, written without a thread and so with their errors known."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from yt8m import storage
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner.metrics_file import QuietlyFailing
from yt8m.storage.sending import GrowingFile

_numbers = itertools.count()


class EventFile:
    """An event file that TensorBoard reads; one that cannot be written is said once, and left.

    TensorFlow's own writer works in a thread and drops what a full disk refuses without a word. The
    format is a TFRecord file of Event protos, the first of which names the version.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._writer: Any = None
        self._file: GrowingFile | None = None
        self._quietly = QuietlyFailing(f"the event file in {folder}")

    def add(self, summary: Any, step: int) -> None:
        """Writes a Summary proto of `step`, and brings it to the file."""
        if summary.value:
            self._add(lambda: tf.Event(wall_time=time.time(), step=step, summary=summary))

    def add_graph(self, graph_def: Any) -> None:
        """Writes the graph."""
        self._add(lambda: tf.Event(wall_time=time.time(), graph_def=graph_def.SerializeToString()))

    def close(self) -> None:
        """Closes the file; nothing more is to be added."""
        if self._writer is not None:
            self._try(self._writer.close)
            self._writer = None
        if self._file is not None:
            self._try(self._file.close)
            self._file = None

    def _add(self, make: Callable[[], Any]) -> None:
        self._try(lambda: self._write(make()))

    def _write(self, event: Any) -> None:
        if self._writer is None:
            self._open()
        self._writer.write(event.SerializeToString())
        self._writer.flush()

    def _open(self) -> None:
        storage.makedirs(self._folder)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._file = GrowingFile(storage.join(self._folder, name))
        self._writer = tf.io.TFRecordWriter(self._file.local)
        self._writer.write(tf.Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())

    def _try(self, call: Callable[[], Any]) -> None:
        self._quietly(call, (tf.errors.OpError, OSError, RunError))
