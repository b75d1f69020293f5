"""Exports a checkpoint as a SavedModel or as an inference model, and loads a SavedModel to predict.

A SavedModel has two signatures: one maps serialized records to the best classes, one MediaPipe's features to all
classes. An inference model is a meta-graph and its weights: all that inference needs, without any model code.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from yt8m import storage
from yt8m.config import run_dir
from yt8m.errors import RunError, UsageError, first_line
from yt8m.export.small_weights import cpu_session, restored
from yt8m.graph import collections
from yt8m.graph.restore import warn_of_program
from yt8m.lazy import tf
from yt8m.readers import Reader, join_features
from yt8m.readers.base import zero_padding
from yt8m.readers.damage import plain_reason
from yt8m.records import shards, vocabulary
from yt8m.records.vocabulary import Vocabulary
from yt8m.storage import copies, json_text, sending
from yt8m.types import Closing
from yt8m.video.modeler import VideoModeler

RECORDS, MEDIAPIPE = "records", "mediapipe"
SIGNATURES = (RECORDS, MEDIAPIPE)
_EXTRACTORS = "yt8m_extractors"  # the collection with the extractors of the features, each as JSON
_FEATURE_NAMES = "yt8m_feature_names"  # the collection with the names of the features, in the order of the model
INFERENCE_MODEL = "inference_model"  # the file prefix that the published code uses
ASSETS = "assets"  # the folder of a SavedModel's assets, TensorFlow's name


def export_saved_model(
    folder: str,
    checkpoint: str,
    reader: Reader,
    modeler: VideoModeler,
    *,
    moving_average_decay: float = 0.0,
    weights: str = "float32",
    default: str = RECORDS,
    names: Vocabulary | None = None,
    describe: Callable[[str, int], None] | None = None,
    extractors: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Writes `folder`, a SavedModel of the weights in `checkpoint`; whole or not at all.

    Signature `records`: `example_bytes` string [B] (serialized records, as in the training files)
    to `video_id` string [B], `class_indexes` int32 [B, k] best first, `predictions` float32 [B, k].

    Signature `mediapipe`: `rgb_and_audio` float32 [B, T, D], the dequantised features side by side, and `num_frames`
    int32 [B, 1] or [B] (one for all if B is 1) to `predictions` float32 [B, C]. Later frames are ignored. A
    video-level model gets the mean of the frames.

    Args:
      folder: path of the folder, local or gs://.
      checkpoint: path of a checkpoint of the model.
      reader: parses the records.
      modeler: the model.
      moving_average_decay: above 0 if the run kept averages, which are then exported.
      weights: the type to store weights in: float32, float16 or int8.
      default: which of the two is also `serving_default`, which most programs ask for.
      names: the model's own vocabulary, which becomes the asset `vocabulary.csv`.
      describe: called with the folder before it is renamed and the number of parameters; writes a
        description beside the model.
      extractors: what computed the features, as manifests name it; the model carries it along.

    Returns:
      `folder`.
    """

    def build() -> dict[str, Any]:
        for one in extractors:
            tf.add_to_collection(_EXTRACTORS, json.dumps(one).encode())
        signatures = _signatures(reader, modeler)
        return {tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signatures[default], **signatures}

    with restored(build, checkpoint, moving_average_decay, weights) as model, replaced_folder(folder) as part:
        _save(model.session, part, model.built, names)
        if describe is not None:
            describe(part, model.parameters)
    return folder


