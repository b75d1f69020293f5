"""The interface of a trained model that scores videos; it is the same for every file format of models.

This module also chooses from the scores of a video the classes to show: the best ones, or those that reach their
thresholds.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.top_k import top_k
from yt8m.records import label_check, shards, shared_videos, span_rules, thresholds
from yt8m.records.batches import Records, read_records
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.prediction_files import PredictionWriter
from yt8m.records.record_parser import NumpyBatch, Raw
from yt8m.records.thresholds import NUM_CANDIDATES, Tagger
from yt8m.records.vocabulary import Vocabulary
from yt8m.scoring.model_input import Data, ModelInput, Videos, batches_of, refuse_nan_in, told_from_cells
from yt8m.types import Closing

if TYPE_CHECKING:
    from yt8m.config.data_config import DataConfig


class EvaluationSettings(NamedTuple):
    """How batches are evaluated; with `keeps_videos` a sample of the videos is kept, from which intervals are drawn."""

    top_k: int = 20
    segment_labels: bool = False
    keeps_videos: bool = False


USUAL_SETTINGS = EvaluationSettings()


class EvaluatedStep(NamedTuple):
    """What a scorer computes from one batch for an evaluator.

    Attributes:
      reports: {name: array} from which the evaluator (`VideoEvaluator`) computes the metrics.
      loss: the mean loss of the batch; None if the model has no loss.
    """

    reports: Mapping[str, NDArray[Any]]
    loss: float | None
    examples: int


class Scorer(Closing, abc.ABC):
    """A trained model that is ready to score videos. Several threads may call it at once.

    Each kind of file has a subclass, which sets the attributes and implements `compute`, `evaluated` and `close`.

    Args:
      names: the model's own vocabulary; empty if it has none.

    Attributes:
      model: the name of the model; empty if the file does not say it.
      step: the training step at which the weights were saved; 0 if the file does not say it.
    """

    model, weights, step = "", "", 0

    def __init__(self, path: str, takes: ModelInput, names: Vocabulary) -> None:
        if names and takes.num_classes and len(names) != takes.num_classes:
            raise RunError(
                f"{path}: its vocabulary names {len(names)} classes, but the model has {takes.num_classes}: one of the "
                "two is damaged or comes from another run. Restore the model from a copy, or export it again."
            )
        self.path, self.takes, self.names = path, takes, names

    @functools.cached_property
    def training_data(self) -> DataConfig:
        """The format of the data that the model was trained on, as far as the file says it."""
        from yt8m.config.data_config import DataConfig  # slow to import, and predictions do not need it

        sizes = self.takes.format.sizes()
        return DataConfig(
            frame_features=self.takes.has_frames,
            feature_names=tuple(sizes),
            feature_sizes=tuple(sizes.values()),
            num_classes=self.num_classes,
            max_frames=self.takes.max_frames,
        )

    @property
    def num_classes(self) -> int:
        """Number of classes, C."""
        return self.takes.num_classes

    @property
    def shown_names(self) -> Vocabulary:
        """The class names to show: the model's own, or else YouTube-8M's if the model has 3862 classes; else empty."""
        return self.names.shown(self.num_classes)

    def names_for(self, data: OpenedData) -> Vocabulary:
        """The class names to show for predictions on some data."""
        return data.names_for(self.names, self.num_classes, self.takes.folder).shown(self.num_classes)

    def tagger(self, thresholds_file: str = "") -> thresholds.Tagger | None:
        """The thresholds that choose the tags of a video, which are the classes whose scores reach their thresholds.

        If each training video has one class, the tag of a video is its best class, unless a file is named, or the
        thresholds of the model guarantee a precision.

        Args:
          thresholds_file: a file of thresholds; empty for the thresholds of the model itself.

        Returns:
          The thresholds; None if the model has none and no file is named.
        """
        if thresholds_file:
            return thresholds.read_named(thresholds_file, self.num_classes)
        tagger, path = self.own_tagger() or (None, "")
        if not self.takes.format.one_class or (tagger is not None and tagger.target is not None):
            if tagger is not None:
                thresholds.log_origin(tagger, path)
            return tagger
        logging.info("each video of the training has one class, so the tag of a video is its best class")
        return (tagger or Tagger(np.zeros(self.num_classes), -1))._replace(takes_best=True)

    def own_tagger(self) -> tuple[Tagger, str] | None:
        """The thresholds of the model itself, and the path of their file; None if it has none."""
        folder = self.weights if storage.is_dir(self.weights) else os.path.dirname(self.weights)
        return thresholds.find_own(folder, self.path, self.num_classes)

    def span_rule(self) -> tuple[str, str]:
        """The text of the model's spans.json, and the path of the file; empty texts if it has none."""
        folder = self.weights if storage.is_dir(self.weights) else os.path.dirname(self.weights)
        paths = [storage.join(part, span_rules.NAME) for part in (folder, self.path)]
        for path in (span_rules.path_in_run(self.takes.folder or self.path), *paths):
            if storage.exists(path):
                return storage.read_text(path), path
        return "", ""

    @functools.cached_property
    def frames_of_cell(self) -> int:
        """Number of frames by which the model tells a cell with its context from a whole video; 0 if it need not."""
        if not self.takes.has_frames:
            return 0
        data = self.training_data
        size, context = data.segment_size, data.segment_context
        if not data.segment_labels:  # exports say it in spans.json alone
            text, path = self.span_rule()
            if not text:
                return 0
            rule = span_rules.parse(text, path)
            size, context = rule.segment_size, rule.segment_context
        return size + 2 * context if context else 0

    def videos_in_batch(self, most: int = 1024) -> int:
        """The default number of videos in a batch: `most`, or fewer if the frames of `most` videos need much memory."""
        return dataclasses.replace(self.training_data, segment_labels=False).examples_in_batch(most)

    def batches(self, data: Data, batch_size: int | None = None, needs: str = "") -> Iterator[Videos]:
        """Divides data into batches. Records stay serialized if the model's own graph can parse them.

        Args:
          data: a file pattern, opened files, the result of `read_records`, batches, or arrays by the names of the
            features.
          batch_size: number of videos in a batch, if `data` are files; None for `videos_in_batch`.
          needs: the feature with the labels, which the log then warns about if files lack them (see `label_check`);
            empty if no labels are needed.
        """
        if isinstance(data, str | os.PathLike | OpenedData):
            data = self.records(data, batch_size)
        if not isinstance(data, Records):
            return map(self.takes.arranged, batches_of(self.takes.by_name(data)))
        self.check(data)
        if needs and not self.takes.has_own_reader:
            label_check.warn(data.data, needs)
            shared_videos.warn(data.data, self.training_data.data_pattern)
        return data.serialized() if self.reads(data) else map(self.takes.arranged, data)

    def batch_of(self, raws: Sequence[Raw], data: Records) -> Videos:
        """Parses some records of `data` into a batch; a model with a custom reader gets them serialized."""
        self.check(data)
        return raws if self.takes.has_own_reader else self.takes.arranged(data.parsed(raws))

    def records(self, files: storage.Patterns | OpenedData, batch_size: int | None = None) -> Records:
        """The records of files in batches.

        Args:
          batch_size: number of videos in a batch; None for `videos_in_batch`.
        """
        data = files if isinstance(files, OpenedData) else open_data(files).with_absolute_paths()
        most, batch_size = self.takes.max_frames, batch_size or self.videos_in_batch()
        # If the format of the files cannot be found, the model's format is assumed; reading then names damaged records.
        if self.takes.has_own_reader or data.format is None:
            return Records(data.files, self.takes.format, batch_size, most, opened=data)
        return read_records(data, batch_size=batch_size, num_classes=self.num_classes, max_frames=most)

    def check(self, data: Records) -> None:
        """Refuses records whose features or vocabulary differ from the model's; raises `UsageError`."""
        self.names_for(data.data)
        self.takes.check(data)
        if not self.takes.has_own_reader:
            data.data.refuse_unknown_bytes(self.takes.format)

    def reads(self, data: Records) -> bool:
        """Whether the model's graph can parse the records; otherwise they must be parsed into arrays first."""
        return self.takes.reads(data)

    def scores(
        self, videos: Videos, rows: int = 0, *, are_cells: bool = False
    ) -> tuple[list[str], NDArray[np.float32]]:
        """Scores B videos.

        Args:
          are_cells: whether the videos are arrays of cells with their context, rather than whole videos.
          rows: number of rows that the model computes; if it exceeds B, the last video is repeated. If `rows` is the
            same in every call, the scores of a video do not depend on B. 0 for B rows.

        Returns:
          The ids of the videos, and the scores of all classes, float32 [B, C].
        """
        if not are_cells and isinstance(videos, NumpyBatch):
            videos = told_from_cells(videos, self.frames_of_cell)
        ids, scores = self.compute(videos, rows)
        if not np.isfinite(scores).all():
            from yt8m.video.scores import refuse_nan  # slow to import

            refuse_nan_in(videos)
            refuse_nan(scores)
        return ids, scores

    @abc.abstractmethod
    def compute(self, videos: Videos, rows: int) -> tuple[list[str], NDArray[np.float32]]:
        """Like `scores`, which calls it, but does not check whether scores are finite; subclasses implement it."""

    def hidden(self, videos: Videos, rows: int = 0) -> tuple[list[str], NDArray[np.float32]]:
        """Computes the last hidden layer of the model for B videos; exports have scores alone.

        Args:
          rows: as for `scores`.

        Returns:
          The ids of the videos, and their vectors, float32 [B, F].
        """
        raise UsageError(f"{self.path} is an export, which computes scores alone; name the run that it was made from.")

    @abc.abstractmethod
    def evaluated(self, videos: Videos, rows: int = 0, settings: EvaluationSettings = USUAL_SETTINGS) -> EvaluatedStep:
        """Computes what an evaluator needs from a batch with labels."""


