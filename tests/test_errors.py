"""The one line that says what is wrong."""

from __future__ import annotations

import pytest

from yt8m.errors import first_line, suggestion

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
