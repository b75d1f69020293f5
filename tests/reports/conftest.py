"""Pages of runs made by hand."""

from __future__ import annotations

import pathlib

import pytest
from reports import report_runs

from yt8m.command_line import cli
from yt8m.records import vocabulary


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Two runs; pages of the first (one.html), of both (both.html), and of names of any kind (worst.html)."""
    folder = tmp_path_factory.mktemp("report")
    hostile, second = folder / report_runs.HOSTILE.replace("/", ""), folder / "_second"
    for seed, run in ((1, hostile), (2, second)):
        run.mkdir()
        report_runs.make_run(run, seed, seen=320 if run is second else report_runs.VIDEOS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "load", report_runs.hostile_vocabulary)
        assert cli.main(["report", str(hostile), f"--output={folder}/one.html", "--resamples=50"]) == 0
        both = [str(hostile), f"{second}/", f"--output={folder}/both.html", "--resamples=50"]
        assert cli.main(["report", *both]) == 0
    own = folder / "own"
    own.mkdir()
    report_runs.make_run(own, 1, num_classes=report_runs.CLASSES)
    vocabulary.write(str(own / vocabulary.NAME), vocabulary.of_names(report_runs.ODD_NAMES))
    assert cli.main(["report", str(own), f"--output={folder}/worst.html", "--resamples=50"]) == 0
    return folder
