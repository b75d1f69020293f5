"""Where a run ends: at the limit, or where the data do. What the bar on a terminal and the lines elsewhere show."""

from __future__ import annotations

import io
import re
import types
from typing import Any

import pytest
from rich.console import Console

from yt8m.runner import RunnerConfig
from yt8m.runner.callbacks.progress import Progress
from yt8m.runner.hooks import StepHook
from yt8m.runner.lines import StepLine, StepValues, evaluation_line, inference_line, training_line, validation_line
from yt8m.runner.run_config import Context
from yt8m.runner.saver import ShardPosition

KNOWN = types.SimpleNamespace(records=100, num_epochs=2, batch_size=8)  # 200 examples
ENDLESS = types.SimpleNamespace(records=100, num_epochs=None, batch_size=8)
UNKNOWN = types.SimpleNamespace(records=None, num_epochs=None, batch_size=8)


@pytest.mark.parametrize(
    ("inputter", "fields", "step", "shown"),
    [
        (KNOWN, {}, 0, "training step 1 of 25 "),
        (KNOWN, {"gpu_count": 3}, 0, "training step 1 of 9 "),
        (KNOWN, {"max_steps": 20}, 0, "training step 1 of 20 "),
        (KNOWN, {"max_steps": 60}, 10, "training step 11 of 35 "),
        (KNOWN, {"exact_resume": True}, 10, "training step 11 of 25 "),
        (ENDLESS, {"max_steps": 60}, 0, "training step 1 of 60 "),
        (UNKNOWN, {"max_steps": 60}, 0, "training step 1 of 60 "),
        (ENDLESS, {}, 0, "training step 1 "),
    ],
)
def test_where_a_run_ends(inputter: Any, fields: dict[str, Any], step: int, shown: str) -> None:
    context = started(RunnerConfig(mode="train", model_dir="run", **fields), inputter, StepLine(1), step)
    text, told = io.StringIO(), []
    bar = Progress(context, Console(file=text, width=100))
    context.line.listen(lambda values: told.append(training_line(values)))
    bar.after_create_session(None, None)
    context.step += 1
    bar.after_run(None, None)
    bar.close()
    assert shown in text.getvalue()
    assert (" of " in shown) == (" of " in text.getvalue())
    context.line.values.loss = 1.5
    context.line.emit(context.step, context.step)
    assert told[0].startswith(f"{shown.partition(' of ')[0].strip()} | Loss: 1.50")
    assert (f"| {shown.removeprefix('training ')}|" in told[0]) == (" of " in shown)


def started(config: RunnerConfig, inputter: Any, line: StepLine, step: int = 0, position: Any = None) -> Context:
    """The context of a run whose session has been opened on variables of this step."""
    context = Context(config, types.SimpleNamespace(global_step=None), None, line, is_resumed=step > 0)
    session = types.SimpleNamespace(run=lambda _: step)
    StepHook(context, inputter, position).after_create_session(session, None)
    return context


@pytest.mark.parametrize(("begun", "last"), [(0, 35), (2, 29), (6, 17), (8, 10), (9, 10)])
def test_a_run_that_goes_on_in_the_data_ends_earlier(begun: int, last: int) -> None:
    """Two epochs of 4 shards are 25 steps; 10 are done, and the shards that were begun are not read again."""
    position = ShardPosition(None, ["a", "b", "c", "d"], {}, 2)  # type: ignore[arg-type]
    position.count_shards(begun - 1)
    assert started(RunnerConfig(model_dir="run"), KNOWN, StepLine(1), 10, position).line.last_step == last


@pytest.mark.parametrize(("first", "last"), [(0, 25), (4, 29), (10, 35)])
def test_a_pass_that_began_anew_at_a_later_step_ends_later(first: int, last: int) -> None:
    position, config = types.SimpleNamespace(first_step=first), RunnerConfig(model_dir="run", exact_resume=True)
    assert started(config, KNOWN, StepLine(1), 10, position).line.last_step == last


