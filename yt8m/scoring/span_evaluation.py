"""`yt8m eval --spans`: joins the scores of cells to spans, and compares these with the true ones.

Thresholds and rule are chosen on all videos. The figures are cross-fitted: the spans of each half of the videos are
joined by what was chosen on the other half, since a choice looks better on the videos on which it was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import scoring, terminal
from yt8m.config.programs import EvalConfig
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.resampling import Interval, interval
from yt8m.eval_util.span_joining import choose_rule, join_cells, runs_of, table_of
from yt8m.eval_util.span_metrics import AVERAGED, THRESHOLDS, MatchedSpans, SpanFigures
from yt8m.records import shards
from yt8m.records.opened_data import open_data
from yt8m.records.rated_cells import is_annotated
from yt8m.records.vocabulary import Vocabulary
from yt8m.scoring import film_spans
from yt8m.scoring.film_spans import Joining
from yt8m.scoring.scorer import Scorer

_RESAMPLES = 200
_SHOWN_CLASSES = 10


def evaluate(config: EvalConfig) -> int:
    """Chooses thresholds and a rule on the records, prints the figures, and writes eval/spans.json of the run."""
    if not config.eval_data_pattern:
        raise UsageError("--spans needs --eval_data_pattern, records of frames with spans.")
    with scoring.open(
        config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="floats"
    ) as scorer:
        scores, truth = _scored(scorer, config.eval_data_pattern)
        thresholds, rule = choose_rule(scores, truth)
        data = scorer.training_data
        joining = Joining(data.segment_size, data.frames_per_second, thresholds, rule, data.segment_context)
        matched = cross_fitted(scores, truth)
        figures = figures_with_intervals(matched, len(scores))
        by_class = matched.figures()
        names = scorer.shown_names
        _print(figures, by_class, names, joining)
        aps = dict(zip(map(names.name, by_class.classes.tolist()), by_class.aps.mean(axis=1).tolist(), strict=True))
        written = {name: list(values) for name, values in figures.items()} | {"AP of classes": aps}
        film_spans.write(config.eval_dir or scorer.takes.folder, joining, written, scorer.step)
        terminal.print_json({**written, **joining.rule._asdict()})
    return 0


def _scored(scorer: Scorer, pattern: str) -> tuple[list[NDArray[np.float32]], list[NDArray[np.bool_]]]:
    """The scores of the cells of each video, and whether these show each class."""
    size, scores, truth, passed_over = scorer.training_data.segment_size, [], [], 0
    joining = film_spans.default_joining(scorer)
    cells = joining.cells
    data = open_data(pattern)
    declared = data.format.format.segment_size if data.format else None
    if declared not in (None, size):
        raise UsageError(
            f"--eval_data_pattern={pattern}: the records have cells of {declared} frames, and the model was trained on "
            f"cells of {size}."
        )
    for _, frames, raw in terminal.with_bar(film_spans.frames_of_records(scorer, data), "evaluating"):
        record = shards.parse(raw[0], with_lists=False)
        if not is_annotated(record, len(frames)):
            passed_over += 1
            continue
        scores.append(film_spans.score_cells(scorer, frames, joining))
        truth.append(cells.shown(record, len(frames), scorer.num_classes))
    if not scores:
        raise RunError(
            f"{pattern}: no video was annotated as a whole, so spans that are found cannot be called wrong; make the "
            "records by `yt8m make-records --rows=spans --annotated=whole`."
        )
    if passed_over:
        print(f"{passed_over} videos were not annotated as a whole, and do not count")
    if len(scores) == 1:
        print("one video counts: the thresholds are chosen on it too, so its figures are too high, without an interval")
    return scores, truth


def cross_fitted(scores: Sequence[NDArray[np.float32]], truth: Sequence[NDArray[np.bool_]]) -> MatchedSpans:
    """The spans of each half of the videos, joined by what was chosen on the other half, compared with the truth."""
    halves = [range(0, len(scores), 2), range(1, len(scores), 2)] if len(scores) > 1 else [range(1)] * 2
    spans: dict[int, Any] = {}
    for half, other in (halves, halves[::-1]):
        thresholds, rule = choose_rule([scores[video] for video in other], [truth[video] for video in other])
        spans |= {video: join_cells(scores[video], thresholds, rule) for video in half}
    true_spans = [(*runs, np.zeros(runs[0].size)) for runs in map(runs_of, truth)]
    return MatchedSpans(table_of(true_spans), table_of([spans[video] for video in range(len(scores))]))


def figures_with_intervals(matched: MatchedSpans, videos: int, seed: int = 0) -> dict[str, tuple[float, float, float]]:
    """{name of a figure: (value, ends of its 95 % interval)}; the intervals come from resampled videos."""
    draws = np.random.default_rng(seed).multinomial(videos, np.full(videos, 1 / videos), _RESAMPLES)
    resampled = [_by_name(matched.figures(counts)) for counts in draws]
    figures = {}
    for name, value in _by_name(matched.figures()).items():
        ends: Interval = interval(value, np.array([sample[name] for sample in resampled]))
        figures[name] = value, ends.low, ends.high
    return figures


def _by_name(figures: SpanFigures) -> dict[str, float]:
    by_name = {f"mAP@{threshold:g}": figures.mean_ap(threshold) for threshold in THRESHOLDS}
    return by_name | {f"average mAP@{AVERAGED[0]:g}..{AVERAGED[-1]:g}": figures.average_map}


def _print(
    figures: dict[str, tuple[float, float, float]], by_class: SpanFigures, names: Vocabulary, joining: Joining
) -> None:
    rows: list[Any] = [
        (name, f"{value:.3f}", f"{low:.3f} to {high:.3f}") for name, (value, low, high) in figures.items()
    ]
    terminal.print_table(["spans", "value", "95 % interval"], rows)
    rule = joining.rule
    print(
        f"spans: hysteresis {rule.hysteresis:g}, gaps up to {rule.gap} cells, at least {rule.least} cells of "
        f"{joining.frames / joining.per_second:g} s"
    )
    means = by_class.aps.mean(axis=1)
    worst = np.argsort(means, kind="stable")[:_SHOWN_CLASSES]
    for row in worst.tolist():
        print(f"  {means[row]:.3f}  {names.name(int(by_class.classes[row]))}")
