"""Builds the workload of a training: the video workload, with a teacher and augmentation if the config asks for them.

This module also finds the checkpoint of --init_from, and maps the classes of that run to those of the training.
"""

from __future__ import annotations

from typing import Any, NoReturn

from absl import logging

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.run_dir import INFERENCE_MODEL
from yt8m.config.run_options import DistillConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.graph.restore import NEW, ClassMap, class_axes
from yt8m.lazy import tf
from yt8m.records import prediction_files, vocabulary
from yt8m.records.foreign_predictions import plain_copy
from yt8m.records.opened_data import OpenedData
from yt8m.records.shards import id_bytes
from yt8m.records.vocabulary import Matching, Vocabulary, match_classes, read_renames
from yt8m.runner import checkpoints
from yt8m.runs.opened_run import OpenedRun
from yt8m.runs.trained_model import TrainedModel
from yt8m.storage import copies
from yt8m.training import numpy_records
from yt8m.video import fitted_transforms, workload
from yt8m.video.modeler import VideoModeler
from yt8m.video.teachers import ModelTeacher, PredictionTeacher, Teacher, TrainingModeler
from yt8m.video.workload import Workload


def teacher_for(distillation: DistillConfig, data: DataConfig, names: Vocabulary) -> Teacher | None:
    """Checks the files of the teacher that the config names, and returns the teacher; None if the config names none.

    Args:
      names: the vocabulary of the training data; empty if they have none.
    """
    if distillation.distill_from:
        return _open_predictions(distillation.distill_from, data.num_classes)
    if not distillation.teacher:
        return None
    names_of_teacher = run_dir.own_names(distillation.teacher, None)
    if names and names_of_teacher:
        remedy = "A teacher has the classes of the run: name another teacher."
        names_of_teacher.refuse_other(names, distillation.teacher, names.path, remedy)
    return _open_teacher_model(distillation.teacher, data)


def _open_predictions(path: str, num_classes: int) -> PredictionTeacher:
    """Checks every line of the file of --distill_from; copies the file to this machine if it is in a bucket."""
    storage.refuse_missing(path, "distill_from")
    count = 0
    for row in prediction_files.read_predictions(path, num_classes):
        if not _can_look_up(row.video_id):
            raise UsageError(
                f"--distill_from: {row.where}: the id {row.video_id} holds a comma, a quote or an escape "
                "(`\\xHH`), so the training cannot look up its predictions; use --teacher."
            )
        if len(row.scores) and not 0 <= row.scores.min() <= row.scores.max() <= 1:
            raise UsageError(
                f"--distill_from: {row.where}: the scores are from {row.scores.min():g} to {row.scores.max():g}; "
                "expected probabilities from 0 to 1."
            )
        count += 1
    logging.info("the teacher is %s, with predictions for %d videos", path, count)
    plain = plain_copy(path, prediction_files.PREDICTION_COLUMNS, "distill_from")
    return PredictionTeacher(copies.file_copy(plain), num_classes)


def _can_look_up(video_id: str) -> bool:
    """Whether the graph can look up the predictions of a video.

    The graph compares the id with the bytes of a line before its first comma, so it does not find an id that the CSV
    file has to quote or escape.
    """
    text = video_id.encode()
    return not {",", '"'} & set(video_id) and id_bytes(text) == text


def _open_teacher_model(folder: str, data: DataConfig) -> ModelTeacher:
    """Opens the inference model in the folder of --teacher, for data with the features and classes of `data`."""
    if not storage.is_dir(folder):
        raise UsageError(
            f"--teacher={folder}: {storage.why_no_folder(folder)}; name the folder of an evaluated run or of an export."
        )
    for prefix in (storage.join(folder, INFERENCE_MODEL, INFERENCE_MODEL), storage.join(folder, INFERENCE_MODEL)):
        if storage.exists(f"{prefix}.meta"):
            teacher = ModelTeacher(prefix, data.num_classes, sum(data.feature_sizes), data.frame_features)
            logging.info("the teacher is %s%s", prefix, _which_weights(folder, prefix))
            _refuse_other_features(folder, data)
            return teacher
    raise UsageError(
        f"--teacher={folder}: the folder has no {INFERENCE_MODEL}/{INFERENCE_MODEL}.meta; evaluate that run once "
        f"(yt8m eval --train_dir={folder} --run_once --eval_data_pattern='FILES'), or name the folder of an export."
    )


