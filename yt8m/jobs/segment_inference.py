"""Segment inference: every segment of every video, ranked by class into a `Class,Segments` file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

from yt8m import readers
from yt8m.config import DataConfig, InferenceConfig
from yt8m.errors import RunError, UsageError
from yt8m.graph.modeler import VideoModeler
from yt8m.jobs.candidates import Candidates
from yt8m.jobs.segment_ranking import SegmentRanking
from yt8m.tools.segment_classes import segment_classes
from yt8m.tools.segment_lists import HEADER

Reports = Mapping[str, np.ndarray]
NO_SEGMENT = "the data hold no frame: there is no segment to rank."


def ranking_for(config: InferenceConfig, modeler: VideoModeler) -> SegmentRanking:
    """An empty ranking; the modeler is told to report the scores of its classes.

    Raises:
      UsageError: a class of --segment_label_ids_file is none of the model's.
    """
    classes = _classes(config.segment_label_ids_file, modeler.num_classes)
    modeler.listed_classes = tuple(classes)
    return SegmentRanking(classes, config.segment_max_pred)


def _classes(path: str, num_classes: int) -> list[int]:
    """The classes to list, ascending; all of the model's where none of the published ones is among them."""
    classes = sorted(segment_classes(path))
    known = [number for number in classes if number < num_classes]
    if path and len(known) < len(classes):
        raise UsageError(
            f"--segment_label_ids_file={path}: class {classes[-1]} is none of the model's, "
            f"which are 0 to {num_classes - 1}."
        )
    return known or list(range(num_classes))


def candidates_for(config: InferenceConfig, modeler: VideoModeler) -> Candidates | None:
    """The candidate classes of each video, where the config names them."""
    if not config.candidates_from:
        return None
    return Candidates.read(config.candidates_from, modeler.listed_classes, modeler.num_classes)


def inputter_for(data: DataConfig, context: int) -> readers.BatchQueue:
    """Every segment of every video, in the order of the files.

    Raises:
      UsageError: no file matches.
    """
    reader = readers.EverySegmentReader(
        *(data.num_classes, data.feature_sizes, data.feature_names, data.max_frames),
        *(data.segment_size, context, data.nan_policy),
    )
    reader.zeroed = readers.ZeroedCount() if data.nan_policy == "zero" else None
    inputter = readers.BatchQueue(
        reader,
        data.data_pattern,
        data.batch_size,
        num_readers=data.num_readers,
        max_bad_records=data.max_bad_records,
    )
    inputter.files()
    return inputter


def consumer_for(ranking: SegmentRanking, candidates: Candidates | None) -> Callable[[Reports], None]:
    """What takes the reports of each step."""

    def consume(reports: Reports) -> None:
        segments, scores = reports["video_ids"].tolist(), reports["class_scores"]
        ranking.add(segments, scores if candidates is None else candidates.among(segments, scores))

    return consume


def write(file: IO[Any], ranking: SegmentRanking) -> None:
    """Writes the lists as bytes, a line a class.

    Raises:
      RunError: there is no segment.
    """
    if not ranking.count:
        raise RunError(NO_SEGMENT)
    file.write(HEADER + b"\n")
    for number, segments in ranking.lines():
        file.write(b"%d,%s\n" % (number, b" ".join(segments)))
