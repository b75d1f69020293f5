"""`yt8m segment-eval`: MAP@n of a segment submission, the measure of the 2019 challenge."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from yt8m import options, storage
from yt8m.commands import ground_truth
from yt8m.commands.ground_truth import Ratings
from yt8m.config import flags
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.segments import SegmentFigures, mean_average_precision_at_n
from yt8m.options import option
from yt8m.program import run_main
from yt8m.records import prediction_files
from yt8m.records.prediction_files import ClassLine
from yt8m.records.vocabulary import read_segment_classes


@dataclass(frozen=True)
class SegmentEvalConfig:
    """What `yt8m segment-eval` is asked for."""

    submission_file: str = option("", "the submission: `Class,Segments`, with or without that header")
    eval_data_pattern: str = option("", "segment records with ratings; not needed where the cache is there")
    label_cache: str = option("", "the ratings as text: read where the file is there, else written")
    top_n: int = option(100_000, "segments of each class that are looked at; 0: all", minimum=0)
    classes: str = option(
        "rated",
        "average over every class with a rated positive, or over those submitted, as the published tool",
        choices=("rated", "submitted"),
    )
    segment_label_ids_file: str = option("", "CSV of the classes that segments may have; the published 1000")

    def __post_init__(self) -> None:
        options.check(self)
        if not self.submission_file:
            raise UsageError("--submission_file is missing: name the CSV file to evaluate.")
        if not self.eval_data_pattern and not (self.label_cache and storage.exists(self.label_cache)):
            raise UsageError(
                "there is nothing to judge by: give --eval_data_pattern, or a --label_cache that is there."
            )


def main(argv: list[str]) -> int:
    """Prints `MAP@n: x`; returns the exit status.

    Raises:
      UsageError: no such files.
      RunError: the submission or the records are damaged, and the line is named; or no class has a positive.
    """
    purpose = "Evaluates a segment submission over the rated segments."
    config = flags.read(SegmentEvalConfig, "yt8m segment-eval", purpose, argv)
    judged = load_ratings(config.eval_data_pattern, config.label_cache)
    known = read_segment_classes(config.segment_label_ids_file) | set(judged.classes.tolist())
    lines = prediction_files.read_segments(config.submission_file, known, any_start=_off_grid(judged))
    figures = evaluate(lines, judged, config.top_n or None, only_submitted=config.classes == "submitted")
    if not len(figures.aps):
        raise RunError(_nothing_to_judge(config))
    print(f"MAP@{config.top_n or 'all'}: {figures.map:.6f}")
    print(f"mean over {len(figures.aps)} classes", file=sys.stderr)
    return 0


def _nothing_to_judge(config: SegmentEvalConfig) -> str:
    source = config.label_cache or config.eval_data_pattern
    which = "submitted class" if config.classes == "submitted" else "class"
    return f"{source}: no {which} has a rated positive, so there is no average precision to take a mean of."


def load_ratings(pattern: str, cache: str) -> Ratings:
    """The ratings from the cache where it is there, else from the records, which then fill it."""
    if cache and storage.exists(cache):
        if pattern:
            print(f"taking the ratings from {cache}, not from the records", file=sys.stderr)
        return ground_truth.read(cache)
    found = ground_truth.ratings(pattern)
    if cache:
        ground_truth.write(cache, found)
    return found


def evaluate(
    lines: Iterable[ClassLine], judged: Ratings, top_n: int | None, only_submitted: bool = False
) -> SegmentFigures:
    """MAP@n of a submission, line by line.

    Args:
      lines: of the submission.
      judged: the ratings.
      top_n: segments of each line that are looked at; None for all.
      only_submitted: leave the classes that were not submitted out of the mean, as published.
    """
    rated = _by_class(judged)
    classes: list[int] = []
    segments: list[bytes] = []
    submitted = set()
    for number, ranks in lines:
        submitted.add(number)
        # Only rated segments count, and they are few: they are looked up in the line, not the reverse.
        there = sorted((ranks[name], name) for name in rated.get(number, ()) if name in ranks)
        kept = [name for place, name in there if top_n is None or place < top_n]
        segments += kept
        classes += [number] * len(kept)
    figures = mean_average_precision_at_n(
        classes, np.array(segments, object), judged.classes, np.array(judged.segments, object), judged.scores, None
    )
    return _only(figures, submitted) if only_submitted else figures


def _by_class(judged: Ratings) -> dict[int, set[bytes]]:
    found: dict[int, set[bytes]] = {}
    for segment, number in zip(judged.segments, judged.classes.tolist(), strict=True):
        found.setdefault(number, set()).add(segment)
    return found


def _only(figures: SegmentFigures, classes: set[int]) -> SegmentFigures:
    kept = np.isin(figures.aps_class, list(classes))
    aps = figures.aps[kept]
    return SegmentFigures(float(aps.mean()) if len(aps) else float("nan"), aps, figures.aps_class[kept])


def _off_grid(judged: Ratings) -> bool:
    """Whether segments were rated at other starts than each fifth second."""
    return any(int(segment.rpartition(b":")[2]) % 5 for segment in judged.segments)


if __name__ == "__main__":
    sys.exit(run_main("yt8m segment-eval", main))