def _which_weights(folder: str, prefix: str) -> str:
    """Says that a teacher has the best weights, if its run means those; refuses the weights of another step."""
    saved = run_dir.read(folder)
    if saved is None or saved.config.checkpoint != "best":
        return ""
    run = OpenedRun(folder, saved.config, run_dir.own_names(folder, None), is_own=False)
    if run.choice() != "best":
        return ""
    best = checkpoints.step_of(run.checkpoint())
    step = TrainedModel(run, prefix, is_file=True).step
    if step != best:
        raise UsageError(
            f"--teacher={folder}: {prefix} has the weights of step {step}, but step {best} is the best by validation; "
            f"evaluate that run again (yt8m eval --train_dir={folder} --run_once --eval_data_pattern='FILES')."
        )
    return f", step {step}, the best by validation"


def _refuse_other_features(folder: str, data: DataConfig) -> None:
    """Refuses a teacher with other features than the run, or in another order: its graph knows only their width."""
    saved = run_dir.read(folder) or run_dir.read(folder.rstrip("/").rpartition("/")[0])
    if saved is None:
        return
    of_teacher = saved.config.data
    if of_teacher.film_mean and data.segment_labels:
        raise UsageError(
            f"--teacher={folder} was trained with --film_mean, and an inference model has no input for the mean of the "
            "video beside a segment; name another teacher."
        )
    theirs, ours = _format_features(of_teacher), _format_features(data)
    if theirs != ours:
        raise UsageError(
            f"--teacher={folder} reads the features {theirs}, but this run reads {ours}; give the same "
            "--feature_names and --feature_sizes in the same order, or predict with the teacher and use --distill_from."
        )


def _format_features(data: DataConfig) -> str:
    """The names and sizes of the features, in their order, such as `rgb (1024), audio (128)`."""
    return ", ".join(f"{name} ({size})" for name, size in zip(data.feature_names, data.feature_sizes, strict=True))


def create_training(config: TrainConfig, data: OpenedData | None = None) -> Workload:
    """Creates the workload of a training run, with the teacher and the augmentation of the config."""
    created = workload.create(config.data, config.model, "train", opened=data)
    plain, teacher = created.modeler, teacher_for(config.distillation, config.data, created.names)
    plain.trains_new_only = bool(config.train_only)
    transform = getattr(plain.model, "input_transform", "")
    if transform in fitted_transforms.NAMES and not any(checkpoints.steps_in(config.train_dir)):
        plain.input_statistics = numpy_records.statistics_of(config.data, transform)
    if teacher is None and not config.augmentation.is_on:
        return created
    modeler = TrainingModeler(
        plain.model,
        plain.label_loss,
        plain.num_classes,
        plain.top_k,
        plain.feature_sizes,
        augmentation=config.augmentation,
        teacher=teacher,
        distill_weight=config.distillation.distill_weight,
    )
    modeler.trains_new_only, modeler.input_statistics = plain.trains_new_only, plain.input_statistics
    modeler.class_weights = plain.class_weights
    return created._replace(modeler=modeler)


