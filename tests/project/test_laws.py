"""The number and the choice of the examples with which hypothesis tries the laws (property tests)."""

from __future__ import annotations

import laws
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn(profile: str) -> list[int]:
    """The values that hypothesis draws for a law under `profile`."""
    values: list[int] = []

    @settings(settings.get_profile(profile))
    @given(st.integers())
    def law(value: int) -> None:
        values.append(value)

    law()
    return values


def test_make_test_tries_the_same_examples_each_time() -> None:
    values = drawn("tests")
    assert drawn("tests") == values
    assert len(values) == laws.COMMON
    assert laws.examples(15).max_examples == 15


@pytest.mark.heavy
def test_make_fuzz_draws_many_more_and_others_each_time() -> None:
    values = drawn("fuzz")
    assert drawn("fuzz") != values
    assert len(values) == 20 * laws.COMMON


def test_make_fuzz_multiplies_the_examples_of_slow_laws_too() -> None:
    settings.load_profile("fuzz")
    try:
        assert laws.examples(15).max_examples == 300
    finally:
        settings.load_profile("tests")