def _signatures(reader: Reader, modeler: VideoModeler) -> dict[str, Any]:
    """Both signatures of one model. Its features are read from the records, unless the features themselves are fed."""
    for name in reader.feature_names:
        tf.add_to_collection(_FEATURE_NAMES, name.encode())
    example_bytes = tf.placeholder(tf.string, [None], name="example_bytes")
    batch = reader.prepare_serialized_examples(example_bytes)
    joined = join_features(batch)
    has_frames = joined.shape.rank == 3
    # MediaPipe names a stream by the name of an input in capitals: these names are MediaPipe's.
    frames = tf.placeholder_with_default(
        joined if has_frames else joined[:, tf.newaxis], [None, None, joined.shape[-1]], name="rgb_and_audio"
    )
    given = tf.placeholder_with_default(batch.num_frames, None, name="num_frames")  # MediaPipe feeds [B, 1]
    predictions = modeler.predict_raw(*_masked(frames, given, has_frames)).predictions
    best = tf.nn.top_k(predictions, modeler.top_k)
    of_records = {"video_id": batch.video_ids, "class_indexes": best.indices, "predictions": best.values}
    features = {"rgb_and_audio": frames, "num_frames": given}
    return {
        RECORDS: _signature({"example_bytes": example_bytes}, of_records),
        MEDIAPIPE: _signature(features, {"predictions": predictions}),
    }


def _masked(frames: tf.Tensor, given: tf.Tensor, has_frames: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """(input of the model, frame counts int32 [B]); the input is the frames, zero after the last one, or their mean."""
    rows, longest = tf.shape(frames)[0], tf.shape(frames)[1]
    counts = tf.clip_by_value(tf.broadcast_to(tf.reshape(given, [-1]), [rows]), 0, longest)
    raw = zero_padding(frames, counts)
    if not has_frames:
        raw = tf.math.divide_no_nan(tf.reduce_sum(raw, 1), tf.cast(counts, tf.float32)[:, tf.newaxis])
    return raw, counts


def _signature(inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor]) -> Any:
    """A SignatureDef, filled by hand, because TensorFlow's helpers are deprecated and log a warning."""
    signature = tf.MetaGraphDef().signature_def[RECORDS]
    signature.method_name = tf.saved_model.signature_constants.PREDICT_METHOD_NAME
    for infos, tensors in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for name, tensor in tensors.items():
            infos[name].name = tensor.name
            infos[name].dtype = tensor.dtype.as_datatype_enum
            infos[name].tensor_shape.CopyFrom(tensor.shape.as_proto())
    return signature


def _save(session: tf.Session, folder: str, signatures: Mapping[str, Any], names: Vocabulary | None) -> None:
    builder = tf.saved_model.Builder(folder)
    with session.graph.as_default():
        # The graph keeps the text of this tensor. So it has only the file's name: a path would reveal folders of this
        # machine. The builder finds no such file to copy; the code below writes the file.
        assets = [tf.constant(vocabulary.NAME, name="vocabulary")] if names else None
    builder.add_meta_graph_and_variables(
        session, [tf.saved_model.tag_constants.SERVING], dict(signatures), assets, strip_default_attrs=True
    )
    if names:
        vocabulary.write(os.path.join(folder, ASSETS, vocabulary.NAME), names)
    builder.save()


def write_inference_model(
    folder: str,
    checkpoint: str,
    modeler: VideoModeler,
    *,
    frame_features: bool,
    moving_average_decay: float = 0.0,
    weights: str = "float32",
    names: Vocabulary | None = None,
    describe: Callable[[str, int], None] | None = None,
) -> str:
    """Writes `folder`/inference_model.{meta,index,data-*}, whole or not at all.

    The graph takes `input_batch_raw` (float32 [B, D], or [B, T, D] with frame features) and `num_frames`
    (int32 [B]) and gives `predictions`; each is in the collection of its name. If the run kept
    moving averages, they are written as the weights.

    Args:
      folder: path of the folder, local or gs://.
      checkpoint: path of a checkpoint of the model.
      modeler: the model.
      frame_features: whether the model takes frames.
      moving_average_decay: above 0 if the run kept averages.
      weights: the type to store weights in: float32, float16 or int8.
      names: the model's own vocabulary, which is written beside it.
      describe: called with the folder before it is renamed and the number of parameters; writes a
        description beside the model.

    Returns:
      The prefix of the files.
    """

    def build() -> None:
        collections.publish_predict(modeler.predict_placeholders(frame_features))
        tf.train.get_or_create_global_step()

    with restored(build, checkpoint, moving_average_decay, weights) as model, replaced_folder(folder) as part:
        os.makedirs(part)
        tf.train.Saver().save(model.session, os.path.join(part, INFERENCE_MODEL))
        _relative_state(part)
        if names:
            vocabulary.write(os.path.join(part, vocabulary.NAME), names)
        if describe is not None:
            describe(part, model.parameters)
    return storage.join(folder, INFERENCE_MODEL)


