"""Declares the flags of a program, writes its `--help`, and parses its command line.

The flags are derived from the fields of the program's config, of the models and of the losses. The syntax is that of
absl, but stricter: absl uses the last value of a repeated flag, and ignores words that are not flags, so it reads
`--frame_features False` as true. This module refuses such command lines.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import textwrap
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags, logging

from yt8m import deprecation, options, storage
from yt8m.command_line import synonyms, typed_names
from yt8m.errors import UsageError
from yt8m.options import flag_of, sections_of, shown
from yt8m.registry import Others, owners


class Flag(NamedTuple):
    """A flag of a program: its name, its type, and how `--help` shows it.

    Attributes:
      name: the name without dashes.
      kind: bool, int, float, str, or a tuple type such as tuple[str, ...] for a list with commas.
      default: the value if the flag is not given; None if there is none, or if it depends on other flags.
      zero_word: a word that stands for 0, such as `all`; empty if there is none.
      removed_in, instead: the version in which the flag goes away, and what to use then; empty if it stays.
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
    zero_word: str = ""
    is_required: bool = False
    removed_in: str = ""
    instead: str = ""
    may_be_empty: bool = False

    def goes(self) -> str:
        """In which version the flag goes away, in words; empty if it stays."""
        return deprecation.goes(self.removed_in, self.instead) if self.removed_in else ""


class Program(NamedTuple):
    """A program as `--help` shows it.

    Attributes:
      only_in_files: further flags that are allowed in flagfiles, because these may have been written for another
        program.
      unlisted: further flags that are accepted, but not listed by `--help`.
    """

    name: str
    purpose: str
    flags: Sequence[Flag]
    only_in_files: Sequence[Flag] = ()
    unlisted: Sequence[Flag] = ()


_FEW = 30  # `--help` lists all flags of a program that has at most this number of flags

# {name of a field with a section of a config: the heading of the section in `--help`}, if they are not the same word.
_HEADINGS = {"distributed": "Cluster", "storage": "Buckets"}


def program_flags(cls: type, heading: str) -> list[Flag]:
    """Makes the flags of a config class with sections."""
    sections = sections_of(cls).items()
    section_flags = (flags_of(section, _HEADINGS.get(name, name.capitalize())) for name, section in sections)
    return [*flags_of(cls, heading), *itertools.chain.from_iterable(section_flags)]


def flags_of_parts(
    catalogue: Any, chosen: Sequence[str], group: str, taken: Collection[str], *, others: Others = "built-in"
) -> list[Flag]:
    """Makes flags for the fields of the classes in a catalogue; fields of the same name share a flag.

    Args:
      catalogue: the classes, such as the package `yt8m.models`; see `registry.owners`.
      chosen: names of the classes that the user chose, which may be the user's own. If one of them has a field, the
        help of the field's flag shows only the defaults of the chosen classes.
      others: which classes have flags beside the chosen ones; see `registry.owners`.
    """
    fields: dict[str, list[tuple[str, options.Option]]] = {}
    for part in chosen or [""]:
        fields = fields | {
            name: declarations
            for name, declarations in owners(catalogue, part, others=others).items()
            if name not in {*fields, *taken}
        }
    flags_of_fields = []
    for name, declared in fields.items():
        shown_declarations = [declaration for declaration in declared if declaration[0] in chosen] or declared
        kind, text = _without_none(shown_declarations[0][1].type), _shared_help(shown_declarations)
        removed_in, instead = _shared_removal(shown_declarations)
        flags_of_fields.append(Flag(name, kind, None, text, group, removed_in=removed_in, instead=instead))
    return flags_of_fields


def own_hyper_parameters(catalogue: Any, chosen: str) -> set[str]:
    """The names of the hyper-parameters of a class; empty if the catalogue has no such class.

    Args:
      catalogue: the package `yt8m.models` or `yt8m.losses`.
    """
    return set(owners(catalogue, chosen, others="none"))


def flags_of(cls: type, group: str) -> list[Flag]:
    """Makes the flags of a config class, without those of its sections.

    Args:
      cls: the config class, whose fields are declared by `yt8m.options.option`.
    """
    fields = {field.name: field for field in dataclasses.fields(cls) if field.metadata.get("is_flag")}
    return [
        Flag(
            flag_of(fields[name]),
            _without_none(option.type),
            option.default,
            _help_with_choices(option, fields[name].metadata),
            group,
            *(fields[name].metadata[fact] for fact in Flag._fields[5:-1]),
        )._replace(may_be_empty="" in fields[name].metadata["choices"])
        for name, option in options.declared(cls).items()
        if name in fields
    ]


