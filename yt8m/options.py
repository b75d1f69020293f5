"""Typed options, declared as dataclass fields with a default, a help text and the allowed values.

Flags, saved configs and the checks of the values of models and losses are all derived from these declarations.
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

_LARGEST_INTEGER = 2**63 - 1  # the largest int64 of TensorFlow and NumPy; `check` refuses values beyond it


# What a change of an option's value affects; the argument `shapes` of `option` explains the words.
Shapes = Literal["variables", "graph", "input", "nothing"]


class Option(NamedTuple):
    """One declared option.

    Attributes:
      type: the type annotation: bool, int, float, str, a tuple of one of these, or a union of one of these with None.
      default: the option's default.
      removed_in, instead: the version in which the option goes away, and what to use then; empty if it stays.
    """

    type: Any
    default: Any
    help: str
    shapes: Shapes
    removed_in: str = ""
    instead: str = ""


class Shaping(NamedTuple):
    """What one option of a config affects, and its value.

    Attributes:
      name: the path of the option's field, such as `data.batch_size`.
      default: the same part of the default.
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
    zero_word: str = "",
    removed_in: str = "",
    instead: str = "",
) -> Any:
    """Declares a dataclass field with its help text and the allowed values, which `check` enforces.

    An integer may have 63 bits if no narrower bounds are declared.
    If the default is a mapping, each instance gets a copy of it.

    Args:
      default: the field's default.
      help: one line for `--help`. If the default depends on something else, the line ends with that in brackets.
      shapes: what a change of the value affects in a run that is resumed. `variables`: the run would be another model,
        so the change is refused. `graph`: the graph is built again. `input`: the graph is built again, and the pass
        over the data starts again. `nothing`: the saved graph is used. Each option that a run saves, or its class, must
        declare this; a field of a model or of a loss without this declaration counts as `variables`. For a command that
        can continue its interrupted work, `nothing` says that the option does not change the work.
      shaped_by: maps the value to the part that matters, such as `bool` if only on or off matters; None for the whole
        value.
      belongs_to: `run` if the value concerns the whole run; `machine` if the machines of a run may have different
        values; `start` if the value concerns one start of the program, such as the folder into which it writes. Another
        run with --config never takes over a value of `start`, and lists of runs do not compare it.
      minimum, maximum: inclusive bounds, of each item if the value is a tuple.
      divides: name of an option of the same class whose value must be a multiple of the value of this one.
      needs: name of an option of the same class without which this one has no effect and is therefore refused.
      follows: flags on which this option depends. A training with --config=RUN takes over the value of this option from
        that run only if the user changes none of these flags.
      choices: the only allowed values, if not empty.
      flag: the name of the flag; empty if it is the name of the field.
      aliases: other names of the flag, which `--help` does not show.
      is_flag: False if no flag sets the option, because its value follows from the model or from the data.
      is_required: whether the option must be given.
      is_common: whether the short `--help` of a program with many flags lists it.
      is_operand: whether its values may also be given as words without a flag.
      is_compared: whether `yt8m runs` and reports show it if it differs between runs.
      is_path: whether the value names files or folders (several are separated by commas).
      is_local: whether the value must be a folder on this machine, not in a bucket.
      is_code: whether the value may name code, as package.module:Class.
      is_published: whether the published code saves it too, in model_flags.json.
      is_reader_argument: whether it is an argument of the constructor of a reader.
      needs_run: whether it needs the folder of a run, and is refused if the model is an export.
      zero_word: a word that the flag takes for the value 0, such as `all`; empty if there is none.
      removed_in: the version in which the flag goes away, such as `0.3.0`: until then a command that is given it warns,
        and `--help` says so; empty if it stays. docs/users/upgrading.md lists these flags. A flag of the published
        programs never goes.
      instead: what to use in place of a flag that goes, such as `--new`; empty if nothing takes its place.
    """
    metadata = {name: value for name, value in locals().items() if name != "default"}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def path_option(help: str, **facts: Any) -> Any:
    """Declares a field that names files or folders, empty by default; `facts` are further arguments of `option`."""
    return option("", help, is_path=True, **facts)


