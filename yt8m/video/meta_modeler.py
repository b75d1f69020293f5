"""A model that is only a file: its meta-graph spliced behind our input, without the code that made it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from yt8m import storage
from yt8m.graph import collections
from yt8m.graph.protocols import PredictOps
from yt8m.graph.restore import warn_of_program
from yt8m.lazy import tf
from yt8m.readers import join_features
from yt8m.storage import copies
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler

_SCOPE = "imported"


class MetaGraphModeler(VideoModeler):
    """Predictions of an inference model, this project's or the published code's (TF 1.x), on one tower.

    The file's own input is cut off; its weights are read by `restore`, since their names in this graph
    are not those of the checkpoint. A meta-graph is a program: use only those whose origin you trust.

    Args:
      prefix: of the files, without `.meta`.
      top_k: columns kept of each video's scores.
      label_loss: for evaluation; None for inference.
      is_own: it is known as this user's own: no warning that it is a program.
    """

    def __init__(self, prefix: str, top_k: int = 20, label_loss: Any = None, *, is_own: bool = False) -> None:
        if not is_own:
            warn_of_program(f"{prefix}.meta")
        self._prefix = prefix
        self._meta_graph = read_meta_graph(f"{prefix}.meta")
        self._names = collections.predict_names_in(self._meta_graph)
        self._saver: Any = None  # these two come with `build`
        self._ops: Any = None
        self._kinds = kinds(self._meta_graph)
        super().__init__(None, label_loss, int(self._kinds["predictions"].shape[-1]), top_k)

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        """Imports the graph behind the batch; there is nothing to train.

        Raises:
          ValueError: asked for a training graph.
        """
        if is_training:
            raise ValueError("an imported model is for evaluation and inference")
        raw = join_features(batch)
        kept = {key: list(tf.get_collection(key)) for key in tf.get_default_graph().get_all_collection_keys()}
        predictions = self._import(raw, batch.num_frames)
        keep_collections(kept)
        self._ops = PredictOps(predictions=predictions, input_batch_raw=raw, num_frames=batch.num_frames)
        return self._with_label_loss(ModelOutput(predictions=predictions), batch, is_training)

    def predict(self, batch: Batch) -> PredictOps:
        """What `build` imported: there is no second copy."""
        ops: PredictOps = self._ops
        return replace(ops, labels=batch.labels, video_ids=batch.video_ids)

    def restore(self, session: tf.Session) -> None:
        """Reads the weights."""
        self._saver.restore(session, copies.copy_of(self._prefix))

    def _import(self, raw: tf.Tensor, num_frames: tf.Tensor) -> tf.Tensor:
        inputs = {"input_batch_raw": fitted(raw, self._kinds["input_batch_raw"].shape)}
        if "num_frames" in self._names:
            # TF 1.15's video-level graphs have it as float32.
            inputs["num_frames"] = tf.cast(num_frames, self._kinds["num_frames"].dtype)
        with tf.name_scope(None):
            self._saver = tf.train.import_meta_graph(
                self._meta_graph,
                clear_devices=True,
                import_scope=_SCOPE,
                input_map={self._names[field]: tensor for field, tensor in inputs.items()},
            )
        return tf.get_default_graph().get_tensor_by_name(f"{_SCOPE}/{self._names['predictions']}")


def read_meta_graph(path: str) -> tf.MetaGraphDef:
    """The MetaGraphDef in a `.meta` file, local or gs://."""
    return tf.MetaGraphDef.FromString(storage.read_bytes(path))


def class_count(meta_graph: tf.MetaGraphDef) -> int:
    """C, from the shape of `predictions` in a meta-graph."""
    return int(kinds(meta_graph)["predictions"].shape[-1])


def kinds(meta_graph: tf.MetaGraphDef) -> dict[str, tf.TensorSpec]:
    """Shape and type of the tensors that inference touches, by field of `PredictOps`."""
    names = collections.predict_names_in(meta_graph)
    with tf.Graph().as_default():
        tensors = tf.import_graph_def(meta_graph.graph_def, return_elements=list(names.values()), name="")
    return {field: tf.TensorSpec(tensor.shape, tensor.dtype) for field, tensor in zip(names, tensors, strict=True)}


def fitted(raw: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """`raw` with as many frames as a graph of fixed length wants: zeros behind, or cut."""
    if raw.shape.rank != 3 or shape.rank != 3 or shape[1] is None:
        return raw
    frames = int(shape[1])
    padded = tf.pad(raw, [[0, 0], [0, tf.maximum(frames - tf.shape(raw)[1], 0)], [0, 0]])
    return tf.ensure_shape(padded[:, :frames], [None, frames, raw.shape[2]])


def keep_collections(kept: dict[str, list[Any]]) -> None:
    """Takes out again what an import added: the imported variables are not ours to initialise or save."""
    for key in tf.get_default_graph().get_all_collection_keys():
        reference = tf.get_collection_ref(key)
        reference[:] = kept.get(key, [])