def find_checkpoint(config: TrainConfig) -> str:
    """The path of the checkpoint that the folder of --init_from means: the best one, or the newest that can be read.

    If that run has other features, or has them in another order, the log warns, since weights are taken by the names of
    variables alone: those of the first layer may fit in shape and belong to other features.
    """
    folder = config.init_from
    if not storage.is_dir(folder):
        raise UsageError(f"--init_from={folder}: {storage.why_no_folder(folder)}; name the folder of a run.")
    saved = run_dir.read(folder)
    means_best = saved is not None and saved.config.checkpoint == "best"
    best = checkpoints.newest_readable(storage.join(folder, run_dir.BEST_FOLDER)) if means_best else None
    newest = best or checkpoints.newest_readable(folder)
    if best:
        logging.info("--init_from=%s: step %d, the best by validation", folder, checkpoints.step_of(best))
    if newest is None:
        raise RunError(f"--init_from={folder}: there is no checkpoint; name the folder of a run.")
    theirs, ours = ("" if saved is None else _format_features(saved.config.data)), _format_features(config.data)
    if theirs not in ("", ours):
        logging.warning(
            "--init_from=%s reads the features %s, but this run reads %s: weights that read features start from those "
            "of other features",
            *(folder, theirs, ours),
        )
    return newest


def _refuse_train_only(old_run: str, matching: Matching | None) -> NoReturn:
    """Raises the `UsageError` that no new class is known; `matching` is None if the classes' names are not known."""
    if matching is not None:
        problem = "the data have no new class; to train all classes, write --train_only= (an empty value)"
    else:
        problem = (
            f"the names of the classes are not known; give {old_run} and the data a {vocabulary.NAME} (index,name)"
        )
    raise UsageError(f"--train_only=new --init_from={old_run}: {problem}.")


def map_classes(config: TrainConfig, workload: Workload) -> ClassMap | None:
    """Maps each class of the training to a class of the run of --init_from, and logs the result.

    Returns:
      The map; None if both have the same classes in the same order, or if the names of the classes are not known.
    """
    matching = _match_classes(config, workload.names)
    if config.train_only and (matching is None or NEW not in matching.sources):
        _refuse_train_only(config.init_from, matching)
    if matching is None or matching.is_same:
        return None
    logging.info("classes of %s: %s", config.init_from, matching.summary())
    if matching.gone:
        names = ", ".join(matching.gone[:20]) + (", ..." if len(matching.gone) > 20 else "")
        logging.info("classes that are not in the data: %s", names)
    logging.info(
        "the thresholds of %s do not apply to the changed classes: yt8m eval --report chooses new thresholds",
        config.init_from,
    )
    count = len(matching.sources)
    shapes, larger = (shapes_of(workload.modeler.model, config.data, classes) for classes in (count, count + 1))
    return ClassMap(matching.sources, matching.num_classes_there, class_axes(shapes, larger, count))


def _match_classes(config: TrainConfig, names: Vocabulary) -> Matching | None:
    """Finds the classes of the training among those of --init_from by their names.

    Args:
      names: the vocabulary of the training data; empty if they have none.

    Returns:
      The matching, in which classes that --init_from lacks are new; None if the names of the training's classes are
      not known, or those of the classes of --init_from.
    """
    saved = run_dir.read(config.init_from)
    num_classes_there = None if saved is None or saved.published else saved.config.data.num_classes
    old = run_dir.own_names(config.init_from, None).shown(num_classes_there)
    new = names.shown(config.data.num_classes)
    renames = read_renames(config.rename) if config.rename else {}
    if old and new:
        return match_classes(old, new, renames)
    if renames:
        missing = "data" if old else config.init_from
        raise UsageError(
            f"--rename={config.rename}: the names of the classes of {missing} are not known; leave out --rename."
        )
    return None


def shapes_of(model: Any, data: DataConfig, num_classes: int) -> dict[str, tuple[int, ...]]:
    """Builds a model to find out the shapes of its variables.

    Returns:
      {name of a variable: its shape}.
    """
    with tf.Graph().as_default():
        VideoModeler(model, None, num_classes, feature_sizes=data.feature_sizes).predict_placeholders(
            data.frame_features
        )
        return {variable.op.name: tuple(variable.shape.as_list()) for variable in tf.global_variables()}
