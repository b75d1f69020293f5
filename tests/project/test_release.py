"""`.ci/release.py` tries the wheel with the Pythons that the package takes."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / ".ci/release.py"


@pytest.fixture
def release() -> Any:
    spec = importlib.util.spec_from_file_location("release", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pythons_that_the_package_does_not_take_are_left_out(
    release: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pip refuses the wheel, the release ended with that."""
    answers = {"python3.11": "echo 3.11.1", "python3.12": "echo 3.12.1", "python3.13": "exit 1  # no ensurepip"}
    for name, line in answers.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(release, "PYTHONS", tuple(answers))
    assert release.fitting_pythons() == ["python3.12"]
    (tmp_path / "python3.11").write_text("#!/bin/sh\necho 3.11.2\n")
    assert release.fitting_pythons() == ["python3.11", "python3.12"]
