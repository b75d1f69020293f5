"""Loads graphs and weights from files.

A training resumes from its meta-graph, predictions need no model code, and a new run can start from the weights of
another run, even if the model of that run has other classes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, first_line, refusing
from yt8m.graph import collections
from yt8m.graph.apply import variables_by_saved_name
from yt8m.graph.protocols import PredictOps, TrainOps
from yt8m.lazy import tf
from yt8m.numerics import whole_blocks
from yt8m.registry import warn_of_program
from yt8m.storage import copies


def signature_of(meta_path: str) -> dict[str, Any] | None:
    """The options that shaped the training graph in a `.meta` file; None if a run cannot be resumed from it."""
    return collections.signature_in(read_meta_graph(meta_path))


def read_meta_graph(path: str) -> tf.MetaGraphDef:
    """The MetaGraphDef in a `.meta` file, local or gs://."""
    remedy = "Restore it from a copy, or delete it: training then builds its graph from the code of the model."
    with refusing(lambda error: RunError(f"{path} is damaged ({first_line(error)}). {remedy}")):
        meta_graph = tf.MetaGraphDef.FromString(storage.read_bytes(path))
    collections.refuse_newer(meta_graph, path)
    return meta_graph


def restore_train(meta_path: str, is_own: bool = False) -> TrainOps:
    """Imports a training graph into the current, empty graph and recovers its handles.

    Args:
      meta_path: path of the `.meta` file, local or gs://.
      is_own: whether this user wrote exactly this file on this machine. If not, the log warns that the graph is a
        program.

    Raises:
      RunError: as for `read_meta_graph`; or the file has no training graph of this project.
    """
    if not is_own:
        warn_of_program(meta_path)
    tf.train.import_meta_graph(read_meta_graph(meta_path))
    return collections.recover_train(meta_path)


def restore_predict(meta_path: str) -> tuple[PredictOps, tf.train.Saver]:
    """Imports a graph with a collection `predictions` into the current graph, without the devices of its ops.

    The graph may have been written by TensorFlow 1. A graph is a program, which may do harm: load only files whose
    origin you trust. The log warns about this.

    Args:
      meta_path: path of the `.meta` file, local or gs://.

    Returns:
      The predictions and the tensors that can be fed; and the saver that reads the weights.

    Raises:
      RunError: as for `read_meta_graph`; or the graph has no collection `predictions`.
    """
    warn_of_program(meta_path)
    saver = tf.train.import_meta_graph(read_meta_graph(meta_path), clear_devices=True)
    return collections.recover_predict(), saver


class Restorer:
    """Reads the variables of the current graph from a checkpoint. Create it before the graph is finalized.

    The global step is read separately from the other variables, because checkpoints of the published code have it as
    int32.

    Args:
      moving_average_decay: if above 0, trainable variables are read from their averages.
    """

    def __init__(self, moving_average_decay: float = 0.0) -> None:
        variables = variables_by_saved_name(moving_average_decay)
        self._step = variables.pop("global_step", None)
        self._variables = variables  # by their names in the checkpoint
        self._saver = tf.train.Saver(variables, max_to_keep=None, name="restorer") if variables else None

    def restore(self, session: tf.Session, checkpoint: str) -> int:
        """Restores all variables of the graph.

        Args:
          session: a session of the graph.
          checkpoint: path prefix of the checkpoint, local or gs://.

        Returns:
          The checkpoint's global step; 0 if it has none.

        Raises:
          RunError: the checkpoint belongs to another model (a variable is missing or has another shape).
        """
        local_path = copies.copy_of(checkpoint)
        reader = tf.train.load_checkpoint(local_path)
        self._check_shapes(reader.get_variable_to_shape_map(), checkpoint)
        if self._saver is not None:
            self._saver.restore(session, local_path)
        step = int(reader.get_tensor("global_step")) if reader.has_tensor("global_step") else 0
        if self._step is not None:
            assign(session, self._step, step)
        whole_blocks.fill(session)
        return step

    def _check_shapes(self, saved_shapes: dict[str, list[int]], checkpoint: str) -> None:
        """Raises RunError if the checkpoint lacks a variable of the graph, or has it with another shape.

        Args:
          saved_shapes: {name: shape} of all variables in the checkpoint.
        """
        missing = sorted(set(self._variables) - set(saved_shapes))
        if missing:
            extra = sorted(set(saved_shapes) - set(self._variables) - {"global_step"})
            raise RunError(
                f"{checkpoint} is not of this model: it lacks {_list_first(missing)}, and holds {_list_first(extra)} "
                "that the model does not have. Use the flags that the checkpoint was trained with."
            )
        for name, variable in sorted(self._variables.items()):
            if list(saved_shapes[name]) != variable.shape.as_list():
                raise RunError(
                    f"{checkpoint} is not of this model: {name} has shape {list(saved_shapes[name])}, "
                    f"the model's has {variable.shape.as_list()}. Use the flags that the checkpoint was trained with."
                )


