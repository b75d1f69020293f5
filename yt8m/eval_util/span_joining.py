"""Joins the scores of cells to spans: with hysteresis, over short gaps, of a least length; and chooses how to join.

A span of a class is where its score stays above a share of the class's threshold, and reaches the threshold itself.
Spans with a gap of at most `gap` cells are joined, and those of fewer than `least` cells left out. The score of a span
is the mean of its cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.eval_util.span_metrics import MatchedSpans, SpanTable

_HYSTERESES, _GAPS, _LEASTS = (1.0, 0.7, 0.4), (0, 1, 2), (1, 2, 3)
_FACTORS = (1.0, 0.7, 0.5, 0.35)  # by which all thresholds may be lowered


class JoinRule(NamedTuple):
    """How cells become spans.

    Attributes:
      hysteresis: share of the threshold above which a span that has begun goes on.
      gap: the largest number of cells between two spans that are joined.
      least: the smallest number of cells of a span.
    """

    hysteresis: float = 1.0
    gap: int = 0
    least: int = 1


def join_cells(
    scores: NDArray[np.float32], thresholds: Floats64, rule: JoinRule
) -> tuple[Ints64, Ints64, Ints64, Floats64]:
    """The spans of a video with cells [T, C] of scores: class, first cell, cell after the last, score; [N] each."""
    above = scores >= thresholds
    runs = _runs(scores >= thresholds * rule.hysteresis)
    runs = _joined(_with(runs, above), rule.gap)
    runs = runs[runs[:, 2] - runs[:, 1] >= rule.least]
    totals = np.concatenate([np.zeros((1, scores.shape[1])), np.cumsum(scores, axis=0, dtype=np.float64)])
    classes, first, last = runs.T
    means = (totals[last, classes] - totals[first, classes]) / np.maximum(last - first, 1)
    return classes, first, last, means


def runs_of(is_shown: Bools) -> tuple[Ints64, Ints64, Ints64]:
    """The runs of cells [T, C] that show a class: class, first cell, cell after the last; [N] each."""
    classes, first, last = _runs(is_shown).T
    return classes, first, last


def _runs(marks: Bools) -> Ints64:
    """int64 [N, 3], class, first cell and cell after the last of each run of marked cells, by class and time."""
    edges = np.diff(np.pad(marks.T.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    classes, first = np.nonzero(edges == 1)
    return np.stack([classes, first, np.nonzero(edges == -1)[1]], axis=1).astype(np.int64)


def _with(runs: Ints64, marks: Bools) -> Ints64:
    """The runs that have a marked cell."""
    totals = np.concatenate([np.zeros((1, marks.shape[1]), np.int64), np.cumsum(marks, axis=0)])
    return runs[totals[runs[:, 2], runs[:, 0]] > totals[runs[:, 1], runs[:, 0]]]


def _joined(runs: Ints64, gap: int) -> Ints64:
    """The runs, with those of a class joined that are at most `gap` cells apart."""
    if not gap or len(runs) < 2:
        return runs
    is_new = (runs[1:, 0] != runs[:-1, 0]) | (runs[1:, 1] - runs[:-1, 2] > gap)
    starts = np.flatnonzero(np.concatenate([[True], is_new]))
    ends = np.append(starts[1:], len(runs)) - 1
    return np.stack([runs[starts, 0], runs[starts, 1], runs[ends, 2]], axis=1)


def table_of(videos: Sequence[tuple[Ints64, Ints64, Ints64, Floats64]]) -> SpanTable:
    """The spans of videos, in cells; each video has what `join_cells` returns."""
    rows = np.repeat(np.arange(len(videos)), [len(spans[0]) for spans in videos])
    columns = [np.concatenate([np.zeros(0), *arrays]) for arrays in zip(*videos, strict=True)] or [np.zeros(0)] * 4
    classes, first, last, scores = columns
    return SpanTable(rows.astype(np.int64), classes.astype(np.int64), first, last, scores)


def choose_rule(
    scores: Sequence[NDArray[np.float32]], truth: Sequence[Bools], usual: float = 0.5
) -> tuple[Floats64, JoinRule]:
    """The thresholds of the classes, and the rule, that have the best mAP at tIoU 0.5 on validation videos.

    The thresholds begin as those with the best F1 of each class over its cells; a class that no cell shows has the
    usual one. Spans that are found with lower thresholds raise mAP if they are ranked below the right ones, so all
    thresholds may be lowered by one factor.

    Args:
      scores, truth: [T, C] of each video, the scores of cells and whether they show the classes.
    """
    thresholds = _thresholds(np.concatenate(scores), np.concatenate(truth), usual)
    true_spans = table_of([(*runs_of(shown), np.zeros(len(runs_of(shown)[0]))) for shown in truth])

    def figure(factor: float, rule: JoinRule) -> float:
        spans = table_of([join_cells(part, factor * thresholds, rule) for part in scores])
        matched = MatchedSpans(true_spans, spans, (0.5,))
        return float(matched.figures().aps.mean()) if matched.classes.size else 0.0

    # All are chosen together: with lower thresholds another hysteresis is best than with the first ones.
    rules = [JoinRule(*values) for values in itertools.product(_HYSTERESES, _GAPS, _LEASTS)]
    best, chosen = -1.0, (1.0, rules[0])
    for candidate in itertools.product(_FACTORS, rules):
        if (value := figure(*candidate)) > best + 1e-9:
            best, chosen = value, candidate
    return chosen[0] * thresholds, chosen[1]


def _thresholds(scores: NDArray[np.float32], shown: Bools, usual: float) -> Floats64:
    """The threshold with the best F1 of each class over cells [N, C]."""
    thresholds = np.full(scores.shape[1], usual)
    for number in np.flatnonzero(shown.any(axis=0)).tolist():
        order = np.argsort(-scores[:, number], kind="stable")
        ranked, hits = scores[order, number].astype(np.float64), np.cumsum(shown[order, number])
        f1 = 2 * hits / (np.arange(1, len(hits) + 1) + hits[-1])
        is_last = np.append(ranked[1:] < ranked[:-1], True)  # a threshold cannot divide equal scores
        place = int(np.argmax(np.where(is_last, f1, -1)))
        below = ranked[place + 1] if place + 1 < len(ranked) else ranked[place]
        thresholds[number] = (ranked[place] + below) / 2
    return thresholds
