"""`yt8m cache`: parses shards into a cache, in several processes, before a training, eval or inference reads them.

Shards that the cache already has are not parsed again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from yt8m import cores, readers, terminal
from yt8m.config.data_config import DataConfig
from yt8m.config.of_run import same_as
from yt8m.config.run_options import DamagePolicy
from yt8m.datasets.cache_workers import ParsedShard, describe_shard, parse_in_processes, parse_shard
from yt8m.errors import RunError, UsageError, quantity
from yt8m.options import option, path_option
from yt8m.readers.cached_input import format_of
from yt8m.records import label_check
from yt8m.records.opened_data import OpenedData
from yt8m.records.shard_cache import ShardCache
from yt8m.records.shards import DamagedError


@dataclass(frozen=True)
class CacheConfig(DamagePolicy):
    """The flags of `yt8m cache`.

    The flags that describe the records have the names and the meaning that they have for `yt8m train`. A run can use
    the cache only if these flags have the same values for the run.
    """

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


def fill_cache(config: CacheConfig, data: DataConfig, opened: OpenedData) -> None:
    """Parses the shards that the cache lacks, and writes them into the cache; prints how many records it then has."""
    data.check_cache()
    files = opened.files
    label_check.warn(opened, are_needed=False)
    cache = ShardCache(config.out, format_of(_reader_for(config, data)), data.max_bad_records > 0)
    print(cache.describe_space(files), file=sys.stderr)
    parsed_shards = [shard for path in files if (shard := _parsed_before(cache, path)) is not None]
    present = {shard.path for shard in parsed_shards}
    missing = [path for path in files if path not in present]
    for shard in terminal.with_progress(
        _parse_shards(cache, missing, config.jobs), len(files), "shards", done=len(parsed_shards)
    ):
        parsed_shards.append(shard)
        _refuse_damage(parsed_shards, data.max_bad_records)
    records = sum(shard.records for shard in parsed_shards)
    content = f"{quantity(records, 'record')} of {quantity(len(files), 'shard')}"
    print(f"{config.out} has {content}; parsed now: {quantity(len(missing), 'shard')}")


def _parsed_before(cache: ShardCache, path: str) -> ParsedShard | None:
    """What the cache has of a shard; its file is closed again: there may be more shards than open files."""
    cached = cache.open_parsed(cache.path_of(path))
    return None if cached is None else describe_shard(path, cached)


def _reader_for(config: CacheConfig, data: DataConfig) -> readers.Reader:
    if not config.all_segments:
        return readers.reader_for(data)
    return readers.EverySegmentReader(
        data.num_classes, data.feature_sizes, data.feature_names, data.max_frames, feature_ranges=data.feature_ranges
    )


def _parse_shards(cache: ShardCache, paths: Sequence[str], jobs: int | None) -> Iterator[ParsedShard]:
    """Parses shards into the cache, in several processes; yields the results in the order of `paths`.

    Args:
      jobs: number of processes; None for one per CPU core.
    """
    processes = min(jobs or cores.usable(), len(paths))
    if processes < 2:
        return (parse_shard(cache, path) for path in paths)
    return parse_in_processes(cache, paths, processes)


def _refuse_damage(shards: Sequence[ParsedShard], limit: int) -> None:
    """Raises `RunError` if more than `limit` of the shards have a bad record; the message names the last of these."""
    bad_shards = [shard for shard in shards if shard.damage]
    if len(bad_shards) > limit and bad_shards[-1].damage:
        error = DamagedError(bad_shards[-1].path, *bad_shards[-1].damage)
        raise RunError(f"{error} {len(bad_shards)} records are bad; --max_bad_records allows {limit}.")
