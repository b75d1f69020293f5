"""A folder with a table of generated videos."""

from __future__ import annotations

import pathlib

import pytest
from own_clips import write_clips


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with clips.csv and features/*.npy."""
    folder = tmp_path_factory.mktemp("clips")
    write_clips(folder)
    return folder