def _relative_state(folder: str) -> None:
    """Rewrites the state file with relative paths, since the folder that it names is about to be renamed."""
    with open(os.path.join(folder, "checkpoint"), "w", encoding="utf-8") as state:
        state.write(f'model_checkpoint_path: "{INFERENCE_MODEL}"\nall_model_checkpoint_paths: "{INFERENCE_MODEL}"\n')


@contextlib.contextmanager
def replaced_folder(folder: str) -> Iterator[str]:
    """Yields the path of a new folder to write to; if that succeeds, the new folder is renamed to `folder`.

    A reader sees the old folder or the new one whole. Leftovers of an earlier, killed call are removed first.
    For a bucket, complete files are uploaded at the end (see `sending.replaced_folder`).

    Raises:
      RunError: the disk is full, or TensorFlow cannot write for another reason.
    """
    replaced = sending.replaced_folder if storage.is_remote(folder) else _replaced_here
    try:
        with replaced(folder) as part:
            yield part
    except (tf.errors.OpError, OSError) as error:
        raise RunError(
            f"cannot write {folder}: {first_line(error)}. An earlier folder of that name is unchanged."
        ) from error


@contextlib.contextmanager
def _replaced_here(folder: str) -> Iterator[str]:
    partial, old = f"{folder}.partial", f"{folder}.old"
    os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
    if os.path.isdir(old) and not os.path.isdir(folder):
        os.rename(old, folder)  # an earlier call was killed between its two renames
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


_FILE = "saved_model.pb"


class Predictions(NamedTuple):
    """The predictions of a model for B records, best class first.

    Attributes:
      video_ids: object [B] of bytes.
      classes: int32 [B, k].
      scores: float32 [B, k], probabilities.
    """

    video_ids: np.ndarray
    classes: np.ndarray
    scores: np.ndarray


def find(folder: str) -> str:
    """The folder of a SavedModel: `folder` itself, an export of `yt8m export` in it, or the newest export of a run.

    Raises:
      UsageError: there is no SavedModel.
    """
    folder = storage.expanded(folder)
    numbered = [name for name in storage.names_in(storage.join(folder, "export")) if name.isdigit()]
    newest = [storage.join(folder, "export", max(numbered, key=int))] if numbered else []
    for place in (folder, storage.join(folder, "saved_model"), *newest):
        if storage.exists(storage.join(place, _FILE)):
            return place
    raise UsageError(
        f"{folder} holds no {_FILE}: name the folder of a run that exported a model, or one that `yt8m export` wrote."
    )


def opened(folder: str) -> SavedModel:
    """Loads the model that `find` returns. If that is deleted during loading, loads the next one that `find` returns.

    Raises:
      UsageError, RunError: for the reasons of `find` and `SavedModel`.
    """
    place = find(folder)
    try:
        return SavedModel(place)
    except (UsageError, RunError):
        if storage.exists(storage.join(place, _FILE)) or find(folder) == place:
            raise
    logging.warning("%s was deleted during reading: taking the next", place)
    return opened(folder)


