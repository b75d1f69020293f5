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
from yt8m.export.saved_model import export_saved_model, write_inference_model
from yt8m.export.small_weights import cpu_session
from yt8m.graph.protocols import PredictOps
from yt8m.graph.restore import AVERAGE, assign
from yt8m.lazy import tf
from yt8m.readers import join_features
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.storage import copies
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler

# Data options that must be equal in all runs, so that one reader can feed all models.
_SHARED = ("reader", "feature_names", "feature_sizes", "feature_ranges", "frame_features", "num_classes", "max_frames")


class _Member(NamedTuple):
    run: TrainConfig
    checkpoint: str
    parts: workload.Workload


def export(config: EnsembleConfig) -> None:
    """Writes the ensemble of `config.train_dir` as a SavedModel, as a packed inference model, or both.

    Raises:
      UsageError: there is no such run, or the runs have different features or classes.
      RunError: a run has no checkpoint.
    """

    def find() -> list[_Member]:
        return [_member(folder, config) for folder in config.train_dir]

    checkpoints.with_newer(
        find(), find, lambda members: [one.checkpoint for one in members], lambda members: _export(config, members)
    )


def _member(folder: str, config: EnsembleConfig) -> _Member:
    train_dir = saved_run.find_run(folder)
    run = saved_run.load_run(train_dir, trust_code=config.trust_code)
    newest = checkpoints.newest_readable(train_dir)
    if newest is None:
        raise RunError(f"no checkpoint in {train_dir}: train it first, or leave it out of --train_dir.")
    parts = workload.create(run.data, run.model, "infer", config.top_k)
    return _Member(run, newest, parts._replace(names=run_dir.own_names(train_dir, run.data.num_classes)))


def _export(config: EnsembleConfig, members: Sequence[_Member]) -> None:
    _check_alike(config.train_dir, members)
    names = _joint_names(config.train_dir, members)
    modeler = EnsembleModeler([member.parts.modeler for member in members], config.normalised_weights())
    first = members[0]
    has_frames = first.run.data.frame_features
    with tempfile.TemporaryDirectory() as folder:
        chosen = [member.checkpoint for member in members]
        path = gather_checkpoint(os.path.join(folder, "members"), modeler, chosen, has_frames)
        if config.export_dir:
            extractors = first.run.data.extractors if _have_same_extractors(members) else ()
            export_saved_model(config.export_dir, path, first.parts.reader, modeler, names=names, extractors=extractors)
            logging.info("the ensemble of %d runs is in %s", len(members), config.export_dir)
        if config.output_model_tgz:
            inner = os.path.join(folder, "inference_model")  # the folder that `inference --input_model_tgz` expects
            write_inference_model(inner, path, modeler, frame_features=has_frames)
            run_dir.write(inner, dataclasses.replace(first.run, train_dir=""), names)
            archive.make_tgz(inner, config.output_model_tgz)
            logging.info("the ensemble is packed in %s", config.output_model_tgz)


def _have_same_extractors(members: Sequence[_Member]) -> bool:
    return all(member.run.data.extractors == members[0].run.data.extractors for member in members)


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


def _joint_names(folders: Sequence[str], members: Sequence[_Member]) -> Vocabulary:
    """The vocabulary that all runs share; empty if they have none. Refuses runs whose vocabularies differ."""
    named = [(folder, one.parts.names) for folder, one in zip(folders, members, strict=True) if one.parts.names]
    for folder, member in zip(folders, members, strict=True) if named else ():
        names = vocabulary.of(member.run.data.num_classes, member.parts.names)
        if names:
            vocabulary.refuse_difference(named[0][1], named[0][0], names, folder, "Join runs of the same classes.")
    return named[0][1] if named else vocabulary.of_names(())


class EnsembleModeler(VideoModeler):
    """The weighted mean of the predictions of several modelers for the same features; only for inference.

    The variables of the i-th member are under `member_<i>/`.

    Args:
      members: modelers with the same class count and features.
      weights: one for each member; their sum is 1.
    """

    def __init__(self, members: Sequence[VideoModeler], weights: Sequence[float]) -> None:
        first = members[0]
        super().__init__(None, None, first.num_classes, first.top_k, first.feature_sizes)
        self._members, self._weights = list(members), list(weights)

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        """The mean of the members' predictions.

        Raises:
          ValueError: the mode is training.
        """
        if is_training:
            raise ValueError("an ensemble is for inference; train its members one by one")
        return ModelOutput(predictions=self.predict_raw(join_features(batch), batch.num_frames).predictions)

    def predict_raw(self, raw: tf.Tensor, num_frames: tf.Tensor) -> PredictOps:
        """The mean of the members' predictions of dequantised features."""
        raw, frames = tf.identity(raw, name="input_batch_raw"), tf.identity(num_frames, name="num_frames")
        parts = []
        for place, (member, weight) in enumerate(zip(self._members, self._weights, strict=True)):
            with tf.variable_scope(f"member_{place}"):
                ops = member.predict_raw(raw, frames)
            parts.append(tf.cast(ops.predictions, tf.float32) * weight)
        mean = tf.identity(tf.add_n(parts), name="predictions")
        return dataclasses.replace(ops, predictions=mean, input_batch_raw=raw, num_frames=frames)


def gather_checkpoint(path: str, modeler: EnsembleModeler, chosen: Sequence[str], has_frames: bool) -> str:
    """Writes one checkpoint with the weights of all members. If a member has moving averages, they are its weights.

    Args:
      path: prefix of the files to write.
      modeler: the members.
      chosen: a checkpoint for each member.
      has_frames: whether the members take frames.

    Returns:
      `path`.
    """
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        modeler.predict_placeholders(has_frames)
        step = tf.train.get_or_create_global_step()
        session.run(step.initializer)
        variables = [variable for variable in tf.global_variables() if variable is not step]
        for place, checkpoint in enumerate(chosen):
            reader, prefix = tf.train.load_checkpoint(copies.copy_of(checkpoint)), f"member_{place}/"
            for variable in (one for one in variables if one.op.name.startswith(prefix)):
                name = variable.op.name.removeprefix(prefix)
                average = name + AVERAGE
                value = reader.get_tensor(average if reader.has_tensor(average) else name)
                assign(session, variable, value)
        return str(tf.train.Saver().save(session, path, write_state=False, write_meta_graph=False))
