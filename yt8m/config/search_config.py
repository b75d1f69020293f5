"""The section of a training's config about the choice of a model for one's own data: what may be set, and what was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from yt8m.options import Checked, option

# The options that a search may set, by the names of their flags.
MODEL, TRANSFORM, PENALTY, RATE = "model", "input_transform", "l2_penalty", "base_learning_rate"
DECAY = "batch_norm_decay"
DECAY_OF_FEW_STEPS = 0.9  # a few hundred steps hardly move averages with the published decay
USUAL_TRANSFORM = "l2_normalize"
BATCH, STEPS, EPOCHS, METRIC, REFIT_BELOW = "batch_size", "max_steps", "num_epochs", "best_metric", 5000

AUTO = "auto"  # the value of --model for a search
# Further options that a search sets, which have no reason of their own.
FOLLOW_A_CHOICE = (
    *("learning_rate_schedule", "learning_rate_decay_examples", METRIC, "patience"),
    *("eval_every_n_epochs", "eval_max_videos", "checkpoint"),
)


@dataclass(frozen=True)
class ModelSearchConfig(Checked, shapes="nothing"):
    """How a model for one's own data is chosen."""

    budget: float | None = option(
        None,
        "seconds to choose a model for your own data and to train it [40 for up to 10,000 videos, then more]",
        minimum=1,
        is_compared=False,
    )
    refit: bool = option(
        True,
        f"train the chosen model on the split validate too, if there are fewer than {REFIT_BELOW} videos",
        is_compared=False,
    )
    # Which of the options above the search may set; empty if there is no search.
    free: tuple[str, ...] = option((), "options that follow the data", is_flag=False, is_compared=False)
    # Which options follow the data though nothing is searched.
    follows: tuple[str, ...] = option((), "options that follow the data", is_flag=False, is_compared=False)
    # {option, value, reason} of each option that was set so.
    origins: tuple[Mapping[str, Any], ...] = option((), "origins of options", is_flag=False, is_compared=False)
    # {candidates, steps, batch_size} of each round.
    plan: tuple[Mapping[str, Any], ...] = option((), "rounds of the search", is_flag=False, is_compared=False)
    # A row of each trained candidate, the best first.
    trials: tuple[Mapping[str, Any], ...] = option((), "candidates and their figures", is_flag=False, is_compared=False)
    # What is known of the chosen one: the figures that may be quoted, and the videos that they are of.
    is_refitted: bool = option(False, "trained on the split validate too", is_flag=False, is_compared=False)
    quoted: Mapping[str, Any] = option({}, "figures of the choice", is_flag=False, is_compared=False)
    # {step, promised, reached} if the training on all videos was worse than promised: the weights are the candidate's.
    undone_refit: Mapping[str, Any] = option({}, "training on all videos", is_flag=False, is_compared=False)
