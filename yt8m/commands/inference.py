"""The program `inference`: predicts with a run's newest checkpoint, or with a packed model that needs no code."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from absl import logging

from yt8m import progress_bar, readers, runner, storage
from yt8m.command_line.program import terminable
from yt8m.commands import input_check, saved_run, segment_inference, workload
from yt8m.commands.segment_inference import SegmentRanking
from yt8m.config import data_fit, run_dir
from yt8m.config.programs import InferenceConfig, PassConfig
from yt8m.config.train_config import DataConfig, DeviceConfig, TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.export import archive, model_card
from yt8m.export.saved_model import INFERENCE_MODEL, write_inference_model
from yt8m.graph.restore import read_meta_graph
from yt8m.records import vocabulary
from yt8m.records.prediction_files import PredictionWriter
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.storage import copies
from yt8m.video.meta_modeler import MetaGraphModeler, class_count
from yt8m.video.modeler import VideoModeler

T = TypeVar("T")

PREDICTIONS = "predictions.csv"


class Source(NamedTuple):
    """A model to predict with.

    Attributes:
      run: the config that the model was trained with.
      folder: the folder of the run, or of the unpacked archive.
      checkpoint: path of the checkpoint to restore.
      meta_prefix: path prefix of an inference model, whose graph is loaded from its meta-graph; empty if the model's
        code builds the graph.
      is_own: whether this user is known to have trained the run on this machine.
      names: the model's own vocabulary; empty if it has none.
    """

    run: TrainConfig
    folder: str
    checkpoint: str
    meta_prefix: str = ""
    is_own: bool = False
    names: Vocabulary = vocabulary.of_names(())


def infer(config: InferenceConfig) -> int:
    """Predicts as `config` says; returns the exit status.

    If training deletes the checkpoint before it is read, the next one is taken.

    Raises:
      UsageError: there is no such model or no data, or no output is named for an archive's model.
      RunError: the model cannot be read.
    """
    if config.output_file and storage.is_dir(config.output_file):
        raise UsageError(f"--output_file={config.output_file} is a folder: name the CSV file to write.")
    if config.input_model_tgz:
        with _unpack_folder(config.untar_model_dir) as folder:
            return _infer(config, from_archive(config.input_model_tgz, folder))
    return with_newer(lambda: from_run(config), lambda source: _infer(config, source))


def with_newer(find: Callable[[], Source], use: Callable[[Source], T]) -> T:
    """`use(find())`, repeated with a newer checkpoint if training deletes the one that was found meanwhile."""
    return checkpoints.with_newer(find(), find, lambda source: [] if source.meta_prefix else [source.checkpoint], use)


def from_run(config: InferenceConfig, checkpoint: str = "") -> Source:
    """The run's model at `checkpoint`, by default the newest; if there is no checkpoint, its inference model."""
    folder = saved_run.find_run(config.train_dir)
    run = saved_run.load_run(folder, config, trust_code=config.trust_code)
    is_own, names = run_dir.is_own(folder), run_dir.own_names(folder, run.data.num_classes)
    newest = checkpoint or checkpoints.newest_readable(folder)
    if newest is not None:
        return Source(run, folder, newest, is_own=is_own, names=names)
    prefix = storage.join(folder, INFERENCE_MODEL, INFERENCE_MODEL)
    if not storage.exists(f"{prefix}.meta"):
        raise RunError(f"no checkpoint in {folder}: train first, or name another --train_dir.")
    return Source(run, folder, prefix, prefix, is_own, names)


@contextlib.contextmanager
def _unpack_folder(named: str) -> Iterator[str]:
    """The folder to unpack into: the one that the user named, which is kept, or a private one, which is removed."""
    if named:
        yield named
        return
    with terminable(), copies.private_folder("yt8m-model-") as folder:
        yield os.path.join(folder, "model")


def from_archive(tgz: str, folder: str, *, trust_code: bool = False) -> Source:
    """Unpacks the archive and finds its model: in the folder itself or, in published archives, one folder below."""
    archive.safe_extract(tgz, folder)
    logging.info("%s was unpacked to %s", tgz, folder)
    for inner in (folder, *storage.glob(f"{folder}/*")):
        prefix = os.path.join(inner, INFERENCE_MODEL)
        if os.path.exists(f"{prefix}.meta"):
            classes = class_count(read_meta_graph(f"{prefix}.meta"))
            # The run's config is in the folder of the model or, in published archives, in the parent folder.
            described = inner if run_dir.read(inner) else folder
            run = saved_run.load_run(described, PassConfig(num_classes=classes), trust_code=trust_code)
            names = run_dir.own_names(inner, classes)
            return Source(run, folder, prefix, prefix, names=names)
    raise RunError(f"{folder} holds no {INFERENCE_MODEL}.meta: the archive was not made by --output_model_tgz.")


