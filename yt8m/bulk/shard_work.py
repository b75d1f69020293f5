"""The work of a worker process of `yt8m bulk` on one shard: it predicts, ranks segments, or evaluates.

A process loads its model at the first shard and keeps it. Every batch is padded to the batch size, because matrix
products of other sizes differ in the last bits. So the scores of a video are the same in a full and in a short batch.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from absl import logging

from yt8m import scoring, storage
from yt8m.bulk.bulk_config import PARTS, BulkConfig, Done, EvalBulk, InferBulk, RankBulk, ShardTask
from yt8m.config.data_config import DataConfig
from yt8m.errors import DamagedFileError, RunError, UsageError, first_line, refusing
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.arrays import Keys
from yt8m.eval_util.segment_ranking import Candidates, WindowMeans
from yt8m.lazy import tf
from yt8m.readers import EverySegmentReader
from yt8m.readers.cached_input import CachedInput, open_cache
from yt8m.readers.damage import RecordCheck, sound_blocks
from yt8m.readers.pipeline import cpu_session
from yt8m.records import span_files
from yt8m.records.batches import check_record_count, read_records
from yt8m.records.cached_records import CachedRecords
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.prediction_files import PredictionWriter
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.records.shards import DamagedError
from yt8m.records.span_files import VideoSpans
from yt8m.scoring import EvaluationSettings, span_finder
from yt8m.scoring.film_spans import joining_for, refuse_unfit_records
from yt8m.scoring.graph_scorer import Evaluation, GraphScorer, refuse_damage
from yt8m.scoring.inference import new_segment_ranking, segment_reader
from yt8m.scoring.model_input import OTHER_RANGES, Videos
from yt8m.scoring.scorer import Scorer, write_predictions
from yt8m.storage import state_files

T = TypeVar("T")


class RankedSegments(NamedTuple):
    """The best segments of one class, best first.

    Segments of equal score are in the order of their shards, then in the order of the shard's list.

    Attributes:
      keys: uint64 [N], the scores as keys that sort from the best to the worst score.
      shards: int64 [N], the number of each segment's shard.
      places: int64 [N], the index of each segment in the list of its shard.
      names: object [N] of bytes, such as b"Yg8Z:45" (the video, and the start of the segment in seconds).
    """

    keys: Keys
    shards: Any
    places: Any
    names: Any

    @classmethod
    def of_shard(cls, keys: Keys, shard: int, names: Sequence[bytes]) -> RankedSegments:
        """The best segments of one class in one shard.

        Args:
          keys: uint64 [N], see the class; in the order of the shard's list.
        """
        name_array = np.empty(len(names), object)
        name_array[:] = names
        return cls(keys, np.full(len(names), shard), np.arange(len(names)), name_array)

    @classmethod
    def joined(cls, lists: Iterable[RankedSegments], most: int) -> RankedSegments:
        """Joins one or more lists of the same class into one, and keeps its best `most` segments."""
        columns = [np.concatenate(column) for column in zip(*lists, strict=True)]
        best = np.lexsort((columns[2], columns[1], columns[0]))[:most]
        return cls(*(column[best] for column in columns))


def scorer_of_run(model: Scorer, purpose: str) -> GraphScorer:
    """Returns `model` if it comes from the folder or the archive of a run."""
    if not isinstance(model, GraphScorer):
        raise UsageError(f"{purpose} needs the folder of a run or its archive; {model.path} is an export.")
    return model


def data_of_segments(model: Scorer, config: RankBulk) -> DataConfig:
    """The data config with which a reader cuts the job's records into segments for the model."""
    data = scorer_of_run(model, "rank").trained.run.data_for(config.inference_config(), "", True)
    refuse_film_mean(data)
    return data


def refuse_film_mean(data: DataConfig) -> None:
    """Raises `UsageError` if the model was trained with --film_mean: it needs the mean of the whole video."""
    if data.film_mean:
        raise UsageError(
            "yt8m bulk rank scores a segment without its video, but a run with --film_mean needs the mean of the "
            "video too; use `yt8m inference --segment_labels`."
        )


