"""Typed options declared as dataclass fields: default, help and allowed values in one line.

Flags, the saved config and the checks of models and losses are all derived from these declarations.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from yt8m import storage
from yt8m.errors import UsageError, suggestion
from yt8m.registry import Registry

_LARGEST = 2**63 - 1  # a whole number that TensorFlow and NumPy can hold


Shapes = Literal["variables", "graph", "input", "nothing"]


class Option(NamedTuple):
    """One declared option.

    Attributes:
      type: bool, int, float, str or a tuple of them.
      default: the option's default.
      help: one line, which `--help` shows.
      shapes: what a changed value affects; see `option`.
    """

    type: Any
    default: Any
    help: str
    shapes: Shapes


class Shaping(NamedTuple):
    """What one option of a config affects, and its value.

    Attributes:
      name: the path of the option's field, such as `data.batch_size`.
      shapes: as declared by `option`.
      value: the part of the option's value that matters, which `shaped_by` selects.
      default: the same part of its default.
    """

    name: str
    shapes: Shapes
    value: Any
    default: Any


def option(
    default: Any,
    help: str,
    *,
    shapes: Shapes | None = None,
    shaped_by: Callable[[Any], Any] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    divides: str = "",
    choices: tuple[str, ...] = (),
    alias: str = "",
    is_flag: bool = True,
) -> Any:
    """Declares a dataclass field with its help and its bounds (inclusive), which `check` enforces.

    An integer has 63 bits unless narrower bounds are declared.
    A mapping given as the default is copied, so that two instances never share one.

    Args:
      default: the field's default.
      help: one line for `--help`.
      shapes: what a changed value affects in a run that is resumed. `variables`: the run would be another model, so
          the change is refused. `graph`: the graph is rebuilt by code. `input`: the graph is rebuilt, and
          the pass over the data starts again. `nothing`: the saved graph is used. Each option that a run saves, or
          its class, must declare this; a field of a model or of a loss without this declaration counts as `variables`.
      shaped_by: maps the value to the part that matters, such as `bool` if only on or off matters; None for the whole
          value.
      minimum, maximum: inclusive bounds, of each item if the value is a tuple.
      divides: name of an option of the same class whose value must be a multiple of this one's.
      choices: the only allowed values, if not empty.
      alias: another name of the flag.
      is_flag: False if no flag sets the option, because its value follows from the model or from the data.
    """
    metadata: dict[str, Any] = {"help": help, "shapes": shapes, "shaped_by": shaped_by, "alias": alias}
    metadata |= {"minimum": minimum, "maximum": maximum, "divides": divides, "choices": choices, "is_flag": is_flag}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


_hints: weakref.WeakKeyDictionary[type, dict[str, Any]] = weakref.WeakKeyDictionary()


def type_hints(cls: type) -> Mapping[str, Any]:
    """`typing.get_type_hints` of a class, kept because it takes a millisecond and is needed often."""
    if cls not in _hints:
        _hints[cls] = typing.get_type_hints(cls)
    return _hints[cls]


def declared(cls: type) -> dict[str, Option]:
    """The options of a dataclass: its own, then those of inherited parts; none if it is not a dataclass.

    Mappings (the options of a part, such as a classifier) are left out: they have no flag of their own.
    """
    if not dataclasses.is_dataclass(cls):
        return {}
    hints = type_hints(cls)
    return {
        field.name: Option(
            hints[field.name],
            field.default,
            field.metadata.get("help", ""),
            field.metadata.get("shapes") or "variables",
        )
        for field in sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only))
        if field.default is not dataclasses.MISSING
    }


def sections_of(cls: type) -> dict[str, Any]:
    """{field: class} of the fields of a config that are configs themselves."""
    return {name: kind for name, kind in typing.get_type_hints(cls).items() if dataclasses.is_dataclass(kind)}


def shaping(config: Any, prefix: str = "") -> Iterator[Shaping]:
    """A `Shaping` for each option of a config and of its sections.

    Raises:
      TypeError: an option does not declare `shapes`.
    """
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), prefix + field.name
        if "help" not in field.metadata:
            yield from shaping(value, f"{name}.") if dataclasses.is_dataclass(value) else ()
        else:
            shapes = field.metadata["shapes"] or getattr(config, "shapes", None)
            of = field.metadata["shaped_by"] or (lambda value: value)
            if shapes is None:
                raise TypeError(f"{type(config).__name__}.{field.name} does not say what it shapes: option(shapes=...)")
            yield Shaping(name, shapes, of(value), of(field.default))


def signature(shapings: Iterable[Shaping]) -> dict[str, Any]:
    """{option: value} of the options that shape the graph.

    The name is the flag's. Hyper-parameters keep their section, because a model and a loss may use the same name.
    """
    return {short_name(one.name): one.value for one in shapings if one.shapes != "nothing"}


def order_of_examples(shapings: Iterable[Shaping]) -> dict[str, Any]:
    """{option: value} of the options that decide which examples come in which order.

    Defaults are left out, so that an option that a later version adds does not change the order.
    """
    return {short_name(one.name): one.value for one in shapings if one.shapes == "input" and one.value != one.default}


def short_name(path: str) -> str:
    """The flag of the option at `path`, such as `batch_size` for `data.batch_size`."""
    return path.removeprefix("model.") if "hyper_parameters." in path else path.rpartition(".")[2]


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens a nested mapping: {"data": {"batch_size": 8}} becomes {"data.batch_size": 8}."""
    values: dict[str, Any] = {}
    for name, value in nested.items():
        values |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return values


