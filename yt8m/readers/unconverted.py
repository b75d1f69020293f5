"""Keeps AutoGraph away from the functions of the input."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from yt8m.lazy import tf

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def unconverted(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """`function`, with all functions that datasets made within it are given left as they are.

    None of them branches on a tensor in Python. AutoGraph would take half a second to find that out, and
    would leave a folder of bytecode among the system's temporary files.
    """

    @functools.wraps(function)
    def called(*args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
        made: _Made = tf.autograph.experimental.do_not_convert(function)(*args, **kwargs)
        return made

    return called
