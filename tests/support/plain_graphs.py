"""Graphs without what serves the speed of long runs and the look of tracebacks.

TensorFlow optimises each graph when a session first runs it. For graphs that run a few times, as those of most tests
do, that takes a quarter of the time. With each op it notes by which lines of Python it was made, for messages that the
package does not show, and it filters the tracebacks of errors; in the deep stacks of pytest both take a sixth of the
time in which a graph is built. `make test` does without in the folders of FOLDERS, as it does without oneDNN;
`make test-all` and pytest itself take what TensorFlow takes. So do programs that tests start as processes, the tests of
other folders, and sessions whose configuration asks for it.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import leaks
import pytest

from yt8m.lazy import tf

VARIABLE = "TESTS_WITH_PLAIN_GRAPHS"
FOLDERS = (
    *("benchmarks", "bulk", "classifier", "contract", "deploy", "examples", "export", "faults", "graph", "labels"),
    *("losses", "models", "numerics", "programs", "python_api", "readers", "reports", "runner", "runs", "scoring"),
    *("serving", "training", "video"),
)


def are_wanted(path: pathlib.Path) -> bool:
    """Whether the variable of the environment asks for it in the tests of this file."""
    folders = path.relative_to(pathlib.Path(__file__).parents[1]).parts
    return os.environ.get(VARIABLE, "") not in ("", "0") and folders[0] in FOLDERS


def sessions() -> Iterator[None]:
    """While it waits, each new session of this process leaves its graph as it is."""
    base = tf.Session.__base__
    leaks.State()  # It wraps the method when it first looks, and has to be the inner one: the outer one goes.
    make = base.__init__

    def make_plain(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        make(self, target, graph, config if target else _without_optimisation(config))

    with pytest.MonkeyPatch.context() as patch, _plain_tracebacks(patch):
        patch.setattr(base, "__init__", make_plain)
        yield


@contextlib.contextmanager
def _plain_tracebacks(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each op has one and the same stack, and errors have their whole tracebacks."""
    from tensorflow import debugging
    from tensorflow.python.util import tf_stack

    stack, was_filtering = tf_stack.extract_stack(), debugging.is_traceback_filtering_enabled()
    patch.setattr(tf_stack, "extract_stack", lambda *_, **__: stack)
    debugging.disable_traceback_filtering()
    yield
    if was_filtering:
        debugging.enable_traceback_filtering()


def rewritten() -> Any:
    """The configuration of a session that has its graph rewritten in any case."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.SetInParent()
    return config


def _without_optimisation(config: Any) -> Any:
    """A copy of the configuration; one that says how graphs are rewritten is returned as it is."""
    from tensorflow.python.eager import context

    plain = tf.ConfigProto()
    plain.CopyFrom(context.context().config if config is None else config)
    if plain.graph_options.HasField("rewrite_options"):
        return config
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    plain.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return plain