def _without_none(kind: Any) -> Any:
    """Removes `| None` from a type."""
    members = [member for member in typing.get_args(kind) if member is not type(None)]
    return members[0] if type(None) in typing.get_args(kind) else kind


def _help_with_choices(option: options.Option, metadata: Mapping[str, Any]) -> str:
    choices = [choice for choice in metadata["choices"] if choice]
    return option.help + (f" ({' or '.join(choices)})" if len(choices) > 1 else "")


def _shared_help(declarations: Sequence[tuple[str, options.Option]]) -> str:
    """The help of a field that several classes declare: the text of the first class, and the default of each class."""
    defaults = [f"{model}: {text}" for model, option in declarations if (text := shown(option.default))]
    return declarations[0][1].help + (f" ({', '.join(defaults)})" if defaults else "")


def _shared_removal(declarations: Sequence[tuple[str, options.Option]]) -> tuple[str, str]:
    """`removed_in` and `instead` of a field that classes share: it stays as long as it stays in one of them."""
    removals = [(option.removed_in, option.instead) for _, option in declarations]
    return removals[0] if all(version for version, _ in removals) else ("", "")


def usage(
    program: Program, names: Mapping[str, Sequence[str]], also: Collection[str] = (), show_all: bool = False
) -> str:
    """Returns the text of `--help`: flags under their headings, with defaults.

    Args:
      names: {kind, such as `models`: the names to choose from}, listed at the end.
      also: names of flags to list although they are not common, such as those of the chosen model.
    """
    show_all = show_all or len(program.flags) <= _FEW
    shown_flags = [flag for flag in program.flags if show_all or flag.is_common or flag.name in also]
    names = {kind: names[kind] for kind in names if show_all or CHOOSE[kind] in [flag.name for flag in shown_flags]}
    lines = [f"usage: {program.name} [--flag=value ...]", "", *_wrap(program.purpose, 0)]
    for group, group_flags in itertools.groupby(shown_flags, key=lambda flag: flag.group):
        lines += ["", f"{group}:"]
        for flag in group_flags:
            lines += _format_flag(flag)
    have_packages = any(name.endswith(")") for members in names.values() for name in members)
    lines += ["", "Names (in parentheses: of an installed package):" if have_packages else "Names:"] if names else []
    for kind, members in names.items():
        lines += _wrap(f"{kind}: {', '.join(members)}", 2)
    hidden = len(program.flags) - len(shown_flags)
    hint = f"--help=all lists {hidden} more flags. " if hidden else ""
    return "\n".join([*lines, "", *_wrap(f"{hint}--flagfile=FILE reads flags from a file, one per line.", 0), ""])


# {kind of names: flag that takes one}
CHOOSE = {
    "models": "model",
    "losses": "label_loss",
    "optimizers": "optimizer",
    "readers": "reader",
    "callbacks": "callbacks",
    "extractors": "extractors",
}
_COLUMN, _WIDTH = 30, 100  # the columns of a line of `--help` at which the text on a flag begins and ends


def _format_flag(flag: Flag) -> list[str]:
    placeholder = {int: "N", float: "X", str: "TEXT"}.get(flag.kind, "A,B,...")
    head = f"  --[no]{flag.name}" if flag.kind is bool else f"  --{flag.name}={placeholder}"
    has_default = flag.default not in (None, "", ()) and flag.default is not False and not flag.help.endswith("]")
    default = f" [{shown(flag.default)}]" if has_default else ""
    removal = f" ({flag.goes()})" if flag.goes() else ""
    first, *lines = _wrap(flag.help + default + removal, _COLUMN)
    if len(head) > _COLUMN - 2:
        return [head, first, *lines]
    return [head.ljust(_COLUMN) + first.lstrip(), *lines]


def _wrap(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)


# The words that ask for the help, without dashes.
HELP = frozenset({"help", "h", "?", "helpfull", "helpshort"})
# {type of a flag: absl's parser of its text}
_PARSERS: dict[Any, flags.ArgumentParser[Any]] = {
    bool: flags.BooleanParser(),
    int: flags.IntegerParser(),
    float: flags.FloatParser(),
}
# {type of a flag: what an error message says that its value must be}
_EXPECTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[int, ...]: "whole numbers with commas between, as 1024,128",
    tuple[float, ...]: "numbers with commas between, as 0.5,0.5,0.5",
}


class HelpAsked(Exception):  # noqa: N818 - no error: the user asked for help
    """Raised if the command line has `--help`; `show_all` is True for `--help=all` and `--helpfull`."""

    def __init__(self, show_all: bool) -> None:
        super().__init__()
        self.show_all = show_all


