"""Loads graphs and weights from files.

Training resumes from its meta-graph, predictions need no model code, and a new run can start from another's weights,
also from those of a model with other classes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError
from yt8m.graph import collections
from yt8m.graph.apply import names_in_checkpoint
from yt8m.graph.protocols import PredictOps, TrainOps
from yt8m.lazy import tf
from yt8m.numerics import whole_blocks
from yt8m.storage import copies


def signature_of(meta_path: str) -> dict[str, Any] | None:
    """The options that shaped the training graph in a `.meta` file; None if a run cannot be resumed from it."""
    return collections.signature_in(read_meta_graph(meta_path))


def read_meta_graph(path: str) -> tf.MetaGraphDef:
    """The MetaGraphDef in a `.meta` file, local or gs://.

    Raises:
      RunError: its format is newer than this version.
    """
    meta_graph = tf.MetaGraphDef.FromString(storage.read_bytes(path))
    collections.refuse_newer(meta_graph, path)
    return meta_graph


def warn_of_program(path: str) -> None:
    """Logs a warning that the graph in a file can execute code; call it before the graph is executed."""
    logging.warning("%s: a model is a program that runs on this machine; use only models whose origin you trust", path)


def restore_train(meta_path: str, is_own: bool = False) -> TrainOps:
    """Imports a training graph into the current, empty graph and recovers its handles.

    The log warns that the graph is a program, unless `is_own`: this user wrote exactly this file on this machine.

    Raises:
      RunError: the file has no training graph of this project.
    """
    if not is_own:
        warn_of_program(meta_path)
    tf.train.import_meta_graph(read_meta_graph(meta_path))
    return collections.recover_train()


def restore_predict(meta_path: str) -> tuple[PredictOps, tf.train.Saver]:
    """Imports any graph with a `predictions` collection, TF 1.x ones included, without its devices.

    A meta-graph can execute code: load only files whose origin you trust. The log warns about this.

    Returns:
      The feed points and predictions, and the saver that reads the weights.

    Raises:
      RunError: the graph was not made for inference.
    """
    warn_of_program(meta_path)
    saver = tf.train.import_meta_graph(read_meta_graph(meta_path), clear_devices=True)
    return collections.recover_predict(), saver


class Restorer:
    """Reads the variables of the current graph from a checkpoint. Create it before the graph is finalized.

    The step is read separately, because the published code keeps it as int32.

    Args:
      moving_average_decay: if above 0, trainable variables are read from their averages.
    """

    def __init__(self, moving_average_decay: float = 0.0) -> None:
        names = names_in_checkpoint(moving_average_decay)
        self._step = names.pop("global_step", None)
        self._names = names
        self._saver = tf.train.Saver(names, max_to_keep=None, name="restorer") if names else None

    def restore(self, session: tf.Session, checkpoint: str) -> int:
        """Restores all variables; returns the checkpoint's global step.

        Raises:
          RunError: the checkpoint belongs to another model (a variable is missing or has another shape).
        """
        here = copies.copy_of(checkpoint)
        reader = tf.train.load_checkpoint(here)
        self._check(reader.get_variable_to_shape_map(), checkpoint)
        if self._saver is not None:
            self._saver.restore(session, here)
        step = int(reader.get_tensor("global_step")) if reader.has_tensor("global_step") else 0
        if self._step is not None:
            assign(session, self._step, step)
        whole_blocks.fill(session)
        return step

    def _check(self, saved_shapes: dict[str, list[int]], checkpoint: str) -> None:
        missing = sorted(set(self._names) - set(saved_shapes))
        if missing:
            extra = sorted(set(saved_shapes) - set(self._names) - {"global_step"})
            raise RunError(
                f"{checkpoint} is not of this model: it lacks {_few(missing)}, and holds {_few(extra)} "
                "that the model does not have. Use the flags that the checkpoint was trained with."
            )
        for name, variable in sorted(self._names.items()):
            if list(saved_shapes[name]) != variable.shape.as_list():
                raise RunError(
                    f"{checkpoint} is not of this model: {name} has shape {list(saved_shapes[name])}, "
                    f"the model's has {variable.shape.as_list()}."
                )


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:3]) or "nothing"
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")


_AVERAGE = "/ExponentialMovingAverage"


def name_of_weights(name: str, saved_names: Container[str]) -> str:
    """The checkpoint's name for the value that evaluation uses for a variable: that of its moving average, if any."""
    return name + _AVERAGE if name + _AVERAGE in saved_names else name


NEW = -1  # the source of a class that the other model lacks
_LAST = -1

Shapes = Mapping[str, tuple[int, ...]]


class ClassAxis(NamedTuple):
    """An axis with `each` consecutive values for every class; -1 is the last axis, -2 the one before it."""

    axis: int
    each: int