class _LoadedModel:
    """The model of a job in this process, and its readers and sessions, which are opened when they are first needed."""

    def __init__(self, config: Any) -> None:
        self.config, self._stack = config, contextlib.ExitStack()
        # This process need not ask whether to trust the run's code: the process that started the job has checked that.
        self.model = self._stack.enter_context(
            scoring.open(config.model, config.checkpoint, trust_code=True, config=config.inference_config())
        )
        self.batch_size = config.batch_size or self.model.videos_in_batch(config.most_in_batch)
        logging.info("input: --batch_size=%d", self.batch_size)
        self._candidates: Candidates | None = None

    def batches(self, path: str, bad: list[DamagedError]) -> Iterator[Videos]:
        """The records of a shard in batches, up to the first bad record."""
        data = open_data(None, manifest=self.config.manifest).of_files([path])
        if self.config.cache:
            self.require_run("--cache").refuse_other_data(read_records(data))
            return self._cached_batches(data, bad)
        if not self.config.max_bad_records:
            return iter(self.model.batches(data, self.batch_size))
        self.require_run("--max_bad_records").refuse_other_data(read_records(data))
        return _group(_read_sound_records(self._check, path, bad), self.batch_size)

    def _cached_batches(self, data: OpenedData, bad: list[DamagedError]) -> Iterator[Videos]:
        """Batches of numbers, by which the cache finds the records of the one shard of `data`, up to the first bad one.

        A bad record is added to `bad`.
        """
        (path,) = data.files
        shard, (start, end) = self.cached.begin_shard(path)
        if shard.damage is None:
            check_record_count(path, len(shard), data.manifest)
        else:
            bad.append(DamagedError(path, *shard.damage))
        yield from (np.arange(first, min(first + self.batch_size, end)) for first in range(start, end, self.batch_size))

    @functools.cached_property
    def cached(self) -> CachedRecords:
        """The cache of the records of all shards of the job."""
        config, files = self.config, open_data(self.config.data).files
        if isinstance(config, RankBulk):
            reader = segment_reader(self._segment_data, config.segment_context, config.segment_shifts)
            return open_cache(config.cache, reader, files, skips_bad=config.max_bad_records > 0)
        settings = evaluation_settings(config) if isinstance(config, EvalBulk) else None
        return self.require_run("--cache").cached_records(files, settings)

    @functools.cached_property
    def _check(self) -> RecordCheck:
        """Finds records that the reader of the run cannot parse."""
        reader = self.require_run("--max_bad_records").reader()
        return self._stack.enter_context(contextlib.closing(RecordCheck(reader)))

    def require_run(self, purpose: str) -> GraphScorer:
        """The model, if it is a run's; see `scorer_of_run`."""
        return scorer_of_run(self.model, purpose)

    @functools.cached_property
    def segments(self) -> _SegmentModel:
        """The model with a reader that cuts records into segments."""
        data, cached = self._segment_data, self.cached if self.config.cache else None
        reader = segment_reader(data, self.config.segment_context, self.config.segment_shifts)
        model = _SegmentModel(self.require_run("rank"), reader, data.batch_size, cached)
        return self._stack.enter_context(contextlib.closing(model))

    @property
    def _segment_data(self) -> DataConfig:
        """See `data_of_segments`."""
        return data_of_segments(self.model, self.config)

    def candidates(self, classes: Sequence[int]) -> Candidates | None:
        """The candidate classes of each video from --candidates_from; None without that flag."""
        if self.config.candidates_from and self._candidates is None:
            path = self.config.candidates_from
            self._candidates = Candidates(path, classes, self.model.num_classes)
        return self._candidates

    def close(self) -> None:
        """Closes the model, its readers and its sessions."""
        self._stack.close()


_lock = threading.Lock()  # held while `_loaded_models` is read or changed
_loaded_models: dict[BulkConfig, _LoadedModel] = {}  # {settings of a job: its model in this process}


