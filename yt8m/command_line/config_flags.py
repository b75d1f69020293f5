"""Reads the config of a program from its command line: one flag for every option of a dataclass.

Nothing here imports TensorFlow or a model, so that `--help`, errors and programs that need neither start at once.
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
    """Reads the config of a user's own workload from flags: one flag for every option of the dataclass `cls`.

    Args:
      cls: a dataclass of `yt8m.options.option` fields, which checks its values when an instance is made.
      program: the program's name, as `--help` shows it.
      purpose: one sentence, which `--help` shows.
      words: the command line without the program's name.
      operands: receives the words that are not flags (files, say), and the values of the options that `is_operand`; if
        None, such words are refused.

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
    """Like `read`, for a program with parts that the user chooses by name, whose fields are flags too.

    Args:
      cls, program, purpose, words, operands: as for `read`.
      catalogue: the parts, such as `yt8m.extractors`: `names`, `get` and `hyper_parameters`.
      flag: the flag that names one or several parts.

    Returns:
      The config, and {field of a part: value} of those that were given.
    """
    chosen = [name.strip() for name in find_word(flag, words).split(",") if name.strip()]
    registry.set_command_line_names(chosen)
    load_own_classes(*((flag, catalogue, name) for name in chosen))
    of_program = flags_of(cls, "Flags")
    # All parts are imported for their flags, which takes a while.
    is_plain = not chosen and are_flags_of(of_program, words)
    names = {flag_of_program.name for flag_of_program in of_program}
    of_parts = [] if is_plain else flags_of_parts(catalogue, chosen, f"Settings of {flag}", names)
    config, values = read_values(cls, Program(program, purpose, [*of_program, *of_parts]), words, operands)
    return config, {
        flag_of_part.name: values[flag_of_part.name] for flag_of_part in of_parts if flag_of_part.name in values
    }


def are_flags_of(program_flags: Sequence[Flag], words: Sequence[str]) -> bool:
    """Whether the words are correct and have no other flags; false if they ask for help."""
    try:
        parse(program_flags, words, [])
    except (HelpAsked, UsageError):
        return False
    return True


def read_values(
    cls: type[C], program: Program, words: Sequence[str], operands: list[str] | None
) -> tuple[C, dict[str, Any]]:
    """The config, and {flag: value} of all flags that were given."""
    values = parse_program(program, words, {}, {flag.name for flag in program.flags}, operands)
    config = config_section(cls, values)
    if operands is not None:
        by_flag = (getattr(config, name) for name in options.paths_where(cls, is_operand=True))
        operands[:] = map(storage.expanded, itertools.chain(list(operands), *by_flag))
    return config, values


def load_own_classes(*chosen: tuple[str, Any, str]) -> None:
    """Loads classes of the user, because their fields are flags.

    Args:
      chosen: (flag, catalogue, name) of each; names of this package's own classes are passed over.

    Raises:
      UsageError: a class cannot be loaded, or may not be used; the message begins with the flag.
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
    """The flags that were given; prints the help and exits if the user asks for it."""
    try:
        return parse(program.flags, words, operands, program.only_in_files)
    except HelpAsked as asked:
        print(usage(program._replace(name=called(program.name)), names, also, asked.show_all), end="")
        raise SystemExit(0) from None


def config_section(cls: type[C], flags: Mapping[str, Any], base: C | None = None) -> C:
    """`base`, with the given values in place of its own. If `base` is None, an instance with all defaults.

    `flags` has the names of the flags, and those of options that have no flag.
    """
    # Nested sections have no metadata: the flag --model is a field of ModelConfig, not TrainConfig.model.
    names = {options.flag_of(field): field.name for field in dataclasses.fields(cls) if field.metadata}  # type: ignore[arg-type]
    values = {names[flag]: value for flag, value in flags.items() if flag in names}
    with about_flags():
        return dataclasses.replace(base, **values) if base else cls(**values)  # type: ignore[type-var]
