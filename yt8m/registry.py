"""Registries of things chosen by name: models, losses, callbacks, runners; and of classes whose fields are flags.

An installed package adds to a registry by entry points (`yt8m.plug_ins`): its classes then have plain names.

Getting `package.module:Name` imports that module, which runs its code. Code that reads such names from a file of
unknown origin passes them to `distrust`; then `Registry.get` refuses to import them. This holds in the same context
(`contextvars`): what one call of the Python interface distrusts does not concern the next call.

The fields of a class in a `Catalogue`, such as a model, are declared options, so each is also a flag. Therefore no
class may have a field with the name of a flag of the program that uses it, and two classes that are used together must
not declare one name with two meanings. Otherwise the flag would set something that the user does not expect.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from absl import logging

from yt8m import plug_ins
from yt8m.errors import UsageError, suggestion
from yt8m.options import Option, declared, fields_of, flag_of

T = TypeVar("T")

TRUST_HELP = "import the code that the run's config.json names, even if you did not train that run here"

# {name of code, as package.module:Name: file that holds the name}
_distrusted: ContextVar[Mapping[str, str]] = ContextVar("distrusted", default=MappingProxyType({}))
# The names of code that `set_command_line_names` was given last.
_on_command_line: ContextVar[frozenset[str]] = ContextVar("on_command_line", default=frozenset())


def texts_in(value: Any) -> set[str]:
    """The texts in nested mappings, lists and tuples, except the keys; or a single text."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return set()
    return set().union(*map(texts_in, value))


def names_of_code(value: Any) -> set[str]:
    """The texts with a colon, as in package.module:Name, among those of `texts_in`."""
    return {text for text in texts_in(value) if ":" in text}


def distrust(names: Iterable[str], path: str) -> None:
    """Forbids the import of these names, which the file `path` holds, unless they are on the command line too."""
    _distrusted.set({**_distrusted.get(), **dict.fromkeys(names, path)})


def set_trust(names: Iterable[str], path: str, *, is_trusted: bool) -> None:
    """Allows or forbids the import of these names, which the file `path` holds. The last call for a name counts."""
    if is_trusted:
        trust(names)
    else:
        distrust(names, path)


def trust(names: Iterable[str]) -> None:
    """Undoes `distrust` for these names."""
    trusted_names = set(names)
    _distrusted.set({name: path for name, path in _distrusted.get().items() if name not in trusted_names})


@contextlib.contextmanager
def local_trust() -> Iterator[None]:
    """Undoes, at the end of the block, what the block has changed by the other functions of this module about trust.

    What it has noted about packages is forgotten too (`plug_ins.expect`).
    """
    distrusted, on_command_line = _distrusted.set(_distrusted.get()), _on_command_line.set(_on_command_line.get())
    try:
        with plug_ins.local_expectations():
            yield
    finally:
        _distrusted.reset(distrusted)
        _on_command_line.reset(on_command_line)


def set_command_line_names(names: Iterable[str]) -> None:
    """Sets the names on the command line. They may be imported even if distrusted, because the user typed them."""
    _on_command_line.set(frozenset(names))


def find_near(names: Iterable[str], folder: str) -> None:
    """Lets modules be imported that lie in `folder` or above it, for names that the file in `folder` holds.

    So the code that a run names is found from any current folder, if it was not moved away from the run. A module that
    can be imported anyway takes precedence. Only for names that are trusted.
    """
    for name in names:
        module = name.partition(":")[0]
        if all(map(str.isidentifier, module.split("."))) and not _can_import(module):
            root = _folder_of_module(module, folder)
            if root and root not in sys.path:
                sys.path.append(root)
                importlib.invalidate_caches()


def _can_import(module: str) -> bool:
    top = module.partition(".")[0]
    return top in sys.modules or importlib.util.find_spec(top) is not None


