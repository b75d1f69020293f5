"""What a search sets in the config of a run, with the reason of each value, and what a run that exists keeps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from absl import logging

from yt8m.config.data_config import DataConfig
from yt8m.config.model_options import with_hyper_parameters
from yt8m.config.run_options import ValidationConfig
from yt8m.config.search_config import BATCH, DECAY, EPOCHS, METRIC, MODEL, PENALTY, RATE, REFIT_BELOW, STEPS, TRANSFORM
from yt8m.config.train_config import ModelConfig, OptimizerConfig, TrainConfig
from yt8m.runner.creation import count_towers
from yt8m.training import splits, validation_interval
from yt8m.training.search import plan, trial_figures
from yt8m.training.search.candidates import Candidate
from yt8m.training.search.plan import Plan
from yt8m.training.search.trial_figures import FULL_MAP

# By which checkpoints are compared: as the candidates were, but for the share of the other figure.
_BEST_METRIC, _BEST_METRIC_OF_CELLS = "mAP", "GAP"
# Of what is left of the budget after the search of a sample, the share for steps; the rest is for validations, exports,
# the start and the end.
_SHARE_OF_STEPS = 0.6
_FINAL_SHARE = _SHARE_OF_STEPS * (1 - plan.SHARE)
_MOST_VALIDATIONS = 12
_MOST_VALIDATED = 10_000  # videos of a validation during the training of the choice


_Section = TypeVar("_Section", OptimizerConfig, ValidationConfig)


class SearchFacts(NamedTuple):
    """What the search knows of the data.

    Attributes:
      trained_on: number of videos on which the candidates were trained.
      is_sample: whether the search read a sample of the training videos.
      validation: the pattern of the split validate; empty if a share of the training videos was held out.
      compared: number of videos on which the candidates were compared.
      budget: seconds of the search and the training of the choice.
      seconds_left: what the search has left of it.
      held_out: the rule by which a share of the training videos is held out of the training too; empty if none is.
      apart: how many videos the rule holds out, of `trained_on` + `apart` that the search has read.
    """

    total: int
    trained_on: int
    is_sample: bool
    validation: str
    compared: int
    budget: float
    seconds_left: float = math.inf
    held_out: tuple[int, ...] = ()
    apart: int = 0


def may_refit(config: TrainConfig, videos: int) -> bool:
    """Whether the chosen candidate may be trained on the videos too on which it was chosen.

    Spans may not: how cells are joined is chosen on these videos later, on which scores must not be too good.
    """
    if config.data.segment_labels:
        return False
    return config.search.refit and videos < REFIT_BELOW and not config.validation.eval_data_pattern


def is_trained_on_all(config: TrainConfig) -> bool:
    """Whether the chosen candidate was trained on the videos too on which it was chosen."""
    is_apart = config.data.held_out or config.validation.eval_data_pattern or config.data.segment_labels
    return bool(config.search.trials) and not is_apart


def noun(config: TrainConfig) -> str:
    """What an example of the training is called: a cell of a video with spans, or a video."""
    return "cells" if config.data.segment_labels else "videos"


def given_data(config: TrainConfig) -> str:
    """The pattern of the training data as the user gave it, without the split that a search adds to it."""
    search = config.search
    return config.data.data_pattern.removesuffix(f",{search.quoted['validation']}" if search.is_refitted else "")


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
    candidate = _for_all_videos(made.candidates[chosen["number"]], config, facts)
    refits = not facts.held_out and may_refit(config, facts.total)
    steps = _given_steps(config, made.batch_size, facts.total) or _steps(_planned(chosen, rows, made), facts, cost)
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
            training_videos=facts.total,
        ),
    )
    data = dataclasses.replace(completed.data, held_out=facts.held_out)
    completed = dataclasses.replace(completed, data=data, search=search)
    return _with_validation(completed, facts, made.batch_size, refits)


def _for_all_videos(candidate: Candidate, config: TrainConfig, facts: SearchFacts) -> Candidate:
    """The candidate with the penalty for all videos: beside a mean loss, twice the videos need half of it."""
    if PENALTY not in config.search.free or not facts.is_sample:
        return candidate
    return dataclasses.replace(candidate, penalty=candidate.penalty * facts.trained_on / facts.total)


def _given_steps(config: TrainConfig, batch_size: int, videos: int) -> int | None:
    """The steps of a training whose length is given by --max_steps or --num_epochs; None if the search sets it."""
    free, steps = config.search.free, config.max_steps
    if EPOCHS not in free:
        epochs = math.ceil((config.data.num_epochs or 1) * videos / batch_size)
        return epochs if STEPS in free or steps is None else min(steps, epochs)
    return None if STEPS in free else steps


class _Planned(NamedTuple):
    """How long the choice should be trained: so many steps, each for so many seconds in its trial; `steps` at least."""

    steps: int
    longest: int
    seconds_of_step: float


def _planned(chosen: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], made: Plan) -> _Planned:
    """The steps of the choice: those of its trial, or of the last rung if the clock ended the search before it."""
    steps: int = chosen["steps"]
    reached = max(row["steps"] for row in rows if row["number"] == chosen["number"])
    longest = steps if reached > steps else max(steps, made.rungs[-1].steps)
    return _Planned(steps, longest, chosen["seconds"] / (steps * chosen["folds"]))


def _steps(planned: _Planned, facts: SearchFacts, cost: float) -> int:
    """The steps of the run; if the search saw a sample, as many epochs, but not beyond the budget."""
    most = planned.longest
    if facts.is_sample:
        most = min(round(most * facts.total / facts.trained_on), int(facts.budget * _FINAL_SHARE / cost))
    most = max(planned.steps, most)
    if most == planned.steps or planned.seconds_of_step * most <= _SHARE_OF_STEPS * facts.seconds_left:
        return most
    affordable = max(planned.steps, int(_SHARE_OF_STEPS * facts.seconds_left / planned.seconds_of_step))
    logging.warning("the clock leaves %d of %d steps for the training of the choice (--budget)", affordable, most)
    return affordable


def _values(
    config: TrainConfig, candidate: Candidate, batch_size: int, steps: int, facts: SearchFacts, refits: bool
) -> list[tuple[str, Any, str]]:
    """(option, value, reason) of everything that follows the data."""
    free, compared = config.search.free, f"best of the candidates on {facts.compared} {noun(config)}"
    epochs = steps * batch_size / max(1, facts.total)
    all_values = [
        (MODEL, candidate.model, compared),
        (TRANSFORM, candidate.transform, compared),
        (
            PENALTY,
            candidate.penalty,
            compared + (", divided by how many times as many there are" if facts.is_sample else ""),
        ),
        (RATE, candidate.rate, f"{compared}; it falls along half a cosine to 0"),
        (BATCH, math.ceil(batch_size / count_towers(config.devices.num_gpu)), f"{facts.total} {noun(config)}"),
    ]
    values = [row for row in all_values if row[0] in free]
    if MODEL not in free and DECAY in free and DECAY in candidate.options:
        values.append((DECAY, candidate.options[DECAY], "a training of few steps"))
    if STEPS in free and EPOCHS in free:
        values.append((STEPS, steps, f"{compared}; about {epochs:.0f} epochs"))
    if facts.validation and refits:
        reason = f"chosen on {facts.validation}, then trained on it too: fewer than {REFIT_BELOW} videos"
        values.append(("train_data_pattern", f"{config.data.data_pattern},{facts.validation}", reason))
    elif facts.validation and not config.validation.eval_data_pattern:
        values.append(("eval_data_pattern", facts.validation, "a split validate lies beside the training files"))
    elif facts.held_out:
        which = f"{facts.apart} of these {facts.apart + facts.trained_on} videos are"
        if facts.is_sample:
            which = f"{facts.apart / (facts.apart + facts.trained_on):.0%} of these videos are"
        reason = f"{which} held out, since no split validate lies beside them"
        values.append(("eval_data_pattern", config.data.data_pattern, reason))
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
    """The config with validation during the training and `checkpoint: best`, if these videos are kept apart.

    The training ends early only by the user's --patience: the rate falls to 0 until the last step, for which the
    candidate was chosen, and while the rate is high, many validations may pass that are worse than the first.
    """
    pattern = facts.validation or (config.data.data_pattern if facts.held_out else "")
    if refits or not pattern:
        return config
    validation_flags = config.validation
    epochs = validation_flags.eval_every_n_epochs
    if not (epochs or validation_flags.eval_every_n_steps):
        epochs = validation_interval.epochs_between(facts.total, batch_size, config.max_steps)
        if config.max_steps:
            epochs = max(epochs, math.ceil(config.max_steps * batch_size / facts.total / _MOST_VALIDATIONS))
    best_metric = _BEST_METRIC_OF_CELLS if config.data.segment_labels else _BEST_METRIC
    validation = dataclasses.replace(
        validation_flags,
        eval_every_n_epochs=epochs,
        eval_data_pattern=pattern,
        best_metric=best_metric if METRIC in config.search.free else validation_flags.best_metric,
        eval_max_videos=validation_flags.eval_max_videos or _MOST_VALIDATED,
    )
    return dataclasses.replace(config, validation=validation, checkpoint="best")


def resumed(config: TrainConfig, saved: TrainConfig) -> TrainConfig:
    """The config of the next start of a run: what the search may set stays as the run has it.

    A run of before, or one that was trained with a model of the user's choice, goes on as it was.
    """
    data, optimizer, steps = config.data, config.optimizer, config.max_steps
    if saved.search.trials:
        data = _resumed_data(config, saved)
        steps = _resumed_steps(config, saved)
        optimizer = _resumed_optimizer(config, saved, data.batch_size, steps)
    model = _resumed_model(config, saved)
    config = dataclasses.replace(config, model=model, data=data, optimizer=optimizer)
    if not saved.search.trials:
        return dataclasses.replace(config, search=dataclasses.replace(config.search, free=()))
    return dataclasses.replace(
        config,
        max_steps=steps,
        validation=_kept_validation(config, saved),
        search=saved.search,
        checkpoint=saved.checkpoint,
    )


def _resumed_model(config: TrainConfig, saved: TrainConfig) -> ModelConfig:
    """The model of the run with what is given now; a value that is not the run's is refused later."""
    free, model, of_run = config.search.free, config.model, saved.model
    if MODEL in free and not saved.search.trials:
        return of_run
    if not saved.search.trials or (MODEL not in free and model.model != of_run.model):
        return model
    values = of_run.hyper_parameters if MODEL in free else model.hyper_parameters
    for name in (TRANSFORM, PENALTY, DECAY):
        has_none = name == PENALTY and name not in of_run.hyper_parameters
        source = of_run if name in free or has_none else model
        values = {key: value for key, value in values.items() if key != name}
        if name in source.hyper_parameters:
            values[name] = source.hyper_parameters[name]
    return dataclasses.replace(model, model=of_run.model, hyper_parameters=values)


