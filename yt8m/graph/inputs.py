"""The input side of a graph: files that are fed, an iterator, and a saver of its position."""

from __future__ import annotations

from typing import Any

from yt8m.graph.ops import InputOps
from yt8m.graph.protocols import Inputter
from yt8m.lazy import tf


def create_input(inputter: Inputter, batch_size: int) -> tuple[Any, InputOps]:
    """An initializable iterator over batches of `batch_size`, and its handles.

    The files come by a plain placeholder: forgetting to feed it fails at once, and a meta-graph made
    on one machine reads other files on another. The position has a saver of its own, because in
    SAVEABLE_OBJECTS it would put shuffle buffers into every checkpoint and break `Saver()` after an import.
    """
    files = tf.placeholder(tf.string, [None], name="input_files")
    with tf.device("/cpu:0"):
        iterator = tf.data.make_initializable_iterator(inputter.dataset(files, batch_size))
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        saver = tf.train.Saver([saveable], max_to_keep=None, name="input_saver")
    return iterator, InputOps(iterator.initializer, files, saver.to_proto().SerializeToString())


def input_saver(ops: InputOps) -> Any:
    """The saver of the iterator's position; restore only after `ops.initializer` has run."""
    saver_def = tf.train.SaverDef.FromString(ops.saver_def)
    return tf.train.Saver(saver_def=saver_def)
