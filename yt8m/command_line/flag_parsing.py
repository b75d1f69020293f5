"""Declares the flags of a program, writes its `--help`, and parses its command line.

The flags are derived from the fields of the program's config, of the models and of the losses. The syntax is that of
absl, but stricter: absl uses the last value of a repeated flag, and ignores words that are not flags, so it reads
`--frame_features False` as true. Here such command lines are errors.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import textwrap
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags

from yt8m import options, storage
from yt8m.errors import UsageError, suggestion
from yt8m.options import flag_of, sections_of, shown
from yt8m.registry import owners


class Flag(NamedTuple):
    """One flag.

    Attributes:
      name: the name without dashes.
      kind: bool, int, float, str, or a tuple type such as tuple[str, ...] for a list with commas.
      default: the value if the flag is not given; None if there is none, or if it depends on other flags.
      help: the description in `--help`.
      group: the heading under which `--help` lists the flag.
      aliases: other names for the flag, which `--help` does not show.
      is_common: whether the short `--help` of a program with many flags lists it.
      is_code: whether the value may name code to import, as package.module:Class.
      is_path: whether the value names files or folders.
      may_be_empty: whether an empty text is one of the values.
    """

    name: str
    kind: Any
    default: Any
    help: str
    group: str
    aliases: tuple[str, ...] = ()
    is_common: bool = False
    is_code: bool = False
    is_path: bool = False
    may_be_empty: bool = False


class Program(NamedTuple):
    """A program as `--help` shows it.

    Attributes:
      name: its name.
      purpose: one sentence.
      flags: its flags.
      only_in_files: further flags that are allowed in flagfiles, which may have been written for another program.
    """

    name: str
    purpose: str
    flags: Sequence[Flag]
    only_in_files: Sequence[Flag] = ()


_FEW = 30  # `--help` lists all flags of a program that has at most this number of flags

# {field of a config's section: its heading in `--help`}, where that is not the field's name.
_HEADINGS = {"distributed": "Cluster", "storage": "Buckets"}


def program_flags(cls: type, heading: str) -> list[Flag]:
    """The flags of the config class `cls`: its own under `heading`, then those of its sections."""
    sections = sections_of(cls).items()
    of_sections = (flags_of(section, _HEADINGS.get(name, name.capitalize())) for name, section in sections)
    return [*flags_of(cls, heading), *itertools.chain.from_iterable(of_sections)]


def flags_of_parts(
    catalogue: Any, chosen: Sequence[str], group: str, taken: Collection[str], *, others: bool = True
) -> list[Flag]:
    """The flags for the fields of the classes in a catalogue; fields of the same name share a flag.

    Args:
      catalogue: see `owners`.
      chosen: names of the classes that the user chose, which may be the user's own. If they have a field, only their
        defaults of it are shown.
      group: the heading of these flags.
      taken: names of other flags, for which no flags are made.
      others: whether to make flags for classes that the user did not choose.
    """
    fields: dict[str, list[tuple[str, options.Option]]] = {}
    for part in chosen or [""]:
        fields = fields | {
            name: declarations
            for name, declarations in owners(catalogue, part, others=others).items()
            if name not in {*fields, *taken}
        }
    made = []
    for name, declared in fields.items():
        shown_declarations = [declaration for declaration in declared if declaration[0] in chosen] or declared
        made.append(Flag(name, _plain(shown_declarations[0][1].type), None, _shared_help(shown_declarations), group))
    return made


def own_hyper_parameters(catalogue: Any, chosen: str) -> set[str]:
    """The names of the hyper-parameters of the class `chosen`; empty if there is no such class."""
    return set(owners(catalogue, chosen, others=False))


def flags_of(cls: type, group: str) -> list[Flag]:
    """The flags for the declared fields of one config class, under the heading `group`."""
    fields = {field.name: field for field in dataclasses.fields(cls) if field.metadata.get("is_flag")}
    return [
        Flag(
            flag_of(fields[name]),
            _plain(option.type),
            option.default,
            _help(option, fields[name].metadata),
            group,
            *(fields[name].metadata[fact] for fact in Flag._fields[5:-1]),
        )._replace(may_be_empty="" in fields[name].metadata["choices"])
        for name, option in options.declared(cls).items()
        if name in fields
    ]


def _plain(kind: Any) -> Any:
    """The type without its `| None`."""
    members = [member for member in typing.get_args(kind) if member is not type(None)]
    return members[0] if type(None) in typing.get_args(kind) else kind


def _help(option: options.Option, metadata: Mapping[str, Any]) -> str:
    choices = [choice for choice in metadata["choices"] if choice]
    return option.help + (f" ({' or '.join(choices)})" if len(choices) > 1 else "")


def _shared_help(declarations: Sequence[tuple[str, options.Option]]) -> str:
    """The help of a field that several classes declare, with the default of each class that is not empty."""
    defaults = [f"{model}: {text}" for model, option in declarations if (text := shown(option.default))]
    return declarations[0][1].help + (f" ({', '.join(defaults)})" if defaults else "")


def usage(
    program: Program, names: Mapping[str, Sequence[str]], also: Collection[str] = (), show_all: bool = False
) -> str:
    """The text of `--help`: flags under their headings, with defaults.

    Args:
      program: the program; if it has many flags, only common flags are listed.
      names: {kind, such as `models`: the names to choose from}.
      also: names of further flags to list, such as those of the chosen model.
      show_all: whether to list all flags.
    """
    show_all = show_all or len(program.flags) <= _FEW
    shown_flags = [flag for flag in program.flags if show_all or flag.is_common or flag.name in also]
    names = {kind: names[kind] for kind in names if show_all or CHOOSE[kind] in [flag.name for flag in shown_flags]}
    lines = [f"usage: {program.name} [--flag=value ...]", "", *_wrapped(program.purpose, 0)]
    for group, of_group in itertools.groupby(shown_flags, key=lambda flag: flag.group):
        lines += ["", f"{group}:"]
        for flag in of_group:
            lines += _entry(flag)
    lines += ["", "Names:"] if names else []
    for kind, members in names.items():
        lines += _wrapped(f"{kind}: {', '.join(members)}", 2)
    hidden = len(program.flags) - len(shown_flags)
    hint = f"--help=all lists {hidden} more flags. " if hidden else ""
    return "\n".join([*lines, "", *_wrapped(f"{hint}--flagfile=FILE reads flags from a file, one per line.", 0), ""])


CHOOSE = {"models": "model", "losses": "label_loss", "optimizers": "optimizer"}  # {kind of name: flag for such a name}
_COLUMN, _WIDTH = 30, 100  # the first and the last column of the help of a flag


def _entry(flag: Flag) -> list[str]:
    placeholder = {int: "N", float: "X", str: "TEXT"}.get(flag.kind, "A,B,...")
    head = f"  --[no]{flag.name}" if flag.kind is bool else f"  --{flag.name}={placeholder}"
    has_default = flag.default not in (None, "", ()) and flag.default is not False and not flag.help.endswith("]")
    default = f" [{shown(flag.default)}]" if has_default else ""
    first, *lines = _wrapped(flag.help + default, _COLUMN)
    if len(head) > _COLUMN - 2:
        return [head, first, *lines]
    return [head.ljust(_COLUMN) + first.lstrip(), *lines]


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)


HELP = frozenset({"help", "h", "?", "helpfull", "helpshort"})
_PARSERS: dict[Any, flags.ArgumentParser[Any]] = {
    bool: flags.BooleanParser(),
    int: flags.IntegerParser(),
    float: flags.FloatParser(),
}
_EXPECTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[int, ...]: "whole numbers with commas between, as 1024,128",
    tuple[float, ...]: "numbers with commas between, as 0.5,0.5,0.5",
}


class HelpAsked(Exception):  # noqa: N818 - no error: the user asked for help
    """The command line has `--help`; `show_all` is True for `--help=all`."""

    def __init__(self, show_all: bool) -> None:
        super().__init__()
        self.show_all = show_all


class _Given(NamedTuple):
    """A flag on a command line: its name, its value as text (None for a bare `--flag` or `--noflag`), and its words."""

    name: str
    text: str | None
    written: str


def parse(
    flags: Sequence[Flag], words: Sequence[str], operands: list[str] | None = None, only_in_files: Sequence[Flag] = ()
) -> dict[str, Any]:
    """{flag: value} of the flags that were given.

    A flag may be given once on the command line, and once in all flagfiles together; the command line takes precedence.

    Args:
      flags: the flags of the program.
      words: the command line without the program's name.
      operands: a list that receives the words that are not flags, in order; if None, such words are refused.
      only_in_files: further flags that are allowed in flagfiles.

    Raises:
      HelpAsked: `--help` was given.
      UsageError: a flag is unknown, repeated, or has no valid value; or a word is not a flag.
    """
    by_name, of_files = (
        {name: flag for flag in members for name in (flag.name, *flag.aliases)}
        for members in (flags, [*flags, *only_in_files])
    )
    typed, files = _split_flagfiles(words)
    texts = {**_once(files, of_files, " in the flagfiles"), **_once(typed, by_name, "", operands)}
    return {name: _value(of_files[name], text) for name, text in texts.items()}


def find_word(name: str, words: Sequence[str]) -> str:
    """The value of one string flag as text, found before all flags are known; empty if the flag is not given."""
    try:
        typed, files = _split_flagfiles(words)
    except UsageError:
        return ""
    for group in (typed, files):
        for place, word in enumerate(group):
            flag, equals, text = word.lstrip("-").partition("=")
            if word.startswith("-") and flag == name:
                return text if equals else "".join(group[place + 1 : place + 2])
    return ""


def find_switch(name: str, words: Sequence[str]) -> bool:
    """Whether a bool flag is on, found before all flags are known; raises like `parse`."""
    typed, files = _split_flagfiles(words)
    matching = [word for word in (*files, *typed) if word.lstrip("-").partition("=")[0] in (name, f"no{name}")]
    return bool(parse([Flag(name, bool, False, "", "")], matching[-1:]).get(name))


def _split_flagfiles(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(words of the command line, words of the files that `--flagfile` names)."""
    typed, files, remaining = [], [], iter(words)
    for word in remaining:
        if word.lstrip("-").partition("=")[0] != "flagfile" or not word.startswith("-"):
            typed.append(word)
            continue
        path = word.partition("=")[2] or next(remaining, "")
        try:
            files += flags.FlagValues().read_flags_from_files([f"--flagfile={path}"])
        except flags.Error as error:
            reason = str(error).rpartition(":: ")[2]
            raise UsageError(f"--flagfile={path}: {reason}. Name a file with one flag per line.") from error
    return typed, files


