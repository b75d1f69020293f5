"""Conditionals and loops built of the operations of TensorFlow 1, in place of functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from yt8m.lazy import tf


@contextlib.contextmanager
def of_version_1() -> Iterator[None]:
    """A context in which conditionals and loops are built of TensorFlow 1's ops, except inside functions."""
    was_on = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    try:
        yield
    finally:
        if was_on:
            tf.enable_control_flow_v2()


def cond_in_place(is_true: tf.Tensor, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """`tf.cond`, whose branches stay on the device where they are written.

    `tf.cond` makes a function of each branch. TensorFlow puts the bodies of these functions into the graph with ops
    that have no device, so they run on the first one: each branch of each tower, forward and backward, would wait for
    the first GPU. A conditional of TensorFlow 1 has no such ops, and is built in less time.

    Args:
      is_true: bool scalar.
      if_true: builds the tensors of the first branch.
      if_false: builds as many tensors, of the same types.
    """
    with of_version_1():
        return tf.cond(is_true, if_true, if_false)
