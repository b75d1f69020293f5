"""Where the bar ends: at the limit, or where the data do."""

from __future__ import annotations

import io
import re
import types
from typing import Any

import pytest
from rich.console import Console

from yt8m.runner import RunnerConfig
from yt8m.runner.callbacks.progress import Progress
from yt8m.runner.lines import StepLine, StepValues
from yt8m.runner.run_config import Context

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
def test_where_the_bar_ends(inputter: Any, fields: dict[str, Any], step: int, shown: str) -> None:
    config = RunnerConfig(mode="train", model_dir="run", **fields)
    context = Context(config, None, None, StepLine(10), step=step)
    text = io.StringIO()
    bar = Progress(context, inputter, Console(file=text, width=100))
    bar.after_create_session(None, None)
    context.step += 1
    bar.after_run(None, None)
    bar.close()
    assert shown in text.getvalue()
    assert (" of " in shown) == (" of " in text.getvalue())


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
    context = Context(RunnerConfig(mode=mode, model_dir="run"), None, None, StepLine(1))
    text = io.StringIO()
    bar = Progress(context, inputter, Console(file=text, width=width))
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
