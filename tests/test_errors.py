"""The one line that says what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.errors import RunError, UsageError, first_line, quantity, suggestion

_WITHIN = "Error in user-defined function passed to MapDataset:7 transformation with iterator: Iterator::Root: "


@pytest.mark.parametrize(
    "text",
    [
        "too short",
        f"Graph execution error:\n\n{_WITHIN}too short\n\t [[{{{{node Parse}}}}]]",
        f"2 root error(s) found.\n  (0) DATA_LOSS: {_WITHIN}too short\n\t [[Next]]\n  (1) DATA_LOSS: again",
        "2 root error(s) found.\n  (0) DATA_LOSS: too short\n  (1) DATA_LOSS: too short",
    ],
)
def test_it_is_found_within_the_frames_around_it(text: str) -> None:
    assert first_line(ValueError(text)) == "too short"


def test_nothing_said() -> None:
    assert first_line(ValueError("")) == "ValueError"


@pytest.mark.parametrize(
    ("word", "expected"), [("ur", ""), ("U", "; did you mean u?"), ("vann", "; did you mean van?")]
)
def test_one_letter_is_suggested_only_for_itself(word: str, expected: str) -> None:
    assert suggestion(word, ["u", "van"]) == expected


@pytest.mark.parametrize("kind", [UsageError, RunError])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(3), "3"),
        ([np.float32(0.5), np.float64("nan")], "[0.5, nan]"),
        ({np.str_("a (b)"): np.bool_(True)}, "{'a (b)': True}"),
        (np.bytes_(b"a"), "b'a'"),
        ("np.int64(3)", "'np.int64(3)'"),
        (["np.int64(3)"], "['np.int64(3)']"),
    ],
)
def test_values_of_numpy_are_shown_as_those_of_python(kind: type[Exception], value: object, text: str) -> None:
    assert str(kind(f"y[0] is {value!r}: no")) == f"y[0] is {text}: no"


def test_one_thing_is_singular() -> None:
    counts = [quantity(1, "video"), quantity(0, "video"), quantity(2, "new class")]
    assert counts == ["1 video", "0 videos", "2 new classes"]
    assert quantity(1200, "video", ",") == "1,200 videos"
