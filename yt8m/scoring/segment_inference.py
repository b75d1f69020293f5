"""Segment inference: the reader of every segment of every video, and the ranking of segments by their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from yt8m import readers
from yt8m.config.programs import InferenceConfig
from yt8m.config.train_config import DataConfig
from yt8m.errors import UsageError
from yt8m.eval_util.segment_ranking import Candidates, SegmentRanking, WindowMeans
from yt8m.records.vocabulary import Vocabulary, read_segment_classes


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


def consumer_for(
    ranking: SegmentRanking, candidates: Candidates | None, windows: int = 1
) -> Callable[[Mapping[str, np.ndarray]], None]:
    """Returns a function that adds the predictions of one step to the ranking.

    Args:
      ranking: the ranking.
      candidates: the candidate classes of each video; None if all classes are candidates.
      windows: number of windows of each segment; the score of a segment is the mean over its windows.
    """
    means = WindowMeans(windows)

    def consume(reports: Mapping[str, np.ndarray]) -> None:
        segments, scores = means.join(reports["video_ids"].tolist(), reports["class_scores"])
        ranking.add(segments, scores if candidates is None else candidates.among(segments, scores))

    return consume
