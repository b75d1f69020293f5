"""Candidate classes of videos, chosen by predictions for the whole videos.

A segment model sees five seconds and takes many classes for possible; a video-level model has seen all. As
the winners of 2019 did, the video's predictions say which classes, and the segments are ranked within them.

Segment inference: every segment of every video, ranked by class into a `Class,Segments` file.

Rankings of several processes, each of some of the files, as the one that a single process would make.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from yt8m import readers, storage
from yt8m.commands.segment_ranking import SegmentRanking
from yt8m.config.programs import DataConfig, InferenceConfig
from yt8m.errors import RunError, UsageError
from yt8m.records import prediction_files
from yt8m.records.prediction_files import SEGMENTS_HEADER
from yt8m.records.shards import id_text
from yt8m.records.vocabulary import read_segment_classes
from yt8m.video.modeler import VideoModeler


class Candidates:
    """Which of the listed classes each video may have.

    Args:
      path: of the predictions, for complaints.
      rows: {video: its row of `allowed`}.
      allowed: uint8 [V, ceil(S / 8)], a bit a listed class: 125 bytes a video for 1000 classes.
      count: S.
    """

    def __init__(self, path: str, rows: dict[str, int], allowed: npt.NDArray[np.uint8], count: int) -> None:
        self._path, self._rows, self._allowed, self._count = path, rows, allowed, count

    @classmethod
    def read(cls, path: str, classes: Sequence[int], num_classes: int) -> Candidates:
        """From a prediction file (`VideoId,LabelConfidencePairs`).

        Args:
          path: of the file.
          classes: the listed ones, in the order of the scores' columns.
          num_classes: of the model.

        Raises:
          RunError: the file is damaged; names the line.
        """
        column = np.full(num_classes, len(classes))
        column[list(classes)] = np.arange(len(classes))
        rows: dict[str, int] = {}
        packed: list[bytes] = []
        for row in prediction_files.read_predictions(path, num_classes):
            mask = np.zeros(len(classes) + 1, np.bool_)  # the last is for classes that are not listed
            mask[column[row.classes]] = True
            rows[row.video_id] = len(packed)
            packed.append(np.packbits(mask[:-1]).tobytes())
        allowed = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)
        return cls(path, rows, allowed, len(classes))

    def among(self, segments: Sequence[bytes], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """`scores` [B, S], -inf where the class is no candidate of the segment's video.

        Raises:
          RunError: a video has no predictions in the file.
        """
        rows = [self._row(segment.rpartition(b":")[0]) for segment in segments]
        allowed = np.unpackbits(self._allowed[rows], axis=1, count=self._count)
        return np.where(allowed > 0, scores, np.float32(-np.inf))

    def _row(self, video: bytes) -> int:
        row = self._rows.get(id_text(video))
        if row is None:
            raise RunError(
                f"{self._path} has no predictions for video {id_text(video)}; "
                "predict for the same files first, without --segment_labels."
            )
        return row


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
    classes = sorted(read_segment_classes(path))
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
    if data.reader:
        raise UsageError(
            f"--segment_labels cuts videos of YouTube-8M's layout into segments, but the run's reader is "
            f"{data.reader}: predict for whole records, without --segment_labels."
        )
    reader = readers.EverySegmentReader(
        *(data.num_classes, data.feature_sizes, data.feature_names, data.max_frames),
        *(data.segment_size, context, data.nan_policy),
    )
    reader.zeroed = readers.ZeroedCount() if data.nan_policy == "zero" else None
    inputter = readers.BatchQueue(
        reader, data.data_pattern, data.batch_size, num_readers=data.num_readers, max_bad_records=data.max_bad_records
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
    file.write(SEGMENTS_HEADER + b"\n")
    for number, segments in ranking.lines():
        file.write(b"%d,%s\n" % (number, b" ".join(segments)))


def write_part(file: IO[Any], ranking: SegmentRanking) -> None:
    """Writes one process' lists, a line a class: each segment and its score as a key, the least the best."""
    for number, segments, keys in ranking.scored_lines():
        pairs = (b"%s %d" % pair for pair in zip(segments, keys.tolist(), strict=True))
        file.write(b"%d,%s\n" % (number, b" ".join(pairs)))


def join_parts(file: IO[Any], parts: Sequence[str], most: int) -> None:
    """Writes the lists of all processes, one class in memory at a time.

    Args:
      file: what is written.
      parts: of the processes, in the order of their files; empty where one had no file.
      most: segments of a class.

    Raises:
      RunError: the parts list other classes, or there is no segment.
    """
    file.write(SEGMENTS_HEADER + b"\n")
    count = 0
    for number, segments in _lines([part for part in parts if storage.size(part)], most):
        file.write(b"%d,%s\n" % (number, b" ".join(segments)))
        count += len(segments)
    if not count:
        raise RunError(NO_SEGMENT)


def _lines(parts: Sequence[str], most: int) -> Iterator[tuple[int, list[bytes]]]:
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(storage.open_read(part)) for part in parts]
        for lines in itertools.zip_longest(*files, fillvalue=b""):
            numbers, _, lists = zip(*(line.partition(b",") for line in lines), strict=True)
            if len(set(numbers)) > 1:
                raise RunError(
                    f"{parts[0]} and the other parts list different classes; give each process the same "
                    "--segment_label_ids_file, with the same content."
                )
            yield int(numbers[0]), _best(lists, most)


def _best(lists: Sequence[bytes], most: int) -> list[bytes]:
    """The best of all lists; of equal scores that of the earlier list, for its files came first."""
    words = [one for text in lists for one in text.split()]
    keys = np.array(words[1::2], np.bytes_).astype(np.int64)
    order = np.argsort(keys, kind="stable")[:most]
    return list(dict.fromkeys(words[2 * place] for place in order.tolist()))
