"""Curves of training, validations and evaluated checkpoints: which rows make them, and which point is the best."""

from __future__ import annotations

import itertools
import json
import pathlib

import pytest
from reports import report_runs

from yt8m.reports import charts
from yt8m.reports.loading import Run, load

TRAINED = [{"step": step, "loss": 9.0 - step, "GAP": step / 10, "examples_per_second": 5.0} for step in range(1, 7)]
VALIDATED = [
    {"step": 2, "mode": "validate", "loss": 7.5, "GAP": 0.31},
    {"step": 4, "mode": "validate", "loss": 6.5, "GAP": 0.35},
    {"step": 6, "mode": "validate", "loss": 6.9, "GAP": 0.33},
]
EVALUATED = [
    {"step": 2, "GAP": 0.1},
    {"step": 2, "GAP": 0.30, "mAP": 0.2, "loss": 7.6},
    {"step": 6, "GAP": 0.34, "mAP": None},
]


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Run:
    report_runs.make_run(tmp_path, 1)
    rows = [*TRAINED, *VALIDATED, {"step": 6, "mode": "train", "bad_records": 1}]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "eval/metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in EVALUATED))
    (found,) = load([str(tmp_path)], 10, 0)
    return found


def points(curve) -> dict[float, float]:
    return dict(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))


def test_each_kind_of_row_has_its_curve(run):
    assert points(run.curves["GAP"]) == {row["step"]: row["GAP"] for row in TRAINED}
    assert points(run.curves["loss"]) == {row["step"]: row["loss"] for row in TRAINED}
    assert points(run.validations["loss"]) == {2: 7.5, 4: 6.5, 6: 6.9}
    assert points(run.evaluations["GAP"]) == {2: 0.30, 6: 0.34}  # the later row of a step counts
    assert points(run.evaluations["mAP"]) == {2: 0.2}


def test_the_best_point_is_that_of_all_validations_and_evaluations(run):
    assert charts.best_point(run, "GAP") == (4, 0.35)
    assert charts.best_point(run, "loss") == (4, 6.5)  # the lowest
    assert charts.best_point(run, "mAP") is None  # a single point
    assert charts.best_point(run, "examples_per_second") is None


def test_a_validation_that_no_longer_counts_is_drawn_and_is_not_the_best(run):
    told = {"begun": None, "metric": "GAP", "data": None, "epochs": [0, 0, 0], "validations": VALIDATED}
    (pathlib.Path(run.folder) / "validation.json").write_text(json.dumps(told | {"first_compared": 2}))
    (found,) = load([run.folder], 10, 0)
    assert charts.best_point(found, "GAP") == (6, 0.34)
    assert charts.best_point(found, "loss") == (6, 6.9)
    (picture,) = (one for one in charts.training([found]) if one.alt.startswith("GAP over"))
    assert "validation, step 4: 0.35" in [text for _, _, text in json.loads(picture.points)]


def test_the_picture_tells_every_point_and_the_best(run):
    pictures = {one.alt.partition(" over")[0]: one for one in charts.training([run])}
    assert list(pictures) == ["loss", "GAP", "examples a second", "mAP"]
    texts = [text for _, _, text in json.loads(pictures["GAP"].points)]
    told = [f"validation, step {row['step']}: {row['GAP']:.4g}" for row in VALIDATED]
    assert texts[6:] == [*told, "evaluation, step 2: 0.3", "evaluation, step 6: 0.34", "the best: GAP 0.35 at step 4"]
    assert texts[0] == "training, running mean, step 1: 0.1"
    assert pictures["GAP"].caption == "Best: GAP 0.35 at step 4."
    key = charts.key_of_training([run])
    assert key == (
        "Pale lines are single batches, strong ones their running mean; squares are validations; "
        "diamonds are evaluated checkpoints; stars are the best."
    )
    assert pictures["mAP"].caption == ""


def test_points_are_where_they_are_drawn(run):
    """Equal steps are at equal distances; a higher value is higher up."""
    (found,) = (one for one in charts.training([run]) if one.alt.startswith("GAP over"))
    places = {text: (x, y) for x, y, text in json.loads(found.points)}
    curve = [places[f"training, running mean, step {step}: {step / 10:.4g}"] for step in range(1, 7)]
    steps = [b[0] - a[0] for a, b in itertools.pairwise(curve)]
    assert steps == pytest.approx([steps[0]] * 5, abs=2e-4)
    falls = [a[1] - b[1] for a, b in itertools.pairwise(curve)]
    assert falls == pytest.approx([falls[0]] * 5, abs=2e-4)
    assert min(*steps, *falls) > 0.05
    assert all(0 <= value <= 1 for place in places.values() for value in place)
