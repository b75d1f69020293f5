"""`yt8m cache`: parses shards into a cache ahead of time, in several processes; keeps shards that it already has."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from yt8m import readers, terminal, termination
from yt8m.config.of_run import same_as
from yt8m.config.run_options import DamagePolicy
from yt8m.config.train_config import DataConfig
from yt8m.errors import RunError, UsageError
from yt8m.options import option, path_option
from yt8m.readers.cached_input import format_of
from yt8m.records import manifest
from yt8m.records.shard_cache import ShardCache
from yt8m.records.shards import DamagedError


@dataclass(frozen=True)
class CacheConfig(DamagePolicy):
    """The flags of `yt8m cache`. The flags that describe the records are those of the training that reads the cache."""

    data: str = same_as(
        DataConfig, "data_pattern", help="TFRecord files to parse; commas between patterns", is_required=True
    )
    out: str = path_option(
        "local folder of the cache: the value of --cache in train, eval and inference", is_required=True, is_local=True
    )
    frame_features: bool = same_as(DataConfig, "frame_features")
    feature_names: tuple[str, ...] = same_as(DataConfig, "feature_names")
    feature_sizes: tuple[int, ...] = same_as(DataConfig, "feature_sizes")
    segment_labels: bool = same_as(DataConfig, "segment_labels")
    all_segments: bool = option(False, "for inference --segment_labels, which reads all segments and no labels")
    num_classes: int = same_as(DataConfig, "num_classes")
    vocabulary: str = same_as(DataConfig, "vocabulary")
    max_frames: int = same_as(DataConfig, "max_frames")
    jobs: int | None = option(None, "number of processes [one per CPU core]", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.all_segments and self.segment_labels:
            raise UsageError(
                "--all_segments is for inference, --segment_labels for training and eval; give one of them."
            )


class _ParsedShard(NamedTuple):
    """A shard in the cache: its path, its number of records, and its bad record as in `CachedShard`."""

    shard: str
    records: int
    damage: tuple[int, str] | None


def make(config: CacheConfig, data: DataConfig) -> None:
    """Fills the cache.

    Args:
      config: the flags.
      data: the data config of the training that the flags describe.

    Raises:
      UsageError: no file matches, or a cache cannot serve these data.
      RunError: a shard has a bad record or cannot be read, or the disk is full; the finished shards stay in the cache.
    """
    data.check_cache()
    files = manifest.shards_at(data.data_pattern)
    cache = ShardCache(config.out, format_of(_reader_for(config, data)), data.max_bad_records > 0)
    print(cache.room(files), file=sys.stderr)
    parsed_shards = {shard: parsed for shard in files if (parsed := cache.opened(cache.path_of(shard))) is not None}
    finished_shards = [_ParsedShard(shard, len(parsed), parsed.damage) for shard, parsed in parsed_shards.items()]
    missing = [shard for shard in files if shard not in parsed_shards]
    for finished in terminal.counted(
        _parse_shards(cache, missing, config.jobs), len(files), "shards", done=len(finished_shards)
    ):
        finished_shards.append(finished)
        _refuse_damage(finished_shards, data.max_bad_records)
    records = sum(finished.records for finished in finished_shards)
    print(f"{config.out} has {records} records of {len(files)} shards; {len(missing)} shards were parsed now")


def _reader_for(config: CacheConfig, data: DataConfig) -> readers.Reader:
    if not config.all_segments:
        return readers.reader_for(data)
    return readers.EverySegmentReader(
        data.num_classes, data.feature_sizes, data.feature_names, data.max_frames, feature_ranges=data.feature_ranges
    )


def _parse_shards(cache: ShardCache, shards: Sequence[str], jobs: int | None) -> Iterator[_ParsedShard]:
    """Parses the shards; yields the results in the order of `shards`."""
    count = min(jobs or os.cpu_count() or 1, len(shards))
    if count < 2:
        yield from (_parse_shard(cache, shard) for shard in shards)
        return
    from concurrent.futures import ProcessPoolExecutor  # slow to import, and trainings only need the flags

    # Not forked, because this process may have threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, initializer=_exit_with_parent) as pool:
        with termination.held_interrupts():
            futures = [pool.submit(_parse_shard, cache, shard) for shard in shards]
        try:
            for shard, future in zip(shards, futures, strict=True):
                # If a worker failed or died, this process parses the shard again and so raises the original error.
                yield _parse_shard(cache, shard) if future.exception() else future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _parse_shard(cache: ShardCache, shard: str) -> _ParsedShard:
    parsed = cache.made(shard, cache.path_of(shard))
    return _ParsedShard(shard, len(parsed), parsed.damage)


def _exit_with_parent() -> None:
    """Ends this process as soon as its parent process has ended for any reason."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait_and_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_and_end, daemon=True).start()


def _refuse_damage(finished_shards: Sequence[_ParsedShard], limit: int) -> None:
    bad = [finished for finished in finished_shards if finished.damage]
    if len(bad) > limit and bad[-1].damage:
        error = DamagedError(bad[-1].shard, *bad[-1].damage)
        raise RunError(f"{error} {len(bad)} records are bad; --max_bad_records allows {limit}.")
