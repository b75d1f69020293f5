"""Things chosen by name: models, losses, callbacks, runners."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from yt8m.errors import UsageError, suggestion

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes (or factories) by name, and `package.module:Name` for those of a user's own.

    >>> models = Registry("model")
    >>> @models.register
    ... class LogisticModel: ...
    >>> models.get("LogisticModel") is LogisticModel
    True
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, entry: T, name: str | None = None) -> T:
        """Adds `entry` under `name`, by default its own `__name__`; usable as a decorator.

        Raises:
          ValueError: another entry has that name.
        """
        key = name or str(getattr(entry, "__name__"))  # noqa: B009 - T has no such attribute for mypy
        if self._entries.setdefault(key, entry) is not entry:
            raise ValueError(f"two {self.kind}s are named {key}")
        return entry

    def named(self, name: str) -> Callable[[T], T]:
        """A decorator that registers under `name`."""
        return lambda entry: self.register(entry, name)

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self._entries)

    def get(self, name: str) -> T:
        """The entry called `name`, or the object that `package.module:Name` points to.

        Raises:
          UsageError: there is none; the text lists what there is.
        """
        if ":" in name:
            return self._load(name)
        if name not in self._entries:
            raise UsageError(
                f"unknown {self.kind} {name!r}{suggestion(name, self._entries)}. "
                f"Known: {', '.join(self.names())}; or package.module:Name for one of your own."
            )
        return self._entries[name]

    def _load(self, path: str) -> T:
        module_name, _, attribute = path.partition(":")
        # A module of the user's own may import TensorFlow by itself, before yt8m.lazy keeps it quiet.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        try:
            found: Any = importlib.import_module(module_name)
            for part in attribute.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(f"cannot load {self.kind} {path!r} (package.module:Name): {error}") from error
        return found  # type: ignore[no-any-return]
