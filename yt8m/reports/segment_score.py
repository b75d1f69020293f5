"""`yt8m segment-eval`: computes MAP@n of a segment submission, the metric of the 2019 challenge."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from yt8m import options, storage
from yt8m.datasets import ground_truth
from yt8m.datasets.ground_truth import Ratings
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.segments import SegmentFigures, mean_average_precision_at_n
from yt8m.options import option
from yt8m.records import prediction_files
from yt8m.records.prediction_files import ClassLine
from yt8m.records.vocabulary import read_segment_classes


def run(config: SegmentEvalConfig) -> int:
    """Prints `MAP@n: x`; returns the exit status.

    Raises:
      UsageError: there are no such files.
      RunError: the submission or the records are damaged (the message names the line), or no class has a positive.
    """
    judged = load_ratings(config.eval_data_pattern, config.label_cache)
    classes = read_segment_classes(config.segment_label_ids_file) | set(judged.classes.tolist())
    # True if a rated segment starts at a second that is not a multiple of 5.
    any_start = any(int(segment.rpartition(b":")[2]) % 5 for segment in judged.segments)
    lines = prediction_files.read_segments(config.submission_file, classes, any_start)
    figures = evaluate(lines, judged, config.top_n or None, only_submitted=config.classes == "submitted")
    if not len(figures.aps):
        which = "submitted class" if config.classes == "submitted" else "class"
        raise RunError(
            f"{config.label_cache or config.eval_data_pattern}: no {which} has a rated positive, so MAP is not defined."
        )
    print(f"MAP@{config.top_n or 'all'}: {figures.map:.6f}")
    print(f"mean over {len(figures.aps)} classes", file=sys.stderr)
    return 0


@dataclass(frozen=True)
class SegmentEvalConfig(options.Checked):
    """The flags of `yt8m segment-eval`."""

    submission_file: str = option(
        "",
        "the submission: `Class,Segments`, with or without that header",
        flag="predictions",
        aliases=("submission_file",),
        is_required=True,
        is_path=True,
    )
    eval_data_pattern: str = option(
        "",
        "segment records with ratings; not needed if the cache exists",
        flag="data",
        aliases=("eval_data_pattern",),
        is_path=True,
    )
    label_cache: str = option("", "the ratings as text: read if the file exists, else written", is_path=True)
    top_n: int = option(100_000, "segments of each class that count; 0: all", minimum=0)
    classes: str = option(
        "rated",
        "average over every class with a rated positive, or only over submitted ones, as the published tool does",
        choices=("rated", "submitted"),
    )
    segment_label_ids_file: str = option(
        "", "CSV of the classes that segments may have; by default the published 1000", is_path=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.eval_data_pattern and not (self.label_cache and storage.exists(self.label_cache)):
            raise UsageError("there are no ratings: give --data, or a --label_cache that exists.")


def load_ratings(pattern: str, cache: str) -> Ratings:
    """Reads the ratings from the cache file if it exists, else from the records, and then writes the cache file."""
    if cache and storage.exists(cache):
        if pattern:
            print(f"taking the ratings from {cache}, not from the records", file=sys.stderr)
        return ground_truth.read(cache)
    ratings = ground_truth.ratings(pattern)
    if cache:
        ground_truth.write(cache, ratings)
    return ratings


def evaluate(
    lines: Iterable[ClassLine], judged: Ratings, top_n: int | None, only_submitted: bool = False
) -> SegmentFigures:
    """MAP@n of a submission, which is read line by line.

    Args:
      lines: the lines of the submission, one per class.
      judged: the ratings.
      top_n: number of segments of each line that count; None for all.
      only_submitted: average over the submitted classes only, as the published evaluator does.
    """
    rated: dict[int, set[bytes]] = {}
    for segment, number in zip(judged.segments, judged.classes.tolist(), strict=True):
        rated.setdefault(number, set()).add(segment)
    classes: list[int] = []
    segments: list[bytes] = []
    submitted = set()
    for number, ranks in lines:
        submitted.add(number)
        # Only rated segments count, and there are few, so each of them is looked up in the line, not each segment of
        # the line among the ratings.
        ranked = sorted((ranks[name], name) for name in rated.get(number, ()) if name in ranks)
        counted = [name for place, name in ranked if top_n is None or place < top_n]
        segments += counted
        classes += [number] * len(counted)
    figures = mean_average_precision_at_n(
        classes, np.array(segments, object), judged.classes, np.array(judged.segments, object), judged.scores, None
    )
    if not only_submitted:
        return figures
    chosen = np.isin(figures.aps_class, list(submitted))
    return SegmentFigures.of_classes(figures.aps[chosen], figures.aps_class[chosen])
