"""Where the golden vectors lie, and a skip that says so where they do not."""

from __future__ import annotations

import os
import pathlib

import pytest

SHARED = pathlib.Path(__file__).resolve().parents[2] / "shared"


def golden(name: str) -> pathlib.Path:
    """The path of one golden file; skips the test where the folder is absent."""
    path = SHARED / "golden" / name
    if not path.exists():
        pytest.skip(f"golden vectors are not here (../shared/golden/{name})")
    return path


def published() -> pathlib.Path:
    """The folder of vectors that published code made; YT8M_PUBLISHED_VECTORS names another of the same layout."""
    return pathlib.Path(os.environ.get("YT8M_PUBLISHED_VECTORS", SHARED / "golden" / "published"))


def published_vector(name: str) -> pathlib.Path:
    """The path of one file of these vectors; skips the test where it is absent."""
    path = published() / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"vectors of published code are not here ({path})")
    return path


def real_data(name: str) -> pathlib.Path:
    """The path of one file of real data; skips the test where the folder is absent."""
    path = SHARED / "data" / name
    if not path.exists():
        pytest.skip(f"real data is not here (../shared/data/{name})")
    return path
