"""Where the recorded vectors are: tests/golden, whose README.md says what each file is and how it was made."""

from __future__ import annotations

import os
import pathlib

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def golden(name: str) -> pathlib.Path:
    """The path of one file of recorded vectors."""
    return GOLDEN / name


def published() -> pathlib.Path:
    """The folder of the vectors that published code computed; YT8M_PUBLISHED_VECTORS may name another folder."""
    return pathlib.Path(os.environ.get("YT8M_PUBLISHED_VECTORS", GOLDEN / "published"))


def published_vector(name: str) -> pathlib.Path:
    """The path of one file of the vectors that published code computed."""
    return published() / f"{name}.npz"


def real_data(name: str) -> pathlib.Path:
    """The path of one file of real data."""
    return GOLDEN / "data" / name
