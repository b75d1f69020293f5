"""The class axes of variables, and values that move by class, against loops over classes."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from yt8m.graph.restore import NEW, ClassAxis, ClassMap, class_axes


def test_axes_are_those_that_grow_with_the_classes() -> None:
    shapes = {"weights": (8, 5), "gates": (8, 15), "coupled": (5, 5), "down": (5, 3), "trunk": (8, 8), "biases": (5,)}
    larger = {"weights": (8, 6), "gates": (8, 18), "coupled": (6, 6), "down": (6, 3), "trunk": (8, 8), "biases": (6,)}
    assert class_axes(shapes, larger, 5) == {
        "weights": (ClassAxis(-1, 1),),
        "gates": (ClassAxis(-1, 3),),
        "coupled": (ClassAxis(-2, 1), ClassAxis(-1, 1)),
        "down": (ClassAxis(-2, 1),),
        "biases": (ClassAxis(-1, 1),),
    }


def test_a_variable_that_depends_on_the_classes_in_another_way_has_none() -> None:
    shapes = {"with a dummy": (8, 6), "only few": (5, 2), "one more axis": (5,)}
    assert class_axes(shapes, {"with a dummy": (8, 7), "one more axis": (6, 1)}, 5) == dict.fromkeys(shapes, ())


@st.composite
def maps(draw: st.DrawFn) -> tuple[tuple[int, ...], int]:
    there = draw(st.integers(1, 4))
    order = draw(st.permutations([*range(there), *[NEW] * draw(st.integers(1, 3))]))
    return tuple(order[: draw(st.integers(1, len(order)))]), there


@given(maps(), st.integers(1, 3))
def test_values_move_by_class(drawn: tuple[tuple[int, ...], int], each: int) -> None:
    sources, there = drawn
    count, rng = len(sources), np.random.default_rng(0)
    axes = {"out": (ClassAxis(-1, each),), "both": (ClassAxis(-2, 1), ClassAxis(-1, 1)), "into": (ClassAxis(-2, each),)}
    classes = ClassMap(sources, there, axes)
    shapes = {"out": (2, count * each), "both": (count, count), "into": (count * each, 2)}
    for name, shape in shapes.items():
        initial = rng.normal(size=shape).astype(np.float32)
        old = rng.normal(size=classes.shape_in_other_model(name, shape)).astype(np.float32)
        moved = classes.merge_values(name, initial, old)
        for place in itertools.product(*map(range, shape)):
            assert moved[place] == _expected(name, place, each, sources, initial, old), (name, place)


def _expected(
    name: str, place: tuple[int, ...], each: int, sources: tuple[int, ...], initial: np.ndarray, old: np.ndarray
) -> float:
    row, column = place
    if name == "out":
        source = sources[column // each]
        return initial[place] if source == NEW else old[row, source * each + column % each]
    if name == "into":
        source = sources[row // each]
        return 0 if source == NEW else old[source * each + row % each, column]
    if sources[column] == NEW:
        return initial[place]
    return 0 if sources[row] == NEW else old[sources[row], sources[column]]
