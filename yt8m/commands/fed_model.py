"""Trained models in sessions of their own, which Python code feeds with records or arrays.

`FedModel` runs the model of a run or an archive, `FedExport` a SavedModel. Both may be called by several threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import deploy, readers
from yt8m.commands import inference, workload
from yt8m.config.train_config import DataConfig
from yt8m.errors import RunError, UsageError, first_line
from yt8m.export.saved_model import SavedModel
from yt8m.graph.inputs import split_batch
from yt8m.graph.towers import build_towers
from yt8m.lazy import tf
from yt8m.readers.damage import RecordCheck
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.records.shards import DamagedError
from yt8m.runner import RunnerConfig, creation
from yt8m.types import Batch
from yt8m.video.meta_modeler import MetaGraphModeler
from yt8m.video.modeler import VideoModeler

Input = Sequence[Raw] | NumpyBatch


class EvaluatedStep(NamedTuple):
    """One step for an evaluator: its reports, its loss (None if there is none) and its number of examples."""

    reports: Mapping[str, NDArray[Any]]
    loss: float | None
    examples: int


class FedModel:
    """A model with the weights of a checkpoint, in its own graph and session.

    Args:
      source: the model.
      data: what it reads, and how.
      mode: infer, or eval for the graph that has labels and a loss.
      top_k: classes of each video that count in an evaluation.
      dtypes: the type of each feature, for a graph that is fed with arrays; None for one that parses records.

    Attributes:
      modeler: completes the reports of an evaluation, and makes its evaluator.

    Raises:
      RunError: the checkpoint belongs to another model, or cannot be read.
    """

    def __init__(
        self,
        source: inference.Source,
        data: DataConfig,
        mode: str,
        top_k: int = 20,
        dtypes: Sequence[np.dtype[Any]] | None = None,
    ) -> None:
        self._reader = readers.reader_for(data) if dtypes is None else None
        self.modeler = _modeler(source, data, mode, top_k)
        deployment, _ = deploy.local(1, deploy.count_gpus())
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(source.run.seed)
            self._build(data, mode, dtypes, deployment, source.run.seed)
            created = creation.filled_from(source.checkpoint, source.run.optimizer)
            start = creation.initializers(created)
            graph.finalize()
            config = deployment.session_config()
            config.gpu_options.allow_growth = True  # so that several models of one process can share a GPU
            self._session = tf.Session(graph=graph, config=config)
            try:
                settings = RunnerConfig(mode, source.folder, checkpoint=source.checkpoint)
                creation.start_session(self._session, created, start, settings)
                self.modeler.restore(self._session)
            except (tf.errors.OpError, ValueError) as error:
                self.close()
                raise RunError(f"{source.checkpoint} cannot be read: {first_line(error)}") from error
            except BaseException:
                self.close()
                raise

    def _build(
        self, data: DataConfig, mode: str, dtypes: Sequence[np.dtype[Any]] | None, deployment: Any, seed: int
    ) -> None:
        with tf.device("/cpu:0"):
            self._records = tf.placeholder(tf.string, [None])
            if self._reader is not None:
                self._batch = self._reader.prepare_serialized_examples(self._records)
            else:
                self._batch = _placeholders(data, dtypes or ())
        shares, zero = split_batch(self._batch, 1), tf.zeros([], tf.int64)
        towers = build_towers(self.modeler, deployment, shares, mode=mode, seed=seed, step=zero)
        self._scores = {"ids": self._batch.video_ids, "scores": towers.rows("predictions")}
        self._reports = {"reports": towers.reports(), "examples": towers.examples()}
        if towers.outputs[0].loss is not None:
            self._reports["loss"] = towers.mean("loss")

    def scores(self, given: Input, size: int = 0) -> tuple[list[bytes | str], NDArray[np.float32]]:
        """The ids of some videos and the scores of all classes, float32 [B, C].

        Args:
          given: B records, or a batch of B videos.
          size: number of rows that the model computes, the last video repeated, so that a video's scores do not depend
            on B; 0 for B rows.

        Raises:
          DamagedError: a record cannot be parsed; the message names file and record.
          RunError: the model fails on the input.
        """
        found = self._run(self._scores, padded(given, size))
        ids = list(given.ids) if isinstance(given, NumpyBatch) else list(found["ids"][: len(given)])
        return ids, found["scores"][: len(given)]

    def evaluated(self, given: Input, size: int = 0) -> EvaluatedStep:
        """One step of an evaluation; arguments and errors are those of `scores`.

        Rated segments, and reports that a GPU has summed over the rows, cannot be cut, so they are not padded.
        """
        found = self._run(self._reports, given)
        loss = float(found["loss"]) if "loss" in found else None
        reports = found["reports"]
        if len(given) < size and "all_scores" in reports and len(reports["all_scores"]) == len(given):
            whole = self._run(self._reports["reports"], padded(given, size))
            reports = {name: values[: len(given)] for name, values in whole.items()}
        return EvaluatedStep(self.modeler.completed(reports), loss, int(found["examples"]))

    def _run(self, fetches: Any, given: Input) -> Any:
        try:
            return self._session.run(fetches, self._feed(given))
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError) as error:
            if not isinstance(given, NumpyBatch):
                refuse_damage(self._reader, given)
            raise RunError(f"the model fails on these videos: {first_line(error)}") from error
        except tf.errors.OpError as error:
            raise RunError(f"the model fails: {first_line(error)}") from error

    def _feed(self, given: Input) -> dict[Any, Any]:
        if not isinstance(given, NumpyBatch):
            return {self._records: np.array([raw[0] for raw in given], object)}
        batch = self._batch
        feed = dict(zip(batch.features, given.features.values(), strict=True))
        ids = np.array([one.encode() for one in given.ids], object)
        return {**feed, batch.video_ids: ids, batch.num_frames: given.num_frames, batch.labels: given.labels}

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


class FedExport:
    """A SavedModel, fed with arrays.

    Args:
      model: loaded; `close` closes it.
      top_k: classes of each video that count in an evaluation.

    Attributes:
      modeler: completes the reports of an evaluation, and makes its evaluator.

    Raises:
      UsageError: the model takes only records.
    """

    def __init__(self, model: SavedModel, top_k: int = 20) -> None:
        if model.feature_size is None or model.num_classes is None:
            raise UsageError(f"{model.folder}: this model takes only records; export it again.")
        self._model, self._width = model, model.feature_size
        self.modeler = VideoModeler(None, None, model.num_classes, top_k)

    def scores(self, given: NumpyBatch, size: int = 0) -> tuple[list[bytes | str], NDArray[np.float32]]:
        """The ids of some videos and the scores of all classes, float32 [B, C]; `size` is as in `FedModel.scores`.

        Raises:
          UsageError: the features have other names than the model's, or are of another size.
        """
        rows, given = len(given), padded(given, size)
        found = given.dequantize().features
        names = self._model.feature_names or tuple(found)
        width = sum(found[name].shape[-1] for name in names if name in found)
        if width != self._width or not set(names) <= found.keys():
            wanted = f" ({', '.join(self._model.feature_names)})" if self._model.feature_names else ""
            sizes = ", ".join(f"{name} ({value.shape[-1]})" for name, value in found.items())
            raise UsageError(f"{self._model.folder} takes {self._width} values a frame{wanted}; the data have {sizes}.")
        joined = np.concatenate([found[name] for name in names], axis=-1)
        frames = joined if joined.ndim == 3 else joined[:, np.newaxis]
        scores = self._model.score(frames.astype(np.float32, copy=False), given.num_frames)
        return list(given.ids[:rows]), scores[:rows]

    def evaluated(self, given: NumpyBatch, size: int = 0) -> EvaluatedStep:
        """One step of an evaluation, without a loss, which an export does not have; see `scores`."""
        reports = {"all_scores": self.scores(given, size)[1], "positives": given.labels}
        return EvaluatedStep(self.modeler.completed(reports), None, len(given))

    def close(self) -> None:
        """Closes the model."""
        self._model.close()


def refuse_damage(reader: Any, raws: Sequence[Raw]) -> None:
    """Raises `DamagedError` if `reader` cannot parse one of the records; the message names file and record."""
    check = RecordCheck(reader)
    try:
        bad = check.first_bad([raw[0] for raw in raws])
    finally:
        check.close()
    if bad is not None:
        raise DamagedError(*raws[bad[0]][1:], bad[1])


def padded(given: Input, size: int) -> Any:
    """The input with its last video repeated, so that it has `size` rows; the input itself if it has as many."""
    more = size - len(given)
    if more <= 0:
        return given
    if not isinstance(given, NumpyBatch):
        return [*given, *[given[-1]] * more]
    rows = np.minimum(np.arange(size), len(given) - 1)
    features = {name: values[rows] for name, values in given.features.items()}
    ids = [given.ids[row] for row in rows.tolist()]
    return dataclasses.replace(
        given, ids=ids, features=features, num_frames=given.num_frames[rows], labels=given.labels[rows]
    )


def _modeler(source: inference.Source, data: DataConfig, mode: str, top_k: int) -> VideoModeler:
    if not source.meta_prefix:
        return workload.create(data, source.run.model, mode, top_k).modeler
    loss = workload.create_loss(source.run.model) if mode == "eval" else None
    return MetaGraphModeler(source.meta_prefix, top_k, loss, is_own=source.is_own)


def _placeholders(data: DataConfig, dtypes: Sequence[np.dtype[Any]]) -> Batch:
    frames = [None] if data.frame_features else []
    return Batch(
        video_ids=tf.placeholder(tf.string, [None]),
        features=tuple(
            tf.placeholder(tf.as_dtype(dtype), [None, *frames, size])
            for dtype, size in zip(dtypes, data.feature_sizes, strict=True)
        ),
        num_frames=tf.placeholder(tf.int32, [None]),
        labels=tf.placeholder(tf.bool, [None, data.num_classes]),
    )
