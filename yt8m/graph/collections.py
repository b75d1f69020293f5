"""Stores the handles of a graph in its collections, and recovers them after the graph was imported from a file.

A handle is an op, a tensor or a text by which a program uses a graph, such as `train_op`. A meta-graph is the file of a
graph; it holds the collections too.

The names of the collections are those of the published code (`global_step`, `loss`, `predictions`, ...). So this
project can read meta-graphs that the published code wrote, and scripts for the published code can read those of this
project.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from yt8m import formats, storage
from yt8m.errors import RunError
from yt8m.graph.protocols import EvalOps, InputOps, PredictOps, TrainOps
from yt8m.lazy import tf


def _name_collections(fields: str, **others: str) -> dict[str, str]:
    """{field of a tuple of handles: name of the graph collection that holds the handle}."""
    return {**{field: field for field in fields.split()}, **others}


_PREDICT = _name_collections(
    "predictions input_batch_raw input_batch num_frames labels label_weights", video_ids="video_id_batch"
)
_TRAIN = _name_collections(
    "train_op global_step learning_rate regularization_loss total_loss examples gradient_norms bad_tower summary_op",
    step="step_after_train_op",
    label_loss="loss",
    predictions="tower_predictions",
)
_EVAL = _name_collections("global_step examples summary_op", label_loss="loss")
_INPUT = {field: f"input_{field}" for field in ("initializer", "files", "begun", "last_shard", "shards")}

# The names of the other collections, whose items are serialized savers, the tensors of reports, JSON, and a version.
_INPUT_SAVER = "input_saver"
_TEACHER_SAVER = "teacher_saver"
_REPORTS = "reports"
_TEXTS = "run_texts"
_FORMAT = "yt8m_format"


def publish_train(ops: TrainOps, signature: Mapping[str, Any] | None) -> None:
    """Puts every handle of a training graph, and the options that shaped the graph, into collections.

    Args:
      signature: the options, as JSON values; None if another process cannot use the graph.
    """
    _add_to_collections(_TRAIN, ops)
    _publish_common(ops.predict, ops.input, ops.reports)
    texts = {
        "gradient_variables": ops.gradient_variables,
        "averages": ops.averages,
        **({} if signature is None else {"signature": dict(signature)}),
        "reports": list(ops.reports),
    }
    tf.add_to_collection(_TEXTS, json.dumps(texts).encode())


def publish_eval(ops: EvalOps) -> None:
    """Puts the handles of an evaluation or inference graph into collections."""
    _add_to_collections(_EVAL, ops)
    _publish_common(ops.predict, ops.input, ops.reports)
    tf.add_to_collection(_TEXTS, json.dumps({"reports": list(ops.reports)}).encode())


def publish_predict(ops: PredictOps) -> None:
    """Puts the predictions of a graph, the tensors that can be fed, and the version of the format into collections."""
    _add_to_collections(_PREDICT, ops)
    publish_format()


def recover_train(meta_path: str) -> TrainOps:
    """The handles of the training graph that was imported into the current graph from a `.meta` file."""
    items = tf.get_collection(_TEXTS)
    texts = storage.parse_json(items[0]) if items else {}
    if "signature" not in texts:
        raise RunError(
            f"{meta_path} holds no training step that a run can continue; build the graph from the model's code"
        )
    return TrainOps(
        **_first_items(_TRAIN),
        gradient_variables=tuple(texts["gradient_variables"]),
        averages=tuple((name, average) for name, average in texts["averages"]),
        reports=dict(zip(texts["reports"], tf.get_collection(_REPORTS), strict=True)),
        predict=recover_predict(),
        input=InputOps(**_first_items(_INPUT), saver_def=tf.get_collection(_INPUT_SAVER)[0]),
    )


def recover_predict() -> PredictOps:
    """The predictions of an imported graph and the tensors that can be fed.

    The graph may be one of the published code, written by TensorFlow 1.
    """
    return PredictOps(**_require_predictions(_first_items(_PREDICT)))


def signature_in(meta_graph: tf.MetaGraphDef) -> dict[str, Any] | None:
    """The options that shaped the training graph in `meta_graph`; None if a run cannot be resumed from it."""
    items = meta_graph.collection_def[_TEXTS].bytes_list.value if _TEXTS in meta_graph.collection_def else []
    return storage.parse_json(items[0]).get("signature") if items else None


def predict_names_in(meta_graph: tf.MetaGraphDef) -> dict[str, str]:
    """The names of the tensors that `recover_predict` would return if `meta_graph` were imported.

    Returns:
      {field of PredictOps: name of the tensor}, without the fields that the graph does not have.
    """
    tensor_names = {
        field: meta_graph.collection_def[name].node_list.value[0]
        for field, name in _PREDICT.items()
        if name in meta_graph.collection_def and meta_graph.collection_def[name].node_list.value
    }
    return _require_predictions(tensor_names)


def _require_predictions(handles: dict[str, Any]) -> dict[str, Any]:
    """Returns `handles`, {field of PredictOps: handle}; raises RunError if there are no predictions among them."""
    if handles.get("predictions") is None:
        raise RunError(
            "this meta-graph has no collection 'predictions': it was not made for inference. Use the .meta file of a "
            "checkpoint of this project or of the published code"
        )
    return handles


def publish_teacher_saver(saver_def: tf.SaverDef) -> None:
    """Stores in the current graph the saver that reads the weights of the teacher in this graph."""
    tf.add_to_collection(_TEACHER_SAVER, saver_def.SerializeToString())


def teacher_saver() -> tf.SaverDef:
    """The saver that `publish_teacher_saver` stored in the current graph, or in the graph that was imported into it."""
    return tf.train.SaverDef.FromString(tf.get_collection(_TEACHER_SAVER)[0])


def publish_format() -> None:
    """Puts the version number of the graph format into a collection of the current graph."""
    tf.add_to_collection(_FORMAT, formats.GRAPH)


def refuse_newer(meta_graph: tf.MetaGraphDef, path: str) -> None:
    """Refuses a meta-graph whose format is newer than the one that this version writes.

    A meta-graph of the published code states no format and is accepted.
    """
    if _FORMAT in meta_graph.collection_def:
        number = next(iter(meta_graph.collection_def[_FORMAT].int64_list.value), None)
        formats.refuse_newer(path, number, formats.GRAPH)


def _publish_common(predict: PredictOps, inputs: InputOps, reports: Mapping[str, tf.Tensor]) -> None:
    """Puts the handles that training and evaluation graphs have in common into collections."""
    publish_predict(predict)
    _add_to_collections(_INPUT, inputs)
    tf.add_to_collection(_INPUT_SAVER, inputs.saver_def)
    for tensor in reports.values():
        tf.add_to_collection(_REPORTS, tensor)


def _first_items(names: Mapping[str, str]) -> dict[str, Any]:
    """The first item of each collection.

    Returns:
      {field: item}; None for an empty collection, which an optional handle may have.
    """
    return {field: (tf.get_collection(name) or [None])[0] for field, name in names.items()}


def _add_to_collections(names: Mapping[str, str], ops: Any) -> None:
    """Adds fields of `ops` to collections of the graph; a field that is None is left out."""
    for field, name in names.items():
        value = getattr(ops, field)
        if name == "train_op":
            # The optimizer has put its own op into this collection. That op is removed, because it does not update the
            # averages and does not end a group of accumulated batches. Besides, a meta-graph cannot name an op that is
            # inside a branch of tf.cond, where the optimizer's op may be.
            tf.get_collection_ref(name).clear()
        # A second entry in `global_step` would make tf.train.get_global_step() ambiguous.
        if value is not None and not (name == "global_step" and tf.get_collection(name)):
            tf.add_to_collection(name, value)