def _once(
    words: Sequence[str], flags: Mapping[str, Flag], where: str, operands: list[str] | None = None
) -> dict[str, _Given]:
    values: dict[str, _Given] = {}
    for value in _read(words, flags, operands):
        if value.name in values:
            raise UsageError(f"--{value.name} is given twice{where}: {values[value.name].written} and {value.written}.")
        values[value.name] = value
    return values


def _read(words: Sequence[str], flags: Mapping[str, Flag], operands: list[str] | None) -> Iterator[_Given]:
    """Yields the flags in the words, with their values; appends other words to `operands`."""
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        name, equals, text = word.lstrip("-").partition("=")
        if operands is not None and not word.startswith("-"):
            operands.append(word)
            continue
        if not word.startswith("-") or not name:
            raise UsageError(f"stray argument {word!r}; give every value as --name=value.")
        if name in HELP:
            raise HelpAsked(name == "helpfull" or text == "all")
        flag = flags.get(name) or _negated(name, equals, flags)
        if flag is None:
            raise UsageError(_unknown(name, flags))
        if equals:
            yield _Given(flag.name, text, word)
        elif flag.kind is bool:
            _refuse_word_after_switch(flag.name, remaining, takes_files=operands is not None)
            yield _Given(flag.name, None, word)
        elif not remaining or remaining[0].startswith("--"):
            raise UsageError(f"--{name} has no value; write --{name}=...")
        else:
            yield _Given(flag.name, remaining[0], f"{word} {remaining.pop(0)}")