def class_axes(shapes: Shapes, larger: Shapes, num_classes: int) -> dict[str, tuple[ClassAxis, ...]]:
    """The class axes of each variable whose shape depends on the classes; an empty tuple if not in proportion to them.

    A model need not declare them: an axis that grows with the number of classes is a class axis. The values of a class
    are adjacent. The last axis of a variable belongs to the classes that it computes, another axis to the classes that
    it reads (such as a gate that sees all predictions).

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
    """Which class of another model each class of a model is.

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
        """How many of the classes the other model has, in words."""
        return f"{np.sum(~self.is_new)} of {len(self.sources)} classes"

    def columns_of_new(self) -> dict[str, NDArray[np.bool_]]:
        """{variable: bool [size of its last axis], which columns are new classes}, if its last axis is a class axis."""
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

        The weights by which other classes read a new class start at 0, so that a new class does not change their
        scores.

        Args:
          name: the name of the variable.
          initial: its initial values.
          saved: its values in the other model, of the shape `shape_there`.
        """
        values = initial.copy()
        every = [np.arange(size) for size in initial.shape]
        targets, origins = list(every), [np.arange(size) for size in saved.shape]
        old, new = np.flatnonzero(~self.is_new), np.flatnonzero(self.is_new)
        for axis, each in self.axes[name]:
            targets[axis] = _indices(old, each)
            origins[axis] = _indices(np.array(self.sources)[old], each)
        for axis, each in self.axes[name]:
            if axis != _LAST:
                read = [*every[:_LAST], targets[_LAST]]
                read[axis] = _indices(new, each)
                values[np.ix_(*read)] = 0
        values[np.ix_(*targets)] = saved[np.ix_(*origins)]
        return values


def _indices(classes: NDArray[np.intp], each: int) -> NDArray[np.intp]:
    """The indices of the values of `classes` along an axis with `each` values for every class."""
    return (classes[:, np.newaxis] * each + np.arange(each)).ravel()


class Started(NamedTuple):
    """How a variable of a model starts from the weights of another run.

    Attributes:
      name: its name.
      shape: its shape.
      problem: why it keeps its initial value; empty if its value was copied.
      is_average: whether the value is the moving average in the other run.
      classes: how many classes were copied, in words; empty if the variable does not depend on the classes.
    """

    name: str
    shape: list[int]
    problem: str = ""
    is_average: bool = False
    classes: str = ""

    def cells(self) -> tuple[str, str, str]:
        """Name, shape, and whether the value was copied, as the cells of a table."""
        details = ["its average"] * self.is_average + [self.classes] * bool(self.classes)
        taken = f"no: {self.problem}" if self.problem else ", ".join(["yes", *details])
        return self.name, str(self.shape), taken


def table_of_starts(rows: Sequence[Started]) -> str:
    """A table with a line for each variable: whether its value was copied, and if not, why."""
    cells = [("variable", "shape", "taken"), *(row.cells() for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in (0, 1)]
    return "\n".join(f"  {name.ljust(widths[0])}  {shape.ljust(widths[1])}  {taken}" for name, shape, taken in cells)


def warm_start(
    session: tf.Session, checkpoint: str, averages: Iterable[tuple[str, str]] = (), classes: ClassMap | None = None
) -> list[Started]:
    """Fills the model's variables, by name, from another run's checkpoint; slots and step keep their initial values.

    Weights are read from their moving averages if the checkpoint has them, as in evaluation. No op is added, so
    the graph may be finalized.

    Args:
      session: a session whose variables are initialised.
      checkpoint: a path prefix.
      averages: (variable's name, its average's name) pairs of the new run; the averages start from the same values.
      classes: which class of the other run each class of the model is; None if both have the same classes.

    Returns:
      All variables of the model, in the order of the graph.

    Raises:
      RunError: no variable of the checkpoint fits.
    """
    reader = tf.train.load_checkpoint(copies.copy_of(checkpoint))
    shapes = reader.get_variable_to_shape_map()
    own_average, by_name = dict(averages), {v.op.name: v for v in tf.global_variables()}
    classes = classes or ClassMap((), 0, {})
    rows = []
    for variable in model_variables():
        name, by_class = variable.op.name, variable.op.name in classes.axes
        source = name_of_weights(name, shapes)
        problem = _misfit(variable, shapes.get(source), classes)
        rows.append(
            Started(name, variable.shape.as_list(), problem, source != name, classes.summary() if by_class else "")
        )
        if not problem:
            value = reader.get_tensor(source)
            if by_class:
                value = classes.moved(name, session.run(variable), value)
            assign(session, variable, value)
            if name in own_average:
                assign(session, by_name[own_average[name]], value)
    if all(row.problem for row in rows):
        first = "; ".join(f"{row.name}: {row.problem}" for row in rows[:3])
        raise RunError(
            f"{checkpoint} has no variable of this model ({first}). Name a run of the same model and features."
        )
    return rows


def _misfit(variable: tf.Variable, saved_shape: list[int] | None, classes: ClassMap) -> str:
    """Why the variable cannot have the value of one with the shape `saved_shape`; empty if it can."""
    if saved_shape is None:
        return "the checkpoint lacks it"
    if variable.op.name in classes.axes and (not classes.axes[variable.op.name] or classes.is_new.all()):
        return "the checkpoint has other classes"
    expected = classes.shape_there(variable.op.name, variable.shape.as_list())
    return "" if saved_shape == expected else f"the checkpoint has the shape {saved_shape}"


def model_variables() -> list[tf.Variable]:
    """Trainable variables and batch-norm statistics, but no optimizer slots, moving averages or counters.

    The slot of a variable `a/w` is named `a/w/Slot`; an optimizer's own counters are in no scope.
    """
    trainable = {variable.op.name for variable in tf.trainable_variables()}

    def is_model(name: str) -> bool:
        scope = name.rpartition("/")[0]
        return name in trainable or (scope != "" and scope not in trainable)

    return [variable for variable in tf.global_variables() if is_model(variable.op.name)]


def assign(session: tf.Session, variable: tf.Variable, value: np.ndarray | int) -> None:
    """Assigns through the variable's own initializer, so that no op is added: the graph may be finalized."""
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})
