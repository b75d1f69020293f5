"""Commands that use a model and are killed at calls that change names or sync end well when they are repeated.

Each repeat takes seconds, and some commands leave more than a hundred states: `make kill-points` repeats them on all,
`make test-all` on those of the commands of two lists, and kills the others at three calls, with a bucket at one.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest
from faults.kill_points import Case, Killer, killer, problems, problems_at_all_calls
from faults.killed_commands import MODELS, REMOTE_MODELS, Models
from faults.power_cuts import build
from faults.saved_states import Bucket

# What the commands import when they first need it.
_LATER = (
    *("yt8m.losses.label_losses", "yt8m.models.video_level", "yt8m.runner.callbacks.figures", "yt8m.storage.gcs"),
    *("jinja2", "matplotlib.backends.backend_svg", "google.cloud.storage"),
)

_AT_ALL_CALLS = {
    *("average-checkpoints", "count", "export", "export --format=npz", "import-checkpoint", "report", "segment-eval"),
    *("select", "select of tasks"),
}
_AT_ALL_CALLS_IN_A_BUCKET = {
    *("count", "ensemble of files", "export --format=npz", "report", "segment-eval", "select", "select of tasks")
}
_ALL = os.environ.get("KILL_POINTS") == "all"

pytestmark = [pytest.mark.heavy, pytest.mark.long, pytest.mark.timeout(7200 if _ALL else 1200)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="module")
def heavy(library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    """Runs commands that import TensorFlow."""
    modules = ("training.training_run", "export.export_model", "scoring.evaluation", "scoring.inference", "reports")
    imports = ["tensorflow", *(f"yt8m.{module}" for module in modules), *_LATER]
    with killer(library, tmp_path_factory.mktemp("killed"), imports) as one:
        yield one


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", MODELS)
def test_what_is_made_of_models(heavy: Killer, models: Models, command: str) -> None:
    case = Case(heavy, MODELS[command], models)
    assert (problems_at_all_calls(case) if _ALL or command in _AT_ALL_CALLS else problems(case, 3)) == []


@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", REMOTE_MODELS)
def test_what_is_made_of_models_in_a_bucket(heavy: Killer, models: Models, saved_bucket: Bucket, command: str) -> None:
    case = Case(heavy, REMOTE_MODELS[command], models, saved_bucket.url)
    is_whole = _ALL or command in _AT_ALL_CALLS_IN_A_BUCKET
    assert (problems_at_all_calls(case, saved_bucket) if is_whole else problems(case, 1)) == []
