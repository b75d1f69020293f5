"""The figures of a trained choice that may be quoted: those of the split `test`, on which nothing was chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from yt8m import scoring, storage
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.errors import quantity
from yt8m.scoring import EvaluationSettings, evaluation
from yt8m.scoring.evaluation_results import report_json
from yt8m.training import splits
from yt8m.training.search import outcome
from yt8m.training.search.trial_figures import FULL_MAP

_SHOWN = ("mAP", "GAP", "Hit@1")


def evaluate_test(config: TrainConfig) -> dict[str, Any] | None:
    """Evaluates the split `test` beside the training files, if there is one, and keeps it in `run_dir.TEST_FIGURES`.

    Returns:
      What `yt8m eval --json` prints of it, and its pattern as `data`.
    """
    pattern = splits.beside(outcome.given_data(config), "test")
    if not pattern:
        return None
    with scoring.open(config.train_dir) as scorer:
        result = evaluation.evaluate_with(scorer, scorer.batches(pattern), EvaluationSettings(), ())
        test = {"data": pattern, **report_json(result, scorer.model)}
    storage.write(storage.join(config.train_dir, run_dir.TEST_FIGURES), json.dumps(test, ensure_ascii=False) + "\n")
    return test


def line(config: TrainConfig, test: Mapping[str, Any] | None) -> str:
    """mAP, GAP and Hit@1 of the split `test`, see `evaluate_test`, or else of the validation, in a line or two."""
    if test:
        size = quantity(test["num_examples"], outcome.noun(config).removesuffix("s"))
        return (
            f"on {size} of {test['data']}, on which nothing was chosen: "
            f"mAP {test['map']:.4f}, GAP {test['gap']:.4f}, Hit@1 {test['hit_at_one']:.4f}"
        )
    quoted = config.search.quoted
    where = quoted["validation"] or "the training data, held out for the choice"
    where += " and not trained on" * bool(config.data.held_out)
    if quoted.get("folds", 1) > 1:
        where = f"in {quoted['folds']} folds, each scored by a model that had not seen it"
    chance = f" (random scores: {quoted['chance']:.4f})" if quoted.get("chance") else ""
    return (
        f"{FULL_MAP} {quoted['map']:.4f} ± {1.96 * quoted['map_error']:.4f}{chance}, GAP {quoted['gap']:.4f} ± "
        f"{1.96 * quoted['gap_error']:.4f}, Hit@1 {quoted['hit_at_one']:.4f}: chosen on these {quoted['videos']} "
        f"{outcome.noun(config)} ({where}), one half by the other; for a figure of new videos make a split test "
        f"(make-records --splits){_of_best(config)}"
    )


def _of_best(config: TrainConfig) -> str:
    """A further line with the figures of the best checkpoint on the videos of its validation; empty without one."""
    path = storage.join(config.train_dir, run_dir.BEST_FOLDER, run_dir.BEST_NOTE)
    if config.checkpoint != "best" or not storage.exists(path):
        return ""
    note = storage.read_json(path)
    figures = ", ".join(f"{name} {note['figures'][name]:.4f}" for name in _SHOWN if name in note["figures"])
    return f"\nthe best checkpoint, of step {note['step']}: {figures} on the videos of its validation"
