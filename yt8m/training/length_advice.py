"""Says so if a training takes few steps: the published defaults are those of millions of videos."""

from __future__ import annotations

import math

from absl import logging

from yt8m import storage
from yt8m.config.data_config import DataConfig
from yt8m.records.opened_data import OpenedData
from yt8m.runner.creation import count_towers
from yt8m.training.search import plan

_FEWEST = 200  # steps
_MOST_BYTES = 2 << 30  # of the files whose records are counted; larger data give enough steps


def log(config: DataConfig, num_gpu: int, data: OpenedData, max_steps: int | None, searched: bool) -> None:
    """Logs a batch size and a number of epochs that give enough steps, if those of the config do not.

    Nothing is logged if the user or a search chose the number of steps, or if the number of examples is not known.
    """
    if max_steps is not None or searched:
        return
    if config.num_epochs is None or config.segment_labels or config.reader or not (videos := count_videos(data)):
        return
    towers = count_towers(num_gpu)
    batch_size = config.batch_size * towers
    steps = math.ceil(videos * config.num_epochs / batch_size)
    if steps >= _FEWEST:
        return
    better = min(batch_size, plan.default_batch_size(videos))
    logging.info(
        "%d videos, --batch_size=%d and --num_epochs=%d give %d steps, in which a model learns little; try "
        "--batch_size=%d --num_epochs=%d",
        *(videos, config.batch_size, config.num_epochs, steps),
        math.ceil(better / towers),
        max(config.num_epochs, math.ceil(_FEWEST * better / videos)),
    )


def count_videos(data: OpenedData) -> int:
    """The number of records; 0 if the files are too large to be counted, or if it is not known."""
    if sum(stamp.bytes for stamp in storage.stamps(data.files).values()) > _MOST_BYTES:
        return 0
    return data.count_videos()