def _folder_of_module(module: str, folder: str) -> str:
    """The folder, nearest above `folder`, that has the module; empty if there is none, or `folder` is in a bucket."""
    if "://" in folder:
        return ""
    stem, start = module.replace(".", os.sep), pathlib.Path(os.path.abspath(folder))
    for root in (start, *start.parents):
        if (root / f"{stem}.py").is_file() or (root / stem / "__init__.py").is_file():
            return str(root)
    return ""


def name_of_class(cls: type) -> str:
    """How a class is named in options and in files: its own name if it is one of this package, else module:Class.

    Refused is a class that no other program could import: one of a notebook, of the script that runs, or of a function.
    """
    module, name = cls.__module__, cls.__qualname__
    if module.startswith("yt8m."):
        return cls.__name__
    if module == "__main__" or "<locals>" in name:
        place = "of a notebook or of the script that runs" if module == "__main__" else "inside of a function"
        raise UsageError(
            f"the class {name} is one {place}, so no later program could import it to evaluate the run. "
            f"Write it to a file, in a notebook by `%%writefile my_models.py` as the first line of its cell, and give "
            f"it as `from my_models import {cls.__name__}`."
        )
    return f"{module}:{name}"


def _refuse_distrusted(kind: str, name: str) -> None:
    distrusted = _distrusted.get()
    if name in distrusted and name not in _on_command_line.get():
        raise UsageError(
            f"{distrusted[name]} names code, the {kind} {name!r}, which would run here, and this is not "
            "known as a run that you trained on this machine (or its config was changed since). Look at that "
            "code; if you trust it, add --trust_code."
        )


