"""Exports several runs as one model, which predicts the weighted mean of their predictions."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

from yt8m.commands import saved_run, workload
from yt8m.commands.ensemble import EnsembleConfig
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.export import archive
from yt8m.export.ensemble_graph import EnsembleModeler, gather_checkpoint
from yt8m.export.inference_model import write_inference_model
from yt8m.export.saved_model import export_saved_model
from yt8m.runner import checkpoints

# Data options that must be equal in all runs, so that one reader can feed all models.
_SHARED = ("reader", "feature_names", "feature_sizes", "feature_ranges", "frame_features", "num_classes", "max_frames")


class _Member(NamedTuple):
    run: TrainConfig
    checkpoint: str
    parts: workload.Workload


def export(config: EnsembleConfig) -> None:
    """Writes the ensemble of `config.runs` as a SavedModel, as a packed inference model, or both.

    Raises:
      UsageError: there is no such run, or the runs have different features or classes.
      RunError: a run has no checkpoint.
    """

    def find() -> list[_Member]:
        return [_member(folder, config) for folder in config.runs]

    checkpoints.with_newer(
        find(), find, lambda members: [one.checkpoint for one in members], lambda members: _export(config, members)
    )


def _member(folder: str, config: EnsembleConfig) -> _Member:
    train_dir = saved_run.find_run(folder, "runs")
    run = saved_run.load_run(train_dir, None, {}, trust_code=config.trust_code)
    newest = checkpoints.newest_readable(train_dir)
    if newest is None:
        raise RunError(f"no checkpoint in {train_dir}: train it first, or leave it out of --runs.")
    return _Member(run, newest, workload.create(run.data, run.model, "infer", config.top_k))


def _export(config: EnsembleConfig, members: Sequence[_Member]) -> None:
    _check_alike(config.runs, members)
    modeler = EnsembleModeler([member.parts.modeler for member in members], config.normalised_weights())
    first = members[0]
    data, width = first.run.data, sum(first.run.data.feature_sizes)
    shape = (data.max_frames, width) if data.frame_features else (width,)
    with tempfile.TemporaryDirectory() as folder:
        chosen = [member.checkpoint for member in members]
        path = gather_checkpoint(os.path.join(folder, "members"), modeler, chosen, shape)
        if config.export_dir:
            export_saved_model(config.export_dir, path, first.parts.reader, modeler)
            logging.info("the ensemble of %d runs is in %s", len(members), config.export_dir)
        if config.output_model_tgz:
            inner = os.path.join(folder, "inference_model")  # what inference --input_model_tgz takes
            write_inference_model(inner, path, modeler, frame_features=data.frame_features)
            run_dir.write(inner, dataclasses.replace(first.run, train_dir=""))
            archive.make_tgz(inner, config.output_model_tgz)
            logging.info("the ensemble is packed in %s", config.output_model_tgz)


def _check_alike(folders: Sequence[str], members: Sequence[_Member]) -> None:
    first = members[0].run.data
    for folder, member in zip(folders, members, strict=True):
        for name in _SHARED:
            mine, theirs = getattr(first, name), getattr(member.run.data, name)
            if mine != theirs:
                raise UsageError(
                    f"{folder} has {name} {theirs} and {folders[0]} {mine}; one reader feeds all. "
                    "Join the prediction files of such runs instead (--predictions)."
                )
