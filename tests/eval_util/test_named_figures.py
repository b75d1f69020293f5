"""Figures are found by every spelling that files and earlier versions have."""

from __future__ import annotations

import pytest

from yt8m.eval_util.metrics import metrics
from yt8m.eval_util.named_figures import SPELLINGS, NamedFigures, spelling_of


def test_every_spelling_finds_the_value() -> None:
    for name, keys in SPELLINGS.items():
        for stored in (name, *keys):
            figures = NamedFigures({stored: 0.25, "step": 3})
            for asked in (name, *keys):
                assert figures[asked] == figures.get(asked) == 0.25
                assert asked in figures
            assert figures.spelled() == {name: 0.25}
            assert figures.short() == f"{name} 0.2500"
    assert dict(NamedFigures(gap=1)) == {"gap": 1}


@pytest.mark.parametrize("stored", ["gap_tail", "GAP tail"])
def test_the_figures_of_thirds_of_the_classes_are_found_too(stored: str) -> None:
    figures = NamedFigures({stored: 0.25, "map_tails": 1, "of tail": 2})
    assert figures["GAP tail"] == figures["gap_tail"] == 0.25
    for other in ("mAP tail", "GAP head", "tail", "map"):
        assert other not in figures


def test_other_keys_are_those_of_a_dict() -> None:
    figures = NamedFigures(step=3, GAP=None)
    assert (figures["step"], figures.get("none"), figures.get("none", 5), figures.short()) == (3, None, 5, "")
    assert 7 not in figures
    with pytest.raises(KeyError, match=r"none is not there.*step, GAP"):
        figures["none"]
    with pytest.raises(KeyError, match=r"^'none'$"):
        NamedFigures()["none"]


def test_the_spellings_are_the_names_of_the_metrics() -> None:
    named = {metric.name: metric.key for metric in map(metrics.get, metrics.names())}
    for name, keys in SPELLINGS.items():
        assert named[name] in (name, *keys)
        assert spelling_of(named[name]) == name