class ArrayScorer(Scorer):
    """A scorer whose graph has no labels and no loss: that of an export or of an ONNX file.

    It can be evaluated on parsed records, but not on rated segments.
    """

    def __init__(self, path: str, takes: ModelInput, names: Vocabulary, weights: str, about: Mapping[str, Any]) -> None:
        super().__init__(path, takes, names)
        self.model, self.weights, self.step = about["model"], weights, about["step"]
        which = f"step {self.step}" + (", averaged weights" if about["is_averaged"] else "")
        logging.info("the model is %s, %s, from %s", self.model or "an ensemble", which, weights)

    def reads(self, data: Records) -> bool:
        """Whether the graph gets the records serialized, which is so only if the model has a custom reader."""
        return self.takes.has_own_reader

    def evaluated(self, videos: Videos, rows: int = 0, settings: EvaluationSettings = USUAL_SETTINGS) -> EvaluatedStep:
        """See `Scorer.evaluated`; the videos must be arrays, and the result has no loss."""
        from yt8m.video.modeler import VideoModeler  # slow to import, and predictions do not need it

        if settings.segment_labels:
            raise UsageError("an export cannot be evaluated on rated segments: load the run instead.")
        if not isinstance(videos, NumpyBatch):
            raise UsageError(
                "this export has a reader of your own, by which it cannot read labels: evaluate the run that it was "
                "exported from."
            )
        reports = {"all_scores": self.scores(videos, rows)[1], "positives": videos.labels}
        completed = VideoModeler(None, None, self.num_classes, settings.top_k).completed(reports)
        return EvaluatedStep(completed, None, len(videos))


