"""Registries of classes whose fields are declared options, such as models: such a field is a flag too.

So no class may have a field with the name of a flag of the program that uses it, and two classes that are used together
may not give one name two meanings. Otherwise the flag would set something else than the user thinks.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError, suggestion
from yt8m.options import Option, declared, fields_of, flag_of
from yt8m.registry import Registry

_reserved: dict[str, dict[str, str]] = {}  # {use of classes: {flag: its declaration}}


def reserve_flags(use: str, *configs: type) -> None:
    """Lets every catalogue with this `use` refuse classes with a field that has the name of a flag of these configs."""
    for config in configs:
        flags = {flag_of(field): f"{config.__name__}.{path}" for path, field in fields_of(config)}
        _reserved[use] = flags | _reserved.get(use, {})


class Catalogue(Registry[Any]):
    """A registry of classes whose constructor arguments are declared options.

    Args:
      kind: what the classes are, such as `model`.
      use: what they are used for; a field may not have the name of a flag that `reserve_flags` reserved for this use.
      passed: the arguments that every class gets if its constructor takes them; they may have the names of flags.
      modules: see `Registry`.
    """

    def __init__(
        self, kind: str, use: str = "training", passed: Collection[str] = (), modules: Sequence[str] = ()
    ) -> None:
        super().__init__(kind, modules)
        self._use, self._passed = use, passed

    def _load(self, path: str) -> Any:
        entry = super()._load(path)
        fields = arguments_of(entry) if isinstance(entry, type) else None
        for name in fields or ():
            declaration = _reserved.get(self._use, {}).get(name)
            if declaration and name not in self._passed:
                raise UsageError(
                    f"{self.kind} {path}: its field {entry.__name__}.{name} has the name of the flag --{name} "
                    f"({declaration}), which would not set the field; rename the field."
                )
        return entry

    def hyper_parameters(self, cls: type) -> dict[str, Option]:
        """{name: (type, default, help)} of a class in the catalogue; empty if the class declares no options."""
        return declared(cls)

    def create(self, name: str, hyper_parameters: Mapping[str, Any] | None = None) -> Any:
        """An instance of the class called `name`; hyper-parameters that are not given take their defaults.

        Lists become tuples (JSON, in which runs are saved, has no tuples).

        Raises:
          UsageError: no such class or hyper-parameter (the message suggests one), or a value is not allowed.
        """
        cls, values = self.get(name), dict(hyper_parameters or {})
        if hasattr(cls, "arrange"):  # the class passes some hyper-parameters on to a part, such as a classifier
            values = cls.arrange(values)
        accepted = arguments_of(cls)
        if accepted is not None:
            self._refuse_unknown(name, values, accepted)
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})

    def _refuse_unknown(self, name: str, values: Mapping[str, Any], accepted: list[str]) -> None:
        for unknown in sorted(values.keys() - accepted):
            raise UsageError(
                f"{self.kind} {name} has no hyper-parameter {unknown!r}{suggestion(unknown, accepted, '.')} "
                f"It has: {', '.join(accepted) or 'none'}."
            )


def arguments_of(cls: type) -> list[str] | None:
    """The names of the arguments that the constructor takes; None if it takes any, or does not say which."""
    try:
        parameters = inspect.signature(cls).parameters.values()
    except ValueError:  # a class written in C
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]


def owners(catalogue: Any, chosen: str = "") -> dict[str, list[tuple[str, Option]]]:
    """{hyper-parameter: [(class, its declaration), ...]} of a catalogue; the chosen class comes first."""
    declarations: dict[str, list[tuple[str, Option]]] = {}
    for owner in dict.fromkeys([*_loadable(catalogue, chosen), *catalogue.names()]):
        for name, option in catalogue.hyper_parameters(catalogue.get(owner)).items():
            declarations.setdefault(name, []).append((owner, option))
    return declarations


def _loadable(catalogue: Any, chosen: str) -> Sequence[str]:
    """[chosen] if it can be loaded, else []; an unknown name is refused later, after all flags are read."""
    try:
        return [chosen] if chosen and isinstance(catalogue.get(chosen), type) else []
    except UsageError:
        return []


def refuse_two_meanings(classes: Mapping[str, type], shared: Collection[str] = ()) -> None:
    """Refuses classes that are used together, one of them the user's own, and declare one name differently.

    Args:
      classes: {name as the user wrote it: class}.
      shared: the names that are meant to be the same.

    Raises:
      UsageError: the type or the help of a field differ; the message has both declarations.
    """
    for (name, cls), (other_name, other) in itertools.combinations(classes.items(), 2):
        if cls.__module__.startswith("yt8m.") and other.__module__.startswith("yt8m."):
            continue
        first, second = declared(cls), declared(other)
        for field in sorted(first.keys() & second.keys() - set(shared)):
            if (first[field].type, first[field].help) != (second[field].type, second[field].help):
                raise UsageError(
                    f"{name} and {other_name} both declare {field}, with two meanings: "
                    f"{cls.__name__}.{field} is {first[field].help!r}, {other.__name__}.{field} is "
                    f"{second[field].help!r}, and --{field} would set both; rename one of them."
                )
