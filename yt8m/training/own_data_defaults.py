"""What follows from one's own data in a training that searches nothing: the batch size, and averages for few steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from yt8m.config import run_dir
from yt8m.config.search_config import BATCH, DECAY, DECAY_OF_FEW_STEPS
from yt8m.config.train_config import TrainConfig
from yt8m.errors import quantity
from yt8m.records.opened_data import OpenedData
from yt8m.runner.creation import count_towers
from yt8m.training import length_advice
from yt8m.training.search import plan

_FEW_STEPS = 5000  # moving averages with the published decay still hold 1 % of what they began with after 4,600 steps

Origin = Mapping[str, Any]  # {option, value, reason}


def with_defaults(config: TrainConfig, data: OpenedData) -> TrainConfig:
    """The config with the options of `config.search.follows` that the data ask for, and with their origins.

    A run that exists keeps its own. The published values stay if the number of videos is not known.
    """
    follows = config.search.follows
    saved = None if config.checkpoints.start_new_model else run_dir.read(config.train_dir)
    if saved is not None:
        values = {BATCH: saved.config.data.batch_size, DECAY: saved.config.model.hyper_parameters.get(DECAY)}
        config = _with_values(config, {name: values[name] for name in follows if values[name] is not None})
        return _with_origins(config, saved.config.search.origins)
    origins: list[Origin] = []
    videos = length_advice.count_videos(data)
    if BATCH in follows and videos:
        batch_size = math.ceil(plan.default_batch_size(videos) / count_towers(config.devices.num_gpu))
        origins.append({"option": BATCH, "value": batch_size, "reason": quantity(videos, "video")})
        config = _with_values(config, {BATCH: batch_size})
    steps = _count_steps(config, videos)
    if DECAY in follows and DECAY in config.model.hyper_parameters and steps and steps < _FEW_STEPS:
        origins.append({"option": DECAY, "value": DECAY_OF_FEW_STEPS, "reason": quantity(steps, "step")})
        config = _with_values(config, {DECAY: DECAY_OF_FEW_STEPS})
    for origin in origins:
        logging.info("%(option)s %(value)s: %(reason)s (another by --%(option)s)", origin)
    return _with_origins(config, origins)


def _count_steps(config: TrainConfig, videos: int) -> int:
    """The most steps that the training takes; 0 if that is not known."""
    limits = [config.max_steps] if config.max_steps is not None else []
    if videos and config.data.num_epochs is not None:
        batch_size = config.data.batch_size * count_towers(config.devices.num_gpu)
        limits.append(math.ceil(videos * config.data.num_epochs / batch_size))
    return min(limits, default=0)


def _with_values(config: TrainConfig, values: Mapping[str, Any]) -> TrainConfig:
    if BATCH in values:
        config = dataclasses.replace(config, data=dataclasses.replace(config.data, batch_size=values[BATCH]))
    if DECAY in values:
        hyper_parameters = {**config.model.hyper_parameters, DECAY: values[DECAY]}
        config = dataclasses.replace(config, model=dataclasses.replace(config.model, hyper_parameters=hyper_parameters))
    return config


def _with_origins(config: TrainConfig, origins: Sequence[Origin]) -> TrainConfig:
    return dataclasses.replace(config, search=dataclasses.replace(config.search, origins=tuple(origins)))