def _infer(config: InferenceConfig, source: Source) -> int:
    if not config.output_file and not config.output_model_tgz:
        if config.input_model_tgz:
            raise UsageError("--output_file is missing: name the CSV file to write.")
        config = dataclasses.replace(config, output_file=storage.join(source.folder, PREDICTIONS))
    for path in filter(None, (config.output_file, config.output_model_tgz)):
        storage.discard_orphans(path)
        _announce_replacement(path)
    data, names = _data(config, source)
    source = source._replace(names=names)
    if source.meta_prefix:
        modeler: VideoModeler = MetaGraphModeler(source.meta_prefix, config.top_k)
    else:
        modeler = workload.create(data, source.run.model, "infer", config.top_k).modeler
    ranking = None
    if config.segment_labels:
        ranking = segment_inference.ranking_for(config, modeler, source.names, data.segment_size)
    if config.output_model_tgz:
        _pack(config.output_model_tgz, source, modeler)
    task = _Task(config, source, data, modeler)
    if config.output_file and ranking is not None:
        _rank(task, ranking)
    elif config.output_file:
        _predict(task)
    return 0


def _announce_replacement(path: str) -> None:
    """Logs that an existing file will be replaced. Devices and pipes are not replaced, so they are not logged."""
    if (storage.is_remote(path) and storage.exists(path)) or os.path.isfile(path):
        logging.info("%s exists already: it will be replaced", path)


def _data(config: InferenceConfig, source: Source) -> tuple[DataConfig, Vocabulary]:
    data = saved_run.data_for(config, source.run.data, config.input_data_pattern, config.segment_labels)
    is_read = config.output_file and not config.input_data_pattern
    data = input_check.default_to_sample_data(data, "test") if is_read else data
    names = saved_run.names_for(source.names, config.input_model_tgz or source.folder, data)
    given = {"num_classes": config.num_classes}
    return data_fit.fitted(data, storage.glob(data.data_pattern), "input_data_pattern", given), names


def _pack(path: str, source: Source, modeler: VideoModeler) -> None:
    """Packs the inference model and its description into one archive."""
    folder = storage.join(source.folder, INFERENCE_MODEL)
    if not source.meta_prefix:
        write_inference_model(
            folder,
            source.checkpoint,
            modeler,
            frame_features=source.run.data.frame_features,
            moving_average_decay=source.run.optimizer.moving_average_decay,
            names=source.names,
            describe=model_card.describing(
                source.run, source.names, source.folder, checkpoints.step_of(source.checkpoint)
            ),
        )
        run_dir.write(folder, source.run, source.names, is_own=source.is_own)
    archive.make_tgz(copies.folder_copy(folder), path)
    logging.info("the model is packed in %s", path)


class _Task(NamedTuple):
    """One inference: its config, the source of the model, the data and the modeler."""

    config: InferenceConfig
    source: Source
    data: DataConfig
    modeler: VideoModeler


def _rank(task: _Task, ranking: SegmentRanking) -> None:
    """Ranks every segment by class, then writes the lists to the output file."""
    config, modeler, candidates = task.config, task.modeler, None
    if config.candidates_from:
        candidates = segment_inference.Candidates(config.candidates_from, modeler.listed_classes, modeler.num_classes)
    reader = segment_inference.reader_for(task.data, config.segment_context)
    inputter = readers.BatchQueue.for_config(task.data, "infer", reader)
    _run(task, inputter, segment_inference.consumer_for(ranking, candidates))
    with storage.write_atomic(config.output_file) as file:
        segment_inference.write(file, ranking)
    logging.info("%d segments were ranked; the lists are in %s", ranking.count, config.output_file)


def _predict(task: _Task) -> None:
    """Writes one line per video; the output file appears only when it is complete."""
    inputter = readers.BatchQueue.for_config(task.data, "infer")
    with storage.write_atomic(task.config.output_file, "w") as file:
        writer = PredictionWriter(file, task.config.top_k)
        _run(task, inputter, writer)
        if not writer.count:
            raise RunError(f"{task.data.data_pattern} holds no record: there is nothing to predict.")
    logging.info("%d predictions are in %s", writer.count, task.config.output_file)


def _run(task: _Task, inputter: readers.BatchQueue, consumer: Any) -> None:
    """Runs the model on all data and passes the predictions of each step to `consumer`.

    Raises:
      RunError: the run failed (the error has its exit status), or a shard changed during the run.
    """
    config = task.config
    walked = input_check.check_input(inputter, task.data)
    inputter.threads.log(task.data.num_readers)
    logging.info("predicting with %s", task.source.checkpoint)
    source = task.source
    settings = runner.RunnerConfig.for_run(
        source.run,
        "infer",
        source.folder,
        checkpoint=source.checkpoint,
        devices=DeviceConfig(),
        log_every_n_steps=config.log_every_n_steps,
        progress=progress_bar.shows_bar(),
    )
    callbacks = runner.CallbackConfig(config.callbacks, options={"infer_writer": {"consumer": consumer}})
    outcome = runner.build(settings, inputter, task.modeler, callbacks).run()
    if outcome.exit_code:
        error = RunError(f"{config.output_file} was not written: {outcome.ending}")
        error.exit_code = outcome.exit_code
        raise error
    if outcome.status is runner.Status.OUT_OF_DATA:
        walked.check_read(inputter)
