"""`yt8m.fit` shows every option with its type, its default and what it means."""

from __future__ import annotations

import inspect

import fit_stub

import yt8m
from yt8m.command_line.flags import training


def test_the_stub_is_that_of_the_options() -> None:
    assert fit_stub.STUB.read_text() == fit_stub.text(), "run `make fit-stub`"


def test_notebooks_and_help_see_every_option() -> None:
    parameters = inspect.signature(yt8m.fit).parameters
    flags = fit_stub.training_flags()
    assert set(parameters) == {name for flag in flags for name in (flag.name, *flag.aliases)}
    assert parameters["save_summary_steps"].default == 100
    assert parameters["feature_sizes"].annotation == "Sequence[int] | int | str | None"
    for flag in flags:
        assert f"\n  {flag.name}: " in yt8m.fit.__doc__


def test_the_defaults_shown_are_those_of_a_training() -> None:
    config, _ = training(["--train_dir=runs/none"])
    parameters = inspect.signature(yt8m.fit).parameters
    assert parameters["batch_size"].default == config.data.batch_size == 1024
    assert parameters["learning_rate_decay"].default == config.optimizer.learning_rate_decay
    assert parameters["label_loss"].default == config.model.label_loss
