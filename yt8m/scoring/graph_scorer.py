"""The scorer of a run or an archive: the model's graph with chosen weights.

The graph has its own session, and is fed with records, arrays, or numbers of cached records.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import deploy, forks, readers
from yt8m.config import data_fit
from yt8m.config.data_config import DataConfig
from yt8m.config.programs import InferenceConfig
from yt8m.errors import RunError, UsageError, first_line
from yt8m.graph.inputs import split_batch
from yt8m.graph.towers import build_towers
from yt8m.lazy import tf
from yt8m.readers.cached_input import CachedInput, open_cache
from yt8m.readers.damage import RecordCheck
from yt8m.records.batches import Records
from yt8m.records.cached_records import CachedRecords
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.records.shards import DamagedError, id_text
from yt8m.runner import creation
from yt8m.runs.trained_model import TrainedModel
from yt8m.scoring.model_input import OTHER_RANGES, InputKind, Types, Videos, input_of, padded, types_of
from yt8m.scoring.scorer import USUAL_SETTINGS, EvaluatedStep, EvaluationSettings, Scorer
from yt8m.types import Batch
from yt8m.video.modeler import VideoEvaluator, VideoModeler


class FedGraph:
    """A model with its weights, in a graph and a session of its own. Several threads may call `run` at once.

    Args:
      dtypes: the type of each feature, for a graph that is fed with arrays; None for a graph that parses records.
      cached: records in a cache, for a graph that is fed with their numbers; None for any other graph.
      keeps_videos: whether the reports of an evaluation have the values of each video, for a sample of the videos.

    Attributes:
      hidden: what `run` computes for the last hidden layer: ids, and vectors of videos; None if the model has none.
      reports: what `run` computes for an evaluation: arrays for the metrics, number of examples, and the loss if the
        graph has one.
    """

    def __init__(
        self,
        model: TrainedModel,
        data: DataConfig,
        mode: str,
        top_k: int,
        dtypes: Sequence[np.dtype[Any]] | None,
        cached: CachedRecords | None = None,
        keeps_videos: bool = False,
    ) -> None:
        self._reader = readers.reader_for(data) if dtypes is None else None
        self._cached = CachedInput(cached, self._reader) if cached else None
        self.modeler = model.modeler(data, mode, top_k)
        self.modeler.keeps_videos = keeps_videos
        settings = model.runner_config(mode)
        deployment, _ = deploy.local(1, deploy.count_gpus())
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(settings.seed)
            self._build(data, mode, dtypes, deployment, settings.seed)
            created = creation.for_scoring(model.weights, settings.optimizer)
            start = creation.initializers(created)
            graph.finalize()
            config = deployment.session_config()
            config.gpu_options.allow_growth = True  # so that several models of one process can share a GPU
            self._session = forks.new_session(graph=graph, config=config)
            try:
                creation.start_session(self._session, created, start, settings)
                self.modeler.restore(self._session)
            except (tf.errors.OpError, ValueError) as error:
                self.close()
                raise RunError(
                    f"{model.weights} cannot be read: {first_line(error)}; restore it from a copy, or choose another "
                    "checkpoint"
                ) from error
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
        hidden = towers.outputs[0].hidden() if mode == "infer" else None
        self.hidden = None if hidden is None else {"ids": self._batch.video_ids, "hidden": hidden}
        self.reports = {"reports": towers.reports(), "examples": towers.examples()}
        if towers.outputs[0].loss is not None:
            self.reports["loss"] = towers.mean("loss")

    def run(self, fetches: Any, videos: Videos) -> Any:
        """Computes the values of a group of tensors for some videos.

        Args:
          videos: the videos, of the kind for which the graph was built: serialized records, arrays, or numbers of
            cached records.
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
    with contextlib.closing(RecordCheck(reader)) as check:
        bad = check.first_bad([raw[0] for raw in raws])
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


