"""The work of a worker process of `yt8m bulk` on one shard: it predicts, ranks segments, or evaluates.

A process loads its model at the first shard and keeps it. Every batch is padded to the batch size, because matrix
products of other sizes differ in the last bits. So the scores of a video do not depend on the size of its batch.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from absl import logging

from yt8m import scoring, storage
from yt8m.bulk.bulk_config import PARTS, BulkConfig, Done, EvalBulk, RankBulk, ShardTask
from yt8m.config.train_config import DataConfig
from yt8m.errors import RunError, UsageError, first_line
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.arrays import Keys
from yt8m.eval_util.segment_ranking import Candidates, WindowMeans
from yt8m.lazy import tf
from yt8m.readers import EverySegmentReader
from yt8m.readers.cached_input import CachedInput, open_cache
from yt8m.readers.damage import RecordCheck, sound_blocks
from yt8m.readers.pipeline import cpu_session
from yt8m.records import manifest
from yt8m.records.batches import read_records, refuse_other_count
from yt8m.records.cached_records import CachedRecords
from yt8m.records.prediction_files import PredictionWriter
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.records.shards import DamagedError
from yt8m.scoring import EvaluationSettings
from yt8m.scoring.graph_scorer import Evaluation, GraphScorer, refuse_damage
from yt8m.scoring.inference import new_segment_ranking, segment_reader
from yt8m.scoring.model_input import OTHER_RANGES, Videos
from yt8m.scoring.scorer import Scorer, write_predictions

T = TypeVar("T")


class RankedSegments(NamedTuple):
    """The best segments of one class, in the order of the final list.

    Attributes:
      keys: uint64 [N], the scores as keys; a smaller key is a better score.
      shards: int64 [N], the number of each segment's shard.
      places: int64 [N], the index of each segment in the list of its shard.
      names: object [N] of bytes, `video:start`.
    """

    keys: Keys
    shards: Any
    places: Any
    names: Any

    @classmethod
    def of_shard(cls, keys: Keys, shard: int, names: Sequence[bytes]) -> RankedSegments:
        """The best segments of one class in one shard; `keys` and `names` are in the order of the shard's list."""
        name_array = np.empty(len(names), object)
        name_array[:] = names
        return cls(keys, np.full(len(names), shard), np.arange(len(names)), name_array)

    @classmethod
    def joined(cls, lists: Iterable[RankedSegments], most: int) -> RankedSegments:
        """The best `most` of several lists. If segments have equal scores, the one of the earlier shard comes first."""
        columns = [np.concatenate(column) for column in zip(*lists, strict=True)]
        best = np.lexsort((columns[2], columns[1], columns[0]))[:most]
        return cls(*(column[best] for column in columns))


def scorer_of_run(model: Scorer, purpose: str) -> GraphScorer:
    """The model, which must be a run's; raises `UsageError` otherwise. `purpose` is what needs a run."""
    if not isinstance(model, GraphScorer):
        raise UsageError(f"{purpose} needs the folder of a run or its archive; {model.path} is an export.")
    return model


def data_of_segments(model: Scorer, config: RankBulk) -> DataConfig:
    """The data config for records that are cut into segments.

    Raises:
      UsageError: the model is an export, takes no frames, or needs the mean of the whole video.
    """
    data = scorer_of_run(model, "rank").trained.run.data_for(config.inference_config(), "", True)
    refuse_film_mean(data)
    return data


def refuse_film_mean(data: DataConfig) -> None:
    """Refuses a model that needs the mean of the whole video; raises `UsageError`."""
    if data.film_mean:
        raise UsageError(
            "yt8m bulk rank scores a segment without its video, but a run with --film_mean needs the mean of the "
            "video too; use `yt8m inference --segment_labels`."
        )


