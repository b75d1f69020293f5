"""Fixtures: a folder with a table of generated videos, and a function that makes records of them."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from own_clips import write_clips

from yt8m.datasets.make_records import RecordsConfig, make


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with clips.csv and features/*.npy."""
    folder = tmp_path_factory.mktemp("clips")
    write_clips(folder)
    return folder


@pytest.fixture
def run(clips: pathlib.Path, tmp_path: pathlib.Path) -> Callable[..., pathlib.Path]:
    """A function that makes records with these flags, by default in a new folder; returns the folder of the level."""

    def call(**given: Any) -> pathlib.Path:
        config = RecordsConfig(**{"table": str(clips / "clips.csv"), "out": str(tmp_path / "out"), **given})
        make(config)
        return pathlib.Path(config.out) / config.level

    return call
