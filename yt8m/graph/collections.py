"""The names of all graph collections; publishes handles to collections, and recovers them from a meta-graph.

The published code's names are kept (`global_step`, `loss`, `predictions`, `input_batch_raw`, ...), so that
this project reads its meta-graphs, and scripts of its users read ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from yt8m import formats, storage
from yt8m.errors import RunError
from yt8m.graph.protocols import EvalOps, InputOps, PredictOps, TrainOps
from yt8m.lazy import tf


def _collections(fields: str, **others: str) -> dict[str, str]:
    """{field: name of its collection}. `fields`, separated by spaces, have collections of the same names."""
    return {**{field: field for field in fields.split()}, **others}


_PREDICT = _collections(
    "predictions input_batch_raw input_batch num_frames labels label_weights", video_ids="video_id_batch"
)
_TRAIN = _collections(
    "train_op global_step learning_rate regularization_loss total_loss examples gradient_norms bad_tower summary_op",
    step="step_after_train_op",
    label_loss="loss",
    predictions="tower_predictions",
)
_EVAL = _collections("global_step examples summary_op", label_loss="loss")
_INPUT = {field: f"input_{field}" for field in ("initializer", "files", "begun", "last_shard", "shards")}

_INPUT_SAVER = "input_saver"
_TEACHER_SAVER = "teacher_saver"
_REPORTS = "reports"
_TEXTS = "run_texts"
_FORMAT = "yt8m_format"


def publish_train(ops: TrainOps, signature: Mapping[str, Any] | None) -> None:
    """Puts every handle of a training graph, and `signature`, the options that shaped it, into collections.

    `signature` is None if another process cannot use the graph.
    """
    _add(_TRAIN, ops)
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
    _add(_EVAL, ops)
    _publish_common(ops.predict, ops.input, ops.reports)
    tf.add_to_collection(_TEXTS, json.dumps({"reports": list(ops.reports)}).encode())


def publish_predict(ops: PredictOps) -> None:
    """Puts the feed points and predictions of a graph without an input into collections."""
    _add(_PREDICT, ops)
    publish_format()


def recover_train() -> TrainOps:
    """The handles of the training graph that was imported into the current graph.

    Raises:
      RunError: the graph was not built by `graph.build` (it may be the published code's).
    """
    items = tf.get_collection(_TEXTS)
    texts = storage.parse_json(items[0]) if items else {}
    if "signature" not in texts:
        raise RunError("this meta-graph holds no training step of this project; rebuild the graph from code")
    return TrainOps(
        **_first_of(_TRAIN),
        gradient_variables=tuple(texts["gradient_variables"]),
        averages=tuple((name, average) for name, average in texts["averages"]),
        reports=dict(zip(texts["reports"], tf.get_collection(_REPORTS), strict=True)),
        predict=recover_predict(),
        input=InputOps(**_first_of(_INPUT), saver_def=tf.get_collection(_INPUT_SAVER)[0]),
    )


def recover_predict() -> PredictOps:
    """Predictions and feed points of an imported graph; it may be one of the published code (TF 1.x).

    Raises:
      RunError: the graph has no `predictions`.
    """
    return PredictOps(**_with_predictions(_first_of(_PREDICT)))


def signature_in(meta_graph: tf.MetaGraphDef) -> dict[str, Any] | None:
    """The options that shaped the training graph in `meta_graph`; None if a run cannot be resumed from it."""
    items = meta_graph.collection_def[_TEXTS].bytes_list.value if _TEXTS in meta_graph.collection_def else []
    return storage.parse_json(items[0]).get("signature") if items else None


def predict_names_in(meta_graph: tf.MetaGraphDef) -> dict[str, str]:
    """{field of PredictOps: tensor name} in `meta_graph`, before it is imported.

    Raises:
      RunError: the meta-graph has no `predictions`.
    """
    tensor_names = {
        field: meta_graph.collection_def[name].node_list.value[0]
        for field, name in _PREDICT.items()
        if name in meta_graph.collection_def and meta_graph.collection_def[name].node_list.value
    }
    return _with_predictions(tensor_names)


def _with_predictions(handles: dict[str, Any]) -> dict[str, Any]:
    if handles.get("predictions") is None:
        raise RunError("this meta-graph has no collection 'predictions': it was not made for inference")
    return handles


def publish_teacher_saver(saver_def: tf.SaverDef) -> None:
    """Stores the saver that reads the weights of the teacher in this training graph."""
    tf.add_to_collection(_TEACHER_SAVER, saver_def.SerializeToString())


def teacher_saver() -> tf.SaverDef:
    """The saver that `publish_teacher_saver` stored in this graph, which may be built or imported."""
    return tf.train.SaverDef.FromString(tf.get_collection(_TEACHER_SAVER)[0])


def publish_format() -> None:
    """Puts the version number of the graph format into a collection of the current graph."""
    tf.add_to_collection(_FORMAT, formats.GRAPH)


def refuse_newer(meta_graph: tf.MetaGraphDef, path: str) -> None:
    """Refuses a meta-graph, read from `path`, whose format is newer than this version's. Published ones have none.

    Raises:
      RunError: the format is newer.
    """
    if _FORMAT in meta_graph.collection_def:
        number = next(iter(meta_graph.collection_def[_FORMAT].int64_list.value), None)
        formats.refuse_newer(path, number, formats.GRAPH)


def _publish_common(predict: PredictOps, inputs: InputOps, reports: Mapping[str, tf.Tensor]) -> None:
    publish_predict(predict)
    _add(_INPUT, inputs)
    tf.add_to_collection(_INPUT_SAVER, inputs.saver_def)
    for tensor in reports.values():
        tf.add_to_collection(_REPORTS, tensor)


def _first_of(names: Mapping[str, str]) -> dict[str, Any]:
    """{field: first item of its collection}; None for an empty collection, that of an optional handle."""
    return {field: (tf.get_collection(name) or [None])[0] for field, name in names.items()}


def _add(names: Mapping[str, str], ops: Any) -> None:
    for field, name in names.items():
        value = getattr(ops, field)
        if name == "train_op":
            # Removes the optimizer's own op, which does not update averages or end a group. It may also lie inside a
            # branch of tf.cond, and a meta-graph cannot name such an op.
            tf.get_collection_ref(name).clear()
        # A second entry in `global_step` would make tf.train.get_global_step() ambiguous.
        if value is not None and not (name == "global_step" and tf.get_collection(name)):
            tf.add_to_collection(name, value)
