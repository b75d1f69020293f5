"""What several tests of exports need."""

from __future__ import annotations

import npm
import pytest


@pytest.fixture(scope="session")
def onnxruntime_web(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the npm package; skips the test if it cannot be had."""
    return npm.install(tmp_path_factory.mktemp("npm"))
