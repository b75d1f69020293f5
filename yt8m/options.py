"""Typed options declared as dataclass fields: default, help and allowed values in one line.

Flags, the saved config and the checks of models and losses are all derived from these declarations.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from yt8m import storage
from yt8m.errors import UsageError, suggestion

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
    belongs_to: Literal["run", "machine", "start"] = "run",
    minimum: float | None = None,
    maximum: float | None = None,
    divides: str = "",
    needs: str = "",
    follows: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    flag: str = "",
    aliases: tuple[str, ...] = (),
    is_flag: bool = True,
    is_required: bool = False,
    is_common: bool = False,
    is_operand: bool = False,
    is_compared: bool = True,
    is_path: bool = False,
    is_local: bool = False,
    is_code: bool = False,
    is_published: bool = False,
    is_reader_argument: bool = False,
    needs_run: bool = False,
) -> Any:
    """Declares a dataclass field with its help and its bounds (inclusive), which `check` enforces.

    An integer has 63 bits unless narrower bounds are declared.
    A mapping given as the default is copied, so that two instances never share one.

    Args:
      default: the field's default.
      help: one line for `--help`. If the default follows from something else, the line ends with it in brackets.
      shapes: what a changed value affects in a run that is resumed. `variables`: the run would be another model, so
          the change is refused. `graph`: the graph is rebuilt by code. `input`: the graph is rebuilt, and
          the pass over the data starts again. `nothing`: the saved graph is used. Each option that a run saves, or
          its class, must declare this; a field of a model or of a loss without this declaration counts as `variables`.
          For a command that can go on with its interrupted work, `nothing` says that the work stays the same.
      shaped_by: maps the value to the part that matters, such as `bool` if only on or off matters; None for the whole
          value.
      belongs_to: `machine` if the machines of one run may have different values; `start` if the value says where one
          start of a run reads or writes: another run never takes it over, and no list compares it.
      minimum, maximum: inclusive bounds, of each item if the value is a tuple.
      divides: name of an option of the same class whose value must be a multiple of this one's.
      needs: name of an option of the same class without which this one would have no effect, and is refused.
      follows: flags that this option depends on: a value of another run is not taken over if one of them is changed.
      choices: the only allowed values, if not empty.
      flag: the name of the flag, if it is not the field's.
      aliases: other names of the flag, which `--help` does not show.
      is_flag: False if no flag sets the option, because its value follows from the model or from the data.
      is_required: whether the option must be given.
      is_common: whether the short `--help` of a program with many flags lists it.
      is_operand: whether its values may be given as words without a flag too.
      is_compared: whether `yt8m runs` and reports show it where it differs between runs.
      is_path: whether the value names files or folders (commas between several).
      is_local: whether that must be a folder of this machine, and none in a bucket.
      is_code: whether the value may name code, as package.module:Class.
      is_published: whether the published code saves it too, in model_flags.json.
      is_reader_argument: whether the constructor of a reader gets it.
      needs_run: whether it is refused if the model is an export, which is no run.
    """
    metadata = {name: value for name, value in locals().items() if name != "default"}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def path_option(help: str, **facts: Any) -> Any:
    """Declares a field that names files or folders, empty by default; `facts` are further arguments of `option`."""
    return option("", help, is_path=True, **facts)


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
    return {name: kind for name, kind in type_hints(cls).items() if dataclasses.is_dataclass(kind)}


def fields_of(cls: Any, prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """(path, declaration) of each option of a config and of its sections; a path is `batch_size` or `data.batch_size`.

    Args:
      cls: the class of the config, or an instance.
      prefix: the beginning of all paths.
    """
    sections = sections_of(cls if isinstance(cls, type) else type(cls))
    for field in dataclasses.fields(cls):
        if field.metadata:
            yield prefix + field.name, field
        elif field.name in sections:
            yield from fields_of(sections[field.name], f"{prefix}{field.name}.")


def paths_where(cls: Any, **facts: Any) -> list[str]:
    """The paths of the options of a config whose declarations say this: `paths_where(TrainConfig, is_path=True)`."""
    return [
        path for path, field in fields_of(cls) if all(field.metadata[fact] == value for fact, value in facts.items())
    ]


def changed(config: Any) -> dict[str, Any]:
    """{path: value} of the options of a config that are not at their defaults."""
    return {path: value for path, field in fields_of(config) if (value := value_at(config, path)) != field.default}


def shaping_values(config: Any) -> dict[str, Any]:
    """{name: value} of the options of a config, without sections, but for those declared with `shapes="nothing"`."""
    fields = dict(fields_of(config))
    return {name: getattr(config, name) for name in fields if fields[name].metadata["shapes"] != "nothing"}


def flag_of(field: dataclasses.Field[Any]) -> str:
    """The name of an option's flag."""
    return field.metadata.get("flag") or field.name