def with_tuples(value: Any) -> Any:
    """The value with each list replaced by a tuple, at any depth: configs have only tuples, JSON has only lists."""
    if isinstance(value, Mapping):
        return {name: with_tuples(inner) for name, inner in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list | tuple) else value


def shown(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def expand_home(instance: Any) -> None:
    """Replaces `~` by the user's home folder at the start of all texts of a dataclass, since such texts are paths."""
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and "~" in text for text in texts):
            found = tuple(storage.expanded(text) if isinstance(text, str) else text for text in texts)
            object.__setattr__(instance, field.name, found if isinstance(value, tuple) else found[0])


def check(instance: Any) -> None:
    """Expands `~` in paths, and refuses values of a wrong type or out of bounds.

    Raises:
      UsageError: a value is wrong; the message names the class, the field, the value and the allowed values.
    """
    expand_home(instance)
    hints = type_hints(type(instance))
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        wrong = _wrong_type(value, hints[field.name]) or _out_of_bounds(value, field.metadata)
        whole = field.metadata.get("divides")
        if whole and not wrong and getattr(instance, whole) % value:
            wrong = f"a divisor of {whole} {getattr(instance, whole)}"
        if wrong:
            raise UsageError(f"{type(instance).__name__}: {field.name} must be {wrong}; it is {value!r}")


class Catalogue(Registry[Any]):
    """A registry of classes whose constructor arguments are declared options."""

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
        known = _accepted(cls)
        if known is not None:
            self._refuse_unknown(name, values, known)
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})

    def _refuse_unknown(self, name: str, values: Mapping[str, Any], known: list[str]) -> None:
        for unknown in sorted(values.keys() - known):
            raise UsageError(
                f"{self.kind} {name} has no hyper-parameter {unknown!r}{suggestion(unknown, known, '.')} "
                f"It has: {', '.join(known) or 'none'}."
            )


def _accepted(cls: type) -> list[str] | None:
    """The names that the constructor takes; None if it takes any."""
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.init]
    parameters = inspect.signature(cls).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]


def _wrong_type(value: Any, kind: Any) -> str:
    """The expected type in words; empty if the value has that type."""
    origin = typing.get_origin(kind)
    if origin is tuple:
        item = typing.get_args(kind)[0]
        fits = isinstance(value, tuple) and not any(_wrong_type(part, item) for part in value)
        return "" if fits else f"a tuple of {item.__name__}"
    if origin in (types.UnionType, typing.Union):
        wrongs = [_wrong_type(value, member) for member in typing.get_args(kind)]
        return wrongs[0] if all(wrongs) else ""
    if origin is not None or not isinstance(kind, type):
        return ""
    # True is an int in Python, but as a number of layers it is a mistake.
    allowed = (int, float) if kind is float else (kind,)
    if isinstance(value, allowed) and (kind is bool or not isinstance(value, bool)):
        return ""
    return f"{'an' if kind is int else 'a'} {kind.__name__}"


def _out_of_bounds(value: Any, metadata: Mapping[str, Any]) -> str:
    if value is None:  # not set; `_wrong_type` has checked that None is allowed
        return ""
    choices, low, high = (metadata.get(name) for name in ("choices", "minimum", "maximum"))
    if choices and value not in choices:
        return f"one of {', '.join(choices)}{suggestion(str(value), choices)}"
    # Written so that NaN is refused too.
    for part in value if isinstance(value, tuple) else (value,):
        if low is not None and not part >= low:
            return f"at least {low}"
        if high is not None and not part <= high:
            return f"at most {high}"
        if isinstance(part, int) and not -_LARGEST <= part <= _LARGEST:
            return f"at most {_LARGEST}" if part > 0 else f"at least {-_LARGEST}"
    return ""


class Checked:
    """Base of dataclasses that check their options when they are made; options in `required` must not be empty.

    Raises:
      UsageError: for the reasons of `check`, or a required option is missing.
    """

    required: ClassVar[tuple[str, ...]] = ()
    shapes: ClassVar[Shapes | None] = None

    def __init_subclass__(cls, shapes: Shapes | None = None) -> None:
        """Declares what the options of the class shape; an option with `shapes` of its own keeps them. See `option`."""
        cls.shapes = shapes or cls.shapes

    def __post_init__(self) -> None:
        check(self)
        for name in self.required:
            if not getattr(self, name):
                raise UsageError(f"--{name} is missing: {declared(type(self))[name].help}")