def _model_of(config: BulkConfig) -> _LoadedModel:
    """The model of the job. The first thread that asks loads the model; all threads of this process share it."""
    with _lock:
        if config not in _loaded_models:
            _loaded_models[config] = _LoadedModel(config)
        return _loaded_models[config]


def close_models() -> None:
    """Closes the models of all jobs of this process."""
    with _lock:
        while _loaded_models:
            _loaded_models.popitem()[1].close()


def predict(config: BulkConfig, shard: ShardTask) -> Done:
    """Writes the predictions for one shard to the file `shard.output`, completely or not at all; returns the outcome.

    If the file exists already, the shard is not predicted again: another worker had the same task, or wrote the file
    and then died.
    """
    if storage.exists(shard.output):
        return read_outcome(config, shard)
    storage.discard_orphans(shard.output)
    loaded, bad = _model_of(config), list[DamagedError]()
    with storage.write_atomic(shard.output, "w") as file:
        if isinstance(config, InferBulk) and config.spans:
            count = _write_spans(file, loaded, config, shard.path, bad)
        else:
            writer = PredictionWriter(file, config.top_k)
            write_predictions(writer, loaded.model, loaded.batches(shard.path, bad), loaded.batch_size)
            count = writer.count
        done = Done(shard.number, count, _damage_texts(bad))
        # The outcome is written first: whoever finds the file of the predictions must also find the outcome.
        state_files.write(_outcome_path(config, shard), done._asdict())
    return done


def refuse_unfit_for_spans(config: InferBulk, data: OpenedData) -> None:
    """Refuses data in which the model cannot find spans, before a worker starts."""
    with scoring.open(config.model, config.checkpoint, trust_code=config.trust_code) as scorer:
        refuse_unfit_records(scorer, data, joining_for(scorer, config.spans_from))


def _write_spans(file: IO[str], loaded: _LoadedModel, config: InferBulk, path: str, bad: list[DamagedError]) -> int:
    """Writes the table of the spans of a shard; returns the number of its videos, up to the first bad record."""
    data = open_data(None, manifest=config.manifest).of_files([path])
    joining, videos = joining_for(loaded.model, config.spans_from), list[VideoSpans]()
    try:
        videos.extend(  # what came before an error stays in the list
            span_finder.in_data(loaded.model, joining, data)
        )
    except DamagedError as error:
        if not config.max_bad_records:
            raise
        bad.append(error)
    file.write(span_files.table_text(videos, loaded.model.shown_names))
    return len(videos)


def read_outcome(config: BulkConfig, shard: ShardTask) -> Done:
    """Reads the outcome of a shard whose predictions are complete.

    A finished job removes the file of the outcome. Then the result has only the number of the shard: 0 records.
    """
    path = _outcome_path(config, shard)
    if not storage.exists(path):
        return Done(shard.number)
    with refusing(lambda _: DamagedFileError(f"{path} is damaged")):
        return Done(**state_files.read(path))


def is_finished(config: BulkConfig, shard: ShardTask) -> bool:
    """Whether an earlier start has written the predictions of a shard. If its outcome is damaged, they are removed."""
    if not shard.output or not storage.exists(shard.output):
        return False
    try:
        read_outcome(config, shard)
    except DamagedFileError as error:
        logging.warning("%s: the predictions %s are made again", error, shard.output)
        storage.remove(shard.output)
        return False
    return True


def _outcome_path(config: BulkConfig, shard: ShardTask) -> str:
    """The path of the JSON file with the outcome of a shard."""
    return storage.join(config.out, PARTS, f"done{shard.number:09d}")


