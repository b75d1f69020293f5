"""Reads the config of a program from its command line: one flag for every option of a dataclass.

Nothing here imports TensorFlow or a model, because imports would delay `--help` and error messages.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from yt8m import options, registry, storage
from yt8m.command_line import listed_names
from yt8m.command_line.flag_parsing import (
    Flag,
    HelpAsked,
    Program,
    UnknownFlagError,
    find_word,
    flags_of,
    flags_of_parts,
    parse,
    usage,
)
from yt8m.command_line.program import called
from yt8m.errors import UsageError
from yt8m.options import about_flags

C = TypeVar("C")


def read(cls: type[C], program: str, purpose: str, words: Sequence[str], operands: list[str] | None = None) -> C:
    """Reads a config from flags, one for every option of a dataclass. Users call this too, for their own workloads.

    Args:
      cls: a dataclass whose fields are declared by `yt8m.options.option`.
      words: the command line without the program's name.
      operands: a list that receives the words that are not flags (such as files), and the values of options with
        `is_operand`; if None, such words are refused.
    """
    registry.set_command_line_names(())
    flags = flags_of(cls, "Flags")
    words = _join_lists(flags, words) if getattr(cls, "lists_have_blanks", False) else words
    return read_values(cls, Program(program, purpose, flags), words, operands)[0]


def _join_lists(flags: Sequence[Flag], words: Sequence[str]) -> list[str]:
    """Rewrites `--predictions A B` as `--predictions=A,B`, so that blanks may separate the entries of a list."""
    lists = {name for flag in flags if flag.kind == tuple[str, ...] for name in (flag.name, *flag.aliases)}
    joined: list[str] = []
    for word in words:
        name, equals, text = joined[-1].lstrip("-").partition("=") if joined else ("", "", "")
        if word.startswith("-") or name not in lists:
            joined.append(word)
        else:
            joined[-1] = f"{joined[-1]},{word}" if equals and text else f"--{name}={word}"
    return joined


def read_with(
    cls: type[C],
    program: str,
    purpose: str,
    words: Sequence[str],
    catalogue: Any,
    flag: str,
    operands: list[str] | None = None,
) -> tuple[C, dict[str, Any]]:
    """Like `read`, for a program of which a flag names classes, such as extractors, whose fields are flags too.

    Args:
      catalogue: the classes to choose from, such as `yt8m.extractors`: a `registry.Catalogue`, or a module that has
        its methods.

    Returns:
      The config, and {field of a class: value} of the fields whose flags were given.
    """
    class_names = [name.strip() for name in find_word(flag, words).split(",") if name.strip()]
    registry.set_command_line_names(class_names)
    load_own_classes(*((flag, catalogue, name) for name in class_names))
    own_flags = flags_of(cls, "Flags")
    # `flags_of_parts` imports all classes of the catalogue, which is slow; it is skipped if no flag of theirs is given.
    has_only_own_flags = not class_names and are_flags_of(own_flags, words)
    taken, heading = {flag_of_program.name for flag_of_program in own_flags}, f"Settings of {flag}"
    part_flags = [] if has_only_own_flags else flags_of_parts(catalogue, class_names, heading, taken)
    if has_unknown_flag([*own_flags, *part_flags], words):
        part_flags = flags_of_parts(catalogue, class_names, heading, taken, others="all")
    config, values = read_values(cls, Program(program, purpose, [*own_flags, *part_flags]), words, operands)
    return config, {
        flag_of_part.name: values[flag_of_part.name] for flag_of_part in part_flags if flag_of_part.name in values
    }


def are_flags_of(program_flags: Sequence[Flag], words: Sequence[str]) -> bool:
    """Whether `program_flags` are enough to parse the words; False if the words have `--help`."""
    try:
        parse(program_flags, words, [])
    except (HelpAsked, UsageError):
        return False
    return True


def has_unknown_flag(program_flags: Sequence[Flag], words: Sequence[str]) -> bool:
    """Whether the words have a flag that is none of `program_flags`, and that may be one of an installed package."""
    try:
        parse(program_flags, words, [])
    except UnknownFlagError:
        return True
    except (HelpAsked, UsageError):
        return False
    return False


def read_values(
    cls: type[C], program: Program, words: Sequence[str], operands: list[str] | None
) -> tuple[C, dict[str, Any]]:
    """Reads a config like `read`, but also returns {flag: value} of all flags that were given."""
    values = parse_program(program, words, {flag.name for flag in program.flags}, operands)
    config = config_section(cls, values)
    if operands is not None:
        by_flag = (getattr(config, name) for name in options.paths_where(cls, is_operand=True))
        operands[:] = map(storage.expanded, itertools.chain(list(operands), *by_flag))
    return config, values


def load_own_classes(*classes: tuple[str, Any, str]) -> None:
    """Imports classes of the user or of a package, so that flags can be made of their fields.

    Args:
      classes: (name of a flag, catalogue of classes, class that the flag names) for each class. Only classes that are
        named as package.module:Class, or that an installed package adds, are imported.
    """
    for flag, catalogue, name in classes:
        if ":" in name or catalogue.is_plug_in(name):
            with about_flags(f"--{flag}={name}: "):
                catalogue.get(name)


def parse_program(
    program: Program, words: Sequence[str], also: Collection[str], operands: list[str] | None = None
) -> dict[str, Any]:
    """Parses a command line; if it has `--help`, prints the help and exits.

    Args:
      words: the command line without the program's name.
      also: names of flags that the help lists although they are not common.

    Returns:
      {flag: value} of the flags that were given.
    """
    try:
        return parse([*program.flags, *program.unlisted], words, operands, program.only_in_files)
    except HelpAsked as asked:
        names = listed_names.of_program(program)
        print(usage(program._replace(name=called(program.name)), names, also, asked.show_all), end="")
        raise SystemExit(0) from None


def config_section(cls: type[C], flags: Mapping[str, Any], base: C | None = None) -> C:
    """Makes an instance of a config class from the values of flags.

    Args:
      flags: {name of a flag, or of an option without a flag: value}. Names that the class lacks are ignored.
      base: an instance from which the other values come; None for their defaults.
    """
    # A field that holds a section has no metadata, so it is left out: the flag --model sets a field of ModelConfig, not
    # the field TrainConfig.model.
    names = {options.flag_of(field): field.name for field in dataclasses.fields(cls) if field.metadata}  # type: ignore[arg-type]
    values = {names[flag]: value for flag, value in flags.items() if flag in names}
    with about_flags():
        return dataclasses.replace(base, **values) if base else cls(**values)  # type: ignore[type-var]