def _resumed_data(config: TrainConfig, saved: TrainConfig) -> DataConfig:
    """The data of the next start: those of the run, or others that the user names now, with their split validate."""
    free, data, pattern = config.search.free, config.data, saved.data.data_pattern
    if _has_other_data(config, saved):
        added = splits.beside(data.data_pattern, "validate") if saved.search.is_refitted else ""
        pattern = ",".join(filter(None, (data.data_pattern, added)))
    batch_size = saved.data.batch_size if BATCH in free else data.batch_size
    num_epochs = data.num_epochs if _counts_epochs(config, saved) else None
    return dataclasses.replace(
        data, batch_size=batch_size, data_pattern=pattern, num_epochs=num_epochs, held_out=saved.data.held_out
    )


def _counts_epochs(config: TrainConfig, saved: TrainConfig) -> bool:
    """Whether --num_epochs counts epochs from now on; else it is the length of the run, whose first start gave it too.

    By the number of its videos that length becomes steps. Runs of before did not note it, and other data have another.
    """
    has_number = "training_videos" in saved.search.quoted and not _has_other_data(config, saved)
    is_length = EPOCHS not in saved.search.free and has_number
    return EPOCHS not in config.search.free and not is_length


def _has_other_data(config: TrainConfig, saved: TrainConfig) -> bool:
    return config.data.data_pattern not in (saved.data.data_pattern, given_data(saved))