def value_at(config: Any, path: str) -> Any:
    """The value of the option at `path` of a config."""
    return functools.reduce(getattr, path.split("."), config)


def shaping(config: Any) -> Iterator[Shaping]:
    """A `Shaping` for each option of a config and of its sections.

    Raises:
      TypeError: an option does not declare `shapes`.
    """
    for path, field in fields_of(config):
        section = value_at(config, path.rpartition(".")[0]) if "." in path else config
        shapes = field.metadata["shapes"] or getattr(section, "shapes", None)
        part = field.metadata["shaped_by"] or (lambda value: value)
        if shapes is None:
            raise TypeError(f"{type(section).__name__}.{field.name} does not say what it shapes: option(shapes=...)")
        yield Shaping(path, shapes, part(getattr(section, field.name)), part(field.default))


def signature(shapings: Iterable[Shaping]) -> dict[str, Any]:
    """{option: value} of the options that shape the graph.

    An option has the name of its flag. A hyper-parameter keeps the name of its section as a prefix, because a model
    and a loss may use the same name.
    """
    return {short_name(each.name): each.value for each in shapings if each.shapes != "nothing"}


def order_of_examples(shapings: Iterable[Shaping]) -> dict[str, Any]:
    """{option: value} of the options that decide which examples come in which order.

    Defaults are left out, so that an option that a later version adds does not change the order.
    """
    changes = (each for each in shapings if each.shapes == "input" and each.value != each.default)
    return {short_name(each.name): each.value for each in changes}


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
            expanded = tuple(storage.expanded(text) if isinstance(text, str) else text for text in texts)
            object.__setattr__(instance, field.name, expanded if isinstance(value, tuple) else expanded[0])


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
            raise UsageError(f"{type(instance).__name__}: {flag_of(field)} must be {wrong}; it is {value!r}")


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
    """Base of dataclasses that check their options when they are made.

    Raises:
      UsageError: for the reasons of `check`; or a required option is missing; or one has no effect without another.
    """

    shapes: ClassVar[Shapes | None] = None

    def __init_subclass__(cls, shapes: Shapes | None = None, is_common: bool = False) -> None:
        """Declares what the options of the class shape, and whether all of them are common; see `option`.

        An option with `shapes` of its own keeps them.
        """
        cls.shapes = shapes or cls.shapes
        for field in vars(cls).values() if is_common else ():
            if isinstance(field, dataclasses.Field) and field.metadata:
                field.metadata = types.MappingProxyType({**field.metadata, "is_common": True})

    def __post_init__(self) -> None:
        check(self)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value, flag, needs = getattr(self, field.name), flag_of(field), field.metadata.get("needs")
            if self.is_required(field) and not value:
                raise UsageError(f"--{flag} is missing: {field.metadata['help']}")
            if field.metadata.get("is_local") and storage.is_remote(value):
                raise UsageError(f"--{flag}={value} is in a bucket; name a folder of this machine.")
            if needs and value != field.default and not getattr(self, needs):
                other = flag_of(type(self).__dataclass_fields__[needs])  # type: ignore[attr-defined]
                raise UsageError(f"--{flag} needs --{other}: add it, or leave --{flag} out.")

    def is_required(self, field: dataclasses.Field[Any]) -> bool:
        """Whether an option must be given; a subclass may make that depend on another option."""
        return bool(field.metadata.get("is_required"))


@contextlib.contextmanager
def about_flags(beginning: str = "") -> Iterator[None]:
    """Errors of the block begin with this text; those of a config class name the flag in place of class and field."""
    try:
        yield
    except UsageError as error:
        raise UsageError(beginning + re.sub(r"^\w+: (?=\w+ must )", "--", str(error))) from error