class UnknownFlagError(UsageError):
    """Raised if the command line has a flag that is none of the program's."""


class _TypedFlag(NamedTuple):
    """A flag as a command line or a flagfile has it.

    Attributes:
      text: the value as text; None for `--name` or `--noname` of a flag that is on or off.
    """

    name: str
    text: str | None
    written: str


def parse(
    flags: Sequence[Flag], words: Sequence[str], operands: list[str] | None = None, only_in_files: Sequence[Flag] = ()
) -> dict[str, Any]:
    """Parses a command line.

    A flag may be given once on the command line, and once in all flagfiles together; the command line takes precedence.
    A flag that goes away is said once, in the log.

    Args:
      words: the command line without the program's name.
      operands: a list that receives the words that are not flags, in order; if None, such words are refused.

    Returns:
      {flag: value} of the flags that were given.
    """
    by_name, by_name_in_files = (
        {name: flag for flag in members for name in (flag.name, *flag.aliases)}
        for members in (flags, [*flags, *only_in_files])
    )
    typed, files = _split_flagfiles(words)
    texts = _read_unrepeated(files, by_name_in_files, " in the flagfiles")
    texts |= _read_unrepeated(typed, by_name, "", operands)
    values = {name: _parse_value(by_name_in_files[name], text) for name, text in texts.items()}
    for name in values:
        if removal := by_name_in_files[name].goes():
            _warn_once(typed_names.in_typed_names(f"--{name}") + f" {removal}.")
    return values


@functools.cache  # a command line is parsed several times
def _warn_once(notice: str) -> None:
    logging.warning("%s", notice)


def find_word(name: str, words: Sequence[str]) -> str:
    """Finds the value of a text flag before the other flags of the program are known.

    Returns:
      The value; empty if the flag is not given, or if a flagfile cannot be read, which `parse` refuses later.
    """
    try:
        typed, files = _split_flagfiles(words)
    except UsageError:
        return ""
    for group in (typed, files):
        for index, word in enumerate(group):
            flag, equals, text = word.lstrip("-").partition("=")
            if word.startswith("-") and flag == name:
                return text if equals else "".join(group[index + 1 : index + 2])
    return ""


def find_switch(name: str, words: Sequence[str]) -> bool:
    """Finds out whether a bool flag is on before the other flags of the program are known; False if it is not given."""
    typed, files = _split_flagfiles(words)
    matching = [word for word in (*files, *typed) if word.lstrip("-").partition("=")[0] in (name, f"no{name}")]
    return bool(parse([Flag(name, bool, False, "", "")], matching[-1:]).get(name))


