"""The run that evaluation and inference work on: found, read, and completed by flags."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from yt8m import run_dir, storage
from yt8m.config import DataConfig, EvalConfig, InferenceConfig, TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.flags import with_hyper_parameters
from yt8m.runner import checkpoints

RUNS = "runs"


def find(train_dir: str, flag: str = "train_dir") -> str:
    """`train_dir`, which the user named by `flag`, or the newest run under runs/ where none is named.

    Raises:
      UsageError: there is no such run.
    """
    if train_dir:
        if not storage.is_dir(train_dir):
            raise UsageError(f"--{flag}={train_dir}: there is no such folder.")
        return train_dir
    found = [os.path.join(RUNS, name) for name in (os.listdir(RUNS) if os.path.isdir(RUNS) else [])]
    found = [path for path in found if os.path.exists(os.path.join(path, run_dir.CONFIG))]
    if not found:
        raise UsageError(
            "no --train_dir is given and there is no run under runs/; train one first "
            "(python train.py --model=LogisticModel) or name its folder."
        )
    newest = max(found, key=lambda path: os.path.getmtime(os.path.join(path, run_dir.CONFIG)))
    logging.info("no --train_dir was named: taking the newest run, %s", newest)
    return newest


def load(
    train_dir: str,
    num_classes: int | None,
    hyper_parameters: Mapping[str, Any],
    *,
    trust_code: bool = False,
) -> TrainConfig:
    """How the run in `train_dir` was trained.

    A run of the published code has only model_flags.json: its hyper-parameters come from flags, its class
    count from `num_classes` or else from a meta-graph in the folder. Code that the run names is imported as
    `run_dir.read` says.

    Raises:
      RunError: the folder holds no run, or its files cannot be read.
      UsageError: the model has no such hyper-parameter, or is code that is not trusted.
    """
    saved = run_dir.read(train_dir, trust_code=trust_code)
    if saved is None:
        raise RunError(
            f"{train_dir} holds neither {run_dir.CONFIG} nor {run_dir.MODEL_FLAGS}: "
            "it is not the folder of a run."
        )
    config = saved.config
    if hyper_parameters:  # without them the model's code is not asked: a meta-graph may stand for it
        config = dataclasses.replace(config, model=with_hyper_parameters(config.model, hyper_parameters))
    if saved.published and num_classes is None:
        num_classes = _classes_in_meta_graph(train_dir)
    if num_classes is not None:
        config = dataclasses.replace(config, data=dataclasses.replace(config.data, num_classes=num_classes))
    return config


def data_for(
    data: DataConfig,
    pattern: str,
    *,
    batch_size: int,
    num_readers: int,
    max_frames: int | None,
    segment_labels: bool,
) -> DataConfig:
    """The data of a later program: the run's features and classes, other files and sizes.

    Raises:
      UsageError: segments are asked of a model of whole videos' means.
    """
    if segment_labels and not data.frame_features:
        raise UsageError(
            f"--segment_labels: the model was trained on video-level features "
            f"({','.join(data.feature_names)}), which hold no frames to cut segments from; "
            "name a run that was trained with --frame_features."
        )
    return dataclasses.replace(
        data,
        data_pattern=pattern,
        batch_size=batch_size,
        num_readers=num_readers,
        max_frames=max_frames or data.max_frames,
        segment_labels=segment_labels,
    )


def as_strict_as(config: EvalConfig | InferenceConfig, data: DataConfig) -> DataConfig:
    """`data`, and what this program, not the training, does about damaged input."""
    return dataclasses.replace(
        data,
        manifest=config.manifest,
        max_bad_records=config.max_bad_records,
        nan_policy=config.nan_policy,
    )


def _classes_in_meta_graph(train_dir: str) -> int | None:
    from yt8m.graph.meta_modeler import class_count, read_meta_graph

    steps = checkpoints.steps_in(train_dir)
    for step in steps:
        meta = f"{checkpoints.path_of(train_dir, step)}.meta"
        try:
            count = class_count(read_meta_graph(meta))
        except storage.NotFoundError:
            continue
        logging.info("the class count, %d, comes from %s", count, meta)
        return count
    # Of a training that goes on all of these may have been deleted since.
    is_old = checkpoints.steps_in(train_dir)[:1] != steps[:1]
    return _classes_in_meta_graph(train_dir) if is_old else None
