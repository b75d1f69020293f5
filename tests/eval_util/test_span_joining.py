"""Cells joined to spans, compared with a loop over cells; the choice of thresholds and rule on planted scores."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.eval_util import span_joining
from yt8m.eval_util.span_joining import JoinRule, choose_rule, join_cells, runs_of, table_of
from yt8m.eval_util.span_metrics import MatchedSpans

_SCORES = st.lists(st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.9]), min_size=2, max_size=2), min_size=1, max_size=15)


def plain_spans(column: list[float], threshold: float, rule: JoinRule) -> list[tuple[int, int]]:
    """The spans of one class, cell by cell."""
    runs, cell = list[Any](), 0
    while cell < len(column):
        end = cell
        while end < len(column) and column[end] >= np.float64(threshold * rule.hysteresis):
            end += 1
        if end > cell and max(column[cell:end]) >= threshold:
            if runs and cell - runs[-1][1] <= rule.gap:
                runs[-1] = (runs[-1][0], end)
            else:
                runs.append((cell, end))
        cell = max(end, cell + 1)
    return [run for run in runs if run[1] - run[0] >= rule.least]


@given(_SCORES, st.sampled_from([1.0, 0.5]), st.integers(0, 2), st.integers(1, 3))
@examples(150)
def test_spans_are_those_of_a_loop(scores: list[Any], hysteresis: float, gap: int, least: int) -> None:
    rule, thresholds = JoinRule(hysteresis, gap, least), np.array([0.5, 0.3])
    cells = np.array(scores)
    classes, first, last, means = join_cells(cells, thresholds, rule)
    expected = [
        (number, *run) for number in (0, 1) for run in plain_spans(cells[:, number].tolist(), thresholds[number], rule)
    ]
    assert list(zip(classes.tolist(), first.tolist(), last.tolist(), strict=True)) == expected
    for (number, start, end), mean in zip(expected, means, strict=True):
        np.testing.assert_allclose(mean, cells[start:end, number].mean())


def test_the_rule_bridges_holes_and_leaves_out_flickers() -> None:
    draw = np.random.default_rng(7)
    videos, truth = [], []
    for _ in range(30):
        shown = np.zeros((60, 2), bool)
        for number in range(2):
            start = int(draw.integers(0, 40))
            shown[start : start + 12, number] = True
        scores = np.where(shown, 0.8, 0.1) + draw.uniform(-0.05, 0.05, shown.shape)
        for number in range(2):
            hole = int(np.flatnonzero(shown[:, number])[5])
            scores[hole, number] = 0.05
            flicker = int(draw.choice(np.flatnonzero(~shown[:, number])))
            scores[flicker, number] = 0.9
        videos.append(scores.astype(np.float32))
        truth.append(shown)
    thresholds, rule = choose_rule(videos, truth)
    assert np.all((thresholds > 0.2) & (thresholds < 0.78))
    assert rule.gap >= 1
    assert rule.least >= 2


def test_thresholds_and_rule_are_chosen_together() -> None:
    """No pair of factor and rule is better; choosing one of the two after the other loses a seventh here."""
    draw, videos, truth = np.random.default_rng(14), list[Any](), list[Any]()
    for _ in range(15):
        shown, lift = np.zeros((60, 2), bool), np.full((60, 2), -5.0)
        for number in np.flatnonzero(draw.random(2) < 0.6).tolist():
            start, length = int(draw.integers(0, 40)), int(draw.integers(2, 20))
            shown[start : start + length, number] = True
            lift[start : start + length, number] = draw.normal(1, 1)
        logits = lift + 3 * draw.normal(size=shown.shape)
        videos.append((1 / (1 + np.exp(-logits))).astype(np.float32))
        truth.append(shown)
    usual = span_joining._thresholds(np.concatenate(videos), np.concatenate(truth), 0.5)
    true_spans = table_of([(*runs_of(shown), np.zeros(len(runs_of(shown)[0]))) for shown in truth])

    def figure(thresholds: Any, rule: JoinRule) -> float:
        spans = table_of([join_cells(scores, thresholds, rule) for scores in videos])
        return float(MatchedSpans(true_spans, spans, (0.5,)).figures().aps.mean())

    factors = (1.0, 0.7, 0.5, 0.35)
    rules = [JoinRule(*values) for values in itertools.product((1.0, 0.7, 0.4), (0, 1, 2), (1, 2, 3))]
    figures = {(factor, rule): figure(factor * usual, rule) for factor in factors for rule in rules}
    first_rule = max(rules, key=lambda rule: figures[1.0, rule])
    first_factor = max(factors, key=lambda factor: figures[factor, first_rule])
    one_by_one = max(figures[first_factor, rule] for rule in rules)
    assert max(figures.values()) > one_by_one + 0.1
    assert figure(*choose_rule(videos, truth)) == max(figures.values())
