"""The program `inference`: writes the predictions of a run, an export or an archive for videos or their segments."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from yt8m import readers, runner, scoring, storage, terminal
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.programs import InferenceConfig
from yt8m.config.run_dir import INFERENCE_MODEL
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.segment_ranking import Candidates, SegmentRanking, WindowMeans, write_lists
from yt8m.export.saved_model import write_model_of_run
from yt8m.readers import input_check
from yt8m.records.opened_data import OpenedData
from yt8m.records.prediction_files import PredictionWriter
from yt8m.records.vocabulary import Vocabulary, read_segment_classes
from yt8m.runs import archive, trained_model
from yt8m.runs.default_data import sample_data_of_run
from yt8m.runs.opened_run import FittedData, OpenedRun, open_run
from yt8m.runs.trained_model import TrainedModel
from yt8m.scoring.export_scorer import compare_stated, is_export, refuse_run_options
from yt8m.scoring.scorer import write_predictions
from yt8m.storage import copies
from yt8m.storage.new_outputs import begun, was_begun
from yt8m.termination import terminable
from yt8m.video.modeler import VideoModeler

PREDICTIONS = "predictions.csv"  # name of the output file in the run's folder, if --output_file is not given


def infer(config: InferenceConfig, data: OpenedData | None = None) -> int:
    """Writes the predictions of a model for files, packs the model into an archive, or both; returns the exit status.

    If training deletes the checkpoint while it is read, a newer one is used.
    """
    if config.output_file and storage.is_dir(config.output_file):
        raise UsageError(f"--output_file={config.output_file} is a folder: name the CSV file to write.")
    if is_export(config.train_dir):
        return _infer_with_export(config, data)
    if config.input_model_tgz:
        with _unpack_folder(config) as (folder, is_unpacked):
            model = trained_model.of_archive(config.input_model_tgz, folder, is_unpacked=is_unpacked)
            return _infer_with_model(config, model, data)
    run = open_run(config.train_dir, config, trust_code=config.trust_code)
    return trained_model.with_newer(
        lambda: trained_model.of_run(run, config.checkpoint), lambda model: _infer_with_model(config, model, data)
    )


def _infer_with_export(config: InferenceConfig, data: OpenedData | None) -> int:
    """Writes the predictions of an exported model for records; returns the exit status."""
    refuse_run_options(config)
    if not config.input_data_pattern:
        raise UsageError(
            f"--input_data_pattern is missing: {config.train_dir} is an export, which names no data; give the files to "
            "predict."
        )
    if not config.output_file:
        raise UsageError(
            f"--output_file is missing: no predictions are written into an export ({config.train_dir}); name the CSV "
            "file to write."
        )
    storage.discard_orphans(config.output_file)
    _announce_replacement(config.output_file)
    with terminable(), scoring.open(config.train_dir, config.checkpoint) as scorer:
        compare_stated(scorer, config)
        size = config.batch_size or scorer.videos_in_batch(config.most_in_batch)
        logging.info("input: --batch_size=%d", size)
        batches = scorer.batches(data or config.input_data_pattern, size)
        with storage.write_atomic(config.output_file, "w") as file:
            writer = PredictionWriter(file, config.top_k)
            write_predictions(writer, scorer, terminal.with_bar(batches, "predicting"))
    logging.info("%d predictions are in %s", writer.count, config.output_file)
    return 0


@contextlib.contextmanager
def _unpack_folder(config: InferenceConfig) -> Iterator[tuple[str, bool]]:
    """Yields the folder to unpack an archive into, and whether a killed start of this command has unpacked it there.

    If --untar_model_dir is not given, this is a temporary folder, which is removed after the block; a folder that the
    user names is kept.
    """
    if folder := config.untar_model_dir:
        is_unpacked = os.path.isdir(folder) and bool(os.listdir(folder)) and was_begun(folder, repr(config))
        with begun(folder, repr(config)):
            yield folder, is_unpacked
        return
    with terminable(), copies.private_folder("yt8m-model-") as folder:
        yield os.path.join(folder, "model"), False


def _infer_with_model(config: InferenceConfig, model: TrainedModel, opened: OpenedData | None) -> int:
    """Predicts for videos or segments, packs the model, or both, as the flags ask; returns the exit status, 0."""
    if not config.output_file and not config.output_model_tgz:
        if config.input_model_tgz:
            raise UsageError("--output_file is missing: name the CSV file to write.")
        config = dataclasses.replace(config, output_file=storage.join(model.run.folder, PREDICTIONS))
    for path in filter(None, (config.output_file, config.output_model_tgz)):
        storage.discard_orphans(path)
        _announce_replacement(path)
    data, opened, names = _fit_data(config, model.run, opened)
    modeler, ranking = model.modeler(data, "infer", config.top_k), None
    if config.segment_labels:
        ranking = new_segment_ranking(config, modeler.num_classes, names, data.segment_size)
        modeler.listed_classes = tuple(ranking.classes)
    if config.output_model_tgz:
        _pack_model(config.output_model_tgz, model, modeler, names)
    task = _InferenceTask(config, model, data, opened, modeler)
    if config.output_file and ranking is not None:
        _rank_segments(task, ranking)
    elif config.output_file:
        _predict_videos(task)
    return 0


def _announce_replacement(path: str) -> None:
    """Logs that an existing file will be replaced. Devices and pipes are not replaced, so they are not logged."""
    if (storage.is_remote(path) and storage.exists(path)) or os.path.isfile(path):
        logging.info("%s exists already: it will be replaced", path)


def _fit_data(config: InferenceConfig, run: OpenedRun, opened: OpenedData | None) -> FittedData:
    """Opens the data of the inference; raises `UsageError` if they do not fit the run."""
    data = run.data_for(config, config.input_data_pattern, config.segment_labels)
    if config.output_file and not config.input_data_pattern:
        data = sample_data_of_run(run.folder, run.config.data, data, "test", "input_data_pattern")
    flags = {"num_classes": config.num_classes}
    return run.fit(data, "input_data_pattern", flags, opened=opened, where=config.input_model_tgz)


def _pack_model(path: str, model: TrainedModel, modeler: VideoModeler, names: Vocabulary) -> None:
    """Packs the model as an inference model, with its config and vocabulary, into the archive `path`.

    The inference model of a checkpoint is first written into the folder of the run.
    """
    run = model.run
    folder = storage.join(run.folder, INFERENCE_MODEL)
    if not model.is_file:
        write_model_of_run(folder, model, modeler, names, run.folder, model.step)
        run_dir.write(folder, run.config, names, is_own=run.is_own)
    archive.make_tgz(copies.folder_copy(folder), path)
    logging.info("the model is packed in %s", path)


class _InferenceTask(NamedTuple):
    """The parts of an inference that `_rank_segments` and `_predict_videos` share."""

    config: InferenceConfig
    model: TrainedModel
    data: DataConfig
    opened: OpenedData
    modeler: VideoModeler


def _rank_segments(task: _InferenceTask, ranking: SegmentRanking) -> None:
    """Scores every segment of the videos, then writes the best segments of each class to the output file."""
    config, modeler, candidates = task.config, task.modeler, None
    if config.candidates_from:
        candidates = Candidates(config.candidates_from, modeler.listed_classes, modeler.num_classes)
    reader = segment_reader(task.data, config.segment_context, config.segment_shifts)
    inputter = readers.BatchQueue.for_config(task.data, "infer", reader, opened=task.opened)
    _run_model(task, inputter, segment_consumer(ranking, candidates, len(config.segment_shifts)))
    with storage.write_atomic(config.output_file) as file:
        write_lists(file, ranking)
    logging.info("%d segments were ranked; the lists are in %s", ranking.count, config.output_file)


def new_segment_ranking(
    config: InferenceConfig, num_classes: int, names: Vocabulary | None = None, segment_size: int = 5
) -> SegmentRanking:
    """Creates a ranking of segments, still empty, for the classes whose best segments are to be listed.

    These are the classes in --segment_label_ids_file, by default the 1000 classes for which YouTube-8M rates segments.
    If the model has none of those 1000, or a vocabulary of other classes than YouTube-8M's, all its classes are listed.

    Args:
      names: the vocabulary of the model; None or empty if it has none.
    """
    path = config.segment_label_ids_file
    classes = sorted(read_segment_classes(path))
    is_own = names and not names.is_youtube8m and not path
    listed = [] if is_own else [number for number in classes if number < num_classes]
    if path and len(listed) < len(classes):
        raise UsageError(
            f"--segment_label_ids_file={path}: class {classes[-1]} is not a class of the model, "
            f"whose classes are 0 to {num_classes - 1}; name a file that has only those."
        )
    return SegmentRanking(listed or range(num_classes), config.segment_max_pred, segment_size)


def segment_reader(data: DataConfig, context: int, shifts: Sequence[int]) -> readers.EverySegmentReader:
    """Creates a reader of every segment of every video."""
    if data.reader:
        raise UsageError(
            f"--segment_labels cuts videos of YouTube-8M's layout into segments, but the run's reader is "
            f"{data.reader}: predict for whole records, without --segment_labels."
        )
    if data.segment_context and context:
        raise UsageError(
            f"--segment_context={context}: the run was trained with --segment_context={data.segment_context}, which it "
            "keeps; leave the flag out."
        )
    reader = readers.EverySegmentReader(
        *(data.num_classes, data.feature_sizes, data.feature_names, data.max_frames),
        *(data.segment_size, data.segment_context or context, data.nan_policy, data.feature_ranges),
        shifts=shifts,
        repeats_ends=data.segment_context > 0,
    )
    reader.film_mean = data.film_mean
    return reader


def segment_consumer(
    ranking: SegmentRanking, candidates: Candidates | None, windows: int = 1
) -> Callable[[Mapping[str, np.ndarray]], None]:
    """Returns a function that adds the reports of one step (ids and class scores) to the ranking.

    Args:
      candidates: for each video the classes for which its segments may be listed; None for all classes.
    """
    means = WindowMeans(windows)

    def consume(reports: Mapping[str, np.ndarray]) -> None:
        segments, scores = means.join(reports["video_ids"].tolist(), reports["class_scores"])
        ranking.add(segments, scores if candidates is None else candidates.among(segments, scores))

    return consume


def _predict_videos(task: _InferenceTask) -> None:
    """Writes the predictions, one line per video; the output file appears only when it is complete."""
    inputter = readers.BatchQueue.for_config(task.data, "infer", opened=task.opened)
    with storage.write_atomic(task.config.output_file, "w") as file:
        writer = PredictionWriter(file, task.config.top_k)
        _run_model(task, inputter, writer)
        if not writer.count:
            raise RunError(
                f"{task.data.data_pattern} holds no record, so there is nothing to predict: name other files."
            )
    logging.info("%d predictions are in %s", writer.count, task.config.output_file)


def _run_model(task: _InferenceTask, inputter: readers.BatchQueue, consumer: Any) -> None:
    """Runs the model on all data and passes the predictions of each step to `consumer`."""
    config = task.config
    counted_shards = input_check.check_input(inputter, task.data)
    inputter.log_settings()
    task.model.log()
    callbacks = runner.CallbackConfig(config.callbacks, options={"infer_writer": {"consumer": consumer}})
    outcome = runner.build(task.model.runner_config("infer", config), inputter, task.modeler, callbacks).run()
    if outcome.exit_code:
        error = RunError(f"{config.output_file} was not written: {outcome.ending}")
        error.exit_code = outcome.exit_code
        raise error
    if outcome.status is runner.Status.OUT_OF_DATA:
        counted_shards.check_read()
