"""Stores weights as float16 or as one byte each; the graph of the model converts them back to float32."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from yt8m import forks
from yt8m.graph.restore import Restorer, assign
from yt8m.lazy import tf

KINDS = ("float32", "float16", "int8")
T = TypeVar("T")

# Least rank of a variable that is converted. Vectors (biases, batch norm) stay float32: they are small, and rounding
# them would cost accuracy.
_LEAST_RANK = 2
_STEPS = 255  # number of steps between the smallest and the largest weight of a column, for int8


class Packed(NamedTuple):
    """One variable in stored form. Its value is codes * step + minimum or, if step and minimum are None, the codes.

    Attributes:
      codes: float32, float16, or uint8.
      minimum, step: float32, one value per column (the last dimension); None if the codes are floats.
    """

    codes: np.ndarray
    minimum: np.ndarray | None = None
    step: np.ndarray | None = None

    def value(self) -> np.ndarray:
        """The float32 value that the graph computes with."""
        codes = self.codes.astype(np.float32)
        return codes if self.step is None else codes * self.step + self.minimum


def pack(value: np.ndarray, kind: str) -> Packed:
    """Converts a variable to its stored form.

    For int8 (affine quantisation by column), the range of each column, from its smallest to its largest weight, is
    divided into 255 equal steps; a weight changes by half a step at most. Vectors and integers are not converted. For
    float16, variables with values outside of float16's range are not converted.

    Args:
      kind: float32, float16 or int8.
    """
    if kind == "float32" or value.dtype != np.float32 or value.ndim < _LEAST_RANK or not value.size:
        return Packed(value)
    if kind == "float16":
        fits = np.abs(value).max() <= np.finfo(np.float16).max
        return Packed(value.astype(np.float16) if fits else value)
    axes = tuple(range(value.ndim - 1))
    minimum = value.min(axis=axes, keepdims=True)
    step = (value.max(axis=axes, keepdims=True) - minimum) / np.float32(_STEPS)
    codes = np.rint((value - minimum) / np.where(step > 0, step, 1)).clip(0, _STEPS)
    return Packed(codes.astype(np.uint8), minimum, step)


class _PackedVariables:
    """Makes `tf.get_variable` return a float32 tensor computed from variables in stored form."""

    def __init__(self, values: Mapping[str, np.ndarray], kind: str) -> None:
        self._values, self._kind = values, kind
        # {name: (variable, its value)}; by name, because a model may ask for a variable several times.
        self._initial_values: dict[str, tuple[Any, np.ndarray]] = {}

    def get(self, getter: Callable[..., Any], name: str, **arguments: Any) -> Any:
        """Makes one variable in stored form; serves as `custom_getter` of `tf.variable_scope`."""
        packed = pack(self._values[name], self._kind)
        if packed.codes.dtype == self._values[name].dtype:
            return self._variable(getter, name, packed.codes, arguments)
        codes = tf.cast(self._variable(getter, name, packed.codes, arguments), tf.float32)
        if packed.step is None:
            return codes
        step = self._variable(getter, f"{name}/step", packed.step, arguments)
        return codes * step + self._variable(getter, f"{name}/minimum", packed.minimum, arguments)

    def load(self, session: tf.Session) -> None:
        """Assigns the packed values in a session. They are fed, so that the graph does not hold them as constants."""
        for variable, value in self._initial_values.values():
            assign(session, variable, value)

    def _variable(self, getter: Any, name: str, value: Any, arguments: Mapping[str, Any]) -> Any:
        changed_arguments = {
            "shape": value.shape,
            "dtype": tf.as_dtype(value.dtype),
            "trainable": False,
            "initializer": tf.zeros_initializer(),
            "regularizer": None,
        }
        variable = getter(name, **{**arguments, **changed_arguments})
        self._initial_values[variable.op.name] = (variable, value)
        return variable


class Restored(NamedTuple, Generic[T]):
    """A graph with the weights of a checkpoint."""

    session: tf.Session
    built: T
    parameters: int


@contextlib.contextmanager
def restored(
    build: Callable[[], T], checkpoint: str, moving_average_decay: float, kind: str = "float32"
) -> Iterator[Restored[T]]:
    """Builds a graph; yields a CPU session on it, with the weights of a checkpoint.

    Args:
      build: builds the graph, with variables from `tf.get_variable`. For float16 and int8 it is called a second time,
        and `tf.get_variable` then returns tensors.
      moving_average_decay: if above 0, the moving averages of the weights are read in place of the weights.
      kind: the type in which weights are stored: float32, float16 or int8.
    """
    with tf.Graph().as_default() as graph:
        built, restorer = build(), Restorer(moving_average_decay)
        parameters = sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables())
        with cpu_session(graph) as session:
            restorer.restore(session, checkpoint)
            if kind == "float32":
                yield Restored(session, built, parameters)
                return
            values = {v.op.name: session.run(v) for v in tf.global_variables()}
    packed_variables = _PackedVariables(values, kind)
    with tf.Graph().as_default() as graph:
        scope = tf.get_variable_scope()
        with tf.variable_scope(scope, custom_getter=packed_variables.get, auxiliary_name_scope=False):
            built = build()
        with cpu_session(graph) as session:
            packed_variables.load(session)
            yield Restored(session, built, parameters)


def cpu_session(graph: tf.Graph) -> tf.Session:
    """A new session on `graph` that uses no GPU."""
    return forks.new_session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0}))