def test_the_time_left_is_that_of_the_steps_after_the_first_line() -> None:
    """The first step takes 30 s, each later one 2 s; without a known end nothing is said."""
    now = [0.0]
    told: list[StepValues] = []
    line = StepLine(1, clock=lambda: now[0])
    line.listen(told.append)
    line.start(0, 40)
    for step, seconds in ((1, 30), (2, 32), (12, 52), (40, 108), (41, 110)):
        now[0], line.values.loss = float(seconds), 1.0
        line.emit(step, step)
    assert [values.seconds_left for values in told] == [30 * 39, 2 * 38, 2 * 28, 0, 0]
    assert training_line(told[2]) == "training step 12 | Loss: 1.00 | step 12 of 40 | 0:00:56 left"
    assert inference_line(told[0]).endswith("elapsed seconds: 0.00 | step 1 of 40 | 0:19:30 left")
    assert evaluation_line(told[0]).endswith("Batch Loss: 1.000 | step 1 of 40 | 0:19:30 left")
    line.start(0)
    line.values.loss = 1.0
    line.emit(1, 1)
    assert training_line(told[-1]) == "training step 1 | Loss: 1.00"


ONE_PASS = types.SimpleNamespace(records=100, num_epochs=1, batch_size=8)
VALUES = StepValues(loss=12.5, examples_per_second=2303.4, figures={"Hit@1": 0.5, "PERR": 0.25, "GAP": 0.125})
EVALUATED = StepValues(examples=8, loss=12.5, figures={"Hit@1": 0.5})
PREDICTED = StepValues(examples=8, elapsed_seconds=2.0)


@pytest.mark.parametrize(
    ("mode", "inputter", "width", "values", "shown", "figures"),
    [
        ("train", KNOWN, 140, VALUES, "step 1 of 25 ", "GAP 0.125  2303 examples/s  Hit@1 0.500  PERR 0.250"),
        ("train", KNOWN, 80, VALUES, "training step 1 of 25 ", " loss 12.50  GAP 0.125  2303 examples/s"),
        ("train", KNOWN, 60, VALUES, "training step 1 of 25 ", " loss 12.50  GAP 0.125"),
        ("train", KNOWN, 40, VALUES, "training step 1 of 25 ", ""),
        ("train", ENDLESS, 80, VALUES, "training step 1 ", " loss 12.50  GAP 0.125  2303 examples/s"),
        ("eval", ONE_PASS, 80, EVALUATED, "evaluating step 1 of 13 ", " 8 examples  loss 12.50  Hit@1 0.500"),
        ("eval", ONE_PASS, 50, EVALUATED, "evaluating step 1 of 13 ", " 8 examples"),
        ("infer", ONE_PASS, 80, PREDICTED, "predicting step 1 of 13 ", " 8 examples  4 examples/s"),
    ],
)
def test_step_and_time_are_whole_in_any_width(
    mode: Any, inputter: Any, width: int, values: StepValues, shown: str, figures: str
) -> None:
    context = started(RunnerConfig(mode=mode, model_dir="run"), inputter, StepLine(1))
    text = io.StringIO()
    bar = Progress(context, Console(file=text, width=width))
    bar.after_create_session(None, None)
    context.step, context.line.values = 1, values
    context.line.emit(1, 1)
    bar.after_run(None, None)
    bar.close()
    (line,) = text.getvalue().splitlines()
    assert shown in line
    assert re.search(r"(-:--:--|0:00:0\d) ", line)
    assert line.rstrip().endswith(figures)
    assert "…" not in line


def test_the_figures_of_a_validation_stay_on_the_bar_until_the_next_one() -> None:
    context = started(RunnerConfig(mode="train", model_dir="run"), KNOWN, StepLine(1))
    text, told = io.StringIO(), []
    bar = Progress(context, Console(file=text, width=120, force_terminal=True))
    context.line.listen(told.append)
    bar.after_create_session(None, None)
    validated = StepValues(step=1, loss=3.0, figures={"PERR": 0.5, "GAP": 0.25}, is_validation=True)
    context.line.emit_validation(validated)
    context.line.values.loss = 1.5
    context.line.emit(1, 1)
    bar.after_run(None, None)
    bar.close()
    assert "validation GAP 0.250  loss 1.50" in text.getvalue()
    assert [values.is_validation for values in told] == [False]  # only those who ask for it are told of validations


def test_the_line_of_a_validation() -> None:
    figures = {"Hit@1": 0.5, "GAP": 0.25}
    values = StepValues(step=7, loss=3.0, figures=figures, examples=21, elapsed_seconds=1.25, is_validation=True)
    expected = "validation at step 7 | Loss: 3.0000 | Hit@1: 0.5000 GAP: 0.2500 | 21 examples in 1.2 s"
    assert validation_line(values) == expected
