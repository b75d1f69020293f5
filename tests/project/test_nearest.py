"""`make check` and `make test-fast` find the tests that are nearest to a file."""

from __future__ import annotations

import pathlib

import nearest
import pytest


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("yt8m/errors.py", ["tests/test_errors.py"]),
        ("yt8m/readers/damage.py", ["tests/readers/test_damage.py"]),
        ("tests/test_errors.py", ["tests/test_errors.py"]),
        ("tests/conftest.py", []),
        ("docs/site_hooks.py", []),
    ],
)
def test_tests_bear_the_name_of_their_file(path: str, tests: list[str]) -> None:
    assert [str(test) for test in nearest.nearest(pathlib.Path(path))] == tests
