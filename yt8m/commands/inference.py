"""Predictions for files, by a run's newest checkpoint or by a packed model without its code."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from absl import logging

from yt8m import readers, runner, storage
from yt8m.commands import input_check, saved_run, segment_inference, workload
from yt8m.commands.input_check import Walked, check_input
from yt8m.commands.segment_ranking import SegmentRanking
from yt8m.config import run_dir
from yt8m.config.programs import InferenceConfig
from yt8m.config.train_config import DataConfig, TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.export import archive, model_card
from yt8m.export.inference_model import NAME, write_inference_model
from yt8m.program import terminable
from yt8m.records.prediction_files import PredictionWriter
from yt8m.runner import checkpoints
from yt8m.storage import copies
from yt8m.video.meta_modeler import MetaGraphModeler, class_count, read_meta_graph
from yt8m.video.modeler import VideoModeler

WriteSegments = Callable[[IO[Any], SegmentRanking], None]

INFERENCE_MODEL, PREDICTIONS = "inference_model", "predictions.csv"


class Source(NamedTuple):
    """A model to predict with.

    Attributes:
      run: how it was trained.
      folder: the run's, or where the archive was unpacked.
      checkpoint: what is restored.
      meta_prefix: of an inference model that is used without its code; empty where the code builds the graph.
      is_own: the run is known as one that this user trained on this machine.
    """

    run: TrainConfig
    folder: str
    checkpoint: str
    meta_prefix: str = ""
    is_own: bool = False


def infer(
    config: InferenceConfig, write_segments: WriteSegments = segment_inference.write, checkpoint: str = ""
) -> int:
    """Predicts as `config` says; returns the exit status.

    Where training deletes the checkpoint before it is read, the next one is taken.

    Args:
      config: the inference's.
      write_segments: writes the ranking, where segments are ranked.
      checkpoint: this one and no other; by default the newest.

    Raises:
      UsageError: no such model, no data, no output named for an archive's model.
      RunError: the model cannot be read.
    """
    if config.output_file and storage.is_dir(config.output_file):
        raise UsageError(f"--output_file={config.output_file} is a folder: name the CSV file to write.")
    if config.input_model_tgz:
        with _place_to_unpack(config.untar_model_dir) as folder:
            return _infer(config, _unpacked(config.input_model_tgz, folder), write_segments)
    if checkpoint:
        return _infer(config, _from_run(config, checkpoint), write_segments)
    return checkpoints.with_newer(
        _from_run(config),
        lambda: _from_run(config),
        lambda source: [] if source.meta_prefix else [source.checkpoint],
        lambda source: _infer(config, source, write_segments),
    )


def _infer(config: InferenceConfig, source: Source, write_segments: WriteSegments) -> int:
    if not config.output_file and not config.output_model_tgz:
        config = dataclasses.replace(config, output_file=_usual_output(config, source))
    for path in filter(None, (config.output_file, config.output_model_tgz)):
        storage.discard_orphans(path)
    data = _data(config, source.run)
    modeler = _modeler(source, data, config.top_k)
    ranking = segment_inference.ranking_for(config, modeler) if config.segment_labels else None
    if config.output_model_tgz:
        _pack(config.output_model_tgz, source, modeler)
    if not config.output_file:
        return 0
    if ranking is not None:
        ranked = _ranked(config, source, data, modeler, ranking)
        with storage.write_atomic(config.output_file) as file:
            write_segments(file, ranked)
        logging.info("%d segments were ranked; the lists are in %s", ranked.count, config.output_file)
        return 0
    return _predict(config, source, data, modeler)


def _usual_output(config: InferenceConfig, source: Source) -> str:
    """Where predictions go that no file was named for: into the run's folder."""
    if config.input_model_tgz:
        raise UsageError("--output_file is missing: name the CSV file to write.")
    return storage.join(source.folder, PREDICTIONS)


def _from_run(config: InferenceConfig, checkpoint: str = "") -> Source:
    """The run's model, of this checkpoint or else of the newest."""
    folder = saved_run.find_run(config.train_dir)
    run = saved_run.load_run(folder, config.num_classes, config.hyper_parameters, trust_code=config.trust_code)
    newest = checkpoint or checkpoints.newest_readable(folder)
    prefix = storage.join(folder, INFERENCE_MODEL, NAME)
    if newest is None and not storage.exists(f"{prefix}.meta"):
        raise RunError(f"no checkpoint in {folder}: train first, or name another --train_dir.")
    if newest is None:
        return Source(run, folder, prefix, prefix, is_own=run_dir.is_own(folder))
    return Source(run, folder, newest, is_own=run_dir.is_own(folder))


@contextlib.contextmanager
def _place_to_unpack(named: str) -> Iterator[str]:
    """The folder that the user has named, which stays; else a private one, which is removed at the end."""
    if named:
        yield named
        return
    with terminable(), copies.private_folder("yt8m-model-") as folder:
        yield os.path.join(folder, "model")