# {class: its type hints}, filled by `type_hints`.
_cached_hints: weakref.WeakKeyDictionary[type, dict[str, Any]] = weakref.WeakKeyDictionary()


def type_hints(cls: type) -> Mapping[str, Any]:
    """`typing.get_type_hints` of a class. It is cached, because it takes a millisecond and is needed often."""
    if cls not in _cached_hints:
        _cached_hints[cls] = typing.get_type_hints(cls)
    return _cached_hints[cls]


def declared(cls: type) -> dict[str, Option]:
    """{name: option} of a dataclass, the keyword-only fields last; empty if `cls` is not a dataclass.

    Mappings (the options of a part, such as a classifier) are left out, because they have no flag of their own.
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
            field.metadata.get("removed_in", ""),
            field.metadata.get("instead", ""),
        )
        for field in sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only))
        if field.default is not dataclasses.MISSING
    }


def sections_of(cls: type) -> dict[str, Any]:
    """{name: class} of the fields of a config that are configs themselves (its sections)."""
    return {name: kind for name, kind in type_hints(cls).items() if dataclasses.is_dataclass(kind)}


def fields_of(cls: Any, prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """Yields (path, field) of each option of a config and its sections; a path is like `batch_size` or `data.seed`."""
    sections = sections_of(cls if isinstance(cls, type) else type(cls))
    for field in dataclasses.fields(cls):
        if field.metadata:
            yield prefix + field.name, field
        elif field.name in sections:
            yield from fields_of(sections[field.name], f"{prefix}{field.name}.")


def paths_where(cls: Any, **facts: Any) -> list[str]:
    """The paths of the options whose declarations have these values: `paths_where(TrainConfig, is_path=True)`."""
    return [
        path for path, field in fields_of(cls) if all(field.metadata[fact] == value for fact, value in facts.items())
    ]


def changed(config: Any) -> dict[str, Any]:
    """{path: value} of the options of a config whose values are not their defaults."""
    return {path: value for path, field in fields_of(config) if (value := value_at(config, path)) != field.default}


def shaping_values(config: Any) -> dict[str, Any]:
    """{name: value} of the options of a config that has no sections; options with `shapes="nothing"` are left out."""
    fields = dict(fields_of(config))
    return {name: getattr(config, name) for name in fields if fields[name].metadata["shapes"] != "nothing"}


def flag_of(field: dataclasses.Field[Any]) -> str:
    """The name of an option's flag."""
    return field.metadata.get("flag") or field.name


def value_at(config: Any, path: str) -> Any:
    """The value of the option at `path` of a config."""
    return functools.reduce(getattr, path.split("."), config)


def shaping(config: Any) -> Iterator[Shaping]:
    """Yields, for each option of a config and of its sections, what another value of it changes in a resumed run."""
    for path, field in fields_of(config):
        section = value_at(config, path.rpartition(".")[0]) if "." in path else config
        shapes = field.metadata["shapes"] or getattr(section, "shapes", None)
        select_part = field.metadata["shaped_by"] or (lambda value: value)
        if shapes is None:
            raise TypeError(f"{type(section).__name__}.{field.name} does not say what it shapes: option(shapes=...)")
        yield Shaping(path, shapes, select_part(getattr(section, field.name)), select_part(field.default))


def signature(shapings: Iterable[Shaping]) -> dict[str, Any]:
    """{option: value} of the options whose `shapes` is not `nothing`, on which a saved graph depends.

    An option has the name of its flag. A hyper-parameter keeps the name of its section as a prefix, because a model
    and a loss may use the same name.
    """
    return {short_name(item.name): item.value for item in shapings if item.shapes != "nothing"}


