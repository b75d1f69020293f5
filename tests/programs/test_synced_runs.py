"""`--sync_batch_norm` from the command line: two towers learn what one does, and a resumed run goes on."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from absl import logging
from small_run import losses, run, weights

pytestmark = [pytest.mark.long, pytest.mark.heavy]

MODEL = ["--model=GatedMoeModel", "--batch_norm_decay=0.9"]
ONE = [*MODEL, "--batch_size=16"]
TWO = [*MODEL, "--batch_size=8", "--num_gpu=2"]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """What was logged so far."""
    handler, absl_logger = caplog.handler, logging.get_absl_logger()
    absl_logger.addHandler(handler)
    yield lambda: "\n".join(record.getMessage() for record in caplog.records)
    absl_logger.removeHandler(handler)


def furthest(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """The largest difference of any value."""
    assert sorted(found) == sorted(expected)
    return max(float(np.abs(found[name] - value).max()) for name, value in expected.items())


@pytest.mark.promise("N3")
def test_two_towers_learn_what_one_does(tmp_path: pathlib.Path) -> None:
    descent = ["--optimizer=GradientDescentOptimizer", "--max_steps=6"]
    for name, words in (("one", ONE), ("synced", [*TWO, "--sync_batch_norm"])):
        assert run(tmp_path / name, *words, *descent) == 0
    assert furthest(weights(tmp_path / "synced", 6), weights(tmp_path / "one", 6)) < 2e-6
    saved = json.loads((tmp_path / "synced/config.json").read_text())
    assert saved["config"]["devices"]["sync_batch_norm"] is True


@pytest.mark.parametrize("kind", ["from its meta-graph", "from code"])
def test_a_resumed_run_is_the_unbroken_one(tmp_path: pathlib.Path, lines: Callable[[], str], kind: str) -> None:
    words = [*TWO, "--sync_batch_norm"]
    assert run(tmp_path / "whole", *words, "--max_steps=8") == 0
    assert run(tmp_path / "halted", *words, "--max_steps=3") == 0
    if kind == "from code":
        (tmp_path / "halted/model.ckpt-3.meta").unlink()
    assert run(tmp_path / "halted", *words, "--max_steps=8") == 0
    assert ("graph saved" in lines()) == (kind == "from its meta-graph")
    assert losses(tmp_path / "halted") == losses(tmp_path / "whole")
    assert furthest(weights(tmp_path / "halted", 8), weights(tmp_path / "whole", 8)) == 0


@pytest.mark.parametrize("begun_with", [True, False])
def test_a_run_may_begin_without_and_go_on_with_it_and_the_reverse(
    tmp_path: pathlib.Path, lines: Callable[[], str], begun_with: bool
) -> None:
    with_it = [*TWO, "--sync_batch_norm"]
    first, then = (with_it, TWO) if begun_with else (TWO, with_it)
    assert run(tmp_path / "run", *first, "--max_steps=2") == 0
    begun = weights(tmp_path / "run", 2)
    assert run(tmp_path / "run", *then, "--max_steps=4") == 0
    was, now = (True, False) if begun_with else (False, True)
    assert f"sync_batch_norm was {was} and is {now}" in lines()
    assert sorted(weights(tmp_path / "run", 4)) == sorted(begun)
