"""A new run that begins with the weights of another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.storage import copies

AVERAGE = "/ExponentialMovingAverage"


class WarmStart(NamedTuple):
    """Names of the model's variables, by what became of them.

    Attributes:
      found: read from the checkpoint.
      missing: not in the checkpoint, and so left at their fresh values.
      other_shapes: there, but of another shape; left likewise. `name: theirs, not ours`.
    """

    found: list[str]
    missing: list[str]
    other_shapes: list[str]


def warm_start(session: tf.Session, checkpoint: str, averages: Iterable[tuple[str, str]] = ()) -> WarmStart:
    """Fills the model's variables, by name, from another run's checkpoint; slots and the step stay fresh.

    Weights are read from their moving averages where the checkpoint has them, as in evaluation. Adds no op:
    the graph may be finalized.

    Args:
      session: its variables are initialised.
      checkpoint: a path prefix.
      averages: (variable's name, its average's name) pairs of the new run, whose averages begin there too.

    Raises:
      RunError: not one variable fits.
    """
    reader = tf.train.load_checkpoint(copies.copy_of(checkpoint))
    shapes = reader.get_variable_to_shape_map()
    own_average, by_name = dict(averages), {v.op.name: v for v in tf.global_variables()}
    result = WarmStart([], [], [])
    for variable in model_variables():
        name = variable.op.name
        source = name + AVERAGE if name + AVERAGE in shapes else name
        if source not in shapes:
            result.missing.append(name)
        elif list(shapes[source]) != variable.shape.as_list():
            result.other_shapes.append(f"{name}: {list(shapes[source])}, not {variable.shape.as_list()}")
        else:
            value = reader.get_tensor(source)
            _set(session, variable, value)
            if name in own_average:
                _set(session, by_name[own_average[name]], value)
            result.found.append(name)
    if not result.found:
        lacks, others = ", ".join(result.missing[:3]), "; ".join(result.other_shapes[:3])
        raise RunError(
            f"{checkpoint} has no variable of this model: it lacks {lacks or 'none'}; of other shapes are: "
            f"{others or 'none'}. Name a run of the same model, features and classes."
        )
    return result


def model_variables() -> list[tf.Variable]:
    """Trainable variables and those beside them (batch-norm statistics); no slots, averages or counters.

    The slot of a variable `a/w` is named `a/w/Slot`; an optimizer's own counters stand in no scope.
    """
    trainable = {variable.op.name for variable in tf.trainable_variables()}

    def is_model(name: str) -> bool:
        scope = name.rpartition("/")[0]
        return name in trainable or (scope != "" and scope not in trainable)

    return [variable for variable in tf.global_variables() if is_model(variable.op.name)]


def _set(session: tf.Session, variable: tf.Variable, value: np.ndarray) -> None:
    """Assigns through the variable's own initializer, so that no op is added."""
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})
