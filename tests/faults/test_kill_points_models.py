"""Commands that use a model, killed at calls that change names or sync, end well when they are repeated.

Two or three runs of seconds belong to each call, and some commands make hundreds of calls: `make kill-points` kills
them at all, for hours; `make test-all` at three, the last among them, and with a bucket at one.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest
from faults.kill_points import Killer, killer, problems
from faults.killed_commands import MODELS, REMOTE_MODELS, Models
from faults.power_cuts import build

COUNT = 0 if os.environ.get("KILL_POINTS") == "all" else 3

pytestmark = [pytest.mark.heavy, pytest.mark.long, pytest.mark.timeout(40_000 if not COUNT else 1200)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="module")
def heavy(library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    """Runs commands that import TensorFlow."""
    modules = ("training.training_run", "export.export_model", "scoring.evaluation", "scoring.inference", "reports")
    imports = ["tensorflow", *(f"yt8m.{module}" for module in modules)]
    with killer(library, tmp_path_factory.mktemp("killed"), imports) as one:
        yield one


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", MODELS)
def test_what_is_made_of_models(heavy: Killer, models: Models, command: str) -> None:
    assert problems(heavy, MODELS[command], models, COUNT) == []


@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", REMOTE_MODELS)
def test_what_is_made_of_models_in_a_bucket(heavy: Killer, models: Models, bucket: str, command: str) -> None:
    assert problems(heavy, REMOTE_MODELS[command], models, min(COUNT, 1), bucket) == []
