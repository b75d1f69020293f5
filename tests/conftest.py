"""What holds for every test."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import tempfile
from collections.abc import Iterator

import forked_workers
import hypothesis
import laws
import leaks
import made_once
import plain_graphs
import pytest
import span_runs
from emulator import bucket, emulator_address
from installed_packages import packages, warnings_of_packages

# One emulator of buckets for all tests of a process: a fixture of a folder would be made for each folder.
__all__ = ["bucket", "emulator_address"]
__all__ += ["packages", "warnings_of_packages"]

# Examples have no deadline: on a busy machine any of them may take long, and pytest ends a test that hangs.
hypothesis.settings.register_profile(
    "fuzz", deadline=None, derandomize=False, max_examples=20 * laws.COMMON, print_blob=True
)

# Every `make test` tries the same examples, so that a newcomer's run is the same as ours.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None, max_examples=laws.COMMON)
hypothesis.settings.load_profile("tests")

# `make mutants` runs the tests many times: with few examples, and a failure is enough as it is found.
hypothesis.settings.register_profile(
    "mutants",
    hypothesis.settings.get_profile("tests"),
    max_examples=30,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)

# A shell starts what runs behind `&` with SIGINT ignored, nohup ignores SIGHUP, and the programs under test would
# inherit that: they would go on for ever where a test ends them by the signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Graphs are many small objects that live for a while, and modules are many that always live: by default Python looks
# through all of them again and again for what nobody refers to, which is a twentieth of the time of all tests.
gc.set_threshold(50_000, 20, 50)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    forked_workers.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    forked_workers.configure(config)


# Seconds after which a test with many processes is taken for stuck, on a busy machine too.
_HEAVY_TIMEOUT = 1200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("heavy") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_HEAVY_TIMEOUT))


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The system's temporary folder is this process' own, so that what is left there is its own too."""
    folder = str(tmp_path_factory.mktemp("system"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The runs that tests train are not noted in the home of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waits_for_the_disk() -> Iterator[None]:
    """`make test` does not wait until the disk has what a test writes, which is a tenth of its time.

    What is synced, and when, is watched by tests that take the place of `os.fsync` themselves or record processes.
    """
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("TESTS_WITHOUT_SYNC", "") not in ("", "0"):
            patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def span_run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of `span_runs.make`, whose run has chosen on validation how cells are joined."""
    return made_once.folder(tmp_path_factory, "spans", span_runs.make_evaluated)


@pytest.fixture(scope="module", autouse=True)
def plain_graphs_where_wanted(request: pytest.FixtureRequest) -> Iterator[None]:
    """As tests/support/plain_graphs.py says; a test that needs TensorFlow's rewriting names it in its session."""
    yield from plain_graphs.sessions() if plain_graphs.are_wanted(request.path) else [None]


@pytest.fixture(autouse=True)
def nothing_leaks(own_temporary_folder: None, own_state: None) -> Iterator[None]:
    """Fails a test that leaves something behind.

    What fixtures of a module or of the session hold is there before, and not looked for.
    """
    before = leaks.State()
    yield
    left = before.left_since()
    assert not left, f"the test has left behind: {'; '.join(left)}"
