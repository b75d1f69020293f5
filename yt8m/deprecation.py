"""Announces that a Python name will go away. docs/users/upgrading.md says how long it stays.

    @deprecated("0.3.0", "yt8m.load")
    def open_model(path): ...

Each call of `open_model` then warns: "yt8m.python_api.open_model goes in yt8m 0.3.0; use yt8m.load". A test fails as
soon as the version of the package is the one that a name should be gone in.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T", bound=Callable[..., Any])

# {name: the version in which it goes}, of all names whose modules were imported.
announced: dict[str, str] = {}


def deprecated(removed_in: str, instead: str) -> Callable[[T], T]:
    """Makes a function warn at each call, and a class whenever an object of it is made.

    A subclass of such a class does not warn, because its users cannot know.
    """

    def decorate(target: T) -> T:
        name = f"{target.__module__}.{target.__qualname__}"
        announced[name] = removed_in
        if isinstance(target, type):
            _warn_when_made(target, name, removed_in, instead)
            return target

        @functools.wraps(target)
        def warned(*arguments: Any, **options: Any) -> Any:
            warn(name, removed_in, instead)
            return target(*arguments, **options)

        return cast("T", warned)

    return decorate


def _warn_when_made(target: Any, name: str, removed_in: str, instead: str) -> None:
    initialize = target.__init__

    @functools.wraps(initialize)
    def warned(self: Any, *arguments: Any, **options: Any) -> None:
        if type(self) is target:
            warn(name, removed_in, instead)
        initialize(self, *arguments, **options)

    target.__init__ = warned


def moved(module: str, removed_in: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names have moved to others: it warns, and gives the name from there.

    Args:
      names: {name: the module that has it now}.
    """
    announced.update({f"{module}.{name}": removed_in for name in names})

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn(f"{module}.{name}", removed_in, f"{names[name]}.{name}")
        return getattr(importlib.import_module(names[name]), name)

    return get


def warn(name: str, removed_in: str, instead: str) -> None:
    """Warns as from the line that uses the name."""
    warnings.warn(f"{name} goes in yt8m {removed_in}; use {instead}", DeprecationWarning, stacklevel=3)