def _resumed_steps(config: TrainConfig, saved: TrainConfig) -> int | None:
    free = config.search.free
    if _counts_epochs(config, saved):
        return None if STEPS in free else config.max_steps
    if STEPS in free and EPOCHS in free:
        return saved.max_steps
    batch_size = config.data.batch_size * count_towers(config.devices.num_gpu)
    if BATCH in free:
        batch_size = saved.search.plan[0]["batch_size"]
    return _given_steps(config, batch_size, saved.search.quoted.get("training_videos", 0))


def _resumed_optimizer(config: TrainConfig, saved: TrainConfig, batch_size: int, steps: int | None) -> OptimizerConfig:
    """That of the run, but for what is given now. If the rate falls to 0 at its last step, it falls to the new one.

    Args:
      batch_size: that of one tower from now on.
    """
    of_run = saved.optimizer
    examples = of_run.learning_rate_decay_examples
    if of_run.learning_rate_schedule == "cosine" and steps and saved.max_steps:
        rows_of_step = batch_size * count_towers(config.devices.num_gpu)
        rows_of_run = saved.data.batch_size * count_towers(saved.devices.num_gpu)
        examples *= steps * rows_of_step / (saved.max_steps * rows_of_run)
    return dataclasses.replace(
        _given_or_saved(config.optimizer, of_run),
        base_learning_rate=(of_run if RATE in config.search.free else config.optimizer).base_learning_rate,
        learning_rate_schedule=of_run.learning_rate_schedule,
        learning_rate_decay_examples=examples,
    )


