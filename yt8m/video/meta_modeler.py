"""Runs an inference model from its files: imports its meta-graph with a batch as input, without the model's code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from yt8m import storage
from yt8m.graph import collections
from yt8m.graph.protocols import PredictOps
from yt8m.graph.restore import read_meta_graph
from yt8m.lazy import tf
from yt8m.readers import join_features, resize_axis
from yt8m.registry import warn_of_program
from yt8m.storage import copies, own_runs
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler

_SCOPE = "imported"


class MetaGraphModeler(VideoModeler):
    """The predictions of an inference model of this project or of the published code (TF 1.x), on one tower.

    The input ops in the file are not used. `restore` reads the weights: the engine could not restore them by name,
    because the import puts a scope before their names. A meta-graph can execute code: use only files whose origin you
    trust.

    Args:
      prefix: the prefix of the files, without `.meta`.
      label_loss: the loss for evaluation; None for inference.
    """

    def __init__(self, prefix: str, top_k: int = 20, label_loss: Any = None) -> None:
        self._file = InferenceGraph(prefix)
        self._saver: Any = None  # created by `build`
        self._ops: Any = None
        super().__init__(None, label_loss, self._file.num_classes, top_k)

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        """Imports the graph with the batch as its input, for evaluation or inference."""
        if is_training:
            raise ValueError("an imported model is for evaluation and inference")
        raw = join_features(batch)
        predictions, self._saver = self._file.predict(raw, batch.num_frames, _SCOPE)
        self._ops = PredictOps(predictions=predictions, input_batch_raw=raw, num_frames=batch.num_frames)
        return self._with_label_loss(ModelOutput(predictions=predictions), batch, is_training)

    def predict(self, batch: Batch) -> PredictOps:
        """The ops that `build` made for the same batch; call `build` first. The graph is not imported a second time."""
        ops: PredictOps = self._ops
        return replace(ops, labels=tf.cast(batch.labels, tf.float32), video_ids=batch.video_ids)

    def restore(self, session: tf.Session) -> None:
        """Reads the weights from the files into the session."""
        self._saver.restore(session, copies.copy_of(self._file.prefix))


class InferenceGraph:
    """The meta-graph of an inference model, which can be imported several times.

    The log warns that a meta-graph is a program, unless it is known that this user made this one on this machine.

    Args:
      prefix: the prefix of the files, without `.meta`.

    Attributes:
      tensors: {field of `PredictOps`: shape and type of the tensor in the file that the field stands for}.
    """

    def __init__(self, prefix: str) -> None:
        if not own_runs.is_noted(storage.read_bytes(f"{prefix}.meta")):
            warn_of_program(f"{prefix}.meta")
        self.prefix = prefix
        self.meta_graph = read_meta_graph(f"{prefix}.meta")
        self.tensors = _tensors_of(self.meta_graph)

    @property
    def num_classes(self) -> int:
        """The number of classes, C."""
        return int(self.tensors["predictions"].shape[-1])

    def predict(
        self, raw: tf.Tensor, num_frames: tf.Tensor, scope: str, variables: Mapping[str, tf.Tensor] | None = None
    ) -> tuple[tf.Tensor, tf.train.Saver]:
        """Imports the graph under the name scope `scope`.

        Args:
          raw: the dequantised features, float32 [B, D] or [B, T, D].
          num_frames: int [B], number of frames of each video.
          variables: {name of a variable in the file: the tensor of an earlier import to use in its place}.

        Returns:
          (predictions float32 [B, C], the saver that restores the variables of this import).
        """
        graph, names = tf.get_default_graph(), collections.predict_names_in(self.meta_graph)
        collections_before = {key: list(tf.get_collection(key)) for key in graph.get_all_collection_keys()}
        inputs = {names["input_batch_raw"]: _fit_length(raw, self.tensors["input_batch_raw"].shape)}
        if "num_frames" in names:
            # The type in the file is float32 in video-level graphs of TF 1.15, else an integer.
            inputs[names["num_frames"]] = tf.cast(num_frames, self.tensors["num_frames"].dtype)
        with tf.name_scope(None):
            saver = tf.train.import_meta_graph(
                self.meta_graph, clear_devices=True, import_scope=scope, input_map={**inputs, **(variables or {})}
            )
        # Removes what the import added to collections, so that the run neither initialises nor saves its variables.
        for key in graph.get_all_collection_keys():
            tf.get_collection_ref(key)[:] = collections_before.get(key, [])
        return graph.get_tensor_by_name(f"{scope}/{names['predictions']}"), saver


def class_count(meta_graph: tf.MetaGraphDef) -> int:
    """The number of classes, from the shape of `predictions` in a meta-graph."""
    return int(_tensors_of(meta_graph)["predictions"].shape[-1])


def _tensors_of(meta_graph: tf.MetaGraphDef) -> dict[str, tf.TensorSpec]:
    """{field of `PredictOps`: shape and type of the tensor in the meta-graph that the field stands for}."""
    names = collections.predict_names_in(meta_graph)
    with tf.Graph().as_default():
        tensors = tf.import_graph_def(meta_graph.graph_def, return_elements=list(names.values()), name="")
    return {field: tf.TensorSpec(tensor.shape, tensor.dtype) for field, tensor in zip(names, tensors, strict=True)}


def _fit_length(raw: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """`raw`, cut or padded with zeros to the number of frames in `shape` if that is fixed; else unchanged."""
    if raw.shape.rank != 3 or shape.rank != 3 or shape[1] is None:
        return raw
    return resize_axis(raw, 1, int(shape[1]))
