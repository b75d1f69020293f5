"""Announces that a Python name or a flag will go away. docs/users/upgrading.md says how long it stays, and lists all.

    @deprecated("0.3.0", "yt8m.load")
    def open_model(path): ...

Each call of `open_model` then warns: "yt8m.python_api.open_model goes in yt8m 0.3.0; use yt8m.load". A flag is
announced where it is declared, by `option(..., removed_in="0.3.0", instead="--new")`. Tests find the announcements in
the sources, and fail if the list differs, or if the version of the package is one in which a name should be gone.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T", bound=Callable[..., Any])


def goes(removed_in: str, instead: str) -> str:
    """The end of each notice: the version in which a name goes, and what to use; `instead` may be empty."""
    return f"goes in yt8m {removed_in}" + (f"; use {instead}" if instead else "")


def deprecated(removed_in: str, instead: str) -> Callable[[T], T]:
    """Makes a function warn at each call, and a class whenever an object of it is made.

    A subclass of such a class does not warn, because its users cannot know. Above a class it is the first decorator, so
    that the signature is that of the finished class.
    """

    def decorate(target: T) -> T:
        notice = f"{target.__module__}.{target.__qualname__} {goes(removed_in, instead)}"
        if isinstance(target, type):
            has_only_init = "__init__" in vars(target) and "__new__" not in vars(target)
            (_warn_in_init if has_only_init else _warn_in_new)(target, notice)
            return target

        @functools.wraps(target)
        def warned(*arguments: Any, **options: Any) -> Any:
            _warn(notice)
            return target(*arguments, **options)

        return cast("T", warned)

    return decorate


def _warn_in_init(target: Any, notice: str) -> None:
    initialize = target.__init__

    @functools.wraps(initialize)
    def warned(self: Any, /, *arguments: Any, **options: Any) -> None:
        if vars(type(self)).get("__init__") is warned:
            _warn(notice)
        initialize(self, *arguments, **options)

    target.__init__ = warned


def _warn_in_new(target: Any, notice: str) -> None:
    """For a class that makes its objects in `__new__`, as tuples do, or that inherits how they are made.

    An `__init__` of such a class would replace the inherited one, or the one that `dataclass` is still to add.
    """
    make_object = target.__new__ if "__new__" in vars(target) else None
    signed = target.__init__ if target.__new__ is object.__new__ else target.__new__

    @functools.wraps(signed, assigned=())  # gives the class the signature of what takes its arguments
    def warned(cls: Any, /, *arguments: Any, **options: Any) -> Any:
        # Not `target`: `dataclass(slots=True)` makes another class with the same members.
        owner = next(base for base in cls.__mro__ if vars(base).get("__new__") is attribute)
        if cls is owner:
            _warn(notice)
        make = make_object or super(owner, cls).__new__
        if make is object.__new__ and cls.__init__ is not object.__init__:
            return make(cls)  # `__init__` takes the arguments
        return make(cls, *arguments, **options)

    attribute = staticmethod(warned)
    target.__new__ = attribute


def moved(module: str, removed_in: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names have moved to others: it warns, and gives the name from there.

    Args:
      names: {name: the module that has it now}.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name} {goes(removed_in, f'{names[name]}.{name}')}")
        return getattr(importlib.import_module(names[name]), name)

    return get


def _warn(notice: str) -> None:
    """Warns as from the line that uses the name."""
    warnings.warn(notice, DeprecationWarning, stacklevel=3)