def _given_or_saved(section: _Section, saved: _Section) -> _Section:
    """The section of the run, with the values of this start that are no defaults."""
    values = {field.name: getattr(section, field.name) for field in dataclasses.fields(section)}
    changed = {field.name for field in dataclasses.fields(section) if values[field.name] != field.default}
    return dataclasses.replace(saved, **{name: values[name] for name in changed})


def _kept_validation(config: TrainConfig, saved: TrainConfig) -> ValidationConfig:
    """That of the run, but for what is given now; on the split beside the data if these lie elsewhere now."""
    flags, of_run = config.validation, saved.validation
    moved = config.data.data_pattern != saved.data.data_pattern and of_run.eval_data_pattern
    beside = splits.beside(config.data.data_pattern, "validate") if moved else ""
    if saved.validates_on_held_out:
        beside = beside or config.data.data_pattern
    if flags.eval_every_n_epochs or flags.eval_every_n_steps:
        of_run = dataclasses.replace(of_run, eval_every_n_epochs=None, eval_every_n_steps=None)
    return dataclasses.replace(
        _given_or_saved(flags, of_run),
        eval_data_pattern=flags.eval_data_pattern or beside or of_run.eval_data_pattern,
        best_metric=(of_run if METRIC in config.search.free else flags).best_metric,
    )


def origin_lines(config: TrainConfig) -> Iterator[str]:
    """A line for each option that follows the data: its value and the reason."""
    values = {
        **config.model.hyper_parameters,
        RATE: config.optimizer.base_learning_rate,
        BATCH: config.data.batch_size,
        STEPS: config.max_steps,
    }
    for origin in config.search.origins:
        value = values.get(origin["option"], origin["value"])
        now = f" ({_shown(value)} in this start, by its flags)" if value != origin["value"] else ""
        yield f"{origin['option']} {_shown(origin['value'])}: {origin['reason']}{now}"


def of_undone_refit(config: TrainConfig) -> str:
    """Why the run has the weights of the candidate, and not those of the training on all videos."""
    note = config.search.undone_refit
    return (
        f"trained on all videos, the model reached {FULL_MAP} {note['reached']:.4f} on those that chose it; the "
        f"candidate, which had not seen them, {note['promised']:.4f}. So that training went wrong, and the run has the "
        "candidate's weights"
    )


def lines(config: TrainConfig) -> Iterator[str]:
    """The lines about a choice that a training prints at its end: what was set and why, and the candidates."""
    search = config.search
    yield from origin_lines(config)
    if search.undone_refit:
        yield of_undone_refit(config)
    elif search.quoted.get("training_videos") and not search.quoted["validation"] and not config.data.held_out:
        count = search.quoted["training_videos"]
        yield f"trained on all {count} {noun(config)}: those that were held out for the choice are among them"
    yield f"{FULL_MAP:>8} {'':>9} {'GAP':>7} {'Hit@1':>7} {'s':>6}  candidate"
    for row in search.trials:
        mark = "  <- chosen" if row["is_chosen"] else ""
        yield (
            f"{row['map']:8.4f} ± {1.96 * row['map_error']:.4f} {row['gap']:7.4f} {row['hit_at_one']:7.4f} "
            f"{row['seconds']:6.1f}  {row['candidate']}{mark}"
        )


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
