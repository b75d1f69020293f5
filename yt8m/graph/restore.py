"""Graphs that come from a file: training goes on from its meta-graph, predictions need no model code."""

from __future__ import annotations

from typing import Any

from yt8m import storage
from yt8m.graph import collections
from yt8m.graph.ops import PredictOps, TrainOps
from yt8m.lazy import tf


def signature_of(meta_path: str) -> dict[str, Any] | None:
    """What shaped the training graph in a `.meta` file; None where this project did not write it."""
    meta_graph = tf.MetaGraphDef.FromString(storage.read_bytes(meta_path))
    return collections.signature_in(meta_graph)


def restore_train(meta_path: str) -> TrainOps:
    """Imports a training graph into the current, empty graph and recovers its handles.

    Raises:
      RunError: the file holds no training graph of this project.
    """
    tf.train.import_meta_graph(meta_path)
    return collections.recover_train()


def restore_predict(meta_path: str) -> tuple[PredictOps, tf.train.Saver]:
    """Imports any graph with a `predictions` collection, TF 1.x ones included, without its devices.

    A meta-graph is a program: load only those whose origin you trust.

    Returns:
      The feed points and predictions, and the saver that reads the weights.

    Raises:
      RunError: the graph was not made for inference.
    """
    saver = tf.train.import_meta_graph(meta_path, clear_devices=True)
    return collections.recover_predict(), saver