class _Loaded:
    """The model of a job in this process. `close` closes the model and all that was opened for it.

    Args:
      config: the settings of the job.

    Attributes:
      config: the argument.
      model: the model.
      batch_size: number of records in a batch.
    """

    def __init__(self, config: Any) -> None:
        self.config, self._stack = config, contextlib.ExitStack()
        # The process that started the job has checked that the code of the run is trusted.
        self.model = self._stack.enter_context(
            scoring.open(config.model, config.checkpoint, trust_code=True, config=config.inference_config())
        )
        self.batch_size = config.batch_size or self.model.videos_in_batch(config.most_in_batch)
        logging.info("input: --batch_size=%d", self.batch_size)
        self._candidates: Candidates | None = None

    def batches(self, path: str, bad: list[DamagedError]) -> Iterator[Videos]:
        """The records of a shard in batches, up to the first bad record, which is added to `bad` if it is tolerated."""
        if self.config.cache:
            self.run("--cache").refuse_other_data(read_records(path))
            return self._numbers(path, bad)
        if not self.config.max_bad_records:
            return iter(self.model.batches(path, self.batch_size))
        self.run("--max_bad_records").refuse_other_data(read_records(path))
        return _grouped(_sound(self._check, path, bad), self.batch_size)

    def _numbers(self, path: str, bad: list[DamagedError]) -> Iterator[Videos]:
        """The numbers of a shard's records in the cache, in batches, up to the first bad record."""
        shard, (start, end) = self.cached.begun(path)
        if shard.damage is None:
            refuse_other_count(path, len(shard), manifest.find([path]))
        else:
            bad.append(DamagedError(path, *shard.damage))
        yield from (np.arange(first, min(first + self.batch_size, end)) for first in range(start, end, self.batch_size))

    @functools.cached_property
    def cached(self) -> CachedRecords:
        """The records of all shards of the job, in the cache."""
        config, files = self.config, manifest.shards_at(self.config.data)
        if isinstance(config, RankBulk):
            reader = segment_reader(self._segment_data, config.segment_context, config.segment_shifts)
            return open_cache(config.cache, reader, files, skips_bad=config.max_bad_records > 0)
        settings = evaluation_settings(config) if isinstance(config, EvalBulk) else None
        return self.run("--cache").cached_records(files, settings)

    @functools.cached_property
    def _check(self) -> RecordCheck:
        return self._stack.enter_context(contextlib.closing(RecordCheck(self.run("--max_bad_records").reader())))

    def run(self, purpose: str) -> GraphScorer:
        """The model, which must be a run's; raises `UsageError` otherwise. `purpose` is what needs a run."""
        return scorer_of_run(self.model, purpose)

    @functools.cached_property
    def segments(self) -> _SegmentModel:
        """The model that scores segments."""
        data, cached = self._segment_data, self.cached if self.config.cache else None
        reader = segment_reader(data, self.config.segment_context, self.config.segment_shifts)
        model = _SegmentModel(self.run("rank"), reader, data.batch_size, cached)
        return self._stack.enter_context(contextlib.closing(model))

    @property
    def _segment_data(self) -> DataConfig:
        """The data config for records that are cut into segments."""
        return data_of_segments(self.model, self.config)

    def candidates(self, classes: Sequence[int]) -> Candidates | None:
        """The candidate classes of each video from --candidates_from; None without that flag."""
        if self.config.candidates_from and self._candidates is None:
            path = self.config.candidates_from
            self._candidates = Candidates(path, classes, self.model.num_classes)
        return self._candidates

    def close(self) -> None:
        """Closes the model."""
        self._stack.close()


_lock = threading.Lock()
_loaded: dict[BulkConfig, _Loaded] = {}


def _model_of(config: BulkConfig) -> _Loaded:
    """The model of the job, which the first caller loads for all threads of this process."""
    with _lock:
        if config not in _loaded:
            _loaded[config] = _Loaded(config)
        return _loaded[config]


def close_models() -> None:
    """Closes the models of all jobs of this process."""
    with _lock:
        while _loaded:
            _loaded.popitem()[1].close()


def predict(config: BulkConfig, shard: ShardTask) -> Done:
    """Writes the predictions for one shard to its file, which appears only when it is complete.

    If the file exists, this does nothing: a worker that has died since, or that had the same task, wrote it.

    Raises:
      UsageError, RunError: for the reasons of `inference.infer`.
    """
    if storage.exists(shard.output):
        return noted_outcome(config, shard)
    storage.discard_orphans(shard.output)
    loaded, bad = _model_of(config), list[DamagedError]()
    with storage.write_atomic(shard.output, "w") as file:
        writer = PredictionWriter(file, config.top_k)
        write_predictions(writer, loaded.model, loaded.batches(shard.path, bad), loaded.batch_size)
        done = Done(shard.number, writer.count, _damage_texts(bad))
        storage.write(_note(config, shard), json.dumps(done))  # before the file of the predictions appears
    return done


def noted_outcome(config: BulkConfig, shard: ShardTask) -> Done:
    """The outcome of a shard whose predictions are complete."""
    path = _note(config, shard)
    return Done(*storage.read_json(path)) if storage.exists(path) else Done(shard.number)