def _list_first(names: list[str]) -> str:
    """The first three names, and the number of the others, for a message."""
    first = ", ".join(names[:3]) or "nothing"
    return first + (f" and {len(names) - 3} more" if len(names) > 3 else "")


_AVERAGE = "/ExponentialMovingAverage"  # the end of the name of a variable's moving average in a checkpoint


def name_of_weights(name: str, saved_names: Container[str]) -> str:
    """The name in a checkpoint of the value that evaluation uses for a variable."""
    return name + _AVERAGE if name + _AVERAGE in saved_names else name


NEW = -1  # in `ClassMap.sources`: the other model lacks this class
_LAST = -1  # `ClassAxis.axis` of the last axis, of which each index is a column

Shapes = Mapping[str, tuple[int, ...]]  # {name of a variable: its shape}


class ClassAxis(NamedTuple):
    """An axis of a variable, with `each` consecutive values for every class; `axis` is -1 for the last one."""

    axis: int
    each: int


def class_axes(shapes: Shapes, larger: Shapes, num_classes: int) -> dict[str, tuple[ClassAxis, ...]]:
    """Finds the axes of variables along which each class has its own values.

    A model need not declare these axes: an axis that is longer with one class more is a class axis. The values of one
    class are adjacent. For example, the weights [1024, C] of a classifier have the class axis -1, and the weights
    [C, 1024] of a gate that reads all predictions have the class axis -2.

    Args:
      shapes: {name of a variable: its shape if the model has `num_classes` classes}.
      larger: {name of a variable: its shape if the model has one class more}.

    Returns:
      {name: class axes} of the variables whose shapes differ. There are no axes if the values cannot be divided by
      class: the size of a growing axis is not `num_classes` times its growth, or `larger` lacks the variable or has it
      with another number of axes.
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
    """Says which class of another model each class of a model is. A class that the other model lacks is called new.

    Attributes:
      axes: {name: class axes} of the variables that depend on the number of classes, as `class_axes` returns them.
    """

    sources: tuple[int, ...]
    num_other_classes: int
    axes: Mapping[str, tuple[ClassAxis, ...]]

    @property
    def is_new(self) -> NDArray[np.bool_]:
        """bool [C]: whether the other model lacks the class."""
        return np.array(self.sources) == NEW

    def summary(self) -> str:
        """How many of the classes the other model has, such as `20 of 25 classes`."""
        return f"{np.sum(~self.is_new)} of {len(self.sources)} classes"

    def new_class_columns(self) -> dict[str, NDArray[np.bool_]]:
        """The columns of variables that belong to new classes.

        Returns:
          {name: bool [size of the last axis], whether the column belongs to a new class} of the variables whose last
          axis is a class axis.
        """
        return {
            name: np.repeat(self.is_new, each)
            for name, axes in self.axes.items()
            for axis, each in axes
            if axis == _LAST
        }

    def shape_in_other_model(self, name: str, shape: Sequence[int]) -> list[int]:
        """The shape in the other model of the variable called `name`, which has `shape` in this model."""
        sizes = list(shape)
        for axis, each in self.axes.get(name, ()):
            sizes[axis] = each * self.num_other_classes
        return sizes

    def merge_values(self, name: str, initial: NDArray[np.float32], saved: NDArray[np.float32]) -> NDArray[np.float32]:
        """The first values of a variable: `initial` for new classes, those of the other model for all others.

        Weights that take a new class as an input are 0, unless they lead to outputs of new classes. So a new class does
        not change the scores of the others. For example, the row of a new class is 0 in the weights [C, 1024] of a gate
        that reads the predictions.

        Args:
          saved: its values in the other model, of the shape `shape_in_other_model`.
        """
        values = initial.copy()
        all_indices = [np.arange(size) for size in initial.shape]
        targets, origins = list(all_indices), [np.arange(size) for size in saved.shape]
        old, new = np.flatnonzero(~self.is_new), np.flatnonzero(self.is_new)
        for axis, each in self.axes[name]:
            targets[axis] = _class_indices(old, each)
            origins[axis] = _class_indices(np.array(self.sources)[old], each)
        for axis, each in self.axes[name]:
            if axis != _LAST:
                reading_new = [*all_indices[:_LAST], targets[_LAST]]
                reading_new[axis] = _class_indices(new, each)
                values[np.ix_(*reading_new)] = 0
        values[np.ix_(*targets)] = saved[np.ix_(*origins)]
        return values


def _class_indices(classes: NDArray[np.intp], each: int) -> NDArray[np.intp]:
    """The indices of the values of `classes` along an axis with `each` values for every class."""
    return (classes[:, np.newaxis] * each + np.arange(each)).ravel()


class VariableStart(NamedTuple):
    """How a variable of a model starts from the weights of another run.

    Attributes:
      shape: the shape that the model gives it.
      problem: why the variable keeps its initial value; empty if its value was copied from the other run.
      is_average: whether the other run's checkpoint has a moving average of the variable; if so, the variable starts
        from this average.
      classes: how many of the model's classes the other run has, such as `20 of 25 classes`; empty if the variable does
        not depend on the classes.
    """

    name: str
    shape: list[int]
    problem: str = ""
    is_average: bool = False
    classes: str = ""

    def cells(self) -> tuple[str, str, str]:
        """The cells of a row of a table: name, shape, and whether the value was copied, or why not."""
        details = ["its average"] * self.is_average + [self.classes] * bool(self.classes)
        outcome = f"no: {self.problem}" if self.problem else ", ".join(["yes", *details])
        return self.name, str(self.shape), outcome


def format_starts(rows: Sequence[VariableStart]) -> str:
    """A table with a line for each variable: whether its value was copied, and if not, why."""
    cells = [("variable", "shape", "taken"), *(row.cells() for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in (0, 1)]
    return "\n".join(
        f"  {name.ljust(widths[0])}  {shape.ljust(widths[1])}  {outcome}" for name, shape, outcome in cells
    )


def warm_start(
    session: tf.Session, checkpoint: str, averages: Iterable[tuple[str, str]] = (), classes: ClassMap | None = None
) -> list[VariableStart]:
    """Gives each variable of the model the value that another run's checkpoint has under the same name.

    Optimizer slots and the global step keep their initial values. Weights are read from their moving averages if the
    checkpoint has them, as in evaluation. No op is added, so the graph may be finalized.

    Args:
      checkpoint: path prefix of the other run's checkpoint, local or gs://.
      averages: a pair for each moving average of the new run: (name of the variable, name of its average). The averages
        start from the same values as the variables.
      classes: which class of the other run each class of the model is; None if both have the same classes.

    Returns:
      How each variable of the model starts, in the order of the graph.
    """
    reader = tf.train.load_checkpoint(copies.copy_of(checkpoint))
    shapes = reader.get_variable_to_shape_map()
    average_names, variables = dict(averages), {v.op.name: v for v in tf.global_variables()}
    classes = classes or ClassMap((), 0, {})
    starts = []
    for variable in model_variables():
        name, has_class_axes = variable.op.name, variable.op.name in classes.axes
        source, summary = name_of_weights(name, shapes), classes.summary() if has_class_axes else ""
        problem = _find_misfit(variable, shapes.get(source), classes)
        starts.append(VariableStart(name, variable.shape.as_list(), problem, source != name, summary))
        if not problem:
            value = reader.get_tensor(source)
            if has_class_axes:
                value = classes.merge_values(name, session.run(variable), value)
            assign(session, variable, value)
            if name in average_names:
                assign(session, variables[average_names[name]], value)
    if all(start.problem for start in starts):
        problems = "; ".join(f"{start.name}: {start.problem}" for start in starts[:3])
        raise RunError(
            f"{checkpoint} has no variable of this model ({problems}). Name a run of the same model and features."
        )
    return starts


def _find_misfit(variable: tf.Variable, saved_shape: list[int] | None, classes: ClassMap) -> str:
    """Why a variable cannot start from the value that the checkpoint has under its name; empty if it can.

    Args:
      saved_shape: the shape of the value in the checkpoint; None if there is no value.
    """
    if saved_shape is None:
        return "the checkpoint lacks it"
    if variable.op.name in classes.axes and (not classes.axes[variable.op.name] or classes.is_new.all()):
        return "the checkpoint has other classes"
    expected = classes.shape_in_other_model(variable.op.name, variable.shape.as_list())
    return "" if saved_shape == expected else f"the checkpoint has the shape {saved_shape}"


def model_variables() -> list[tf.Variable]:
    """The trainable variables and the batch-norm statistics of the current graph.

    Optimizer slots, moving averages and counters are left out, by their names: the slot of a variable `a/w` is named
    `a/w/Slot`, and the counters of an optimizer are in no scope.
    """
    trainable = {variable.op.name for variable in tf.trainable_variables()}

    def belongs_to_model(name: str) -> bool:
        scope = name.rpartition("/")[0]
        return name in trainable or (scope != "" and scope not in trainable)

    return [variable for variable in tf.global_variables() if belongs_to_model(variable.op.name)]


def assign(session: tf.Session, variable: tf.Variable, value: np.ndarray | int) -> None:
    """Sets a variable to `value` by feeding its own initializer. No op is added, so the graph may be finalized."""
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})
