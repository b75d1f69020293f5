"""The files of a run's metrics: metrics.jsonl and TensorBoard's event files.

TensorFlow no longer installs TensorBoard, and a run does not need it. So this module encodes, without TensorBoard's own
code, the protos that two of its plugins expect in the metadata of a summary (plugin_data.proto in
tensorboard/plugins/hparams and pr_curve).
"""

from __future__ import annotations

import itertools
import json
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging
from google.protobuf import struct_pb2

from yt8m import storage
from yt8m.errors import RunError, first_line
from yt8m.lazy import tf
from yt8m.records.shards import field, varint
from yt8m.runner.lines import StepValues
from yt8m.storage.sending import GrowingFile


class QuietlyFailing:
    """Calls functions that write one file whose loss must not end the run, such as a file of curves on a full disk.

    The first failure is logged; after that no function is called any more.
    """

    def __init__(self, file_name: str) -> None:
        self._file_name, self._failed = file_name, False

    def __call__(self, write: Callable[[], Any]) -> None:
        """Calls `write`, unless an earlier call failed."""
        if self._failed:
            return
        try:
            write()
        except (tf.errors.OpError, OSError, RunError) as error:
            self._failed = True
            message = "%s cannot be written any more; the run continues without it: %s"
            logging.error(message, self._file_name, first_line(error))


METRICS = "metrics.jsonl"  # the name of the file in the folder of a run
VALIDATE = "validate"  # the value of `mode` in rows of validations; rows of training have no `mode`


def rows(train_dir: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a run's metrics.jsonl, each with an integer `step`. Lines that are no such rows are left out.

    Args:
      train_dir: the folder of the run, local or gs://.
    """
    for line in storage.read_bytes(storage.join(train_dir, METRICS)).splitlines():
        if (row := _parse_row(line)) is not None:
            yield row


def _parse_row(line: bytes) -> dict[str, Any] | None:
    """The row in a line of metrics.jsonl; None if the line is no JSON object with an integer `step`."""
    try:
        values = storage.parse_json(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) and isinstance(values.get("step"), int) else None


class MetricsFile:
    """Appends rows such as `{"step": 10, "loss": 0.5, ...}` to metrics.jsonl; a validation's row also has a `mode`.

    Args:
      path: the path of the file, local or gs://. If the file exists, rows are added to it.
    """

    def __init__(self, path: str) -> None:
        self._file, self._quietly = GrowingFile(path, go_on=True), QuietlyFailing(path)

    def add(self, values: StepValues) -> None:
        """Appends one row with the values of a log line. A value that is not finite becomes null: JSON has no NaN."""
        mode = {"mode": VALIDATE} if values.is_validation else {}
        fields = {name: getattr(values, name) for name in ("step", "loss", "examples_per_second", "examples")}
        row = {key: value for key, value in fields.items() if value is not None} | values.figures
        line = json.dumps({key: value if math.isfinite(value) else None for key, value in row.items()} | mode)
        self._quietly(lambda: storage.append_line(self._file.local, line))

    def close(self) -> None:
        """Uploads the file for the last time, if it is in a bucket; do not add values afterwards."""
        self._quietly(self._file.close)

    def go_back_to(self, step: int) -> None:
        """Removes an incomplete last line, and the rows of steps after `step`, which a resumed run takes again."""
        self._quietly(lambda: self._remove_rows_after(step))

    def _remove_rows_after(self, step: int) -> None:
        """As `go_back_to`; raises the errors of reading and writing."""
        if not storage.exists(self._file.local):
            return
        *lines, _ = written = storage.read_bytes(self._file.local).split(b"\n")
        remaining = [line for line in lines if (row := _parse_row(line)) is None or row["step"] <= step]
        if [*remaining, b""] != written:
            storage.write(self._file.local, b"".join(line + b"\n" for line in remaining))


_file_numbers = itertools.count()  # by these the names of this process's event files differ


class EventFile:
    """Writes an event file for TensorBoard. A write failure is logged once and then ignored.

    TensorFlow's own writer is not used, because it works in a thread and silently loses events if the disk is full. The
    file is a TFRecord file of Event protos, and the first record names the version of the format. The file is created
    when the first event is written.

    Args:
      folder: the folder in which the file is created, local or gs://.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._writer: Any = None
        self._file: GrowingFile | None = None
        self._quietly = QuietlyFailing(f"the event file in {folder}")

    def add(self, summary: Any, step: int) -> None:
        """Writes a Summary proto for a step, and flushes the file. A summary without values is not written."""
        if summary.value:
            self._quietly(lambda: self._write(tf.Event(wall_time=time.time(), step=step, summary=summary)))

    def add_scalars(self, values: Mapping[str, float], step: int) -> None:
        """Writes the scalars in {tag: value} for step `step`."""
        pairs = [tf.Summary.Value(tag=tag, simple_value=float(value)) for tag, value in values.items()]
        self.add(tf.Summary(value=pairs), step)

    def add_graph(self, graph_def: Any) -> None:
        """Writes a GraphDef proto, which TensorBoard shows as the graph of the run."""
        event = tf.Event(wall_time=time.time(), graph_def=graph_def.SerializeToString())
        self._quietly(lambda: self._write(event))

    def close(self) -> None:
        """Closes the file; do not add values afterwards."""
        for opened in (self._writer, self._file):
            if opened is not None:
                self._quietly(opened.close)
        self._writer = self._file = None

    def _write(self, event: Any) -> None:
        """Writes an Event proto; creates the file before the first one."""
        if self._writer is None:
            self._open()
        self._writer.write(event.SerializeToString())
        self._writer.flush()

    def _open(self) -> None:
        """Creates the file and writes its first record."""
        storage.makedirs(self._folder)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_file_numbers)}"
        self._file = GrowingFile(storage.join(self._folder, name))
        self._writer = tf.io.TFRecordWriter(self._file.local)
        self._writer.write(tf.Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())


