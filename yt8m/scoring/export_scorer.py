"""The scorer of an export: a SavedModel that this project wrote."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import forks, options, storage
from yt8m.config import run_dir
from yt8m.config.programs import EvalConfig, InferenceConfig
from yt8m.errors import RunError, UsageError, first_line, refusing
from yt8m.export import descriptions, saved_model_check
from yt8m.export.saved_model import ABOUT, ASSETS
from yt8m.export.saved_model_check import FILE
from yt8m.export.small_weights import cpu_session
from yt8m.graph import collections
from yt8m.lazy import tf
from yt8m.readers.damage import plain_reason
from yt8m.records import data_format, shards
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.records.shards import DamagedError, id_text
from yt8m.registry import warn_of_program
from yt8m.scoring.model_input import ModelInput, Videos, padded
from yt8m.scoring.scorer import ArrayScorer, Scorer
from yt8m.storage import copies, own_runs


def find_export(folder: str) -> str:
    """Returns the folder of the SavedModel in `folder`.

    This is `folder` itself, `saved_model/` in it (an export of `yt8m export`), or the folder with the highest step in
    `export/` (the exports of a training); the first of these that has a SavedModel.
    """
    steps = [name for name in storage.names_in(storage.join(folder, "export")) if name.isdecimal()]
    newest = [storage.join(folder, "export", max(steps, key=int))] if steps else []
    for candidate in (folder, storage.join(folder, "saved_model"), *newest):
        if storage.exists(storage.join(candidate, FILE)):
            return candidate
    files = ", ".join(name for name in storage.names_in(folder) if name.endswith(".onnx"))
    name_other = f"name its ONNX file ({files})" if files else "name the folder of a run, or of an exported model"
    raise UsageError(f"{run_dir.why_no_run(folder)}; and it holds no {FILE}: {name_other}.")


def is_export(path: str) -> bool:
    """Whether `path` is the folder of a SavedModel itself, or an ONNX file."""
    return path.endswith(".onnx") or (path != "" and storage.exists(storage.join(path, FILE)))


def refuse_run_options(config: EvalConfig | InferenceConfig) -> None:
    """Refuses options that need a run, because `config.train_dir` is an export."""
    for name in options.paths_where(config, needs_run=True):
        if getattr(config, name):
            raise UsageError(
                f"--{name} needs a run, and {config.train_dir} is an export: name its run, or leave out --{name}."
            )


class _DataOfExport(NamedTuple):
    """What an export says of the data that it takes, by the names of the options."""

    frame_features: bool
    feature_names: Sequence[str]
    feature_sizes: Sequence[int]
    num_classes: int


def compare_stated(scorer: Scorer, config: EvalConfig | InferenceConfig) -> None:
    """Compares flags of a training with an export, as they are with a run: other models and features are refused.

    An export says nothing of its training, so that other flags of a training have no effect.
    """
    data = scorer.training_data
    of_export: dict[str, Any] = (
        {} if scorer.takes.has_own_reader else {name: getattr(data, name) for name in _DataOfExport._fields}
    )
    stated = {**config.stated, **({"num_classes": config.num_classes} if config.num_classes else {})}
    if scorer.model:
        of_export["model"] = scorer.model
    for flag, value in of_export.items():
        if stated.get(flag, value) != value:
            raise UsageError(
                f"--{flag}={options.shown(stated[flag])}: the model in {scorer.path} has {options.shown(value)}; leave "
                "the flag out."
            )
    for flag in sorted({*stated} - {*of_export}):
        logging.warning("--%s=%s has no effect on an export", flag, options.shown(stated[flag]))


def open_export(folder: str) -> ExportScorer:
    """Loads the SavedModel that `find_export` finds; if a training deletes that one meanwhile, loads the next one."""
    export_folder = find_export(folder)
    try:
        return ExportScorer(folder, export_folder)
    except (UsageError, RunError):
        if storage.exists(storage.join(export_folder, FILE)) or find_export(folder) == export_folder:
            raise
    logging.warning("%s was deleted while it was read: reading the newest export in its place", export_folder)
    return open_export(folder)


class ExportScorer(ArrayScorer):
    """Scores records or features of videos by a SavedModel, in a session of its own on the CPU.

    A SavedModel can execute any code that its graph contains. So the log warns of it, unless this user is known to have
    exported it on this machine from a run of their own.
    """

    def __init__(self, path: str, folder: str) -> None:
        local_folder = copies.folder_copy(folder)
        graph = storage.read_bytes(storage.join(local_folder, FILE))
        saved_model_check.refuse_damaged(folder, local_folder, graph)
        is_own = own_runs.is_noted(graph)
        if not is_own:
            warn_of_program(folder)
        self._session = cpu_session(tf.Graph())
        try:
            with refusing(functools.partial(_describe_damage, folder)):
                about = self._load(folder, local_folder)
                descriptions.check(about, has_own_reader=bool)
                format_ = data_format.parse(about["format"])
                takes = ModelInput(folder, format_, about["extractors"], is_own, about["has_own_reader"])
                self._refuse_other_graph(takes)
            names = run_dir.own_names(storage.join(folder, ASSETS), takes.num_classes)
        except BaseException:
            self._session.close()
            raise
        super().__init__(path, takes, names, folder, about)

    def _load(self, folder: str, local_folder: str) -> dict[str, Any]:
        """Loads the model in `folder` from its local copy into the session; returns its description."""
        with self._session.graph.as_default():
            loaded = tf.saved_model.loader.load(self._session, [tf.saved_model.tag_constants.SERVING], local_folder)
        collections.refuse_newer(loaded, folder)
        descriptions = loaded.collection_def[ABOUT].bytes_list.value  # empty if there is no such collection
        if not descriptions:
            raise UsageError(
                f"{folder}: this SavedModel was not exported by this project, so its inputs are unknown; "
                "name a model that yt8m exported."
            )
        records, features = (_signature_with(name, loaded) for name in ("example_bytes", "rgb_and_audio"))
        self._records = records.inputs["example_bytes"].name
        self._frames, self._counts = (features.inputs[name].name for name in ("rgb_and_audio", "num_frames"))
        self._outputs = [records.outputs["video_id"].name, features.outputs["predictions"].name]
        about: dict[str, Any] = storage.parse_json(descriptions[0].decode())
        return about

    def _refuse_other_graph(self, takes: ModelInput) -> None:
        """Raises an error, any, if the graph lacks a tensor or contradicts the description of the model."""
        names = (self._records, self._frames, self._counts, *self._outputs)
        tensors = {name: self._session.graph.get_tensor_by_name(name) for name in names}
        for name, size in ((self._frames, takes.width), (self._outputs[1], takes.num_classes)):
            shape = tensors[name].shape
            if not shape[-1:].is_compatible_with([size]):
                raise ValueError(f"{name} is {shape}, but the description of the model says {size} values")

    def compute(self, videos: Videos, rows: int) -> tuple[list[str], NDArray[np.float32]]:
        """See `Scorer.compute`."""
        if isinstance(videos, np.ndarray):
            raise UsageError(f"{self.path} is an export, which cannot read a cache: name its run.")
        forks.refuse_copy(self.path)
        padded_videos = padded(videos, rows)
        if isinstance(videos, NumpyBatch):
            floats = padded_videos.dequantize().features
            joined = np.concatenate([floats[name] for name in self.takes.format.sizes()], axis=-1)
            frames = joined if joined.ndim == 3 else joined[:, np.newaxis]
            feed = {self._frames: frames.astype(np.float32, copy=False), self._counts: padded_videos.num_frames}
            return list(videos.ids), self._session.run(self._outputs[1], feed)[: len(videos)]
        try:
            ids, scores = self._session.run(self._outputs, {self._records: _payloads(padded_videos)})
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError):
            self._refuse_damage(videos)
            raise
        if len(ids) != len(padded_videos):
            raise RunError(
                "this model was trained on rated segments and takes them out of records; give it features, or name "
                "its run."
            )
        return list(map(id_text, ids[: len(videos)])), scores[: len(videos)]

    def _refuse_damage(self, raws: Sequence[Raw]) -> None:
        """Raises `DamagedError` for the first record that the model cannot read."""
        for raw in raws:
            try:
                self._session.run(self._outputs, {self._records: _payloads([raw])})
            except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
                # The advice to check flags is cut off, because an export has no flags of a reader.
                reason = plain_reason(str(error.message)).partition("; check --")[0]
                raise DamagedError(raw[1], raw[2], f"{reason}{_describe_record(raw[0])}") from error

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def _describe_record(payload: bytes) -> str:
    """The level and the features of a serialized record, in brackets; empty if the record cannot be parsed."""
    try:
        record = shards.parse(payload)
    except ValueError:
        return ""
    level = "frame" if record.lists else "video"
    return f" (it is a {level}-level record with the features {', '.join(sorted(record.features()))})"


def _payloads(raws: Sequence[Raw]) -> Any:
    return np.array([raw[0] for raw in raws], object)


def _describe_damage(folder: str, error: Exception) -> RunError:
    """The error of a SavedModel that cannot be loaded, or whose description cannot be read."""
    return RunError(
        f"{folder}: the SavedModel cannot be loaded: {first_line(error)[:300]}. Restore it from a copy, or export the "
        "model again."
    )


def _signature_with(name: str, loaded: Any) -> Any:
    """The signature of the SavedModel `loaded` that has an input called `name`."""
    for signature in loaded.signature_def.values():
        if name in signature.inputs:
            return signature
    raise ValueError(f"it has no signature with the input {name}")
