"""EvaluationMetrics and the functions on batches against recorded figures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from golden_data import golden

from yt8m.eval_util import (
    EvaluationMetrics,
    calculate_gap,
    calculate_hit_at_one,
    calculate_precision_at_equal_recall_rate,
)

UNTIED = ["normal", "nolabel", "nolabel_all", "negative", "onerow", "fewclasses", "alllabels"]
TIED = ["ties", "zeros", "sparse"]


class Case(NamedTuple):
    batches: list[tuple[np.ndarray, np.ndarray, float]]
    settings: dict[str, dict[str, np.ndarray]]


def load(name: str) -> Case:
    with np.load(golden("metrics.npz")) as arrays:
        own = {key[len(name) + 1 :]: arrays[key] for key in arrays.files if key.startswith(name + "/")}
    cuts = np.cumsum(own["batch_sizes"])[:-1]
    scores, labels = np.split(own["predictions"], cuts), np.split(own["labels"], cuts)
    settings: dict[str, dict[str, np.ndarray]] = {}
    for key, value in own.items():
        if "/" in key:
            setting, _, figure = key.partition("/")
            settings.setdefault(setting, {})[figure] = value
    return Case(list(zip(scores, labels, own["losses"], strict=True)), settings)


def evaluate(case: Case, expected: dict[str, np.ndarray]) -> tuple[list[dict[str, float]], dict[str, Any]]:
    top_n = int(expected["top_n"])
    num_class = case.batches[0][0].shape[1]
    metrics = EvaluationMetrics(num_class, int(expected["top_k"]), None if top_n < 0 else top_n)
    return [metrics.accumulate(*batch) for batch in case.batches], metrics.get()


@pytest.mark.parametrize("name", UNTIED)
def test_figures_without_ties(name: str) -> None:
    case = load(name)
    assert case.settings
    for expected in case.settings.values():
        batches, total = evaluate(case, expected)
        for key in ("hit_at_one", "perr"):
            np.testing.assert_allclose([b[key] for b in batches], expected[f"batch_{key}"], rtol=1e-6, atol=1e-7)
        for key in ("avg_hit_at_one", "avg_perr", "avg_loss", "gap", "map", "aps"):
            np.testing.assert_allclose(total[key], expected[key], rtol=1e-6, atol=1e-12, err_msg=key)
        np.testing.assert_array_equal(total["aps_class"], expected["aps_class"])


@pytest.mark.parametrize("name", UNTIED)
def test_functions_on_batches(name: str) -> None:
    case = load(name)
    for expected in case.settings.values():
        for index, (scores, labels, _) in enumerate(case.batches):
            figures = {
                "hit_at_one": calculate_hit_at_one(scores, labels),
                "perr": calculate_precision_at_equal_recall_rate(scores, labels),
                "gap": calculate_gap(scores, labels, int(expected["top_k"])),
            }
            for key, figure in figures.items():
                assert figure == pytest.approx(expected[f"batch_{key}"][index], rel=1e-6, abs=1e-7), key


@pytest.mark.parametrize("name", TIED)
def test_what_ties_leave_defined(name: str) -> None:
    case = load(name)
    for expected in case.settings.values():
        batches, total = evaluate(case, expected)
        hits = [batch["hit_at_one"] for batch in batches]
        np.testing.assert_allclose(hits, expected["batch_hit_at_one"], rtol=1e-6)
        np.testing.assert_array_equal(total["aps_class"], expected["aps_class"])
        if name != "ties":  # only zeros tie, and they never count for PERR
            assert total["avg_perr"] == pytest.approx(expected["avg_perr"], rel=1e-6, abs=1e-12)
        # The recorded figures come from one shuffle of the tied entries; ours is the mean of all.
        assert total["gap"] == pytest.approx(expected["gap"], abs=0.02)


def test_the_chosen_scores_of_tied_rows() -> None:
    case = load("ties")
    chosen = case.settings["k20_nNone"]["selected"].astype(bool)
    scores = np.concatenate([batch[0] for batch in case.batches])
    ours = -np.sort(-scores, axis=1)[:, :20]
    theirs = -np.sort(-np.where(chosen, scores, -1), axis=1)[:, :20]
    np.testing.assert_array_equal(ours, theirs)
