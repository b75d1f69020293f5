"""`yt8m bulk extract`: the shards of an extraction, as tasks of a Beam pipeline.

Only the loop over the shards differs from `yt8m extract`. So the records are the same, and each command can continue
an extraction that the other has begun.
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
from yt8m.datasets.extract.shard_extraction import Journal, ShardExtractor, TableRow
from yt8m.errors import RunError


class VideosTask(NamedTuple):
    """One shard to make.

    Attributes:
      number: the index of the task.
      shard: the name of the shard.
      rows: the rows of the shard's videos in the table.
      newest: the newest version among the files of the videos.
    """

    number: int
    shard: str
    rows: Sequence[TableRow]
    newest: int


class _Settings(NamedTuple):
    """The settings that are the same for all shards.

    Attributes:
      config: the flags.
      given: the settings of the extractors that the user gave.
      sums: {field: sha256} of the weights of each extractor, in the process that started the job.
      inputs: hash of all inputs that determine the records.
      folders: {level: the folder to which its shards are written}.
      most_bad: a worker gives up if more of its videos are bad.
    """

    config: ExtractBulk
    given: Mapping[str, Any]
    sums: Sequence[Mapping[str, str]]
    inputs: str
    folders: Mapping[str, str]
    most_bad: int


def run(config: ExtractBulk, extractor_settings: Mapping[str, Any], beam_words: Sequence[str]) -> int:
    """Extracts the features; returns the exit status.

    Args:
      config: the flags.
      extractor_settings: the settings of the extractors that the user gave.
      beam_words: options of Beam.

    Raises:
      UsageError, RunError: see `extract.make` and `run_tasks`.
    """
    check_options(config.runner, config.workers, beam_words)
    _Distributed(config, extractor_settings, beam_words).run()
    return 0


class _Distributed(Extraction):
    """An extraction whose missing shards are made by the workers of a pipeline."""

    def __init__(self, config: ExtractBulk, extractor_settings: Mapping[str, Any], beam_words: Sequence[str]) -> None:
        super().__init__(config, extract.choose(config.extractors, extractor_settings))
        self._bulk, self._given, self._words = config, extractor_settings, beam_words

    def _extract_missing(
        self, unfinished: Mapping[str, Sequence[TableRow]], extractor: ShardExtractor, journal: Journal
    ) -> None:
        extractor.close()  # the workers open their own
        sums = [each.weights.sha256 for each in self._located]
        allowed = self._allowed_bad() - len(journal.bad()) - len(self._left_out)
        settings = _Settings(self._bulk, self._given, sums, journal.inputs, extractor.folders, allowed)
        tasks = [
            VideosTask(number, *item, self._newest_video(item[1])) for number, item in enumerate(unfinished.items())
        ]
        job = BeamJob(
            self._bulk.runner, self._bulk.workers, self._words, journal.path("done"), self._bulk.out, "videos"
        )
        done = run_tasks(job, tasks, lambda shards: shards | "extract" >> beam.ParDo(ShardFn(settings, _extracted)))
        for task in tasks:
            journal.load(task.shard, task.newest)
        self._refuse_many_bad(journal)
        failed = [outcome.error for outcome in done if outcome.error]
        if failed:
            raise RunError(f"{failed[0]} ({len(failed)} of {len(tasks)} shards failed; finished shards are kept)")


class _Worker:
    """The opened extractors of a worker process, and its number of bad videos so far."""

    def __init__(self, settings: _Settings) -> None:
        self.settings, self._bad = settings, 0
        config = settings.config
        self._journal = Journal(config.out, settings.inputs, list(settings.folders))
        located = locate(extract.choose(config.extractors, settings.given))
        for (name, _, own_weights), expected in zip(located, settings.sums, strict=True):
            if own_weights.sha256 != expected:
                raise RunError(
                    f"the weights of the extractor {name} have the sha256 {own_weights.sha256} on a worker, and "
                    f"{expected} on the machine that started the job; give all machines the same files."
                )
        self._extractor = ShardExtractor(config, located, settings.folders)

    def extract(self, task: VideosTask) -> Done:
        """Makes a shard, unless it exists: a worker that had the same task, or that died later, may have made it."""
        if not self._journal.load(task.shard, task.newest):
            if self._bad > self.settings.most_bad:
                raise RunError("more videos are bad than --max_bad_videos allows")
            with self._extractor.pool() as pool:  # for each shard: decoders end with the thread that starts them
                entry = self._journal.new_entry(task.newest)
                self._extractor.extract(task.shard, task.rows, entry, pool, _count)
            self._journal.add(task.shard, entry)
            self._bad += len(entry.bad)
        bad = self._journal.finished.pop(task.shard).bad
        Metrics.counter("yt8m", "bad_videos").inc(len(bad))
        return Done(task.number, len(task.rows))

    def close(self) -> None:
        """Closes the extractors."""
        self._extractor.close()


def _count(seconds: float) -> None:
    Metrics.counter("yt8m", "decoded_seconds").inc(round(seconds))


_lock = threading.Lock()  # extractors and decoders work on one shard at a time
_workers: list[_Worker] = []


def _extracted(settings: _Settings, task: VideosTask) -> Iterator[Done]:
    with _lock:
        if not _workers or _workers[0].settings != settings:
            close_extractors()
            _workers.append(_Worker(settings))
        done = _workers[0].extract(task)
    yield done


def close_extractors() -> None:
    """Closes the extractors of this process."""
    while _workers:
        _workers.pop().close()
