"""Registries of things chosen by name: models, losses, callbacks, runners; and of classes whose fields are flags.

Getting `package.module:Name` imports that module, which runs its code. Code that reads such names from a file of
unknown origin passes them to `distrust`; from then on `Registry.get` refuses to import them, in the same context
(`contextvars`): what one call of the Python interface distrusts does not concern the next one.

The fields of a class in a `Catalogue`, such as a model, are declared options, and so flags too. So no class may have a
field with the name of a flag of the program that uses it, and two classes that are used together may not give one name
two meanings. Otherwise the flag would set something else than the user thinks.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from yt8m.errors import UsageError, suggestion
from yt8m.options import Option, declared, fields_of, flag_of

T = TypeVar("T")

TRUST_HELP = "import the code that the run's config.json names, even if you did not train that run here"

# {name of code: file that names it}
_distrusted: ContextVar[Mapping[str, str]] = ContextVar("distrusted", default=MappingProxyType({}))
_on_command_line: ContextVar[frozenset[str]] = ContextVar("on_command_line", default=frozenset())


def names_of_code(value: Any) -> set[str]:
    """All texts in nested mappings, lists and tuples that `Registry.get` would import."""
    if isinstance(value, str):
        return {value} if ":" in value else set()
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return set()
    return set().union(*map(names_of_code, value))


def distrust(names: Iterable[str], path: str) -> None:
    """Forbids the import of these names, which the file `path` holds, unless the user gives them too."""
    _distrusted.set({**_distrusted.get(), **dict.fromkeys(names, path)})


def set_trust(names: Iterable[str], path: str, *, is_trusted: bool) -> None:
    """Allows or forbids the import of these names, which `path` holds; the last call for a name counts."""
    if is_trusted:
        trust(names)
    else:
        distrust(names, path)


def trust(names: Iterable[str]) -> None:
    """Undoes `distrust` for these names."""
    trusted = set(names)
    _distrusted.set({name: path for name, path in _distrusted.get().items() if name not in trusted})


@contextlib.contextmanager
def own_trust() -> Iterator[None]:
    """Restores, when the block ends, which names are trusted, and which are those of the command line."""
    tokens = _distrusted.set(_distrusted.get()), _on_command_line.set(_on_command_line.get())
    try:
        yield
    finally:
        _distrusted.reset(tokens[0])
        _on_command_line.reset(tokens[1])


def set_command_line_names(names: Iterable[str]) -> None:
    """Sets the names on the current command line. They may be imported even if distrusted, since the user gave them."""
    _on_command_line.set(frozenset(names))


def _refuse_distrusted(kind: str, name: str) -> None:
    distrusted = _distrusted.get()
    if name in distrusted and name not in _on_command_line.get():
        raise UsageError(
            f"{distrusted[name]} names code, the {kind} {name!r}, which would run here, and this is not "
            "known as a run that you trained on this machine (or its config was changed since). Look at that "
            "code; if you trust it, add --trust_code."
        )


class Registry(Generic[T]):
    """Classes (or factories) by name, and `package.module:Name` for a user's own classes.

    >>> models = Registry("model")
    >>> @models.register
    ... class LogisticModel: ...
    >>> models.get("LogisticModel") is LogisticModel
    True

    Args:
      kind: what the entries are, such as `model`.
      modules: the modules that register this package's own entries. A look-up imports them in this order, up to the one
        that has the entry.
    """

    def __init__(self, kind: str, modules: Sequence[str] = ()) -> None:
        self.kind = kind
        self._modules = modules
        self._registered: dict[str, T] = {}

    @property
    def _entries(self) -> dict[str, T]:
        """All entries by name."""
        return self._entries_up_to("")

    def _entries_up_to(self, name: str) -> dict[str, T]:
        """The entries by name; the modules after the one with the entry called `name` need not be imported."""
        for module in self._modules:
            if name in self._registered:
                break
            importlib.import_module(module)
        return self._registered

    def register(self, entry: T, name: str | None = None) -> T:
        """Adds `entry` under `name`, by default its own `__name__`; usable as a decorator.

        Raises:
          ValueError: another entry has that name.
        """
        key = name or str(getattr(entry, "__name__"))  # noqa: B009 - T has no such attribute for mypy
        is_own = getattr(entry, "__module__", "") in self._modules
        entries = self._registered if is_own else self._entries
        if entries.setdefault(key, entry) is not entry:
            raise ValueError(f"two {self.kind}s are named {key}")
        return entry

    def register_as(self, name: str) -> Callable[[T], T]:
        """A decorator that registers its class or function under `name`."""
        return lambda entry: self.register(entry, name)

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self._entries)

    def all(self) -> list[T]:
        """All entries, in the order in which they were registered."""
        return list(self._entries.values())

    def get(self, name: str) -> T:
        """The entry called `name`, or the object that `package.module:Name` points to.

        Raises:
          UsageError: there is no such entry (the message lists all), or the name is distrusted.
        """
        if ":" in name:
            _refuse_distrusted(self.kind, name)
            return self._load(name)
        entries = self._entries_up_to(name)
        if name not in entries:
            raise UsageError(
                f"unknown {self.kind} {name!r}{suggestion(name, entries, '.')} "
                f"Known: {', '.join(self.names())}; or package.module:Name for one of your own."
            )
        return entries[name]

    def _load(self, path: str) -> T:
        module_name, _, attribute = path.partition(":")
        # A user's module may import TensorFlow itself, before yt8m.lazy silences TensorFlow's messages.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        try:
            loaded: Any = importlib.import_module(module_name)
            for part in attribute.split("."):
                loaded = getattr(loaded, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(f"cannot load {self.kind} {path!r} (package.module:Name): {error}") from error
        return loaded  # type: ignore[no-any-return]


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


def owners(catalogue: Any, chosen: str = "", *, others: bool = True) -> dict[str, list[tuple[str, Option]]]:
    """{hyper-parameter: [(class, its declaration), ...]} of a catalogue; the chosen class comes first.

    Without `others`, only the chosen class counts, and the other ones are not imported.
    """
    declarations: dict[str, list[tuple[str, Option]]] = {}
    for owner in dict.fromkeys([*_loadable(catalogue, chosen), *(catalogue.names() if others else ())]):
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
