"""The names that `--help` lists: what the flags of a program that name classes can choose from.

No class of an installed package is imported for that; a help is quick, and no package can break it.
"""

from __future__ import annotations

from collections.abc import Callable

from yt8m.command_line.flag_parsing import CHOOSE, Program


def of_program(program: Program) -> dict[str, list[str]]:
    """{kind, such as `models`: the names}, for each flag of the program that names a class; kinds without names lack.

    A name that an installed package adds is followed by that package.
    """
    flags = {flag.name for flag in (*program.flags, *program.unlisted) if flag.is_code}
    return {kind: names for kind, flag in CHOOSE.items() if flag in flags and (names := _LISTS[kind](program))}


# Catalogues are imported only when they are listed, because most commands use none of them.


def _models(_: Program) -> list[str]:
    from yt8m import models

    return models.names_and_packages()


def _losses(_: Program) -> list[str]:
    from yt8m import losses

    return losses.names_and_packages()


def _optimizers(_: Program) -> list[str]:
    from yt8m.graph.optimizers import optimizers

    return optimizers.names()


def _readers(_: Program) -> list[str]:
    from yt8m.readers.youtube8m import names_and_packages

    return names_and_packages()


def _callbacks(program: Program) -> list[str]:
    from yt8m.runner import callbacks

    mode = {"eval.py": "eval", "inference.py": "infer"}.get(program.name, "train")
    return callbacks.names_and_packages(mode)


def _extractors(_: Program) -> list[str]:
    """Those of installed packages: the flag's own text has the built-in ones, with what follows their names."""
    from yt8m import extractors

    return [name for name in extractors.names_and_packages() if name.endswith(")")]


_LISTS: dict[str, Callable[[Program], list[str]]] = {
    "models": _models,
    "losses": _losses,
    "optimizers": _optimizers,
    "readers": _readers,
    "callbacks": _callbacks,
    "extractors": _extractors,
}
