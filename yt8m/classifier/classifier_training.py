"""Trains the run of a classifier, and chooses the thresholds of its classes."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import models, storage
from yt8m.classifier import training_data
from yt8m.classifier.given_videos import GivenVideos, paths_of, videos_of
from yt8m.classifier.run_folder import RunFolder
from yt8m.classifier.training_data import VideosAndLabels
from yt8m.config import run_dir
from yt8m.config.data_config import KNOWN_SIZES
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError
from yt8m.options import fields_of, flag_of
from yt8m.python_api.data_errors import DataError
from yt8m.python_api.given_labels import GivenLabels
from yt8m.records import thresholds, vocabulary
from yt8m.records.thresholds import NUM_CANDIDATES

AUTO = "auto"
_ARRAYS = "(arrays in memory)"  # in place of the files that a run was trained on
# Options of a training that the classifier sets itself.
_OWN_OPTIONS = (
    "train_data_pattern",
    "data",
    "train_dir",
    "eval_data_pattern",
    "model",
    "budget",
    "seed",
    "refit",
    "config",
    "feature_names",
    "feature_sizes",
    "frame_features",
    "num_classes",
    "start_new_model",
)


class TrainingSettings(NamedTuple):
    """The arguments of the constructor."""

    model: str | type[Any]
    budget: float | None
    seed: int
    options: Mapping[str, Any]
    extractors: Sequence[str]
    extractor_settings: Mapping[str, Any]
    verbose: bool


@dataclass(frozen=True)
class FittedInput:
    """What a classifier takes, as the training found it.

    Attributes:
      sizes: {feature: number of values}.
      columns: the columns of a DataFrame; None if X was none.
      extractor_settings: None if X had no paths of videos.
    """

    sizes: Mapping[str, int]
    has_frames: bool
    columns: tuple[str, ...] | None
    extractor_settings: Mapping[str, Any] | None = None


class Fitted(NamedTuple):
    """What a training gives a classifier; `span_thresholds` is None without frames."""

    run: RunFolder
    input: FittedInput
    thresholds: NDArray[np.float64]
    span_thresholds: NDArray[np.float64] | None


def train(
    settings: TrainingSettings, X: Any, labels: GivenLabels, groups: Any, validation: tuple[Any, GivenLabels] | None
) -> Fitted:
    """Trains on some videos; the arguments are those of `Classifier.fit`."""
    for name in settings.options:
        if _flag_of(name) in _OWN_OPTIONS:
            raise DataError(f"options has {name}, which the classifier sets itself: see the arguments of Classifier.")
    if not labels.matrix.any():
        raise DataError("no video of y has a label: give y with a label of at least one video.")
    videos, extractors, data = _read(settings, X, labels)
    _refuse_other_level(settings.model, videos)
    if validation is None:
        training, held_out = training_data.divided(data, groups, settings.seed)
    else:
        validation_videos, _, held_out = _read(settings, *validation)
        if validation_videos.sizes() != videos.sizes() or validation_videos.has_frames != videos.has_frames:
            raise DataError(f"X has {videos.sizes()} values, and X_val has {validation_videos.sizes()}.")
        training = data
    run = RunFolder()
    try:
        training_data.write(run.data, training, held_out, extractors)
        _run_training(settings, run, training.videos, keeps_validation=validation is not None)
        _note_arrays(run)
        thresholds_of_classes = _thresholds(run, held_out)
        of_spans = _span_thresholds(run, (held_out, training)) if videos.has_frames else None
    except BaseException:
        run.remove()
        raise
    shutil.rmtree(run.data, ignore_errors=True)
    input_of_run = FittedInput(
        *(videos.sizes(), videos.has_frames, videos.columns),
        extractor_settings=settings.extractor_settings if extractors else None,
    )
    return Fitted(run, input_of_run, thresholds_of_classes, of_spans)


def _span_thresholds(run: RunFolder, divided_data: Sequence[VideosAndLabels]) -> NDArray[np.float64]:
    """The thresholds for parts of videos, float64 [C], which are also written into the run, as an evaluation does.

    The first thousand videos choose.
    """
    from yt8m.scoring import film_spans
    from yt8m.scoring.label_joining import MOST_VIDEOS, BestCells

    scorer = run.model._scorer
    cells, best = film_spans.default_joining(scorer), BestCells(scorer.num_classes)
    for some in divided_data:
        some = some.take(np.arange(min(MOST_VIDEOS - best.videos, len(some.labels))))
        batches = (batch for batch, _ in some.videos.batches())
        frames = (values for batch in batches for _, values in film_spans.frames_of_batch(scorer, batch))
        for labels, values in zip(some.labels.matrix, frames, strict=True):
            best.add(film_spans.score_cells(scorer, values, cells), labels)
    joining = best.joining(cells)
    film_spans.write(run.path, joining, scorer.step, {"chosen_on": {"labels of videos": best.videos}})
    return joining.thresholds


def _note_arrays(run: RunFolder) -> None:
    """Says in the files of a run that its data were arrays, in place of a folder that is removed."""
    texts = {f"{run.data}/{split}/*.tfrecord": _ARRAYS for split in ("train", "validate")}
    run.replace_texts({",".join(texts): _ARRAYS, **texts, f"--vocabulary={run.data}/vocabulary.csv\n": ""})
    config = run.config()
    config = replace(config, data=replace(config.data, vocabulary=""))
    run_dir.write(run.path, config, is_own=True)


def _flag_of(option: str) -> str:
    """The name of the flag that an option of a training stands for, which may be another name of it."""
    fields = (field for _, field in fields_of(TrainConfig))
    return next((flag_of(field) for field in fields if option in field.metadata["aliases"]), option)


def _refuse_other_level(model: str | type[Any], videos: GivenVideos) -> None:
    """Refuses a model of frames for whole videos, and the other way round."""
    if model == AUTO:
        return
    given_level, level = "frame" if videos.has_frames else "video", None
    with contextlib.suppress(UsageError):  # an unknown name is refused by the training
        level = getattr(models.get(model) if isinstance(model, str) else model, "level", None)
    if level is None or level == given_level:
        return
    takes = {"frame": "frames, [videos, frames, values]", "video": "one vector for each video, [videos, values]"}
    fitting = ", ".join(name for name in models.built_in_names() if models.get(name).level == given_level)
    name = model if isinstance(model, str) else model.__name__
    raise DataError(
        f"model={name!r} takes {takes[level]}, but X has {takes[given_level]}. Models for this X: {fitting}."
    )


def _read(
    settings: TrainingSettings, X: Any, labels: GivenLabels
) -> tuple[GivenVideos, Sequence[Mapping[str, Any]], VideosAndLabels]:
    """The videos, the extractors of their features, and the videos with their labels."""
    paths = None if isinstance(X, GivenVideos) else paths_of(X)
    if len(paths or ()) and len(paths or ()) != len(labels):
        raise DataError(f"X has {len(paths or ())} videos, but y has {len(labels)}: give the labels of each.")
    if paths is None:
        videos, extractors = videos_of(X), list[Mapping[str, Any]]()
    else:
        from yt8m.classifier import video_files  # few have videos

        videos, extractors = video_files.extract(paths, settings.extractors, settings.extractor_settings)
    if len(videos) != len(labels):
        raise DataError(f"X has {len(videos)} videos, but y has {len(labels)}: inconsistent numbers of samples.")
    return videos, extractors, VideosAndLabels(videos, labels)


def _run_training(settings: TrainingSettings, run: RunFolder, videos: GivenVideos, *, keeps_validation: bool) -> None:
    """Trains the run on `videos`; with `keeps_validation` it is validated meanwhile on those that were held out."""
    from yt8m.command_line import program, search_flags
    from yt8m.python_api import fitting  # imports TensorFlow

    is_led = search_flags.is_led_by_user(settings.options)
    chooses = settings.model == AUTO or not (is_led or any(name in KNOWN_SIZES for name in videos.sizes()))
    if chooses and is_led:
        names = ", ".join(sorted(settings.options))
        raise DataError(
            f"model={AUTO!r} chooses the model and how it is trained, so it does not go with {names}: name a model."
        )
    flags: dict[str, Any] = {
        "train_data_pattern": f"{run.data}/train/*.tfrecord",
        "train_dir": run.path,
        "model": settings.model,
        "budget": settings.budget if chooses else None,
        "frame_features": videos.has_frames or None,
        "feature_names": list(videos.sizes()),
        "feature_sizes": list(videos.sizes().values()),
        "seed": settings.seed,
    }
    if chooses and keeps_validation:
        flags["eval_data_pattern"] = f"{run.data}/validate/*.tfrecord"
    flags |= settings.options
    with contextlib.ExitStack() as stack:
        stack.enter_context(program.shown_log() if settings.verbose else program.hidden_log())
        fitted = fitting.train_in_process(flags)
    if fitted.status == "stopped":
        raise KeyboardInterrupt(fitted.message)


def _thresholds(run: RunFolder, held_out: VideosAndLabels) -> NDArray[np.float64]:
    """The thresholds of the classes, float64 [C], which are also written into the run as an evaluation writes them.

    A model that was trained on the videos that were held out, after it was chosen, gets the thresholds of the chosen
    candidate before that training: on videos that it has seen, its scores would be too good.
    """
    scorer = run.model._scorer
    path = storage.join(run.path, thresholds.EVALUATION, thresholds.NAME)
    of_search = storage.join(run.path, thresholds.OF_CHOICE)
    storage.makedirs(storage.join(run.path, thresholds.EVALUATION))
    if storage.exists(of_search):
        storage.write(path, storage.read_bytes(of_search))
        return thresholds.read(path).thresholds
    from yt8m.classifier import classifier_scores
    from yt8m.config.programs import EvalConfig
    from yt8m.eval_util.evaluation_metrics import EvaluationMetrics

    metrics = EvaluationMetrics(len(held_out.labels.classes), NUM_CANDIDATES)
    metrics.accumulate(classifier_scores.scores_of_videos(scorer, held_out.videos), held_out.labels.matrix)
    points = metrics.operating_points(EvalConfig.min_positives)
    thresholds.write(path, points, vocabulary.of_names(held_out.labels.names), scorer.step)
    return thresholds.read(path).thresholds
