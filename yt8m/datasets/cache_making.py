"""Parses shards into a cache ahead of time, in several processes; what is in the cache already stays."""

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
    """The flags of `yt8m cache`: those that describe the records are those of the training that will read them."""

    data: str = same_as(
        DataConfig, "data_pattern", help="TFRecord files to parse; commas between patterns", is_required=True
    )
    out: str = path_option(
        "local folder of the cache, as train, eval and inference name it by --cache", is_required=True, is_local=True
    )
    frame_features: bool = same_as(DataConfig, "frame_features")
    feature_names: tuple[str, ...] = same_as(DataConfig, "feature_names")
    feature_sizes: tuple[int, ...] = same_as(DataConfig, "feature_sizes")
    segment_labels: bool = same_as(DataConfig, "segment_labels")
    all_segments: bool = option(False, "for inference --segment_labels, which reads every segment and no labels")
    num_classes: int = same_as(DataConfig, "num_classes")
    vocabulary: str = same_as(DataConfig, "vocabulary")
    max_frames: int = same_as(DataConfig, "max_frames")
    jobs: int | None = option(None, "number of processes [as many as cores]", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.all_segments and self.segment_labels:
            raise UsageError("--all_segments and --segment_labels are for different passes; give one of them.")


class _Made(NamedTuple):
    """What the cache has of a shard: its number of records, and its bad record as in `CachedShard`."""

    shard: str
    records: int
    damage: tuple[int, str] | None


def make(config: CacheConfig, data: DataConfig) -> None:
    """Fills the cache.

    Args:
      config: the flags.
      data: the data that they describe, as a training would read them.

    Raises:
      UsageError: no file matches, or a cache cannot serve these data.
      RunError: a shard has a bad record or cannot be read, or the disk is full; what is finished stays.
    """
    data.check_cache()
    files = manifest.shards_at(data.data_pattern)
    cache = ShardCache(config.out, format_of(_reader_for(config, data)), data.max_bad_records > 0)
    print(cache.room(files), file=sys.stderr)
    parsed_shards = {shard: parsed for shard in files if (parsed := cache.opened(cache.path_of(shard))) is not None}
    made_shards = [_Made(shard, len(parsed), parsed.damage) for shard, parsed in parsed_shards.items()]
    missing = [shard for shard in files if shard not in parsed_shards]
    for made in terminal.counted(_made(cache, missing, config.jobs), len(files), "shards", done=len(made_shards)):
        made_shards.append(made)
        _refuse_damage(made_shards, data.max_bad_records)
    records = sum(made.records for made in made_shards)
    print(f"{config.out} has {records} records of {len(files)} shards; {len(missing)} shards were parsed now")


def _reader_for(config: CacheConfig, data: DataConfig) -> readers.Reader:
    if not config.all_segments:
        return readers.reader_for(data)
    return readers.EverySegmentReader(
        data.num_classes, data.feature_sizes, data.feature_names, data.max_frames, feature_ranges=data.feature_ranges
    )


def _made(cache: ShardCache, shards: Sequence[str], jobs: int | None) -> Iterator[_Made]:
    """Parses the shards, in their order."""
    count = min(jobs or os.cpu_count() or 1, len(shards))
    if count < 2:
        yield from (_make(cache, shard) for shard in shards)
        return
    from concurrent.futures import ProcessPoolExecutor  # slow to import, and trainings only need the flags

    # Not forked, because this process may have threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, initializer=_end_with_parent) as pool:
        with termination.held_interrupts():
            futures = [pool.submit(_make, cache, shard) for shard in shards]
        try:
            for shard, future in zip(shards, futures, strict=True):
                # If the process failed or ended, this one tries again, and has the very error.
                yield _make(cache, shard) if future.exception() else future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _make(cache: ShardCache, shard: str) -> _Made:
    parsed = cache.made(shard, cache.path_of(shard))
    return _Made(shard, len(parsed), parsed.damage)


def _end_with_parent() -> None:
    """Ends this process when its parent has ended, however that was."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait_and_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_and_end, daemon=True).start()


def _refuse_damage(made_shards: Sequence[_Made], limit: int) -> None:
    bad = [made for made in made_shards if made.damage]
    if len(bad) > limit and bad[-1].damage:
        error = DamagedError(bad[-1].shard, *bad[-1].damage)
        raise RunError(f"{error} {len(bad)} records are bad; --max_bad_records allows {limit}.")
