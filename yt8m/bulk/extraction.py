"""`yt8m bulk extract`: the shards of an extraction, as tasks of a Beam pipeline.

Only the loop over the shards differs from `yt8m extract`. So the records are the same, and each of the two commands can
continue an extraction that the other began.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics

from yt8m.bulk.beam_runs import BeamJob, ShardFn, check_options, run_tasks
from yt8m.bulk.bulk_config import Done, ExtractBulk
from yt8m.datasets import extract
from yt8m.datasets.extract import Extraction
from yt8m.datasets.extract.computing import locate
from yt8m.datasets.extract.shard_extraction import Journal, ShardExtractor, TableRow, VideoVersion
from yt8m.errors import RunError


class VideosTask(NamedTuple):
    """One shard to make."""

    number: int
    shard: str
    rows: Sequence[TableRow]
    versions: Sequence[VideoVersion]


class _Settings(NamedTuple):
    """The settings that are the same for all shards."""

    config: ExtractBulk
    extractor_settings: Mapping[str, Any]
    weights_sha256: Sequence[Mapping[str, str]]
    inputs: str
    folders: Mapping[str, str]
    most_bad: int


def run(config: ExtractBulk, extractor_settings: Mapping[str, Any], beam_words: Sequence[str]) -> int:
    """Extracts the features; returns the exit status 0.

    Args:
      extractor_settings: {field: value} of the settings of extractors that the user gave.

    Raises:
      UsageError, RunError: see `extract.make` and `run_tasks`.
    """
    check_options(config.runner, config.workers, beam_words)
    _DistributedExtraction(config, extractor_settings, beam_words).run()
    return 0


class _DistributedExtraction(Extraction):
    """An extraction whose missing shards are made by the workers of a pipeline."""

    def __init__(self, config: ExtractBulk, extractor_settings: Mapping[str, Any], beam_words: Sequence[str]) -> None:
        super().__init__(config, extract.choose(config.extractors, extractor_settings))
        self._extractor_settings, self._beam_words = extractor_settings, beam_words

    def _extract_missing(
        self, unfinished: Mapping[str, Sequence[TableRow]], extractor: ShardExtractor, journal: Journal
    ) -> None:
        extractor.close()  # this process extracts nothing: each worker opens its own extractors
        config = self._config  # as the table has completed it: with the version of the rules, and with spans
        assert isinstance(config, ExtractBulk)
        weights_sha256 = [located.weights.sha256 for located in self._located]
        allowed = self._allowed_bad() - len(journal.bad()) - len(self._left_out)
        settings = _Settings(
            config, self._extractor_settings, weights_sha256, journal.inputs, extractor.folders, allowed
        )
        tasks = [
            VideosTask(number, *item, self._video_versions(item[1])) for number, item in enumerate(unfinished.items())
        ]
        job = BeamJob(config.runner, config.workers, self._beam_words, journal.path("done"), config.out, "videos")
        outcomes = run_tasks(
            job, tasks, lambda shards: shards | "extract" >> beam.ParDo(ShardFn(settings, _extract_shard))
        )
        for task in tasks:
            journal.load(task.shard, task.versions)
        self._refuse_many_bad(journal)
        failed = [outcome.error for outcome in outcomes if outcome.error]
        if failed:
            raise RunError(f"{failed[0]} ({len(failed)} of {len(tasks)} shards failed; finished shards are kept)")


class _Worker:
    """The opened extractors of a worker process, and its number of bad videos so far."""

    def __init__(self, settings: _Settings) -> None:
        self.settings, self._bad = settings, 0
        config = settings.config
        self._journal = Journal(config.out, settings.inputs, settings.folders)
        located = locate(extract.choose(config.extractors, settings.extractor_settings))
        for (name, _, own_weights), expected in zip(located, settings.weights_sha256, strict=True):
            if own_weights.sha256 != expected:
                raise RunError(
                    f"the weights of the extractor {name} have the sha256 {own_weights.sha256} on a worker, and "
                    f"{expected} on the machine that started the job; give all machines the same files."
                )
        self._extractor = ShardExtractor(config, located, settings.folders)

    def extract(self, task: VideosTask) -> Done:
        """Makes a shard, unless it exists: another worker may have got the same task, or made the shard and then died.

        The outcome has the number of videos of the shard, including bad ones, which become no records.
        """
        if not self._journal.load(task.shard, task.versions):
            if self._bad > self.settings.most_bad:
                raise RunError(
                    "more videos are bad than --max_bad_videos allows; correct the files, or allow more by "
                    "--max_bad_videos=N"
                )
            # Each shard gets a new pool. Linux kills a decoder when the thread that started it ends (PR_SET_PDEATHSIG),
            # and Beam may run the next shard in another thread.
            with self._extractor.pool() as pool:
                entry = self._journal.new_entry(task.versions)
                self._extractor.extract(task.shard, task.rows, entry, pool, _count_decoded_seconds)
            self._journal.add(task.shard, entry)
            self._bad += len(entry.bad)
        bad = self._journal.finished.pop(task.shard).bad
        Metrics.counter("yt8m", "bad_videos").inc(len(bad))
        return Done(task.number, len(task.rows))

    def close(self) -> None:
        """Closes the extractors."""
        self._extractor.close()


def _count_decoded_seconds(seconds: float) -> None:
    Metrics.counter("yt8m", "decoded_seconds").inc(round(seconds))


# Held while a shard is made: Beam may run several threads in a process, but the process has one set of extractors.
_lock = threading.Lock()
_workers: list[_Worker] = []  # the worker of this process; empty before its first shard


def _extract_shard(settings: _Settings, task: VideosTask) -> Iterator[Done]:
    """Makes one shard, and yields its outcome. The extractors stay open for the next shard of the same job."""
    with _lock:
        if not _workers or _workers[0].settings != settings:
            close_extractors()
            _workers.append(_Worker(settings))
        outcome = _workers[0].extract(task)
    yield outcome


def close_extractors() -> None:
    """Closes the extractors of this process."""
    while _workers:
        _workers.pop().close()
