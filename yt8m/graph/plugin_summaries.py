"""Summaries for two of TensorBoard's plugins: hyper-parameters and precision-recall curves.

TensorFlow no longer brings TensorBoard along, and a run does without it: what its plugins look for, two
small messages in the metadata of a summary (tensorboard/plugins/hparams/plugin_data.proto and
pr_curve/plugin_data.proto), is written by hand.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import struct_pb2

from yt8m.lazy import tf
from yt8m.records import field, varint

NUM_THRESHOLDS = 201  # of a curve, as TensorBoard's own
_SUCCESS, _FAILURE = 1, 2  # of hparams' Status
_NULL = np.zeros(0, np.float32)


def session_start(hyper_parameters: Mapping[str, bool | float | str]) -> Any:
    """The summary that begins a run in the table of hyper-parameters."""
    entries = [
        field(1, field(1, name.encode()) + field(2, _value(value).SerializeToString()))
        for name, value in hyper_parameters.items()
    ]
    return _hparams("session_start_info", field(3, b"".join(entries) + _seconds(5)))


def session_end(is_well: bool) -> Any:
    """The summary that ends it."""
    status = bytes([1 << 3, _SUCCESS if is_well else _FAILURE])
    return _hparams("session_end_info", field(4, status + _seconds(2)))


def precision_recall(tag: str, counts: np.ndarray) -> Any:
    """The summary of a curve.

    Args:
      tag: its name.
      counts: [4, thresholds from 0 to 1]: true and false positives, true and false negatives.
    """
    true, false, _, missed = counts
    precision = true / np.maximum(true + false, 1e-7)
    recall = true / np.maximum(true + missed, 1e-7)
    data = np.stack([*counts, precision, recall]).astype(np.float32)
    return _summary(tag, "pr_curves", bytes([2 << 3]) + varint(counts.shape[1]), data)


def _hparams(name: str, content: bytes) -> Any:
    return _summary(f"_hparams_/{name}", "hparams", content, _NULL)


def _summary(tag: str, plugin: str, content: bytes, data: np.ndarray) -> Any:
    metadata = tf.SummaryMetadata(
        plugin_data=tf.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    )
    return tf.Summary(value=[tf.Summary.Value(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto(data))])


def _value(value: bool | float | str) -> struct_pb2.Value:
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    return struct_pb2.Value(number_value=value)


def _seconds(number: int) -> bytes:
    """Now, as a field of a double (wire type 1)."""
    return bytes([number << 3 | 1]) + struct.pack("<d", time.time())
