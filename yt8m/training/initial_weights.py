"""The weights that a new run takes from another run: its newest checkpoint, and where its classes are there."""

from __future__ import annotations

from typing import Any

from absl import logging

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.train_config import DataConfig, TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.graph.restore import NEW, ClassMap, class_axes
from yt8m.lazy import tf
from yt8m.records import vocabulary
from yt8m.records.class_matching import Matching, match_classes, read_renames
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.video.modeler import VideoModeler
from yt8m.video.workload import Workload


def find_checkpoint(folder: str) -> str:
    """The newest checkpoint in the folder of --init_from.

    Raises:
      UsageError: there is no such folder.
      RunError: the folder holds no checkpoint that can be read.
    """
    if not storage.is_dir(folder):
        raise UsageError(f"--init_from={folder}: there is no such folder; name the folder of a run.")
    newest = checkpoints.newest_readable(folder)
    if newest is None:
        raise RunError(f"--init_from={folder}: there is no checkpoint; name the folder of a run.")
    return newest


def map_classes(config: TrainConfig, workload: Workload) -> ClassMap | None:
    """The class of the run of --init_from for each class of the run; None if all are the same, or either is unknown.

    Raises:
      UsageError: a class cannot be found by its name, --rename does not fit the two vocabularies, or there is no new
        class for --train_only.
    """
    matching = _match(config, workload.names)
    if config.train_only and (matching is None or NEW not in matching.sources):
        reason = (
            "the names of the classes are not known" if matching is None else "that run has all classes of the data"
        )
        raise UsageError(f"--train_only=new --init_from={config.init_from}: {reason}; leave out --train_only.")
    if matching is None or matching.is_same:
        return None
    logging.info("classes of %s: %s", config.init_from, matching.summary())
    if matching.gone:
        logging.info("gone: %s", ", ".join(matching.gone[:20]) + (", ..." if len(matching.gone) > 20 else ""))
    logging.info(
        "the thresholds of %s belong to its classes: eval --report chooses those of this run", config.init_from
    )
    count = len(matching.sources)
    shapes, larger = (shapes_of(workload.modeler.model, config.data, classes) for classes in (count, count + 1))
    return ClassMap(matching.sources, matching.num_classes_there, class_axes(shapes, larger, count))


def _match(config: TrainConfig, names: Vocabulary) -> Matching | None:
    """Finds the classes of the run in those of --init_from; None if either vocabulary is unknown."""
    saved = run_dir.read(config.init_from)
    num_classes_there = None if saved is None or saved.published else saved.config.data.num_classes
    old = vocabulary.shown_for(num_classes_there, run_dir.own_names(config.init_from, None))
    new = vocabulary.shown_for(config.data.num_classes, names)
    renames = read_renames(config.rename) if config.rename else {}
    if old and new:
        return match_classes(old, new, renames)
    if renames:
        missing = "data" if old else config.init_from
        raise UsageError(f"--rename={config.rename}: the names of the classes of {missing} are not known.")
    return None


def shapes_of(model: Any, data: DataConfig, num_classes: int) -> dict[str, tuple[int, ...]]:
    """{name: shape} of the variables of a model for this many classes."""
    with tf.Graph().as_default():
        VideoModeler(model, None, num_classes, feature_sizes=data.feature_sizes).predict_placeholders(
            data.frame_features
        )
        return {variable.op.name: tuple(variable.shape.as_list()) for variable in tf.global_variables()}