def _split_flagfiles(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Reads flagfiles; returns (the words of the command line without --flagfile, the words of the flagfiles)."""
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


def _read_unrepeated(
    words: Sequence[str], flags: Mapping[str, Flag], where: str, operands: list[str] | None = None
) -> dict[str, _TypedFlag]:
    """Reads the flags in some words like `_read_flags`; returns {name: flag}, and refuses a flag that is repeated.

    Args:
      where: text for the error message that says where the words are; empty for the command line.
    """
    values: dict[str, _TypedFlag] = {}
    for value in _read_flags(words, flags, operands):
        if value.name in values:
            raise UsageError(
                f"--{value.name} is given twice{where}: {values[value.name].written} and {value.written}. Give one of "
                "them."
            )
        values[value.name] = value
    return values


def _read_flags(words: Sequence[str], flags: Mapping[str, Flag], operands: list[str] | None) -> Iterator[_TypedFlag]:
    """Yields the flags in a command line, with their values as text.

    Args:
      operands: a list to which words that are not flags are appended; if None, such words are refused.
    """
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        name, equals, text = word.lstrip("-").partition("=")
        if operands is not None and not word.startswith("-"):
            _refuse_flag_without_dashes(word, flags)
            operands.append(word)
            continue
        if not word.startswith("-") or not name:
            raise UsageError(f"stray argument {word!r}; give every value as --name=value.")
        if name in HELP:
            raise HelpAsked(name == "helpfull" or text == "all")
        flag = flags.get(name) or _find_negated(name, equals, flags)
        if flag is None:
            raise UnknownFlagError(_describe_unknown(name, flags))
        if name in (flag.name, *flag.aliases):
            typed_names.note(flag.name, name)
        if equals:
            yield _TypedFlag(flag.name, text, word)
        elif flag.kind is bool:
            _refuse_word_after_switch(flag.name, remaining, takes_files=operands is not None)
            yield _TypedFlag(flag.name, None, word)
        elif not remaining or remaining[0].startswith("--"):
            raise UsageError(f"--{name} has no value; write --{name}=...")
        else:
            yield _TypedFlag(flag.name, remaining[0], f"{word} {remaining.pop(0)}")


def _find_negated(name: str, equals: str, flags: Mapping[str, Flag]) -> Flag | None:
    """The bool flag NAME if `name` is noNAME and no `=` follows it; else None."""
    flag = flags.get(name[2:]) if name.startswith("no") and not equals else None
    return flag if flag and flag.kind is bool else None


def _refuse_flag_without_dashes(word: str, flags: Mapping[str, Flag]) -> None:
    """Refuses `NAME=VALUE` in place of a file, if it names none and a flag is meant, as other programs write it."""
    name, equals, text = word.partition("=")
    if not equals or not name.isidentifier() or not (name in flags or synonyms.hint(name, flags)):
        return
    if not (storage.is_pattern(word) or storage.exists(word) or storage.is_dir(word)):
        flag = f"--{name}={text}" if name in flags else f"unknown flag --{name}{synonyms.hint(name, flags)}"
        raise UsageError(f"stray argument {word!r}, and there is no such file; a flag begins with two dashes: {flag}")


def _describe_unknown(name: str, flags: Mapping[str, Flag]) -> str:
    return f"unknown flag --{name}{synonyms.hint(name, flags) or '; --help=all lists all flags'}"


def _refuse_word_after_switch(name: str, remaining: Sequence[str], takes_files: bool) -> None:
    """Refuses `--NAME WORD` for a bool flag, since the word is probably meant as the flag's value."""
    word = remaining[0] if remaining else "-"
    is_file = takes_files and word.lower() not in _TRUTHS
    if not word.startswith("-") and not is_file:
        raise UsageError(
            f"--{name} {remaining[0]}: a flag that is on or off cannot have a blank before its value; "
            f"write --{name}={remaining[0]}, --{name} or --no{name}."
        )


# Words, in small letters, that look like the value of a bool flag; absl accepts only the first six.
_TRUTHS = ("true", "false", "t", "f", "1", "0", "yes", "no", "y", "n")
_WORDS_OF_TRUTH = ("true", "false", "yes", "no", "on", "off")  # those that are rarely the name of a folder


def _parse_value(flag: Flag, argument: _TypedFlag) -> Any:
    """Converts the text that was given for a flag to the flag's type; raises `UsageError` if that is not possible."""
    if argument.text is None:
        return not argument.written.lstrip("-").startswith("no") or argument.written.lstrip("-") == flag.name
    if not argument.text and not flag.may_be_empty:
        raise UsageError(f"--{flag.name}= is empty; give a value, or leave the flag out for its default.")
    if flag.zero_word and argument.text == flag.zero_word:
        return 0
    if flag.is_path and argument.text == "-":
        raise UsageError(
            f"--{flag.name}=-: name a file. Standard output is /dev/stdout, standard input /dev/stdin, and a file that "
            "has this name ./-"
        )
    if flag.is_path:
        _refuse_truth_as_path(flag, argument.text)
    if flag.is_path and flag.kind is not str:
        return tuple(storage.listed(argument.text))
    try:
        return _convert_text(flag.kind, argument.text)
    except ValueError as error:
        raise UsageError(f"--{flag.name}={argument.text}: expected {_EXPECTED[flag.kind]} ({flag.help}).") from error


def _refuse_truth_as_path(flag: Flag, text: str) -> None:
    """Refuses `--cache=true` and `--out=yes`, which may mean a switch: nothing of this name exists.

    Folders are called 1 and 0 too, as in --train_dir=1, but whoever writes --cache=1 wants a cache.
    """
    name, word = flag.name, text.lower()
    is_switch = word in _WORDS_OF_TRUTH or (word in ("1", "0") and name.endswith("cache"))
    if is_switch and not storage.exists(text):
        may_be_left_out = word in ("false", "no", "off", "0") and not flag.is_required
        off = f", or leave --{name} out" if may_be_left_out else ""
        automatic = f"--{name}=auto, or " if "auto:" in flag.help else ""
        raise UsageError(
            f"--{name}={text}: this may mean on or off, but --{name} names a file or folder; give {automatic}its "
            f"path, ./{text} if it is called so{off}."
        )


def _convert_text(kind: Any, text: str) -> Any:
    """Converts a text to the type `kind`; for a tuple type, commas separate the items."""
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