def rank(config: RankBulk, shard: ShardTask) -> tuple[Done, Iterator[tuple[int, RankedSegments]]]:
    """Ranks the segments of a shard."""
    loaded, bad, count = _model_of(config), list[DamagedError](), 0
    model, run = loaded.segments, loaded.require_run("rank")
    settings, seconds = config.inference_config(), run.data.segment_size
    ranking = new_segment_ranking(settings, run.num_classes, run.names, seconds)
    candidates = loaded.candidates(ranking.classes)
    means = WindowMeans(len(config.segment_shifts))
    for videos in loaded.batches(shard.path, bad):
        count += len(videos)
        for window_names, window_scores in model.scores(videos):
            segments, scores = means.join(window_names, window_scores[:, ranking.classes])
            ranking.add(segments, scores if candidates is None else candidates.among(segments, scores))
    lists = (
        (number, RankedSegments.of_shard(keys, shard.number, segment_names))
        for number, segment_names, keys in ranking.scored_lines()
    )
    return Done(shard.number, count, _damage_texts(bad)), lists


def evaluation_settings(config: EvalBulk) -> EvaluationSettings:
    """The settings of an evaluation, from the flags of `yt8m bulk eval`."""
    return EvaluationSettings(config.top_k, config.segment_labels)


def evaluate(config: EvalBulk, shard: ShardTask) -> tuple[Done, str, EvaluationMetrics]:
    """Evaluates the model on a shard."""
    loaded, bad, count = _model_of(config), list[DamagedError](), 0
    evaluation = Evaluation(loaded.model, evaluation_settings(config))
    for videos in loaded.batches(shard.path, bad):
        evaluation.add(videos, loaded.batch_size)
        count += len(videos)
    if not count:
        problem = _damage_texts(bad) or "it is empty; leave it out."
        raise RunError(f"{shard.path} holds no record that can be read: {problem}")
    return Done(shard.number, count, _damage_texts(bad)), loaded.model.model, evaluation.evaluator.metrics


class _SegmentModel:
    """Cuts records into windows, and scores the windows in batches of one size.

    A window has the frames of a segment, and those around it that --segment_context adds. With --segment_shifts, each
    segment has one window for each shift, and these follow one another; otherwise it has one window.

    Args:
      cached: the cache, if `scores` gets numbers of cached records; None if `scores` gets serialized records.
    """

    def __init__(self, run: GraphScorer, reader: EverySegmentReader, size: int, cached: CachedRecords | None) -> None:
        self._run, self._reader, self._size = run, reader, size
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._records = tf.placeholder(tf.int64 if cached else tf.string, [None])
            parse = CachedInput(cached, reader).batch if cached else reader.prepare_serialized_examples
            batch = parse(self._records)
            self._windows = {
                "names": batch.video_ids,
                "features": batch.features,
                "num_frames": batch.num_frames,
                "labels": batch.labels,
            }
        self._session = cpu_session(graph)

    def scores(self, videos: Videos) -> Iterator[tuple[list[bytes], np.ndarray]]:
        """Yields batches of B windows of these videos: (names of their segments, scores float32 [B, classes])."""
        if isinstance(videos, NumpyBatch):
            raise RunError(OTHER_RANGES)
        records = videos if isinstance(videos, np.ndarray) else np.array([raw[0] for raw in videos], object)
        try:
            windows = self._session.run(self._windows, {self._records: records})
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            if not isinstance(videos, np.ndarray):
                refuse_damage(self._reader, videos)
            raise RunError(f"the records cannot be cut into segments: {first_line(error)}") from error
        for start in range(0, len(windows["names"]), self._size):
            rows = slice(start, start + self._size)
            names = windows["names"][rows].tolist()
            features = dict(
                zip(self._run.data.feature_names, [values[rows] for values in windows["features"]], strict=True)
            )
            batch = NumpyBatch([""] * len(names), features, windows["num_frames"][rows], windows["labels"][rows])
            yield names, self._run.scores(batch, self._size, are_cells=True)[1]

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def _read_sound_records(check: RecordCheck, path: str, bad: list[DamagedError]) -> Iterator[Raw]:
    """Yields the records of a shard before its first bad record, then adds the bad record to `bad`."""
    for number, records, damage in sound_blocks(check, path):
        yield from zip(records, itertools.repeat(path), itertools.count(number))
        if damage is not None:
            bad.append(damage)


def _group(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while group := list(itertools.islice(items, size)):
        yield group


def _damage_texts(bad: Sequence[DamagedError]) -> str:
    return "; ".join(map(str, bad))
