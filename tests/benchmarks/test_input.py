"""The benchmarks of reading have the data that they need."""

from __future__ import annotations

import os
import pathlib

import fault_shards

from benchmarks.input import cached
from yt8m.config.data_config import DataConfig


def test_a_benchmark_of_a_cache_fills_it_with_every_shard(tmp_path: pathlib.Path) -> None:
    for number in range(2):
        payloads = fault_shards.sound("video", 2, f"{number}")
        (tmp_path / f"{number}.tfrecord").write_bytes(fault_shards.shard(payloads))
    config = DataConfig(
        data_pattern=f"{tmp_path}/*.tfrecord",
        feature_names=("mean_rgb", "mean_audio"),
        feature_sizes=fault_shards.SIZES,
        num_classes=fault_shards.CLASSES,
    )
    with cached(config) as with_cache:
        assert len(os.listdir(with_cache.cache)) == 2