ScoredClasses = list[tuple[int, float]]  # (class, score), best first


def best_classes(scores: NDArray[np.float32], count: int) -> ScoredClasses:
    """The `count` best classes of a video with the scores [C]; of equal scores, the one with the lower index first."""
    best = top_k(scores[np.newaxis], count)
    return list(zip(best.classes[0].tolist(), best.scores[0].tolist(), strict=True))


def tags(scores: NDArray[np.float32], tagger: Tagger) -> ScoredClasses:
    """The tags of a video with the scores [C]: those of its 20 best classes whose scores reach their thresholds."""
    best = top_k(scores[np.newaxis], NUM_CANDIDATES)
    are_tags = tagger.are_tags(best.classes[0], best.scores[0])
    return list(zip(best.classes[0][are_tags].tolist(), best.scores[0][are_tags].tolist(), strict=True))


def write_predictions(writer: PredictionWriter, scorer: Scorer, batches: Iterable[Videos], rows: int = 0) -> None:
    """Scores the videos of `batches` and writes a line for each; `rows` and the errors are those of `Scorer.scores`."""
    for videos in batches:
        ids, scores = scorer.scores(videos, rows)
        best, names = top_k(scores, writer.top_k), np.empty(len(ids), object)
        names[:] = [shards.id_bytes(video_id.encode()) for video_id in ids]
        writer({"video_ids": names, "classes": best.classes, "scores": best.scores})
