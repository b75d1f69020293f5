"""A SavedModel that takes serialized records and gives ids, classes and scores."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from yt8m.graph.protocols import Modeler
from yt8m.graph.small_weights import restored
from yt8m.lazy import tf

SIGNATURE = "serving_default"


class RecordParser(Protocol):
    """What the export needs of a reader."""

    def prepare_serialized_examples(self, serialized: tf.Tensor) -> Any:
        """A `Batch` from a vector of records."""


def export_saved_model(
    folder: str,
    checkpoint: str,
    reader: RecordParser,
    modeler: Modeler,
    *,
    moving_average_decay: float = 0.0,
    weights: str = "float32",
    describe: Callable[[str, int], None] | None = None,
) -> str:
    """Writes `folder`, a SavedModel of the weights in `checkpoint`; whole or not at all.

    Signature `serving_default`: `example_bytes` string [B] (serialized records, as in the training files)
    to `video_id` string [B], `class_indexes` int32 [B, k] best first, `predictions` float32 [B, k].

    Args:
      folder: a local path.
      checkpoint: of the model.
      reader: parses the records.
      modeler: the model.
      moving_average_decay: above 0 where the run kept averages, which are taken then.
      weights: how they are stored: float32, float16 or int8.
      describe: called with the folder as it is written and the number of parameters, to put a
        description beside the model.

    Returns:
      `folder`.
    """

    def build() -> Any:
        example_bytes = tf.placeholder(tf.string, [None], name="example_bytes")
        batch = reader.prepare_serialized_examples(example_bytes)
        reports = modeler.reports(batch, modeler.build(batch, is_training=False), "infer")
        outputs = {
            "video_id": tf.identity(reports["video_ids"].tensor, name="video_id"),
            "class_indexes": tf.identity(reports["classes"].tensor, name="class_indexes"),
            "predictions": tf.identity(reports["scores"].tensor, name="predictions"),
        }
        return _signature({"example_bytes": example_bytes}, outputs)

    with restored(build, checkpoint, moving_average_decay, weights) as model, replaced_folder(folder) as part:
        _save(model.session, part, model.built)
        if describe is not None:
            describe(part, model.parameters)
    return folder


def _signature(inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor]) -> Any:
    """A SignatureDef, filled by hand: TensorFlow's own helpers are deprecated and say so in the log."""
    signature = tf.MetaGraphDef().signature_def[SIGNATURE]
    signature.method_name = tf.saved_model.signature_constants.PREDICT_METHOD_NAME
    for infos, tensors in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for name, tensor in tensors.items():
            infos[name].name = tensor.name
            infos[name].dtype = tensor.dtype.as_datatype_enum
            infos[name].tensor_shape.CopyFrom(tensor.shape.as_proto())
    return signature


def _save(session: tf.Session, folder: str, signature: Any) -> None:
    builder = tf.saved_model.Builder(folder)
    builder.add_meta_graph_and_variables(
        session, [tf.saved_model.tag_constants.SERVING], {SIGNATURE: signature}, strip_default_attrs=True
    )
    builder.save()


@contextlib.contextmanager
def replaced_folder(folder: str) -> Iterator[str]:
    """A new, not yet existing path to write to; on success it takes the place of `folder` by renaming.

    A reader sees the old folder or the new one whole. What an earlier, killed call left is cleared first.
    """
    partial, old = f"{folder}.partial", f"{folder}.old"
    os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
    for left in (partial, old):
        shutil.rmtree(left, ignore_errors=True)
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if os.path.isdir(folder):
        os.rename(folder, old)
    os.rename(partial, folder)
    shutil.rmtree(old, ignore_errors=True)