def _unpacked(tgz: str, folder: str) -> Source:
    """The archive's model."""
    archive.safe_extract(tgz, folder)
    logging.info("%s was unpacked to %s", tgz, folder)
    prefix = _find_meta_graph(folder)
    classes = class_count(read_meta_graph(f"{prefix}.meta"))
    run = saved_run.load_run(_described(folder, prefix), classes, {})
    return Source(run, folder, prefix, prefix)


def _described(folder: str, prefix: str) -> str:
    """Where the archive says what it holds: beside the model, or above it as published archives do."""
    inner = os.path.dirname(prefix)
    return inner if run_dir.read(inner) else folder


def _find_meta_graph(folder: str) -> str:
    """The prefix of the inference model, in the folder or one below, as published archives have it."""
    for path in (folder, *storage.glob(f"{folder}/*")):
        if os.path.exists(os.path.join(path, f"{NAME}.meta")):
            return os.path.join(path, NAME)
    raise RunError(f"{folder} holds no {NAME}.meta: the archive was not made by --output_model_tgz.")


def _data(config: InferenceConfig, run: TrainConfig) -> DataConfig:
    data = saved_run.data_for(config, run.data, config.input_data_pattern, config.segment_labels)
    is_read = config.output_file and not config.input_data_pattern
    return input_check.default_to_sample_data(data, "test") if is_read else data


def _modeler(source: Source, data: DataConfig, top_k: int) -> VideoModeler:
    if source.meta_prefix:
        return MetaGraphModeler(source.meta_prefix, top_k, is_own=source.is_own)
    return workload.create(data, source.run.model, "infer", top_k).modeler


def _ranked(
    config: InferenceConfig, source: Source, data: DataConfig, modeler: VideoModeler, ranking: SegmentRanking
) -> SegmentRanking:
    """`ranking`, with every segment in it."""
    candidates = segment_inference.candidates_for(config, modeler)
    inputter = segment_inference.inputter_for(data, config.segment_context)
    consumer = segment_inference.consumer_for(ranking, candidates)
    _run(config, source, inputter, modeler, consumer, check_input(inputter, data))
    return ranking


def _predict(config: InferenceConfig, source: Source, data: DataConfig, modeler: VideoModeler) -> int:
    """Writes the CSV beside and renames it once it is whole."""
    inputter = readers.BatchQueue.for_config(data, "infer")
    walked = check_input(inputter, data)
    with storage.write_atomic(config.output_file, "w") as file:
        writer = PredictionWriter(file, config.top_k)
        _run(config, source, inputter, modeler, writer, walked)
        if not writer.count:
            raise RunError(f"{data.data_pattern} holds no record: there is nothing to predict.")
    logging.info("%d predictions are in %s", writer.count, config.output_file)
    return 0


def _run(
    config: InferenceConfig,
    source: Source,
    inputter: readers.BatchQueue,
    modeler: VideoModeler,
    consumer: Any,
    walked: Walked,
) -> None:
    """Hands the reports of every step to `consumer`.

    Raises:
      RunError: the run did not come to its end, with the exit status of that; or a shard changed meanwhile.
    """
    settings = runner.RunnerConfig(
        mode="infer",
        model_dir=source.folder,
        checkpoint=source.checkpoint,
        batch_size_per_gpu=config.batch_size,
        log_every_n_iter=config.log_every_n_steps,
        optimizer=source.run.optimizer,
        progress=sys.stderr.isatty(),
    )
    callbacks = runner.CallbackConfig(config.callbacks, options={"infer_writer": {"consumer": consumer}})
    outcome = runner.build(settings, inputter, modeler, callbacks).run()
    if outcome.exit_code:
        raise _UnfinishedError(outcome, config.output_file)
    if outcome.status is runner.Status.OUT_OF_DATA:
        walked.check_read(inputter)


class _UnfinishedError(RunError):
    """Leaves the output unwritten with the run's own exit status."""

    def __init__(self, outcome: runner.Outcome, output: str) -> None:
        super().__init__(f"{output} was not written: {outcome.message}")
        self.exit_code = outcome.exit_code


def _pack(path: str, source: Source, modeler: VideoModeler) -> None:
    """Packs the inference model and what it needs to know into one archive."""
    folder = storage.join(source.folder, INFERENCE_MODEL)
    if not source.meta_prefix:
        write_inference_model(
            folder,
            source.checkpoint,
            modeler,
            frame_features=source.run.data.frame_features,
            moving_average_decay=source.run.optimizer.moving_average_decay,
            describe=model_card.describing(source.run, source.folder, checkpoints.step_of(source.checkpoint)),
        )
        run_dir.write(folder, source.run, is_own=source.is_own)
    archive.make_tgz(copies.folder_copy(folder), path)
    logging.info("the model is packed in %s", path)