class Registry(Generic[T]):
    """Classes (or functions) by name, and `package.module:Name` for a user's own.

    >>> models = Registry("model")
    >>> @models.register
    ... class LogisticModel: ...
    >>> models.get("LogisticModel") is LogisticModel
    True

    Args:
      kind: what the entries are, such as `model`.
      modules: the modules that register this package's own entries. A look-up imports them in this order, up to the one
        that has the entry.
      group: the group of entry points by which installed packages add entries, such as `yt8m.models`; empty for none.
    """

    def __init__(self, kind: str, modules: Sequence[str] = (), group: str = "") -> None:
        self.kind = kind
        self._modules, self._group = modules, group
        self._registered: dict[str, T] = {}

    @property
    def _entries(self) -> dict[str, T]:
        """All entries by name."""
        return self._entries_up_to("")

    def _entries_up_to(self, name: str) -> dict[str, T]:
        """The entries by name. Modules are imported only until the entry called `name` is registered."""
        for module in self._modules:
            if name in self._registered:
                break
            importlib.import_module(module)
        return self._registered

    def register(self, entry: T, name: str | None = None) -> T:
        """Adds `entry` under `name`, by default its `__name__`; returns it, so that this can be a decorator.

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
        """All registered names and those of installed packages, sorted."""
        return sorted({*self._entries, *self._plug_ins()})

    def built_in_names(self) -> list[str]:
        """The registered names, sorted; for pages and tables that do not depend on what is installed beside."""
        return sorted(self._entries)

    def names_and_packages(self) -> list[str]:
        """All names as `--help` lists them: one that an installed package adds is followed by that package.

        No package is imported. A name of several packages is listed with all of them, though it is refused when it is
        used.
        """
        by_name = self._plug_ins()
        for name in self._entries:
            plug_ins.warn_of_built_in(by_name.pop(name, []))
        packages = {name: " and ".join(plug_in.package for plug_in in members) for name, members in by_name.items()}
        return [f"{name} ({packages[name]})" if name in packages else name for name in self.names()]

    def _plug_ins(self) -> dict[str, list[plug_ins.PlugIn]]:
        return plug_ins.by_name(self.kind, self._group)

    def _find_plug_in(self, name: str) -> plug_ins.PlugIn | None:
        """The plug-in that the name means; see `plug_ins.find`."""
        is_built_in = name in self._entries_up_to(name)
        return plug_ins.find(self.kind, self._group, name, is_built_in=is_built_in) if self._group else None

    def is_plug_in(self, name: str) -> bool:
        """Whether the name is one that an installed package adds, or of which several packages have one."""
        return name in self._plug_ins() and name not in self._entries_up_to(name)

    def all(self) -> list[T]:
        """All entries, in the order in which they were registered."""
        return list(self._entries.values())

    def get(self, name: str) -> T:
        """The entry called `name`, or the imported object if `name` is like `package.module:Name`.

        Raises:
          UsageError: there is no such entry (the message lists all); or `package.module:Name` is distrusted or cannot
            be imported; or an installed package has the entry, and it cannot be imported, or two have it; or a
            `Catalogue` refuses the fields of the imported class.
        """
        if ":" in name:
            _refuse_distrusted(self.kind, name)
            return self._checked(name, self._load(name))
        if plug_in := self._find_plug_in(name):
            return self._checked(f"{name} ({plug_in.package})", plug_in.load())
        if name not in self._registered:
            raise UsageError(
                f"unknown {self.kind} {name!r}{self._hint(name)} "
                f"Known: {', '.join(self.names())}; or package.module:Name for one of your own."
            )
        return self._registered[name]

    def _hint(self, name: str) -> str:
        """What the message about an unknown name says after the name: which entry may be meant, or a period."""
        return suggestion(name, self.names(), ".")

    def _load(self, path: str) -> T:
        module_name, _, attribute = path.partition(":")
        # A user's module may import TensorFlow itself, without `yt8m.lazy`, which sets this variable otherwise.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        try:
            loaded: Any = importlib.import_module(module_name)
            for part in attribute.split("."):
                loaded = getattr(loaded, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(f"cannot load {self.kind} {path!r} (package.module:Name): {error}") from error
        return loaded  # type: ignore[no-any-return]

    def _checked(self, name: str, entry: T) -> T:
        """Returns an entry that was imported by its name; a derived class may refuse it."""
        return entry


_reserved_flags: dict[str, dict[str, str]] = {}  # {use of the classes: {flag: where it is declared}}


def reserve_flags(use: str, *configs: type) -> None:
    """Makes every catalogue with this `use` refuse a class if a field has the name of a flag of these configs."""
    for config in configs:
        flags = {flag_of(field): f"{config.__name__}.{path}" for path, field in fields_of(config)}
        _reserved_flags[use] = flags | _reserved_flags.get(use, {})


class Catalogue(Registry[Any]):
    """A registry of classes whose constructor arguments are declared options.

    Args:
      kind: what the classes are, such as `model`.
      passed: names of arguments that a class gets from the program if its constructor takes them, so that they may have
        the names of flags.
    """

    def __init__(
        self,
        kind: str,
        use: str = "training",
        passed: Collection[str] = (),
        modules: Sequence[str] = (),
        group: str = "",
    ) -> None:
        super().__init__(kind, modules, group)
        self._use, self._passed = use, passed

    def _checked(self, name: str, entry: Any) -> Any:
        is_own = isinstance(entry, type) and entry.__module__.startswith("yt8m.")
        if is_own and (inspect.isabstract(entry) or getattr(entry, "is_base", lambda: False)()):
            raise UsageError(
                f"{self.kind} {name}: {entry.__name__} is a base class; name a class that is derived from it."
            )
        fields = arguments_of(entry) if isinstance(entry, type) else None
        for field in fields or ():
            declaration = _reserved_flags.get(self._use, {}).get(field)
            if declaration and field not in self._passed:
                raise UsageError(
                    f"{self.kind} {name}: its field {entry.__name__}.{field} has the name of the flag --{field} "
                    f"({declaration}), which would not set the field; rename the field."
                )
        return entry

    def _hint(self, name: str) -> str:
        """As in `Registry`; base classes are no choice, so a name that is most like one of theirs gets no hint."""
        classes = [entry for entry in self.all() if isinstance(entry, type)]
        entries = {cls.__name__ for cls in classes}  # a class may be registered under another name than its own
        bases = {base.__name__ for cls in classes for base in cls.__mro__} - {object.__name__, *self.names(), *entries}
        if name in bases:
            return "; it is a base class, from which you can derive one of your own."
        closest = suggestion(name, [*self.names(), *sorted(bases)], ".")
        return "." if any(closest == f"; did you mean {base}?" for base in bases) else closest

    def hyper_parameters(self, cls: type) -> dict[str, Option]:
        """{name: option} of a class in the catalogue; empty if the class declares no options."""
        return declared(cls)

    def create(self, name: str, hyper_parameters: Mapping[str, Any] | None = None) -> Any:
        """An instance of the class called `name`; hyper-parameters that are not given take their defaults.

        Lists become tuples, because runs are saved as JSON, which has no tuples.
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
    """The names of the arguments of a constructor; None if it takes any name, or if its signature is not known."""
    try:
        parameters = inspect.signature(cls).parameters.values()
    except ValueError:  # a class written in C
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]