def _negated(name: str, equals: str, flags: Mapping[str, Flag]) -> Flag | None:
    flag = flags.get(name[2:]) if name.startswith("no") and not equals else None
    return flag if flag and flag.kind is bool else None


def _unknown(name: str, flags: Mapping[str, Flag]) -> str:
    close = suggestion(name, flags).replace("mean ", "mean --")
    return f"unknown flag --{name}{close or '; --help=all lists all flags'}"


def _refuse_word_after_switch(name: str, remaining: Sequence[str], takes_files: bool) -> None:
    word = remaining[0] if remaining else "-"
    is_file = takes_files and word.lower() not in _TRUTHS
    if not word.startswith("-") and not is_file:
        raise UsageError(
            f"--{name} {remaining[0]}: a flag that is on or off cannot have a blank before its value; "
            f"write --{name}={remaining[0]}, --{name} or --no{name}."
        )


_TRUTHS = ("true", "false", "t", "f", "1", "0", "yes", "no", "y", "n")


def _value(flag: Flag, argument: _Given) -> Any:
    """The value in the argument, converted to the flag's type."""
    if argument.text is None:
        return not argument.written.lstrip("-").startswith("no") or argument.written.lstrip("-") == flag.name
    if not argument.text and not flag.may_be_empty:
        raise UsageError(f"--{flag.name}= is empty; give a value, or leave the flag out for its default.")
    if flag.is_path and flag.kind is not str:
        return tuple(storage.listed(argument.text))
    try:
        return _converted(flag.kind, argument.text)
    except ValueError as error:
        raise UsageError(f"--{flag.name}={argument.text}: expected {_EXPECTED[flag.kind]} ({flag.help}).") from error


def _converted(kind: Any, text: str) -> Any:
    """The text converted to `kind`; for a tuple type, commas separate the items."""
    if kind in _PARSERS:
        value = _PARSERS[kind].parse(text)
        if kind is float and not math.isfinite(value):
            raise ValueError(text)
        return value
    if kind is str:
        return text
    (item, _) = typing.get_args(kind)
    items = [part.strip() for part in text.split(",")]
    return tuple(item(part) for part in items if part or item is not str)