class GraphScorer(Scorer):
    """A `Scorer` with a graph for each kind of input, which is built at the first use of that kind.

    Attributes:
      resources: what `close` closes too, such as the temporary folder of an archive.
    """

    def __init__(
        self, path: str, model: TrainedModel, config: InferenceConfig | None = None, first_input: InputKind = "records"
    ) -> None:
        run, self.trained, self._config = model.run, model, config or InferenceConfig()
        self.data = run.data_for(self._config, "", False)
        super().__init__(path, input_of(self.data, run.folder, is_own=run.is_own), run.names)
        self.model, self.weights, self.step = run.config.model.model, model.weights, model.step
        self.training_data = run.config.data
        self.resources, self._lock, self._is_closed = contextlib.ExitStack(), threading.Lock(), False
        self._graphs: dict[Any, FedGraph] = {}
        self._cached: dict[bool, CachedRecords] = {}
        # Graphs may be built later by other threads. They are built in this context, which knows which code is trusted.
        self._context = contextvars.copy_context()
        if not self.data.cache:  # with a cache, a graph is probably needed only for the numbers of cached records
            self._graph("infer", self.takes.types_of(first_input), USUAL_SETTINGS)

    def _graph(self, mode: str, dtypes: Types, settings: EvaluationSettings, is_cached: bool = False) -> FedGraph:
        """Returns the graph for a kind of input, and builds it at the first call.

        Args:
          dtypes: the types of the features, if the graph is fed with arrays; else None.
          is_cached: whether the graph is fed with numbers of cached records; otherwise, if `dtypes` is None, it is fed
            with serialized records.
        """
        forks.refuse_copy(self.path)
        with self._lock:
            if self._is_closed:
                raise UsageError(f"{self.path}: this model is closed; load it again.")
            segments, key = settings.segment_labels, (mode, dtypes, settings, is_cached)
            if key not in self._graphs:
                data = self.trained.run.data_for(self._config, "", segments)
                cached = self._cached[segments] if is_cached else None
                arguments = self.trained, data, mode, settings.top_k, dtypes, cached, settings.keeps_videos
                self._graphs[key] = self._context.copy().run(FedGraph, *arguments)
            return self._graphs[key]

    def cached_records(self, files: Sequence[str], settings: EvaluationSettings | None = None) -> CachedRecords:
        """Opens the records of some files in the cache that the config names; `scores` takes their numbers as videos.

        Args:
          files: the shards. Later calls ignore this argument, and return the records of the first call; records for
            evaluations on rated segments are kept separately from others.
          settings: the settings of an evaluation of these records; None if they are to be scored.
        """
        segments = settings is not None and self._rates_segments(settings)
        with self._lock:
            if segments not in self._cached:
                data = self.trained.run.data_for(self._config, "", segments)
                reader = self._context.copy().run(readers.reader_for, data)
                skips_bad = data.max_bad_records > 0
                self._cached[segments] = open_cache(data.cache, reader, files, skips_bad=skips_bad)
            return self._cached[segments]

    def compute(self, videos: Videos, rows: int) -> tuple[list[str], NDArray[np.float32]]:
        """See `Scorer.compute`."""
        graph = self._graph("infer", types_of(videos), USUAL_SETTINGS, isinstance(videos, np.ndarray))
        values = graph.run(graph.scores, padded(videos, rows))
        return self._ids(videos, values), values["scores"][: len(videos)]

    def hidden(self, videos: Videos, rows: int = 0) -> tuple[list[str], NDArray[np.float32]]:
        """See `Scorer.hidden`."""
        graph = self._graph("infer", types_of(videos), USUAL_SETTINGS, isinstance(videos, np.ndarray))
        if graph.hidden is None:
            raise UsageError(
                f"{self.path}: {self.model} has no hidden layer of a whole video: it computes each class from the "
                "features, or returns no `hidden` (see extending.md)."
            )
        values = graph.run(graph.hidden, padded(videos, rows))
        return self._ids(videos, values), values["hidden"][: len(videos)]

    @staticmethod
    def _ids(videos: Videos, values: Mapping[str, Any]) -> list[str]:
        return list(videos.ids if isinstance(videos, NumpyBatch) else map(id_text, values["ids"][: len(videos)]))

    def evaluated(self, videos: Videos, rows: int = 0, settings: EvaluationSettings = USUAL_SETTINGS) -> EvaluatedStep:
        """See `Scorer.evaluated`; a run that was trained on rated segments is evaluated on them, unless it gets arrays.

        The batch is filled up to `rows` videos only if the reports have one row per video, so that the rows of the
        added videos can be removed. The reports of rated segments have a row per segment, and a GPU sums its reports
        over the videos, so such batches are not filled up.
        """
        segments = self._rates_segments(settings) and not isinstance(videos, NumpyBatch)
        settings = settings._replace(segment_labels=segments)
        graph = self._graph("eval", types_of(videos), settings, isinstance(videos, np.ndarray))
        values = graph.run(graph.reports, videos)
        loss = float(values["loss"]) if "loss" in values else None
        reports = values["reports"]
        if len(videos) < rows and "all_scores" in reports and len(reports["all_scores"]) == len(videos):
            padded_reports = graph.run(graph.reports["reports"], padded(videos, rows))
            reports = {name: value[: len(videos)] for name, value in padded_reports.items()}
        return EvaluatedStep(graph.modeler.completed(reports), loss, int(values["examples"]))

    def _rates_segments(self, settings: EvaluationSettings) -> bool:
        """Whether an evaluation with these settings evaluates records on their rated segments."""
        return settings.segment_labels or self.training_data.segment_labels

    def reader(self) -> readers.Reader:
        """The reader of the run's records."""
        return self._context.copy().run(readers.reader_for, self.data)

    def refuse_other_data(self, data: Records) -> None:
        """Refuses records that the reader of the run (see `reader`) cannot parse."""
        self.check(data)
        if not self.reads(data):
            raise UsageError(OTHER_RANGES)

    def close(self) -> None:
        """Closes the sessions, and removes the temporary folder of an unpacked archive."""
        with self._lock:
            self._is_closed = True
            while self._graphs:
                self._graphs.popitem()[1].close()
        self.resources.close()


class Evaluation:
    """Evaluates a scorer on batches with labels, and computes the metrics over all of them.

    Args:
      metric_classes: the classes of the metrics to compute; None for the built-in ones.
    """

    def __init__(
        self, scorer: Scorer, settings: EvaluationSettings, metric_classes: Sequence[Any] | None = None
    ) -> None:
        self._scorer, self._settings, self.examples = scorer, settings, 0
        modeler = VideoModeler(None, None, scorer.num_classes, settings.top_k)
        modeler.keeps_videos = settings.keeps_videos
        modeler.metric_classes = metric_classes
        modeler.class_counts = data_fit.training_counts(scorer.shown_names, scorer.training_data)
        self.evaluator = VideoEvaluator(modeler)

    def add(self, videos: Videos, rows: int = 0) -> None:
        """Evaluates a batch and adds it to the metrics."""
        step = self._scorer.evaluated(videos, rows, self._settings)
        self.evaluator.accumulate(step.reports, step.loss)
        self.examples += step.examples