def _note(config: BulkConfig, shard: ShardTask) -> str:
    """The path of the file with the outcome of a shard."""
    return storage.join(config.out, PARTS, f"done{shard.number:09d}")


def rank(config: RankBulk, shard: ShardTask) -> tuple[Done, Iterator[tuple[int, RankedSegments]]]:
    """The outcome of a shard, and (class, its best segments in the shard) pairs; raises what `predict` raises."""
    loaded, bad, count = _model_of(config), list[DamagedError](), 0
    model, run = loaded.segments, loaded.run("rank")
    settings, seconds = config.inference_config(), run.data.segment_size
    ranking = new_segment_ranking(settings, run.num_classes, run.names, seconds)
    candidates = loaded.candidates(ranking.classes)
    means = WindowMeans(len(config.segment_shifts))
    for videos in loaded.batches(shard.path, bad):
        count += len(videos)
        for windows, scores in model.scores(videos):
            segments, listed = means.join(windows, scores[:, ranking.classes])
            ranking.add(segments, listed if candidates is None else candidates.among(segments, listed))
    lists = (
        (number, RankedSegments.of_shard(keys, shard.number, segment_names))
        for number, segment_names, keys in ranking.scored_lines()
    )
    return Done(shard.number, count, _damage_texts(bad)), lists


def evaluation_settings(config: EvalBulk) -> EvaluationSettings:
    """The evaluation settings of a job."""
    return EvaluationSettings(config.top_k, config.segment_labels)


def evaluate(config: EvalBulk, shard: ShardTask) -> tuple[Done, str, EvaluationMetrics]:
    """The outcome of a shard, the name of the model, and the metrics of the shard; raises what `predict` raises."""
    loaded, bad, count = _model_of(config), list[DamagedError](), 0
    whole = Evaluation(loaded.model, evaluation_settings(config))
    for videos in loaded.batches(shard.path, bad):
        whole.add(videos, loaded.batch_size)
        count += len(videos)
    if not count:
        raise RunError(f"{shard.path} holds no record that can be read: {_damage_texts(bad)}")
    return Done(shard.number, count, _damage_texts(bad)), loaded.model.model, whole.evaluator.metrics


class _SegmentModel:
    """Cuts records into segments, and scores the segments in batches of one size.

    Args:
      run: the model.
      reader: cuts records into segments.
      size: number of segments in a batch.
      cached: the cache, if `scores` gets numbers of cached records; None if it gets serialized records.
    """

    def __init__(self, run: GraphScorer, reader: EverySegmentReader, size: int, cached: CachedRecords | None) -> None:
        self._run, self._reader, self._size = run, reader, size
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._records = tf.placeholder(tf.int64 if cached else tf.string, [None])
            parse = CachedInput(cached, reader).batch if cached else reader.prepare_serialized_examples
            batch = parse(self._records)
            self._cut = {
                "names": batch.video_ids,
                "features": batch.features,
                "num_frames": batch.num_frames,
                "labels": batch.labels,
            }
        self._session = cpu_session(graph)

    def scores(self, videos: Videos) -> Iterator[tuple[list[bytes], np.ndarray]]:
        """Yields the names of the segments of some videos, and their scores float32 [B, C], in batches."""
        if isinstance(videos, NumpyBatch):
            raise RunError(OTHER_RANGES)
        records = videos if isinstance(videos, np.ndarray) else np.array([raw[0] for raw in videos], object)
        try:
            cut = self._session.run(self._cut, {self._records: records})
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            if not isinstance(videos, np.ndarray):
                refuse_damage(self._reader, videos)
            raise RunError(f"the records cannot be cut into segments: {first_line(error)}") from error
        for start in range(0, len(cut["names"]), self._size):
            rows = slice(start, start + self._size)
            names = cut["names"][rows].tolist()
            features = dict(
                zip(self._run.data.feature_names, [values[rows] for values in cut["features"]], strict=True)
            )
            batch = NumpyBatch([""] * len(names), features, cut["num_frames"][rows], cut["labels"][rows])
            yield names, self._run.scores(batch, self._size)[1]

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def _sound(check: RecordCheck, path: str, bad: list[DamagedError]) -> Iterator[Raw]:
    """The records of a shard before its first bad one, which is added to `bad`."""
    for number, records, damage in sound_blocks(check, path):
        yield from zip(records, itertools.repeat(path), itertools.count(number))
        if damage is not None:
            bad.append(damage)


def _grouped(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while group := list(itertools.islice(items, size)):
        yield group


def _damage_texts(bad: Sequence[DamagedError]) -> str:
    return "; ".join(map(str, bad))
