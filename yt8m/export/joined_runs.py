"""Exports the models of several runs as one model, which predicts the weighted mean of their predictions."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence

from absl import logging

from yt8m import options, readers
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.errors import RunError, UsageError, first_line
from yt8m.export.ensemble_config import EnsembleConfig
from yt8m.export.onnx_export import export_onnx
from yt8m.export.saved_model import ModelFacts, export_saved_model, write_inference_model
from yt8m.export.small_weights import cpu_session
from yt8m.graph.protocols import PredictOps
from yt8m.graph.restore import assign, name_of_weights
from yt8m.lazy import tf
from yt8m.readers import join_features, join_film_means
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.runs import archive
from yt8m.runs.opened_run import OpenedRun, open_run
from yt8m.runs.trained_model import TrainedModel
from yt8m.storage import copies, temporary
from yt8m.storage.new_outputs import new_output
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler

# Data options that must be equal in all runs, so that one reader can feed all models.
_SHARED_OPTIONS = (
    *options.paths_where(DataConfig, shapes="variables"),
    *options.paths_where(DataConfig, shapes="graph"),
    "reader",
)


def export(config: EnsembleConfig) -> None:
    """Writes one model for the runs `config.train_dir`, in each of the forms that `config` names.

    These are a SavedModel (`out`), an ONNX file (`output_onnx`) and a packed inference model (`output_model_tgz`).
    """
    is_new = new_output(config.out, repr(config), sources=config.train_dir) if config.out else None
    with is_new or contextlib.nullcontext(False) as is_done:
        if is_done and not (config.output_onnx or config.output_model_tgz):
            return
        runs = [open_run(folder, trust_code=config.trust_code) for folder in config.train_dir]
        _refuse_different(runs)
        names = _joint_names(runs)

        def choose() -> list[TrainedModel]:
            return [TrainedModel(run, run.checkpoint(config.checkpoint)) for run in runs]

        missing = dataclasses.replace(config, out="") if is_done else config
        checkpoints.with_newer(
            choose(),
            choose,
            lambda members: [member.weights for member in members],
            lambda members: _export(missing, members, names),
        )


def _export(config: EnsembleConfig, members: Sequence[TrainedModel], names: Vocabulary) -> None:
    """Writes one model for the checkpoints `members`, whose vocabulary is `names`; see `export`."""
    first, reader = members[0].run, readers.reader_for(members[0].run.config.data)
    modelers = [member.modeler(member.run.config.data, "infer", config.top_k) for member in members]
    modeler = EnsembleModeler(modelers, config.normalised_weights())
    has_frames = first.config.data.frame_features
    for member in members:
        member.log()
    with copies.private_folder("yt8m-ensemble-") as folder:
        checkpoint_paths = [member.weights for member in members]
        path = gather_checkpoint(os.path.join(folder, "members"), modeler, checkpoint_paths, has_frames)
        extractors = first.extractors if all(member.run.extractors == first.extractors for member in members) else ()
        is_own = all(member.run.is_own for member in members)
        lengths = first.config.data.video_frames  # all members are given the same videos
        columns = first.config.data.columns
        facts = ModelFacts(names=names, extractors=extractors, is_own=is_own, video_frames=lengths, columns=columns)
        if config.out:
            export_saved_model(config.out, path, reader, modeler, facts)
            logging.info("the ensemble of %d runs is in %s", len(members), config.out)
        if config.output_onnx:
            data = dataclasses.replace(first.config.data, extractors=tuple(extractors), one_class=modeler.one_class)
            export_onnx(config.output_onnx, path, data, modeler, facts)
            logging.info("the ensemble of %d runs is in %s", len(members), config.output_onnx)
        if config.output_model_tgz:
            model_folder = os.path.join(folder, "inference_model")  # as `inference --input_model_tgz` expects
            with _advice_for_temporary_files():
                write_inference_model(model_folder, path, modeler, facts, frame_features=has_frames)
                run_dir.write(model_folder, dataclasses.replace(first.config, train_dir=""), names, is_own=is_own)
            archive.make_tgz(model_folder, config.output_model_tgz)
            logging.info("the ensemble is packed in %s", config.output_model_tgz)


@contextlib.contextmanager
def _advice_for_temporary_files() -> Iterator[None]:
    """Turns errors of a block that writes into the system's temporary folder into `RunError`s that say what to do."""
    try:
        yield
    except (tf.errors.OpError, OSError, RunError) as error:
        cause = error.__cause__ if isinstance(error, RunError) else None
        reason = first_line(cause if isinstance(cause, Exception) else error)
        raise RunError(f"cannot write temporary files: {reason.rstrip('.')}. {temporary.advice()}") from error


