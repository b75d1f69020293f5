"""Exports a checkpoint as a SavedModel or as an inference model.

A SavedModel has two signatures: `records` maps serialized records to the best classes, and `mediapipe` maps features,
as MediaPipe gives them, to the scores of all classes. An inference model is a meta-graph and its weights. With it,
inference needs no code of the model.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.run_dir import INFERENCE_MODEL
from yt8m.errors import RunError, first_line
from yt8m.export import model_card, saved_model_check
from yt8m.export.saved_model_check import EXTRA, FILE
from yt8m.export.small_weights import restored
from yt8m.graph import collections
from yt8m.lazy import tf
from yt8m.readers import Reader, join_features, join_film_means
from yt8m.readers.base import zero_padding
from yt8m.records import span_rules, thresholds, vocabulary
from yt8m.records.data_format import DataFormat, features_of
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.runs.opened_run import OpenedRun
from yt8m.runs.trained_model import TrainedModel
from yt8m.storage import copies, sending
from yt8m.storage.local import LocalStore
from yt8m.video.modeler import VideoModeler

RECORDS, MEDIAPIPE = "records", "mediapipe"
ABOUT = "yt8m_about"  # name of the graph's collection that describes the model as JSON, see `_description`
ASSETS = "assets"  # the folder for the assets of a SavedModel; TensorFlow gives it this name
# What programs read from the folder of a SavedModel. `saved_model.pb` is removed first: without it, no program takes
# what is left for a model.
_OF_A_SAVED_MODEL = (FILE, "fingerprint.pb", "variables", ASSETS, EXTRA, thresholds.NAME, span_rules.NAME)


class ModelFacts(NamedTuple):
    """What an export keeps of its run.

    Attributes:
      moving_average_decay: above 0 if the run has moving averages of its weights; then the averages are exported.
      weights: the type in which weights are stored: float32, float16 or int8.
      names: the model's own vocabulary, which is written with the model; None or empty if it has none.
      video_frames: the median and the largest number of frames of a training video; empty if unknown.
      columns: the names of the values of the only feature, if it was made of a table; empty if unknown.
    """

    moving_average_decay: float = 0.0
    weights: str = "float32"
    names: Vocabulary | None = None
    extractors: Sequence[Mapping[str, Any]] = ()
    is_own: bool = False
    video_frames: Sequence[int] = ()
    columns: Sequence[str] = ()

    @classmethod
    def of_run(cls, run: OpenedRun, names: Vocabulary, weights: str = "float32") -> ModelFacts:
        """The facts of a run."""
        config = run.config
        decay, data = config.optimizer.moving_average_decay, config.data
        return cls(decay, weights, names, data.extractors, run.is_own, data.video_frames, data.columns)


def export_saved_model(
    folder: str,
    checkpoint: str,
    reader: Reader,
    modeler: VideoModeler,
    facts: ModelFacts = ModelFacts(),  # noqa: B008 - it is never changed
    *,
    default: str = RECORDS,
    describe: Callable[[str, int], None] | None = None,
) -> str:
    """Writes a SavedModel with the weights in a checkpoint, completely or not at all.

    The signature `records` takes `example_bytes`, string [B] (serialized records, as in the training files). It gives
    `video_id` string [B], `class_indexes` int32 [B, k], the k = `modeler.top_k` best classes of each video, best first,
    and `predictions` float32 [B, k], their scores.

    The signature `mediapipe` takes `rgb_and_audio`, float32 [B, T, D] (the dequantised features side by side), and
    `num_frames`, int32 [B, 1] or [B], or [1] for all videos. It gives `predictions`, float32 [B, C], the scores of all
    classes. Frames from index `num_frames` on are ignored. A video-level model gets the mean of the frames.

    Args:
      folder: path of the folder, local or gs://.
      describe: writes a description beside the model. It is called with the temporary folder that will be renamed to
        `folder`, and with the number of the model's parameters.
    """

    def build() -> dict[str, Any]:
        step = max(checkpoints.step_of(checkpoint), 0)
        about = {"step": step, "is_averaged": facts.moving_average_decay > 0, "extractors": list(facts.extractors)}
        collections.publish_format()
        signatures = _signatures(reader, modeler, about, facts)
        return {tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signatures[default], **signatures}

    with (
        restored(build, checkpoint, facts.moving_average_decay, facts.weights) as model,
        replaced_folder(folder) as new_folder,
    ):
        _save(model.session, new_folder, model.built, facts.names)
        saved_model_check.write_checksum(new_folder)
        if describe is not None:
            describe(new_folder, model.parameters)
        if facts.is_own:
            run_dir.note_own(folder, storage.read_bytes(os.path.join(new_folder, FILE)))
    return folder


def _signatures(reader: Reader, modeler: VideoModeler, about: Mapping[str, Any], facts: ModelFacts) -> dict[str, Any]:
    """Builds one graph with both signatures: {name: SignatureDef}.

    The features are parsed from the records, unless the caller feeds features. The description of the model is added to
    the collection `ABOUT` of the graph.
    """
    example_bytes = tf.placeholder(tf.string, [None], name="example_bytes")
    batch = reader.prepare_serialized_examples(example_bytes)
    joined = join_features(batch)
    has_frames = joined.shape.rank == 3
    tf.add_to_collection(ABOUT, json.dumps({**_description(reader, modeler, has_frames, facts), **about}).encode())
    # MediaPipe connects its streams to the inputs by name, so the names of these inputs are those of MediaPipe's graph.
    frames = tf.placeholder_with_default(
        joined if has_frames else joined[:, tf.newaxis], [None, None, joined.shape[-1]], name="rgb_and_audio"
    )
    frame_counts = tf.placeholder_with_default(batch.num_frames, None, name="num_frames")  # MediaPipe feeds [B, 1]
    predictions = modeler.predict_raw(*masked_input(frames, frame_counts, has_frames)).predictions
    scores = predictions
    if (film := join_film_means(batch)) is not None:
        # The segments of a record get the mean of their video; features that a caller feeds have only their own.
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            scores = modeler.predict_raw(joined, batch.num_frames, film).predictions
    best = tf.nn.top_k(scores, modeler.top_k)
    of_records = {"video_id": batch.video_ids, "class_indexes": best.indices, "predictions": best.values}
    features = {"rgb_and_audio": frames, "num_frames": frame_counts}
    return {
        RECORDS: _signature({"example_bytes": example_bytes}, of_records),
        MEDIAPIPE: _signature(features, {"predictions": predictions}),
    }


def _description(reader: Reader, modeler: VideoModeler, has_frames: bool, facts: ModelFacts) -> dict[str, Any]:
    """The name of the model, the format of its input, and whether a custom reader parses the records."""
    level = "frame" if has_frames else "video"
    ranges = getattr(reader, "feature_ranges", ())
    features = features_of(level, reader.feature_names, reader.feature_sizes, ranges)
    segments = bool(getattr(reader, "segment_labels", False))
    most = getattr(reader, "max_frames", None) if has_frames else None
    return dict(
        model="" if modeler.model is None else type(modeler.model).__name__,
        format=DataFormat(
            *(level, features, segments, modeler.num_classes, most),
            video_frames=(facts.video_frames[0], facts.video_frames[1]) if facts.video_frames else None,
            columns=tuple(facts.columns) or None,
            one_class=modeler.one_class or None,
        ).as_json(),
        has_own_reader=not type(reader).__module__.startswith("yt8m.readers"),
    )


def masked_input(frames: tf.Tensor, frame_counts: tf.Tensor, has_frames: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Makes the input of the model from frames that may have any values in their padding.

    Args:
      frames: float32 [B, T, D].
      frame_counts: number of frames of each video, int32 [B, 1] or [B], or [1] for all videos.
      has_frames: whether the model takes frames; otherwise it takes their mean.

    Returns:
      (the frames [B, T, D] with zeros as padding, or their mean [B, D]; frame counts int32 [B], from 0 to T).
    """
    rows, longest = tf.shape(frames)[0], tf.shape(frames)[1]
    counts = tf.clip_by_value(tf.broadcast_to(tf.reshape(frame_counts, [-1]), [rows]), 0, longest)
    raw = zero_padding(frames, counts)
    if not has_frames:
        raw = tf.math.divide_no_nan(tf.reduce_sum(raw, 1), tf.cast(counts, tf.float32)[:, tf.newaxis])
    return raw, counts