NUM_THRESHOLDS = 201  # the number of thresholds of a precision-recall curve in TensorBoard
_SUCCESS, _FAILURE = 1, 2  # values of the enum Status in TensorBoard's hparams/api.proto
_NULL = np.zeros(0, np.float32)  # the values of a summary that has only metadata


def session_start(hyper_parameters: Mapping[str, bool | float | str]) -> Any:
    """The Summary proto that adds a run to TensorBoard's table of hyper-parameters.

    Args:
      hyper_parameters: {name: value}.
    """
    entries = [
        field(1, field(1, name.encode()) + field(2, _encode_value(value).SerializeToString()))
        for name, value in hyper_parameters.items()
    ]
    return _hparams_summary("session_start_info", field(3, b"".join(entries) + _encode_time(5)))


def session_end(is_well: bool) -> Any:
    """The Summary proto by which TensorBoard's table of hyper-parameters shows that a run has ended.

    Args:
      is_well: whether the run ended without an error.
    """
    status = bytes([1 << 3, _SUCCESS if is_well else _FAILURE])
    return _hparams_summary("session_end_info", field(4, status + _encode_time(2)))


def precision_recall(tag: str, counts: np.ndarray) -> Any:
    """The Summary proto of a precision-recall curve.

    Args:
      counts: [4, T], the true positives, false positives, true negatives and false negatives at T rising thresholds.
    """
    true_positives, false_positives, _, false_negatives = counts
    precision = true_positives / np.maximum(true_positives + false_positives, 1e-7)
    recall = true_positives / np.maximum(true_positives + false_negatives, 1e-7)
    data = np.stack([*counts, precision, recall]).astype(np.float32)
    return _plugin_summary(tag, "pr_curves", bytes([2 << 3]) + varint(counts.shape[1]), data)


def _hparams_summary(name: str, content: bytes) -> Any:
    """A summary for TensorBoard's plugin of hyper-parameters, without data."""
    return _plugin_summary(f"_hparams_/{name}", "hparams", content, _NULL)


def _plugin_summary(tag: str, plugin: str, content: bytes, data: np.ndarray) -> Any:
    """A Summary proto for a plugin of TensorBoard."""
    metadata = tf.SummaryMetadata(plugin_data=tf.SummaryMetadata.PluginData(plugin_name=plugin, content=content))
    return tf.Summary(value=[tf.Summary.Value(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto(data))])


def _encode_value(value: bool | float | str) -> struct_pb2.Value:
    """The proto of one hyper-parameter."""
    kind = {bool: "bool_value", str: "string_value"}.get(type(value), "number_value")
    return struct_pb2.Value(**{kind: value})


def _encode_time(number: int) -> bytes:
    """The current time in seconds, encoded as the field `number` of a proto, of type double (wire type 1)."""
    return bytes([number << 3 | 1]) + struct.pack("<d", time.time())
