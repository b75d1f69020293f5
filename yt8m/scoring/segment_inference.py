"""Segment inference: ranks every segment of every video by class and writes the `Class,Segments` file.

A segment model sees only five seconds, so many classes seem possible; a video-level model has seen the whole video.
So, as the 2019 winners did, predictions for whole videos can supply the candidate classes of each video. A segment is
then ranked for the candidate classes of its video only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import numpy as np

from yt8m import readers
from yt8m.config.programs import InferenceConfig
from yt8m.config.train_config import DataConfig
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.arrays import Floats32
from yt8m.eval_util.segment_ranking import SegmentRanking
from yt8m.records import prediction_files
from yt8m.records.prediction_files import SEGMENTS_HEADER
from yt8m.records.shards import id_text
from yt8m.records.vocabulary import Vocabulary, read_segment_classes

NO_SEGMENT = "the data hold no frame: there is no segment to rank."


def ranking_for(
    config: InferenceConfig, num_classes: int, names: Vocabulary | None = None, segment_size: int = 5
) -> SegmentRanking:
    """An empty ranking of the classes to list, for a model with `num_classes` classes and the vocabulary `names`.

    The classes are those of `--segment_label_ids_file`, by default the published ones. If the model has none of the
    published classes, or a vocabulary of other classes than YouTube-8M's, all of its classes are listed.

    Raises:
      UsageError: a class of --segment_label_ids_file is not a class of the model.
    """
    path = config.segment_label_ids_file
    classes = sorted(read_segment_classes(path))
    is_own = names and not names.is_youtube8m and not path
    listed = [] if is_own else [number for number in classes if number < num_classes]
    if path and len(listed) < len(classes):
        raise UsageError(
            f"--segment_label_ids_file={path}: class {classes[-1]} is not a class of the model, "
            f"whose classes are 0 to {num_classes - 1}."
        )
    return SegmentRanking(listed or range(num_classes), config.segment_max_pred, segment_size)


def reader_for(data: DataConfig, context: int, shifts: Sequence[int]) -> readers.EverySegmentReader:
    """A reader of every segment of every video; raises `UsageError` if the run has a custom reader."""
    if data.reader:
        raise UsageError(
            f"--segment_labels cuts videos of YouTube-8M's layout into segments, but the run's reader is "
            f"{data.reader}: predict for whole records, without --segment_labels."
        )
    reader = readers.EverySegmentReader(
        *(data.num_classes, data.feature_sizes, data.feature_names, data.max_frames),
        *(data.segment_size, context, data.nan_policy, data.feature_ranges),
        shifts=shifts,
    )
    reader.film_mean = data.film_mean
    return reader


class WindowMeans:
    """Averages the scores of the windows of each segment, which follow one another in a stream of batches.

    Args:
      count: number of windows of each segment.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._names: list[bytes] = []
        self._scores: Floats32 | None = None

    def join(self, names: Sequence[bytes], scores: Floats32) -> tuple[list[bytes], Floats32]:
        """The segments whose last window is in this batch: their names, and mean scores float32 [S, C].

        Args:
          names: the name of the segment of each window.
          scores: float32 [B, C], of windows.
        """
        if self._count == 1:
            return list(names), scores
        names = [*self._names, *names]
        scores = scores if self._scores is None else np.concatenate([self._scores, scores])
        whole = len(names) - len(names) % self._count
        self._names, self._scores = names[whole:], scores[whole:].copy()
        means = scores[:whole].reshape(-1, self._count, scores.shape[1]).mean(axis=1, dtype=np.float32)
        return names[: whole : self._count], means


def consumer_for(
    ranking: SegmentRanking, candidates: Candidates | None, windows: int = 1
) -> Callable[[Mapping[str, np.ndarray]], None]:
    """Returns a function that adds the predictions of one step to the ranking.

    Args:
      ranking: the ranking.
      candidates: the classes that a video may have; None if it may have all.
      windows: number of windows of each segment, whose mean counts.
    """
    means = WindowMeans(windows)

    def consume(reports: Mapping[str, np.ndarray]) -> None:
        segments, scores = means.join(reports["video_ids"].tolist(), reports["class_scores"])
        ranking.add(segments, scores if candidates is None else candidates.among(segments, scores))

    return consume


class Candidates:
    """The candidate classes of each video, read from a prediction file (`VideoId,LabelConfidencePairs`).

    Memory: one bit per video and listed class, so 125 bytes per video for 1000 classes.

    Args:
      path: path of the prediction file.
      classes: the S listed classes, in the order of the columns of the scores.
      num_classes: number of classes of the model.

    Raises:
      RunError: the file is damaged; the message names the line.
    """

    def __init__(self, path: str, classes: Sequence[int], num_classes: int) -> None:
        self._path, self._count = path, len(classes)
        column = np.full(num_classes, len(classes))
        column[list(classes)] = np.arange(len(classes))
        self._rows: dict[str, int] = {}
        packed: list[bytes] = []
        for row in prediction_files.read_predictions(path, num_classes):
            mask = np.zeros(len(classes) + 1, np.bool_)  # the last column is for classes that are not listed
            mask[column[row.classes]] = True
            self._rows[row.video_id] = len(packed)
            packed.append(np.packbits(mask[:-1]).tobytes())
        self._allowed = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)

    def among(self, segments: Sequence[bytes], scores: np.ndarray) -> np.ndarray:
        """`scores` float32 [B, S], with -inf if the class is not a candidate of the segment's video.

        Raises:
          RunError: a video has no predictions in the file.
        """
        videos = [id_text(segment.rpartition(b":")[0]) for segment in segments]
        for video in videos:
            if video not in self._rows:
                raise RunError(
                    f"{self._path} has no predictions for video {video}; "
                    "predict for the same files first, without --segment_labels."
                )
        allowed = np.unpackbits(self._allowed[[self._rows[video] for video in videos]], axis=1, count=self._count)
        return np.where(allowed > 0, scores, np.float32(-np.inf))


def write(file: IO[Any], ranking: SegmentRanking) -> None:
    """Writes the ranking to a binary file, one line per class.

    Raises:
      RunError: there is no segment.
    """
    if not ranking.count:
        raise RunError(NO_SEGMENT)
    file.write(SEGMENTS_HEADER + b"\n")
    for number, segments in ranking.lines():
        file.write(line_of(number, segments))


def line_of(number: int, segments: Sequence[bytes]) -> bytes:
    """The line of one class, with its end."""
    return b"%d,%s\n" % (number, b" ".join(segments))