def _signature(inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor]) -> Any:
    """Makes a SignatureDef field by field, because TensorFlow's helpers for it are deprecated and log a warning."""
    signature = tf.MetaGraphDef().signature_def[RECORDS]
    signature.method_name = tf.saved_model.signature_constants.PREDICT_METHOD_NAME
    for infos, tensors in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for name, tensor in tensors.items():
            infos[name].name = tensor.name
            infos[name].dtype = tensor.dtype.as_datatype_enum
            infos[name].tensor_shape.CopyFrom(tensor.shape.as_proto())
    return signature


def _save(session: tf.Session, folder: str, signatures: Mapping[str, Any], names: Vocabulary | None) -> None:
    """Writes the SavedModel into `folder`, with the vocabulary `names`, if any, as an asset."""
    builder = tf.saved_model.Builder(folder)
    with session.graph.as_default():
        # The builder would copy the file whose path this constant holds. But the graph keeps the constant, and a path
        # would reveal folders of this machine. So it holds the name of the file alone; the builder finds no such file,
        # and the code below writes it.
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
    facts: ModelFacts = ModelFacts(),  # noqa: B008 - it is never changed
    *,
    frame_features: bool,
    describe: Callable[[str, int], None] | None = None,
    also_named: str = "",
) -> str:
    """Writes an inference model, `folder`/inference_model.{meta,index,data-*}, completely or not at all.

    The inputs of the graph are `input_batch_raw`, the dequantised features (float32 [B, D], or [B, T, D] with frames),
    and `num_frames` (int32 [B]). The output is `predictions`, float32 [B, C]. Each is in the graph's collection of its
    name. If the run has moving averages of its weights, the averages are written.

    Args:
      folder: path of the folder, local or gs://.
      also_named: a second name of the files, under which they are written too; empty for none.

    Returns:
      The path of the files without their endings, `folder`/inference_model.
    """

    def build() -> None:
        collections.publish_predict(modeler.predict_placeholders(frame_features))
        tf.train.get_or_create_global_step()

    with (
        restored(build, checkpoint, facts.moving_average_decay, facts.weights) as model,
        replaced_folder(folder) as new_folder,
    ):
        tf.train.Saver().save(model.session, os.path.join(new_folder, INFERENCE_MODEL))
        if also_named:
            _copy_under(also_named, new_folder)
        _write_relative_state(new_folder)
        if facts.names:
            vocabulary.write(os.path.join(new_folder, vocabulary.NAME), facts.names)
        if describe is not None:
            describe(new_folder, model.parameters)
        if facts.is_own:
            run_dir.note_own(folder, storage.read_bytes(os.path.join(new_folder, f"{INFERENCE_MODEL}.meta")))
    return storage.join(folder, INFERENCE_MODEL)


