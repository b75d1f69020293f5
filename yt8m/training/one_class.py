"""Whether each video of a training has one class: a run keeps what it says, and so does one that begins from another.

The scores of such a run add up to 1, and its thresholds were chosen on these scores, so another start must not change
that because the manifest of other data does not say it.
"""

from __future__ import annotations

import dataclasses
import os

from absl import logging

from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.records import label_check
from yt8m.records.opened_data import OpenedData


def with_fact(config: TrainConfig, data: OpenedData) -> TrainConfig:
    """The config with `one_class` as the run has it; that of a new run as the one has it that it begins from.

    If the run has one class a video, data in which a video has none or several are refused.
    """
    saved = None if config.checkpoints.start_new_model else run_dir.read(config.train_dir)
    if saved is None:
        return _as_source(config, data)
    is_single = saved.config.data.one_class
    other = _video_of_other_labels(config, data) if is_single else ""
    if other:
        raise UsageError(
            f"{config.train_dir} was trained on videos with one class each, so that the scores of a video add up to 1, "
            f"but {other}. Give data with one class for each video, or train a new run from this one: "
            f"--init_from={config.train_dir} with another --train_dir."
        )
    return _with(config, is_single)


def _as_source(config: TrainConfig, data: OpenedData) -> TrainConfig:
    """The config of a new run: of one class a video if the model is that it begins from, and the data allow it."""
    source = next(filter(_is_single, (config.init_from, config.distillation.teacher)), "")
    if config.data.one_class or not source:
        return config
    other = _video_of_other_labels(config, data)
    if other:
        logging.warning("the scores of a video add up to 1 in %s, but not in the new run: %s", source, other)
        return config
    logging.info("each video has one class, so the scores of a video add up to 1, as in %s", source)
    return _with(config, True)


def _is_single(source: str) -> bool:
    """Whether the run that a path leads to, itself or to a file or folder in it, has one class a video."""
    folder = next(filter(run_dir.is_run, filter(None, (source, os.path.dirname(source.rstrip("/"))))), "")
    saved = run_dir.read(folder) if folder else None
    return saved is not None and saved.config.data.one_class


def _video_of_other_labels(config: TrainConfig, data: OpenedData) -> str:
    """Names a video that has not exactly one label; empty if there is none, or if only a reader can tell."""
    if config.data.one_class or config.data.reader:
        return ""
    return label_check.without_one_label(data)


def _with(config: TrainConfig, is_single: bool) -> TrainConfig:
    return dataclasses.replace(config, data=dataclasses.replace(config.data, one_class=is_single))
