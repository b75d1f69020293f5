"""Functions with a gradient of their own, as by `tf.custom_gradient`, whose graphs can be freed.

`tf.custom_gradient` registers a function for each call, for the whole process. That function keeps its graph in memory
for ever, so that a process that trains a hundred models keeps a hundred graphs. Here one function is registered once;
the gradients are kept by the graph to which they belong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from yt8m.lazy import tf

_KEPT = "_yt8m_gradients"  # attribute of a graph: {name of the op: (number of outputs, gradient)}


def custom_gradient(function: Callable[..., tuple[Any, Callable[..., Any]]]) -> Callable[..., Any]:
    """Returns a function of tensors with the results of `function` and the gradient that `function` returns.

    Args:
      function: maps tensors to (result, gradient). The result is a tensor or a tuple of tensors. The gradient is a
          function from the slopes of the results to the slopes of the arguments. `function` uses only its arguments.
    """

    def call(*arguments: tf.Tensor) -> Any:
        given = [tf.identity(argument) for argument in arguments]
        result, gradient = function(*given)
        outputs = list(result) if isinstance(result, tuple) else [result]
        graph = tf.get_default_graph()
        with graph.gradient_override_map({"IdentityN": _registered()}):
            found = tf.identity_n([*outputs, *given])
        if not hasattr(graph, _KEPT):
            setattr(graph, _KEPT, {})
        getattr(graph, _KEPT)[found[0].op.name] = (len(outputs), gradient)
        return tuple(found[: len(outputs)]) if isinstance(result, tuple) else found[0]

    return call


@functools.cache
def _registered() -> str:
    """Registers the one gradient function of all these calls with TensorFlow; returns its name."""
    name = "Yt8mCustomGradient"
    tf.RegisterGradient(name)(_gradient)
    return name


def _gradient(op: tf.Operation, *slopes: tf.Tensor) -> list[tf.Tensor | None]:
    count, gradient = getattr(op.graph, _KEPT)[op.name]
    found = gradient(*slopes[:count])
    return [None] * count + (list(found) if isinstance(found, list | tuple) else [found])
