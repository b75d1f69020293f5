"""What several tests of faults need."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from faults.kill_points import Killer, killer
from faults.killed_commands import Models
from faults.power_cuts import build
from faults.saved_states import Bucket

# What the commands that use a model import when they first need it.
_LATER = (
    *("yt8m.losses.label_losses", "yt8m.models.video_level", "yt8m.runner.callbacks.figures", "yt8m.storage.gcs"),
    *("jinja2", "matplotlib.backends.backend_svg", "google.cloud.storage"),
)


@pytest.fixture(scope="module")
def recorder_library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The library that counts the calls of a process."""
    return build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="module")
def tensorflow_killer(recorder_library: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    """Runs commands that import TensorFlow."""
    modules = ("training.training_run", "export.export_model", "scoring.evaluation", "scoring.inference", "reports")
    imports = ["tensorflow", *(f"yt8m.{module}" for module in modules), *_LATER]
    with killer(recorder_library, tmp_path_factory.mktemp("killed"), imports) as one:
        yield one


@pytest.fixture(scope="module")
def killed_models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """What the commands read, made when it is first needed."""
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def saved_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket that can be set back to an earlier state. The test and its subprocesses use its emulator."""
    from google.cloud import storage as gcs

    with Bucket() as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.address)
        gcs.Client.create_anonymous_client().create_bucket(bucket.name)
        yield bucket