def order_of_examples(shapings: Iterable[Shaping]) -> dict[str, Any]:
    """{option: value} of the options that determine the examples and their order.

    Options at their defaults are left out, so that an option that a later version adds does not change the result.
    """
    changed_shapings = (item for item in shapings if item.shapes == "input" and item.value != item.default)
    return {short_name(item.name): item.value for item in changed_shapings}


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
    """The value with all lists in it replaced by tuples: configs have only tuples, JSON has only lists."""
    if isinstance(value, Mapping):
        return {name: with_tuples(inner) for name, inner in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list | tuple) else value


def shown(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def expand_home(instance: Any) -> None:
    """Replaces `~` by the home folder at the start of the texts of a dataclass, and after commas: these are paths."""
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and "~" in text for text in texts):
            expanded = tuple(storage.expanded(text) if isinstance(text, str) else text for text in texts)
            object.__setattr__(instance, field.name, expanded if isinstance(value, tuple) else expanded[0])


def check(instance: Any) -> None:
    """Expands `~` in paths, and refuses values of a wrong type or out of bounds."""
    expand_home(instance)
    hints = type_hints(type(instance))
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        expected = _expected_type(value, hints[field.name]) or _expected_values(value, field.metadata)
        multiple = field.metadata.get("divides")
        if multiple and not expected and getattr(instance, multiple) % value:
            expected = f"a divisor of {multiple} {getattr(instance, multiple)}"
        if expected:
            raise UsageError(f"{type(instance).__name__}: {flag_of(field)} must be {expected}; it is {value!r}")


def _expected_type(value: Any, kind: Any) -> str:
    """The type `kind` in words, such as `an int`, if the value has another type; else empty."""
    origin = typing.get_origin(kind)
    if origin is tuple:
        item = typing.get_args(kind)[0]
        fits = isinstance(value, tuple) and not any(_expected_type(part, item) for part in value)
        return "" if fits else f"a tuple of {item.__name__}"
    if origin in (types.UnionType, typing.Union):
        expected_types = [_expected_type(value, member) for member in typing.get_args(kind)]
        return expected_types[0] if all(expected_types) else ""
    if origin is not None or not isinstance(kind, type):
        return ""
    # True is an int in Python, but as a number of layers it is a mistake.
    allowed = (int, float) if kind is float else (kind,)
    if isinstance(value, allowed) and (kind is bool or not isinstance(value, bool)):
        return ""
    return f"{'an' if kind is int else 'a'} {kind.__name__}"


def _expected_values(value: Any, metadata: Mapping[str, Any]) -> str:
    """The declared choices or the bound in words, such as `at least 1`, if the value violates them; else empty."""
    if value is None:  # not set; `_expected_type` has checked that None is allowed
        return ""
    choices, low, high = (metadata.get(name) for name in ("choices", "minimum", "maximum"))
    if choices and value not in choices:
        names = ", ".join(filter(None, choices)) + " or empty" * ("" in choices)
        return f"one of {names}{suggestion(str(value), choices)}"
    # `not part >= low` instead of `part < low`, so that NaN is refused too.
    for part in value if isinstance(value, tuple) else (value,):
        if low is not None and not part >= low:
            return f"at least {low}"
        if high is not None and not part <= high:
            return f"at most {high}"
        if isinstance(part, int) and not -_LARGEST_INTEGER <= part <= _LARGEST_INTEGER:
            return f"at most {_LARGEST_INTEGER}" if part > 0 else f"at least {-_LARGEST_INTEGER}"
    return ""


class Checked:
    """The base class of dataclasses that check their options when an instance is created."""

    shapes: ClassVar[Shapes | None] = None

    def __init_subclass__(cls, shapes: Shapes | None = None, is_common: bool = False) -> None:
        """Declares `shapes` and `is_common` for all options of the class; see `option`.

        An option that declares `shapes` itself keeps its own.
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
    """Puts `beginning` before the messages of UsageErrors in the block.

    The messages of `check` then name the flag, `--batch_size must be ...`, instead of the class and the field.
    """
    try:
        yield
    except UsageError as error:
        raise UsageError(beginning + re.sub(r"^\w+: (?=\w+ must )", "--", str(error))) from error
