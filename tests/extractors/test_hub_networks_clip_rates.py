"""The rates of clips are those of the training configurations: a stride of videos with a known rate, or a rate."""

from __future__ import annotations

import pytest

from yt8m.extractors import hub_networks


@pytest.mark.parametrize(
    ("family", "frames", "rate"),
    [
        ("vjepa2", 64, 4),  # 64 pictures are 16 seconds
        ("vjepa2", 16, 4),
        ("videomae", 16, 30 / 4),
        ("vivit", 32, 25 / 2),
        ("timesformer", 8, 30 / 32),
        ("timesformer", 16, 30 / 16),
        ("timesformer", 96, 30 / 4),
        ("timesformer", 12, 30 / 32),
        ("unknown", 16, hub_networks.DEFAULT_RATE),
    ],
)
def test_rates(family: str, frames: int, rate: float) -> None:
    assert hub_networks.training_rate(family, frames) == rate
