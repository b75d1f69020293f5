"""The variables of a model that count classes, and how their values move to a model with other classes.

A model need not declare them: its variables are listed for two numbers of classes, and the axes that grow are those of
the classes. The values of a class stand together. The last axis of a variable belongs to the classes that it computes,
another axis to the classes that it reads (a gate that sees all predictions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NEW = -1  # the source of a class that the other model lacks
_LAST = -1

Shapes = Mapping[str, tuple[int, ...]]


class ClassAxis(NamedTuple):
    """An axis with `each` consecutive values for every class; -1 is the last axis, -2 the one before it."""

    axis: int
    each: int


def class_axes(shapes: Shapes, larger: Shapes, num_classes: int) -> dict[str, tuple[ClassAxis, ...]]:
    """The class axes of each variable that depends on the classes; an empty tuple if not in proportion to them.

    Args:
      shapes: {name: shape} for `num_classes` classes.
      larger: {name: shape} for one class more.
      num_classes: number of classes, C.
    """
    axes = {}
    for name, shape in shapes.items():
        growth = np.subtract(larger[name], shape) if len(larger.get(name, ())) == len(shape) else np.array([0])
        grown = tuple(ClassAxis(axis, each) for axis, each in enumerate(growth.tolist(), -len(shape)) if each)
        if shape != larger.get(name):
            is_by_class = all(shape[axis] == each * num_classes for axis, each in grown)
            axes[name] = grown if is_by_class else ()
    return axes


@dataclass(frozen=True)
class ClassMap:
    """Where the classes of a model are in another model.

    Attributes:
      sources: for each class, its number in the other model, or `NEW`.
      num_classes_there: number of classes of the other model.
      axes: the class axes of each variable that depends on the classes, as from `class_axes`.
    """

    sources: tuple[int, ...]
    num_classes_there: int
    axes: Mapping[str, tuple[ClassAxis, ...]]

    @property
    def is_new(self) -> NDArray[np.bool_]:
        """bool [C], whether the other model lacks a class."""
        return np.array(self.sources) == NEW

    def summary(self) -> str:
        """How many classes have values in the other model, for a table."""
        return f"{np.sum(~self.is_new)} of {len(self.sources)} classes"

    def columns_of_new(self) -> dict[str, NDArray[np.bool_]]:
        """{variable: bool [size of its last axis], which columns are of new classes}; only variables that have some."""
        return {
            name: np.repeat(self.is_new, each)
            for name, axes in self.axes.items()
            for axis, each in axes
            if axis == _LAST
        }

    def shape_there(self, name: str, shape: Sequence[int]) -> list[int]:
        """The shape in the other model of a variable that has `shape` here."""
        sizes = list(shape)
        for axis, each in self.axes.get(name, ()):
            sizes[axis] = each * self.num_classes_there
        return sizes

    def moved(self, name: str, initial: NDArray[np.float32], saved: NDArray[np.float32]) -> NDArray[np.float32]:
        """The values of a variable: for new classes the initial ones, for all others those of the other model.

        What anything else reads of a new class starts at 0, so that a new class does not disturb the others.

        Args:
          name: of the variable.
          initial: its initial values.
          saved: the values in the other model, of `shape_there`.
        """
        values = initial.copy()
        every = [np.arange(size) for size in initial.shape]
        targets, origins = list(every), [np.arange(size) for size in saved.shape]
        old, new = np.flatnonzero(~self.is_new), np.flatnonzero(self.is_new)
        for axis, each in self.axes[name]:
            targets[axis] = _places(old, each)
            origins[axis] = _places(np.array(self.sources)[old], each)
        for axis, each in self.axes[name]:
            if axis != _LAST:
                read = [*every[:_LAST], targets[_LAST]]
                read[axis] = _places(new, each)
                values[np.ix_(*read)] = 0
        values[np.ix_(*targets)] = saved[np.ix_(*origins)]
        return values


def _places(classes: NDArray[np.intp], each: int) -> NDArray[np.intp]:
    """The places of classes along an axis with `each` values for every class."""
    return (classes[:, np.newaxis] * each + np.arange(each)).ravel()
