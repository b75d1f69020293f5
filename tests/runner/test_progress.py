"""Where the bar ends: at the limit, or where the data do."""

from __future__ import annotations

import io
import types
from typing import Any

import pytest
from rich.console import Console

from yt8m.runner import RunnerConfig
from yt8m.runner.callbacks.progress import Progress
from yt8m.runner.context import Context
from yt8m.runner.lines import StepLine

KNOWN = types.SimpleNamespace(records=100, num_epochs=2, batch_size=8)  # 200 examples
ENDLESS = types.SimpleNamespace(records=100, num_epochs=None, batch_size=8)
UNKNOWN = types.SimpleNamespace(batch_size=8)


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