def _copy_under(name: str, folder: str) -> None:
    """Gives the files of the inference model in a local folder a second name; the weights are not stored twice."""
    for file in os.listdir(folder):
        if file.startswith(f"{INFERENCE_MODEL}."):
            copies.link_or_copy(
                os.path.join(folder, file), os.path.join(folder, name + file.removeprefix(INFERENCE_MODEL))
            )


def write_model_of_run(
    folder: str,
    model: TrainedModel,
    modeler: VideoModeler,
    names: Vocabulary,
    evaluated_in: str,
    step: int,
    also_named: str = "",
) -> str:
    """Writes the inference model of a run with its model card, and the thresholds if the run was evaluated with them.

    Args:
      folder: path of the folder, local or gs://.

    Returns:
      The path of the files without their endings.
    """
    run = model.run
    return write_inference_model(
        folder,
        model.weights,
        modeler,
        ModelFacts.of_run(run, names),
        frame_features=run.config.data.frame_features,
        describe=model_card.card_writer(run.config, names, evaluated_in, step),
        also_named=also_named,
    )


def _write_relative_state(folder: str) -> None:
    """Rewrites TensorFlow's file `checkpoint`, which names the weights, with a path relative to `folder`.

    TensorFlow writes the path of a temporary folder, which is renamed afterwards.
    """
    with open(os.path.join(folder, "checkpoint"), "w", encoding="utf-8") as state:
        state.write(f'model_checkpoint_path: "{INFERENCE_MODEL}"\nall_model_checkpoint_paths: "{INFERENCE_MODEL}"\n')


def copy_saved_model(source: str, target: str) -> None:
    """Copies the folder of a SavedModel into the folder `target`, in place of a SavedModel that is there.

    The old `saved_model.pb` is removed first and the new one is written last, so no program can load a mixture of both
    models. Files in `target` that belong to no SavedModel stay. If both paths are the same folder, nothing happens.
    """
    if not storage.is_remote(target) and os.path.realpath(source) == os.path.realpath(target):
        return
    for name in _OF_A_SAVED_MODEL:
        part = storage.join(target, name)
        if storage.is_dir(part):
            storage.remove_tree(part)
        elif storage.exists(part):
            storage.remove(part)
    _copy_folder(source, target)


def _copy_folder(source: str, target: str) -> None:
    """Copies all files of a folder and of the folders in it, `saved_model.pb` as the last one."""
    for name in sorted(storage.listdir(source), key=lambda name: name == FILE):
        path = storage.join(source, name)
        if storage.is_dir(path):
            _copy_folder(path, storage.join(target, name))
            continue
        with storage.open_read(path) as file, storage.write_atomic(storage.join(target, name)) as copy:
            shutil.copyfileobj(file, copy)


@contextlib.contextmanager
def replaced_folder(folder: str) -> Iterator[str]:
    """Yields the path of a new, empty folder; if the `with` block succeeds, that folder is renamed to `folder`.

    At any time, also after a power cut, `folder` is either the old folder or the complete new one. Files that an
    earlier call left when it was killed are removed first. For a bucket, the new folder is local, and its files are
    uploaded at the end (see `sending.replaced_folder`).
    """
    replace_folder = sending.replaced_folder if storage.is_remote(folder) else LocalStore().replaced_folder
    new_folder = folder
    try:
        with replace_folder(folder) as new_folder:
            yield new_folder
    except (tf.errors.OpError, OSError) as error:
        reason = first_line(error).replace(new_folder, folder)
        raise RunError(f"cannot write {folder}: {reason}. An earlier folder of that name is unchanged.") from error
    except RunError as error:  # its message names the temporary folder, which the user does not know
        raise RunError(str(error).replace(new_folder, folder)) from error
