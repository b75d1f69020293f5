"""Clones: copies of a model, one per device, that share variables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging

from yt8m.deploy.deployment import DeploymentConfig, count_gpus
from yt8m.lazy import tf

# The values of tf.GraphKeys, spelled out: importing this module must not import TensorFlow.
_COLLECTED = ("losses", "regularization_losses", "update_ops", "summaries")


class _Fields(NamedTuple):
    outputs: Any
    scope: str
    device: str


class Clone(_Fields):
    """One copy of the model: the tuple (outputs, scope, device), as in slim.

    Attributes:
      outputs: what model_fn returned.
      scope: its name scope with a slash at the end; empty for a lone clone at the top.
      device: where it computes.
      added: what model_fn added to the graph's collections, by collection; not an item of the tuple. None if
        unknown (a clone made by hand): collections are then searched by `scope`.
    """

    added: Mapping[str, tuple[Any, ...]] | None = None

    def _replace(self, **fields: Any) -> Clone:
        """A copy with other fields; what the clone added stays known."""
        found = super()._replace(**fields)
        found.added = self.added
        return found

    def collected(self, collection: str) -> list[Any]:
        """The items that this clone added to a collection of the graph."""
        if self.added is not None:
            return list(self.added.get(collection, ()))
        return tf.get_collection(collection, self.scope or None)


def create_clones(
    config: DeploymentConfig,
    model_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[Clone]:
    """Calls `model_fn(*args, **kwargs)` once per clone, on the device and in the name scope of the clone.

    The first call makes the variables (in the current variable scope, on config.variables_device()),
    the others reuse them. The current variable scope decides everything else about the variables, such as
    their caching device. May be called several times in one graph.

    Raises:
      ValueError: a later clone asks for a variable that the first did not make.
    """
    _permit_missing_gpus(config)
    with _variables_on(config.variables_device()):
        return [
            _create_clone(config, index, lambda: model_fn(*(args or ()), **(kwargs or {})))
            for index in range(config.num_clones)
        ]


def _create_clone(config: DeploymentConfig, index: int, build: Callable[[], Any]) -> Clone:
    device = config.clone_device(index)
    with (
        _name_scope(config.clone_scope(index)) as scope,
        tf.device(device),
        tf.variable_scope(
            tf.get_variable_scope(),
            reuse=True if index else None,
            auxiliary_name_scope=False,  # the clone's own name scope is enough
        ),
    ):
        # By position, not by name scope: the scope of a lone clone is the whole graph.
        before = {key: len(tf.get_collection_ref(key)) for key in _COLLECTED}
        clone = Clone(build(), scope, device)
        clone.added = {key: tuple(tf.get_collection(key)[size:]) for key, size in before.items()}
        return clone


def _permit_missing_gpus(config: DeploymentConfig) -> None:
    """Lets clones compute on the CPU if their GPUs do not exist, in sessions opened without a configuration.

    This changes TensorFlow's default for sessions, which is to fail. A session that is given a
    configuration follows that configuration (`DeploymentConfig.session_config` permits the same).
    """
    if config.clone_on_cpu or config.spread_on_cpu or config.num_ps_tasks:
        return
    found = count_gpus()
    if found < config.num_clones:
        logging.warning(
            "%d of %d clones are placed on GPUs that TensorFlow does not see: they compute on the CPU.",
            config.num_clones - found,
            config.num_clones,
        )
        tf.config.set_soft_device_placement(True)


@contextlib.contextmanager
def _name_scope(name: str) -> Iterator[str]:
    """Opens `name` in the current name scope and yields its full name; an empty `name` opens nothing."""
    if name:
        with tf.name_scope(name) as scope:
            yield scope
    else:
        current = tf.get_default_graph().get_name_scope()
        yield f"{current}/" if current else ""


@contextlib.contextmanager
def _variables_on(device: str | Callable[[Any], str]) -> Iterator[None]:
    """A context that places new variables on `device`, whatever the device of the ops that use them."""

    def create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        # None first: the clone's device must not reach the initial values.
        with tf.device(None), tf.device(device):
            return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield
