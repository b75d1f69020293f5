"""The graph of a run's model in a session of its own, fed with records, arrays, or numbers of cached records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yt8m import deploy, readers
from yt8m.config.train_config import DataConfig
from yt8m.errors import RunError, first_line
from yt8m.graph.inputs import split_batch
from yt8m.graph.towers import build_towers
from yt8m.lazy import tf
from yt8m.readers.cached_input import CachedInput
from yt8m.readers.damage import RecordCheck
from yt8m.records.cached_records import CachedRecords
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.records.shards import DamagedError
from yt8m.runner import creation
from yt8m.runs.trained_model import TrainedModel
from yt8m.scoring.model_input import Videos
from yt8m.types import Batch


class FedGraph:
    """A model with its weights, in its own graph and session. Several threads may call it at once.

    Args:
      model: the model.
      data: what it reads, and how.
      mode: infer, or eval for the graph that has labels and a loss.
      top_k: classes of each video that count in an evaluation.
      dtypes: the type of each feature, for a graph that is fed with arrays; None for one that parses records.
      cached: records in a cache, for a graph that is fed with their numbers; None for one that is not.

    Attributes:
      modeler: completes the reports of an evaluation.

    Raises:
      RunError: the checkpoint belongs to another model, or cannot be read.
    """

    def __init__(
        self,
        model: TrainedModel,
        data: DataConfig,
        mode: str,
        top_k: int,
        dtypes: Sequence[np.dtype[Any]] | None,
        cached: CachedRecords | None = None,
    ) -> None:
        self._reader = readers.reader_for(data) if dtypes is None else None
        self._cached = CachedInput(cached, self._reader) if cached else None
        self.modeler = model.modeler(data, mode, top_k)
        settings = model.runner_config(mode)
        deployment, _ = deploy.local(1, deploy.count_gpus())
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(settings.seed)
            self._build(data, mode, dtypes, deployment, settings.seed)
            created = creation.filled_from(model.weights, settings.optimizer)
            start = creation.initializers(created)
            graph.finalize()
            config = deployment.session_config()
            config.gpu_options.allow_growth = True  # so that several models of one process can share a GPU
            self._session = tf.Session(graph=graph, config=config)
            try:
                creation.start_session(self._session, created, start, settings)
                self.modeler.restore(self._session)
            except (tf.errors.OpError, ValueError) as error:
                self.close()
                raise RunError(f"{model.weights} cannot be read: {first_line(error)}") from error
            except BaseException:
                self.close()
                raise

    def _build(
        self, data: DataConfig, mode: str, dtypes: Sequence[np.dtype[Any]] | None, deployment: Any, seed: int
    ) -> None:
        with tf.device("/cpu:0"):
            self._records = tf.placeholder(tf.int64 if self._cached else tf.string, [None])
            if self._cached is not None:
                self._batch = self._cached.batch(self._records)
            elif self._reader is not None:
                self._batch = self._reader.prepare_serialized_examples(self._records)
            else:
                self._batch = _placeholders(data, dtypes or ())
        shares, zero = split_batch(self._batch, 1), tf.zeros([], tf.int64)
        towers = build_towers(self.modeler, deployment, shares, mode=mode, seed=seed, step=zero)
        self.scores = {"ids": self._batch.video_ids, "scores": towers.predictions()}
        self.reports = {"reports": towers.reports(), "examples": towers.examples()}
        if towers.outputs[0].loss is not None:
            self.reports["loss"] = towers.mean("loss")

    def run(self, fetches: Any, videos: Videos) -> Any:
        """The values of `fetches` (`scores` or `reports`) for some videos.

        Raises:
          DamagedError: a record cannot be parsed; the message names file and record.
          RunError: the model fails on the videos.
        """
        try:
            return self._session.run(fetches, self._feed(videos))
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError) as error:
            if not isinstance(videos, NumpyBatch | np.ndarray):
                refuse_damage(self._reader, videos)
            raise RunError(f"the model fails on these videos: {first_line(error)}") from error
        except tf.errors.OpError as error:
            if self._cached is not None and self._cached.failure:
                raise self._cached.failure from error
            raise RunError(f"the model fails: {first_line(error)}") from error

    def _feed(self, videos: Videos) -> Mapping[Any, Any]:
        if isinstance(videos, np.ndarray):
            return {self._records: videos}
        if not isinstance(videos, NumpyBatch):
            return {self._records: np.array([raw[0] for raw in videos], object)}
        batch = self._batch
        feed = dict(zip(batch.features, videos.features.values(), strict=True))
        ids = np.array([video_id.encode() for video_id in videos.ids], object)
        return {**feed, batch.video_ids: ids, batch.num_frames: videos.num_frames, batch.labels: videos.labels}

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def refuse_damage(reader: Any, raws: Sequence[Raw]) -> None:
    """Raises `DamagedError` if `reader` cannot parse one of the records; the message names file and record."""
    check = RecordCheck(reader)
    try:
        bad = check.first_bad([raw[0] for raw in raws])
    finally:
        check.close()
    if bad is not None:
        raise DamagedError(*raws[bad[0]][1:], bad[1])


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
