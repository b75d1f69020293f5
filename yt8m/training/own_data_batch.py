"""The batch size of a training on one's own data that searches nothing: it follows the number of videos."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from absl import logging

from yt8m.config import run_dir
from yt8m.config.search_config import BATCH
from yt8m.config.train_config import TrainConfig
from yt8m.errors import quantity
from yt8m.records.opened_data import OpenedData
from yt8m.runner.creation import count_towers
from yt8m.training import length_advice
from yt8m.training.search import plan


def with_batch(config: TrainConfig, data: OpenedData) -> TrainConfig:
    """The config with the batch size that the data ask for, and with its origin; a run that exists keeps its own.

    The published size stays if the number of videos is not known.
    """
    saved = None if config.checkpoints.start_new_model else run_dir.read(config.train_dir)
    if saved is not None:
        return _with(config, saved.config.data.batch_size, saved.config.search.origins)
    videos = length_advice.count_videos(data)
    if not videos:
        return config
    batch_size = math.ceil(plan.default_batch_size(videos) / count_towers(config.devices.num_gpu))
    logging.info("batch_size %d: %s (another by --batch_size)", batch_size, quantity(videos, "video"))
    return _with(config, batch_size, ({"option": BATCH, "value": batch_size, "reason": quantity(videos, "video")},))


def _with(config: TrainConfig, batch_size: int, origins: tuple[Mapping[str, Any], ...]) -> TrainConfig:
    search = dataclasses.replace(config.search, origins=origins)
    return dataclasses.replace(config, data=dataclasses.replace(config.data, batch_size=batch_size), search=search)