Others = Literal["none", "built-in", "all"]  # which classes of a catalogue are meant beside the chosen one


def owners(catalogue: Any, chosen: str = "", *, others: Others = "all") -> dict[str, list[tuple[str, Option]]]:
    """{hyper-parameter: [(name of a class that declares it, the option), ...]}; the class `chosen` comes first.

    Args:
      chosen: name of the class that is used; empty if there is none.
      others: which other classes of the catalogue are included, and imported for that. With `all`, a class of an
        installed package that cannot be imported is left out with a warning, because nobody has named it.
    """
    declarations: dict[str, list[tuple[str, Option]]] = {}
    names = [] if others == "none" else catalogue.names() if others == "all" else catalogue.built_in_names()
    for owner in dict.fromkeys([*filter(None, [chosen]), *names]):
        cls = _class_of(catalogue, owner, is_chosen=owner == chosen)
        for name, option in catalogue.hyper_parameters(cls).items() if cls else ():
            declarations.setdefault(name, []).append((owner, option))
    return declarations


def _class_of(catalogue: Any, name: str, *, is_chosen: bool) -> type | None:
    """The class of this name; None if it cannot be loaded. A wrong name that is chosen is refused when it is used."""
    try:
        entry = catalogue.get(name)
    except UsageError as error:
        if not is_chosen:
            plug_ins.warn_once(f"{error} It is left out.")
        return None
    return entry if isinstance(entry, type) else None


def refuse_two_meanings(classes: Mapping[str, type], shared: Collection[str] = ()) -> None:
    """Refuses a user's own class if a class that is used with it declares a field of the same name differently.

    Args:
      classes: {name as the user wrote it: class} of the classes that are used together.
    """
    for (name, cls), (other_name, other) in itertools.combinations(classes.items(), 2):
        if cls.__module__.startswith("yt8m.") and other.__module__.startswith("yt8m."):
            continue
        first, second = declared(cls), declared(other)
        for field in sorted(first.keys() & second.keys() - set(shared)):
            if (first[field].type, first[field].help) != (second[field].type, second[field].help):
                shows_type = first[field].type != second[field].type
                raise UsageError(
                    f"{name} and {other_name} both declare {field}, with two meanings: "
                    f"{cls.__name__}.{field} is {_describe_option(first[field], shows_type)}, "
                    f"{other.__name__}.{field} is {_describe_option(second[field], shows_type)}, "
                    f"and --{field} would set both; rename one of them."
                )


def _describe_option(option: Option, shows_type: bool) -> str:
    """The help text of an option in quotes; with `shows_type` its type comes first, as in `int 'how large'`."""
    if not shows_type:
        return repr(option.help)
    return f"{option.type.__name__ if isinstance(option.type, type) else option.type} {option.help!r}"


def warn_of_program(path: str) -> None:
    """Logs a warning that the graph in the file `path` is a program; call this before the graph runs."""
    logging.warning("%s: a model is a program that runs on this machine; use only models whose origin you trust", path)
