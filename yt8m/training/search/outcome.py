"""What a search sets in the config of a run, with the reason of each value, and what a run that exists keeps."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.config.model_options import with_hyper_parameters
from yt8m.config.run_options import ValidationConfig
from yt8m.config.search_config import BATCH, MODEL, PENALTY, RATE, REFIT_BELOW, TRANSFORM
from yt8m.config.train_config import TrainConfig
from yt8m.runner.creation import count_towers
from yt8m.training import validation_interval
from yt8m.training.search import plan, trial_figures
from yt8m.training.search.candidates import Candidate
from yt8m.training.search.plan import Plan

_PATIENCE = 8  # validations without a better one, after which the training of the choice ends
_MOST_VALIDATED = 10_000  # videos of a validation during the training of the choice


class SearchFacts(NamedTuple):
    """What the search knows of the data.

    Attributes:
      trained_on: number of videos on which the candidates were trained.
      is_sample: whether the search read a sample of the training videos.
      validation: the pattern of the split validate; empty if a share of the training videos was held out.
      compared: number of videos on which the candidates were compared.
      budget: seconds of the search and the training of the choice.
    """

    total: int
    trained_on: int
    is_sample: bool
    validation: str
    compared: int
    budget: float


def may_refit(config: TrainConfig, videos: int) -> bool:
    """Whether the chosen candidate may be trained on the videos too on which it was chosen.

    Spans may not: how cells are joined is chosen on these videos later, on which scores must not be too good.
    """
    if config.data.segment_labels:
        return False
    return config.search.refit and videos < REFIT_BELOW and not config.validation.eval_data_pattern


def split_beside(pattern: str, split: str) -> str:
    """The pattern of another split beside training files: its name stands in place of `train`; empty if none matches.

    Other words that begin with `train`, such as that of a folder `training`, stay.
    """
    other = re.sub(r"\btrain(?![a-z])", split, pattern)
    return other if other != pattern and storage.glob(other) else ""


def with_choice(
    config: TrainConfig,
    made: Plan,
    rows: Sequence[Mapping[str, Any]],
    chosen: Mapping[str, Any],
    facts: SearchFacts,
    cost: float,
) -> TrainConfig:
    """The config of the run that trains the chosen candidate.

    Args:
      cost: seconds of a step of the chosen candidate.
    """
    candidate = made.candidates[chosen["number"]]
    refits = may_refit(config, facts.total)
    steps = _steps(chosen["steps"], facts, cost)
    values = _values(config, candidate, made.batch_size, steps, facts, refits)
    completed = _with_values(config, {name: value for name, value, _ in values}, candidate, steps, made.batch_size)
    search = dataclasses.replace(
        config.search,
        budget=facts.budget,
        origins=tuple({"option": name, "value": value, "reason": reason} for name, value, reason in values),
        plan=tuple({**rung._asdict(), "batch_size": made.batch_size} for rung in made.rungs),
        trials=tuple({**row, "is_chosen": row is chosen} for row in rows),
        is_refitted=bool(refits and facts.validation),
        quoted=dict(
            trial_figures.quoted([row for row in rows if row["folds"] == chosen["folds"]]),
            videos=facts.compared,
            validation=facts.validation,
            folds=chosen["folds"],
        ),
    )
    return _with_validation(dataclasses.replace(completed, search=search), facts, made.batch_size, refits)


def _steps(chosen: int, facts: SearchFacts, cost: float) -> int:
    """The steps of the run: those chosen; if the search saw a sample, as many epochs, but not beyond the budget."""
    if not facts.is_sample:
        return chosen
    affordable = int(facts.budget * (1 - plan.SHARE) / cost)
    return max(chosen, min(round(chosen * facts.total / facts.trained_on), affordable))


def _values(
    config: TrainConfig, candidate: Candidate, batch_size: int, steps: int, facts: SearchFacts, refits: bool
) -> list[tuple[str, Any, str]]:
    """(option, value, reason) of everything that follows the data."""
    free, compared = config.search.free, f"best of the candidates on {facts.compared} videos"
    epochs = steps * batch_size / max(1, facts.total)
    all_values = [
        (MODEL, candidate.model, compared),
        (TRANSFORM, candidate.transform, compared),
        (PENALTY, candidate.penalty, compared),
        (RATE, candidate.rate, f"{compared}; it falls along half a cosine to 0"),
        (BATCH, math.ceil(batch_size / count_towers(config.devices.num_gpu)), f"{facts.total} videos"),
    ]
    values = [row for row in all_values if row[0] in free]
    values.append(("max_steps", steps, f"{compared}; about {epochs:.0f} epochs"))
    if facts.validation and refits:
        reason = f"chosen on {facts.validation}, then trained on it too: fewer than {REFIT_BELOW} videos"
        values.append(("train_data_pattern", f"{config.data.data_pattern},{facts.validation}", reason))
    elif facts.validation and not config.validation.eval_data_pattern:
        values.append(("eval_data_pattern", facts.validation, "a split validate lies beside the training files"))
    return values


def _with_values(
    config: TrainConfig, values: Mapping[str, Any], candidate: Candidate, steps: int, batch_size: int
) -> TrainConfig:
    """The config with the chosen values in place."""
    data = dataclasses.replace(
        config.data,
        batch_size=values.get(BATCH, config.data.batch_size),
        data_pattern=values.get("train_data_pattern", config.data.data_pattern),
        num_epochs=None,
    )
    optimizer = config.optimizer
    if optimizer.learning_rate_schedule == "exponential":  # the user chose no other schedule
        optimizer = dataclasses.replace(
            optimizer, learning_rate_schedule="cosine", learning_rate_decay_examples=float(steps * batch_size)
        )
    optimizer = dataclasses.replace(optimizer, base_learning_rate=candidate.rate)
    base = config.model
    model = dataclasses.replace(base, model=candidate.model, hyper_parameters={})
    model = with_hyper_parameters(model, candidate.hyper_parameters)
    return dataclasses.replace(config, data=data, optimizer=optimizer, model=model, max_steps=steps)


def _with_validation(config: TrainConfig, facts: SearchFacts, batch_size: int, refits: bool) -> TrainConfig:
    """The config with validation during the training and `checkpoint: best`, if these videos are kept apart."""
    if refits or not facts.validation:
        return config
    validation_flags = config.validation
    epochs = validation_flags.eval_every_n_epochs
    if not (epochs or validation_flags.eval_every_n_steps):
        epochs = validation_interval.epochs_between(facts.total, batch_size, config.max_steps)
    validation = dataclasses.replace(
        validation_flags,
        eval_every_n_epochs=epochs,
        eval_data_pattern=facts.validation,
        patience=validation_flags.patience or _PATIENCE,
        eval_max_videos=validation_flags.eval_max_videos or _MOST_VALIDATED,
    )
    return dataclasses.replace(config, validation=validation, checkpoint="best")


def resumed(config: TrainConfig, saved: TrainConfig) -> TrainConfig:
    """The config of the next start of a run: what the search may set stays as the run has it.

    A run of before, or one that was trained with a model of the user's choice, goes on as it was.
    """
    free = config.search.free
    model, data, optimizer = config.model, config.data, config.optimizer
    if MODEL in free or not saved.search.trials:
        model = saved.model if MODEL in free else model
    if saved.search.trials:
        model = saved.model if model.model == saved.model.model else model
        batch_size = saved.data.batch_size if BATCH in free else data.batch_size
        data = dataclasses.replace(data, batch_size=batch_size, data_pattern=saved.data.data_pattern, num_epochs=None)
        optimizer = saved.optimizer if RATE in free else optimizer
    config = dataclasses.replace(config, model=model, data=data, optimizer=optimizer)
    if not saved.search.trials:
        return dataclasses.replace(config, search=dataclasses.replace(config.search, free=()))
    return dataclasses.replace(
        config,
        max_steps=saved.max_steps,
        validation=_kept_validation(config.validation, saved.validation),
        search=saved.search,
        checkpoint=saved.checkpoint,
    )


def _kept_validation(of_flags: ValidationConfig, saved: ValidationConfig) -> ValidationConfig:
    return of_flags if of_flags.eval_data_pattern else saved


def lines(config: TrainConfig) -> Iterator[str]:
    """The lines about a choice that a training prints at its end: what was set and why, and the candidates."""
    search = config.search
    for origin in search.origins:
        yield f"{origin['option']} {_shown(origin['value'])}: {origin['reason']}"
    yield f"{'mAP':>8} {'':>9} {'GAP':>7} {'Hit@1':>7} {'s':>6}  candidate"
    for row in search.trials:
        mark = "  <- chosen" if row["is_chosen"] else ""
        yield (
            f"{row['map']:8.4f} ± {1.96 * row['map_error']:.4f} {row['gap']:7.4f} {row['hit_at_one']:7.4f} "
            f"{row['seconds']:6.1f}  {row['candidate']}{mark}"
        )


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
