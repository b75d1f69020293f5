"""The scorer of a run, or of an archive: the model's graph with the weights of a checkpoint."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import readers
from yt8m.config import data_fit
from yt8m.config.programs import InferenceConfig
from yt8m.errors import UsageError
from yt8m.readers.cached_input import open_cache
from yt8m.records.batches import Records
from yt8m.records.cached_records import CachedRecords
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.shards import id_text
from yt8m.runs.trained_model import TrainedModel
from yt8m.scoring.fed_graph import FedGraph
from yt8m.scoring.model_input import OTHER_RANGES, InputKind, Types, Videos, input_of, padded, types_of
from yt8m.scoring.scorer import USUAL_SETTINGS, EvaluatedStep, EvaluationSettings, Scorer
from yt8m.video.modeler import VideoEvaluator, VideoModeler


class GraphScorer(Scorer):
    """A `Scorer` with a graph for each kind of input; the first one is built at once.

    Args:
      path: the path that the user named.
      model: the model.
      config: how records are read: limits, and what is done with damaged ones.
      first_input: the kind of input that the first graph is for.

    Attributes:
      trained: the argument `model`.
      resources: closed together with the scorer.
      data: the data config for reading records.
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
        # Further graphs are built later, maybe by other threads: which code is trusted was decided now.
        self._context = contextvars.copy_context()
        model.log()
        if not self.data.cache:  # otherwise the graph for the numbers of cached records is likely to be the only one
            self._graph("infer", self.takes.types_of(first_input), USUAL_SETTINGS)

    def _graph(self, mode: str, dtypes: Types, settings: EvaluationSettings, is_cached: bool = False) -> FedGraph:
        """The graph that takes features of these types; for None it takes records, or numbers of cached ones."""
        with self._lock:
            if self._is_closed:
                raise UsageError(f"{self.path}: this model is closed; load it again.")
            segments, key = settings.segment_labels, (mode, dtypes, settings, is_cached)
            if key not in self._graphs:
                data = self.trained.run.data_for(self._config, "", segments)
                cached = self._cached[segments] if is_cached else None
                arguments = self.trained, data, mode, settings.top_k, dtypes, cached
                self._graphs[key] = self._context.copy().run(FedGraph, *arguments)
            return self._graphs[key]

    def cached_records(self, files: Sequence[str], settings: EvaluationSettings | None = None) -> CachedRecords:
        """The records of some files, from the cache that the config names; the scorer takes their numbers as videos.

        Args:
          files: the shards; those of the first call hold.
          settings: those with which the records will be evaluated; None if they will be scored.
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
        """The ids and scores of videos, with those of NaN."""
        graph = self._graph("infer", types_of(videos), USUAL_SETTINGS, isinstance(videos, np.ndarray))
        values = graph.run(graph.scores, padded(videos, rows))
        ids = videos.ids if isinstance(videos, NumpyBatch) else map(id_text, values["ids"][: len(videos)])
        return list(ids), values["scores"][: len(videos)]

    def evaluated(self, videos: Videos, rows: int = 0, settings: EvaluationSettings = USUAL_SETTINGS) -> EvaluatedStep:
        """One step of an evaluation; a run that was trained on rated segments is evaluated on those of records.

        Rated segments, and reports that a GPU has summed over the rows, cannot be cut, so they are not padded.
        """
        segments = self._rates_segments(settings) and not isinstance(videos, NumpyBatch)
        settings = settings._replace(segment_labels=segments)
        graph = self._graph("eval", types_of(videos), settings, isinstance(videos, np.ndarray))
        values = graph.run(graph.reports, videos)
        loss = float(values["loss"]) if "loss" in values else None
        reports = values["reports"]
        if len(videos) < rows and "all_scores" in reports and len(reports["all_scores"]) == len(videos):
            whole = graph.run(graph.reports["reports"], padded(videos, rows))
            reports = {name: value[: len(videos)] for name, value in whole.items()}
        return EvaluatedStep(graph.modeler.completed(reports), loss, int(values["examples"]))

    def _rates_segments(self, settings: EvaluationSettings) -> bool:
        """Whether records are evaluated on their rated segments."""
        return settings.segment_labels or self.training_data.segment_labels

    def reader(self) -> readers.Reader:
        """The reader of the run's records."""
        return self._context.copy().run(readers.reader_for, self.data)

    def refuse_other_data(self, data: Records) -> None:
        """Refuses records that the run's reader cannot parse as they are.

        Raises:
          UsageError: features or vocabulary differ from the model's, or bytes stand for other values.
        """
        self.check(data)
        if not self.reads(data):
            raise UsageError(OTHER_RANGES)

    def close(self) -> None:
        """Closes the sessions, and removes an unpacked archive."""
        with self._lock:
            self._is_closed = True
            while self._graphs:
                self._graphs.popitem()[1].close()
        self.resources.close()


class Evaluation:
    """The evaluation of a scorer on batches with labels.

    Args:
      scorer: the model.
      settings: how batches are evaluated.
      metric_classes: the metrics; None for the built-in ones.

    Attributes:
      evaluator: has the metrics.
      examples: number of examples so far.
    """

    def __init__(
        self, scorer: Scorer, settings: EvaluationSettings, metric_classes: Sequence[Any] | None = None
    ) -> None:
        self._scorer, self._settings, self.examples = scorer, settings, 0
        modeler = VideoModeler(None, None, scorer.num_classes, settings.top_k)
        modeler.metric_classes = metric_classes
        modeler.class_counts = data_fit.training_counts(scorer.shown_names, scorer.training_data)
        self.evaluator = VideoEvaluator(modeler)

    def add(self, videos: Videos, rows: int = 0) -> None:
        """Evaluates a batch; raises like `Scorer.evaluated`."""
        step = self._scorer.evaluated(videos, rows, self._settings)
        self.evaluator.accumulate(step.reports, step.loss)
        self.examples += step.examples