def _refuse_different(runs: Sequence[OpenedRun]) -> None:
    """Raises `UsageError` if the runs differ in an option in `_SHARED_OPTIONS`."""
    first = runs[0]
    for run in runs:
        for name in _SHARED_OPTIONS:
            value, first_value = getattr(run.config.data, name), getattr(first.config.data, name)
            if value != first_value:
                raise UsageError(
                    f"{run.folder} has {name}={value}, but {first.folder} has {name}={first_value}; the models of an "
                    "exported ensemble share one reader. Join the prediction files of such runs instead: --predictions."
                )


def _joint_names(runs: Sequence[OpenedRun]) -> Vocabulary:
    """The vocabulary that the runs share; empty if none of them has one."""
    with_names = [run for run in runs if run.names]
    for run in runs if with_names else ():
        if run.shown_names:
            remedy = "Join runs of the same classes."
            with_names[0].names.refuse_other(run.shown_names, with_names[0].folder, run.folder, remedy)
    return with_names[0].names if with_names else vocabulary.of_names(())


class EnsembleModeler(VideoModeler):
    """Builds several models on the same features, and the weighted mean of their predictions; only for inference.

    The variables of the i-th member are in the scope `member_<i>/`.

    Args:
      weights: the weight of each member; their sum is 1.
    """

    def __init__(self, members: Sequence[VideoModeler], weights: Sequence[float]) -> None:
        first = members[0]
        super().__init__(None, None, first.num_classes, first.top_k, first.feature_sizes)
        self._members, self._weights = list(members), list(weights)
        self.one_class = all(member.one_class for member in members)

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        """Builds the weighted mean of the members' predictions."""
        if is_training:
            raise ValueError("an ensemble is for inference; train its members one by one")
        ops = self.predict_raw(join_features(batch), batch.num_frames, join_film_means(batch))
        return ModelOutput(predictions=ops.predictions)

    def predict_raw(self, raw: tf.Tensor, num_frames: tf.Tensor, film: tf.Tensor | None = None) -> PredictOps:
        """Builds the weighted mean of the members' predictions.

        Args:
          raw: the dequantised features side by side, float32 [B, D], or [B, T, D] with frames.
          num_frames: number of frames of each video, int32 [B].
        """
        raw, frames = tf.identity(raw, name="input_batch_raw"), tf.identity(num_frames, name="num_frames")
        weighted = []
        for index, (member, weight) in enumerate(zip(self._members, self._weights, strict=True)):
            with tf.variable_scope(f"member_{index}"):
                ops = member.predict_raw(raw, frames, film)
            weighted.append(tf.cast(ops.predictions, tf.float32) * weight)
        mean = tf.identity(tf.add_n(weighted), name="predictions")
        return dataclasses.replace(ops, predictions=mean, input_batch_raw=raw, num_frames=frames)


def gather_checkpoint(path: str, modeler: EnsembleModeler, checkpoint_paths: Sequence[str], has_frames: bool) -> str:
    """Writes one checkpoint with the weights of all members.

    If a member's checkpoint has moving averages of the weights, these are written in place of the weights.
    """
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        modeler.predict_placeholders(has_frames)
        step = tf.train.get_or_create_global_step()
        session.run(step.initializer)
        variables = [variable for variable in tf.global_variables() if variable is not step]
        for index, checkpoint in enumerate(checkpoint_paths):
            reader, prefix = tf.train.load_checkpoint(copies.copy_of(checkpoint)), f"member_{index}/"
            saved_names = reader.get_variable_to_shape_map()
            for variable in variables:
                if variable.op.name.startswith(prefix):
                    name = name_of_weights(variable.op.name.removeprefix(prefix), saved_names)
                    assign(session, variable, reader.get_tensor(name))
        with _advice_for_temporary_files():
            return str(tf.train.Saver().save(session, path, write_state=False, write_meta_graph=False))
