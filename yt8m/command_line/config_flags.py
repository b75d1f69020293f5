"""Reads the config of a program from its command line: one flag for every option of a dataclass.

Nothing here imports TensorFlow or a model, because imports would delay `--help` and error messages.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from yt8m import options, registry, storage
from yt8m.command_line.flag_parsing import Flag, HelpAsked, Program, find_word, flags_of, flags_of_parts, parse, usage
from yt8m.command_line.program import called
from yt8m.errors import UsageError
from yt8m.options import about_flags

C = TypeVar("C")


def read(cls: type[C], program: str, purpose: str, words: Sequence[str], operands: list[str] | None = None) -> C:
    """Reads a config from flags: one flag for every option of the dataclass `cls`. Users call this for own workloads.

    Args:
      cls: a dataclass whose fields are declared by `yt8m.options.option`.
      program: the name of the program, for `--help`.
      purpose: one sentence for `--help`.
      words: the command line without the program's name.
      operands: a list that receives the words that are not flags (such as files), and the values of options with
        `is_operand`; if None, such words are refused.

    Raises:
      UsageError: a flag is unknown, or a value is not allowed.
      SystemExit: with status 0, after `--help` was printed.
    """
    registry.set_command_line_names(())
    return read_values(cls, Program(program, purpose, flags_of(cls, "Flags")), words, operands)[0]


def read_with(
    cls: type[C],
    program: str,
    purpose: str,
    words: Sequence[str],
    catalogue: Any,
    flag: str,
    operands: list[str] | None = None,
) -> tuple[C, dict[str, Any]]:
    """Like `read`, for a program with classes that the user chooses by name, and whose fields are flags too.

    Args:
      cls, program, purpose, words, operands: as for `read`.
      catalogue: the classes to choose from, such as `yt8m.extractors`: an object with `names`, `get` and
        `hyper_parameters`.
      flag: the flag that names one or several of the classes.

    Returns:
      The config, and {field of a class: value} of the fields whose flags were given.
    """
    chosen = [name.strip() for name in find_word(flag, words).split(",") if name.strip()]
    registry.set_command_line_names(chosen)
    load_own_classes(*((flag, catalogue, name) for name in chosen))
    of_program = flags_of(cls, "Flags")
    # `flags_of_parts` imports all classes of the catalogue, which is slow; it is skipped if no flag of theirs is given.
    is_plain = not chosen and are_flags_of(of_program, words)
    names = {flag_of_program.name for flag_of_program in of_program}
    of_parts = [] if is_plain else flags_of_parts(catalogue, chosen, f"Settings of {flag}", names)
    config, values = read_values(cls, Program(program, purpose, [*of_program, *of_parts]), words, operands)
    return config, {
        flag_of_part.name: values[flag_of_part.name] for flag_of_part in of_parts if flag_of_part.name in values
    }


def are_flags_of(program_flags: Sequence[Flag], words: Sequence[str]) -> bool:
    """Whether the words can be parsed with these flags alone; False if they have `--help`."""
    try:
        parse(program_flags, words, [])
    except (HelpAsked, UsageError):
        return False
    return True


def read_values(
    cls: type[C], program: Program, words: Sequence[str], operands: list[str] | None
) -> tuple[C, dict[str, Any]]:
    """(the config, {flag: value} of all flags that were given); see `read` for the arguments."""
    values = parse_program(program, words, {}, {flag.name for flag in program.flags}, operands)
    config = config_section(cls, values)
    if operands is not None:
        by_flag = (getattr(config, name) for name in options.paths_where(cls, is_operand=True))
        operands[:] = map(storage.expanded, itertools.chain(list(operands), *by_flag))
    return config, values


def load_own_classes(*chosen: tuple[str, Any, str]) -> None:
    """Imports the user's own classes, because their fields are flags.

    Args:
      chosen: (flag, catalogue, name in the flag); names of this package's classes are ignored.

    Raises:
      UsageError: a class cannot be imported, or may not be used; the message begins with the flag.
    """
    for flag, catalogue, name in chosen:
        if ":" in name:
            with about_flags(f"--{flag}={name}: "):
                catalogue.get(name)


def parse_program(
    program: Program,
    words: Sequence[str],
    names: Mapping[str, Sequence[str]],
    also: Collection[str],
    operands: list[str] | None = None,
) -> dict[str, Any]:
    """{flag: value} of the flags that were given; with `--help`, prints the help and exits.

    Args:
      program: the program and its flags.
      words: the command line without the program's name.
      names: see `usage`.
      also: flags that the short help lists besides the common ones.
      operands: see `read`.
    """
    try:
        return parse(program.flags, words, operands, program.only_in_files)
    except HelpAsked as asked:
        print(usage(program._replace(name=called(program.name)), names, also, asked.show_all), end="")
        raise SystemExit(0) from None


def config_section(cls: type[C], flags: Mapping[str, Any], base: C | None = None) -> C:
    """An instance of the config `cls` with the values in `flags`; other values are those of `base`, or defaults.

    The keys of `flags` are names of flags, or of options without a flag; keys that `cls` lacks are ignored.
    """
    # Nested sections have no metadata: the flag --model is a field of ModelConfig, not TrainConfig.model.
    names = {options.flag_of(field): field.name for field in dataclasses.fields(cls) if field.metadata}  # type: ignore[arg-type]
    values = {names[flag]: value for flag, value in flags.items() if flag in names}
    with about_flags():
        return dataclasses.replace(base, **values) if base else cls(**values)  # type: ignore[type-var]
