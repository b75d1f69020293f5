"""Compares the training of a choice on all videos with what the candidate reached on those that it had not seen.

These videos are training videos by then, so the trained model is as good there as the candidate at least. If it is
clearly worse, the training went wrong, and the run gets the weights of the candidate in their place.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m.config import run_dir
from yt8m.config.search_config import PENALTY, STEPS, TRANSFORM, USUAL_TRANSFORM
from yt8m.config.train_config import TrainConfig
from yt8m.graph.restore import name_of_weights
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.storage import copies
from yt8m.training import checkpoint_import
from yt8m.training.search import outcome, plan, trial_figures, videos_in_memory
from yt8m.training.search.candidates import Candidate
from yt8m.training.search.trial_figures import Ranked
from yt8m.training.search.trials import CandidateTrial, Trainer
from yt8m.training.search.videos_in_memory import Fold

# Of full mAP. Of 22 trainings on sixteen data sets, 20 were .003 to .36 better there than their candidates, or both had
# 1.0; the two that had gone wrong were .10 and .15 worse.
_MARGIN = 0.02


def checked(config: TrainConfig, step: int, export: Callable[[str, int, bool], None] | None) -> TrainConfig:
    """The config of a run whose training ended at `step`, with what the check found; it sets the weights right.

    Args:
      export: writes the export of a checkpoint again; None if the run has none.
    """
    chosen = next((row for row in config.search.trials if row["is_chosen"]), None)
    if chosen is None or step != _steps_of(config, chosen) or not outcome.is_trained_on_all(config):
        return config
    promise = chosen.get("alone", chosen)  # of a candidate in folds, what it reached without the videos kept apart
    fold = _fold_of_choice(config)
    if fold is None or trial_figures.chance_of(fold.held_out.labels, fold.held_out.keys) != promise.get("chance"):
        return config  # these are not the videos of the choice any more
    path, candidate = checkpoints.path_of(config.train_dir, step), _candidate_of(config)
    with contextlib.closing(Trainer(config, fold.training)) as trainer:
        scores = trainer.scores_with(candidate, _values_in(path), fold.held_out)
        reached = Ranked(scores, fold.held_out.labels).figures().map
        is_worse = reached < promise["map"] - _MARGIN
        if config.search.undone_refit and not is_worse:  # the weights are those of the candidate already
            if export:  # that start may have been killed before it wrote the export
                export(path, step, True)
            return config
        note = {"step": step, "promised": promise["map"], "reached": round(reached, 6)} if is_worse else {}
        config = dataclasses.replace(config, search=dataclasses.replace(config.search, undone_refit=note))
        if is_worse:
            run_dir.write(config.train_dir, config, is_own=True)  # first, so that a start after a kill knows of them
            logging.warning("%s", outcome.of_undone_refit(config))
            trial = CandidateTrial(candidate, chosen["steps"], config.search.plan[0]["batch_size"])
            checkpoint_import.save_checkpoint(path, config, trainer.weights(trial), step)
            if export:
                export(path, step, True)
    return config


def _steps_of(config: TrainConfig, chosen: Mapping[str, Any]) -> int:
    """The steps that the search gave the training; those of the trial, if the user gave them."""
    steps: int = next((o["value"] for o in config.search.origins if o["option"] == STEPS), chosen["steps"])
    return steps


def _fold_of_choice(config: TrainConfig) -> Fold | None:
    """The videos of the choice: those that the candidate was trained on, and those that it had not seen.

    None if they are too many for the memory, so that the choice saw a sample.
    """
    pattern, validation = outcome.given_data(config), config.search.quoted["validation"]
    training, total = videos_in_memory.read(config.data, pattern, plan.MOST_VIDEOS)
    if len(training) < total:
        return None
    if not validation:
        return Fold(*videos_in_memory.divided(training))
    return Fold(training, videos_in_memory.read(config.data, validation, plan.MOST_VIDEOS)[0])


def _candidate_of(config: TrainConfig) -> Candidate:
    """The chosen candidate, as the config has it."""
    options = dict(config.model.hyper_parameters)
    transform, penalty = options.pop(TRANSFORM, USUAL_TRANSFORM), options.pop(PENALTY, 0.0)
    rate = config.optimizer.base_learning_rate
    return Candidate(config.model.model, transform, penalty, rate, options)


def _values_in(checkpoint: str) -> Callable[[str], NDArray[Any]]:
    """Returns a function that gives the value of a variable by its name, as an evaluation reads it."""
    reader = tf.train.load_checkpoint(copies.copy_of(checkpoint))
    names = reader.get_variable_to_shape_map()
    return lambda name: np.asarray(reader.get_tensor(name_of_weights(name, names)))
