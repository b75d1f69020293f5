"""Sessions that run graphs as they were built.

TensorFlow optimises each graph when a session first runs it. For graphs that run a few times, as those of most tests
do, that takes a quarter of the time. `make test` does without in the folders of FOLDERS, as it does without oneDNN;
`make test-all` and pytest itself take what TensorFlow takes. So do programs that tests start as processes, the tests of
other folders, and sessions whose configuration asks for it.
"""

from __future__ import annotations

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

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "__init__", make_plain)
        yield


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
