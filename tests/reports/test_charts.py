"""What the pictures show that a page of many cannot tell: looked at on matplotlib's own axes."""

from __future__ import annotations

import types
from typing import Any

import pytest
from matplotlib.figure import Figure

from yt8m.reports import charts
from yt8m.reports.loading import Curve
from yt8m.reports.measures import ClassFigure


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of each picture."""
    axes: list[Any] = []

    def keep(draw: Any, *_: Any) -> str:
        axes.append(Figure().subplots())
        draw(axes[-1])
        return ""

    monkeypatch.setattr(charts, "picture", keep)
    return axes


def test_a_curve_of_one_point_is_seen(drawn: list[Any]) -> None:
    points: list[dict[int, float]] = [{10: 2.0}, {10: 2.0, 20: 1.0}]
    for one in points:
        run: Any = types.SimpleNamespace(
            name="run",
            curves={"loss": Curve(one)},
            colour="black",
            samples=types.SimpleNamespace(descriptions=list),
            validations={},
            evaluations={},
        )
        charts.training([run])
    assert [axes.get_lines()[1].get_marker() for axes in drawn] == ["o", "None"]


def test_classes_are_counted_in_whole_numbers(drawn: list[Any]) -> None:
    figures = [ClassFigure(number, "name", "vertical", 0.95, 3) for number in range(3)]
    charts.average_precisions([types.SimpleNamespace(name="a", colour="black")], [figures])
    assert all(tick == int(tick) for tick in drawn[0].get_yticks())


@pytest.mark.parametrize("counts", [(9, 21), (11, 14), (7, 7), (3, 50), (1, 3000)])
def test_the_scatter_of_few_classes_has_numbers_below_its_axis(drawn: list[Any], counts: tuple[int, int]) -> None:
    run = types.SimpleNamespace(name="run", colour="#3b82f6")
    charts.classes([run], [[ClassFigure(number, "", "", 0.5, count) for number, count in enumerate(counts)]])
    (axes,) = drawn
    axes.figure.draw_without_rendering()
    low, high = axes.get_xlim()
    texts = [label.get_text() for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
    assert len(set(filter(None, texts))) >= (1 if counts == (7, 7) else 2)