class SavedModel(Closing):
    """A model in a session of its own on the CPU, called through its signatures for records and for features.

    A SavedModel can execute any code that its graph contains, so the log warns of it. Close the object, or use it in
    a `with` block. Several threads may call it at once.

    Args:
      folder: the folder with `saved_model.pb`.

    Attributes:
      folder: the argument.
      feature_size: D, the size of the features of a frame; None if the model takes only records.
      num_classes: number of classes, C; None if unknown, because the model takes only records.
      names: the model's own vocabulary; empty if it has none.
      extractors: the extractors of its features, as manifests name them; empty if they are unknown.
      top_k: number of classes that it predicts for a record.

    Raises:
      UsageError: the model has no signature that takes records.
      RunError: the model cannot be loaded.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        warn_of_program(folder)
        self._session = cpu_session(tf.Graph())
        try:
            with self._session.graph.as_default():
                loaded = tf.saved_model.loader.load(
                    self._session, [tf.saved_model.tag_constants.SERVING], copies.folder_copy(folder)
                )
        except (OSError, RuntimeError, ValueError, tf.errors.OpError, RunError) as error:
            self._session.close()
            raise RunError(f"{folder}: the SavedModel cannot be loaded: {error}") from error
        records = _taking("example_bytes", loaded)
        if records is None:
            known = ", ".join(sorted(loaded.signature_def)) or "none"
            raise UsageError(
                f"{folder}: there is no signature with the input example_bytes (signatures: "
                f"{known}); only models exported by this project take records."
            )
        self._input = records.inputs["example_bytes"].name
        names = ("video_id", "class_indexes", "predictions")
        self._outputs = [records.outputs[name].name for name in names]
        self.top_k = int(records.outputs["predictions"].tensor_shape.dim[-1].size)
        self._features = features = _taking("rgb_and_audio", loaded)
        self.feature_size = features and int(features.inputs["rgb_and_audio"].tensor_shape.dim[-1].size)
        collected = loaded.collection_def  # a missing collection is empty
        self.feature_names = tuple(name.decode() for name in collected[_FEATURE_NAMES].bytes_list.value)
        self.extractors = tuple(json_text.parse(one.decode()) for one in collected[_EXTRACTORS].bytes_list.value)
        self.num_classes = features and int(features.outputs["predictions"].tensor_shape.dim[-1].size)
        self.names = run_dir.own_names(storage.join(folder, ASSETS), self.num_classes)

    def predict(self, records: Sequence[bytes]) -> Predictions:
        """The best classes of serialized records, which must be of the kind that the model was trained on.

        Raises:
          RunError: a record is of another kind, or damaged.
        """
        try:
            found: list[Any] = self._session.run(self._outputs, {self._input: np.array(records, object)})
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
            reason = plain_reason(str(error.message)).partition("; check --")[0]  # there are no such flags here
            raise RunError(
                f"the model in {self.folder} cannot read these records: {reason}. {_described(records[0])}"
            ) from error
        return Predictions(*found)

    def score(self, frames: np.ndarray, num_frames: np.ndarray) -> np.ndarray:
        """float32 [B, C], the probabilities of all classes, from features.

        Args:
          frames: float32 [B, T, D], not quantised; a video-level model gets the mean over the frames.
          num_frames: int32 [B].

        Raises:
          UsageError: the model takes only records.
        """
        if self._features is None:
            raise UsageError(f"{self.folder}: this model takes only records; export it again.")
        inputs = self._features.inputs
        fed = {inputs["rgb_and_audio"].name: frames, inputs["num_frames"].name: num_frames}
        return self._session.run(self._features.outputs["predictions"].name, fed)

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def _described(payload: bytes) -> str:
    """A sentence with the level and the features of a record; empty if it cannot be parsed."""
    try:
        record = shards.parse(payload)
    except ValueError:
        return ""
    level = "frame" if record.lists else "video"
    return f"The first one is a {level}-level record with the features {', '.join(sorted(record.features()))}."


def _taking(name: str, loaded: Any) -> Any:
    """The signature with an input of this name; None if there is none."""
    having = [signature for signature in loaded.signature_def.values() if name in signature.inputs]
    return having[0] if having else None
