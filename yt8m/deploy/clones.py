"""Copies of a model, one a device, with shared variables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.deploy.config import DeploymentConfig, is_variable_op
from yt8m.lazy import tf


class Clone(NamedTuple):
    """One copy of the model.

    Attributes:
      outputs: what model_fn returned.
      scope: its name scope with a slash at the end; empty for a lone clone at the top.
      device: where it computes.
      added: what model_fn added to the graph's collections, by collection, and the regularisation
        terms of the variables that it shares with earlier parts of the graph; None where that is
        not known (a clone made by hand), then collections are searched by `scope`.
    """

    outputs: Any
    scope: str
    device: str
    added: Mapping[str, tuple[Any, ...]] | None = None

    def collected(self, collection: str) -> list[Any]:
        """What this clone put into a collection of the graph."""
        if self.added is not None:
            return list(self.added.get(collection, ()))
        return tf.get_collection(collection, self.scope or None)


def create_clones(
    config: DeploymentConfig,
    model_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[Clone]:
    """Calls `model_fn(*args, **kwargs)` once a clone, on its device, in its name scope.

    The first call makes the variables (in the current variable scope, on config.variables_device()),
    the others reuse them. May be called several times in one graph.

    Raises:
      ValueError: a later clone asks for a variable that the first did not make.
    """
    with _variables_on(config.variables_device()):
        return [
            _create_clone(config, index, lambda: model_fn(*(args or ()), **(kwargs or {})))
            for index in range(config.num_clones)
        ]


def _create_clone(config: DeploymentConfig, index: int, build: Callable[[], Any]) -> Clone:
    device = config.clone_device(index)
    used: set[str] = set()
    with (
        _name_scope(config.clone_scope(index)) as scope,
        tf.device(device),
        tf.variable_scope(
            tf.get_variable_scope(),
            reuse=True if index else None,
            caching_device=config.caching_device(),
            custom_getter=_noting_names(used),
            auxiliary_name_scope=False,  # the clone's own name scope is enough
        ),
    ):
        before = _sizes()
        outputs = build()
        return Clone(outputs, scope, device, _added_since(before, used))


def _noting_names(used: set[str]) -> Callable[..., Any]:
    """A custom getter that keeps the op names of all variables asked for, made or reused."""

    def get(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        variable = getter(*args, **kwargs)
        parts = variable if hasattr(variable, "as_tensor") else [variable]  # a partitioned one has parts
        used.update(part.op.name for part in parts)
        return variable

    return get


def _sizes() -> dict[str, int]:
    return {key: len(tf.get_collection_ref(key)) for key in _collections()}


def _added_since(before: Mapping[str, int], used: set[str]) -> dict[str, tuple[Any, ...]]:
    # By position, not by name scope: a lone clone has the whole graph for its scope.
    added = {key: tuple(tf.get_collection(key)[size:]) for key, size in before.items()}
    terms = tf.GraphKeys.REGULARIZATION_LOSSES
    # A term is registered where its variable is made, so one that is reused brings an earlier term.
    earlier = tf.get_collection(terms)[: before[terms]]
    reused = [term for term in earlier if (found := _variables_of(term)) and found <= used]
    return added | {terms: (*reused, *added[terms])}


def _variables_of(tensor: tf.Tensor) -> set[str]:
    """Names of the variable ops that `tensor` is computed from."""
    found, seen, todo = set(), set(), [tensor.op]
    while todo:
        op = todo.pop()
        if op in seen:
            continue
        seen.add(op)
        if is_variable_op(op.type):
            found.add(op.name)
        todo += [parent.op for parent in op.inputs]
    return found


def _collections() -> tuple[str, ...]:
    keys = tf.GraphKeys
    return keys.LOSSES, keys.REGULARIZATION_LOSSES, keys.UPDATE_OPS, keys.SUMMARIES


@contextlib.contextmanager
def _name_scope(name: str) -> Iterator[str]:
    """Opens `name` in the current name scope and yields its full name; an empty one opens nothing."""
    if name:
        with tf.name_scope(name) as scope:
            yield scope
    else:
        current = tf.get_default_graph().get_name_scope()
        yield f"{current}/" if current else ""


@contextlib.contextmanager
def _variables_on(device: str | Callable[[Any], str]) -> Iterator[None]:
    """All variables made within sit on `device`, whatever device their user is on."""

    def create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        # None first: the clone's device must not reach the initial values.
        with tf.device(None), tf.device(device):
            return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield
