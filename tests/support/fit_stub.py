"""The type stub of `yt8m.fit`, made of the options of a training; `make fit-stub` writes it."""

from __future__ import annotations

import pathlib
import textwrap
from typing import Any

from yt8m.command_line import flags
from yt8m.command_line.flag_parsing import Flag

STUB = pathlib.Path(__file__).resolve().parents[2] / "yt8m/python_api/typed_fit.pyi"
_WIDTH = 118
_SEVERAL_FILES = ("train_data_pattern", "eval_data_pattern")

_HEAD = '''"""`yt8m.fit`, with type, default and meaning of each option. `make fit-stub` writes this file."""

import os
from collections.abc import Sequence
from typing import Any

from yt8m.python_api.fitting import FittedRun

def fit(
    *,
'''
_DOC = '''    """Trains a model in this process, as train.py does.

    None stands for an option that is not given. The hyper-parameters of a model of your own are options too: for mypy,
    give them as `**own`, where `own: dict[str, Any] = {"my_option": 3}`.

    Args:
'''
_END = '''
    Returns:
      How the training ended, where the run is, and its figures.

    Raises:
      UsageError: an option is wrong, as on the command line; or TF_CONFIG or CLUSTER_SPEC describes a cluster in which
        several processes train.
      RunError: the training failed; the message says why.
    """
'''


def training_flags() -> list[Flag]:
    """The flags of a training, each model and each loss."""
    listed = [flag for flag in flags.training_flags() if flag.name != "json"]  # `fit` returns the figures
    return [*listed, *flags.hyper_parameters(listed)]


def annotation(flag: Flag) -> str:
    """The types that `fit` takes for a flag."""
    if isinstance(flag.kind, type):
        types = [flag.kind.__name__]
    else:  # a list
        types = [f"Sequence[{flag.kind.__args__[0].__name__}]", flag.kind.__args__[0].__name__]
        types += [] if "str" in types else ["str"]
    if flag.is_path or flag.name in _SEVERAL_FILES:
        types += ["os.PathLike[str]"]
    if flag.name in _SEVERAL_FILES:
        types += ["Sequence[str | os.PathLike[str]]"]
    if flag.name == "model":
        types += ["type[Any]"]
    if flag.zero_word:
        types += ["str"]
    return " | ".join([*types, "None"])


def default(flag: Flag) -> str:
    """The default as the signature shows it: None for an empty one, and for one that depends on other options."""
    value: Any = flag.default
    return repr(None if value in ("", (), None) else value).replace("'", '"')  # as ruff writes it


def described(flag: Flag) -> str:
    """The entry of a flag in the docstring."""
    also = f" (also {', '.join(flag.aliases)})" if flag.aliases else ""
    end = "" if default(flag) == "None" else f" [{default(flag)}]"
    removal = f" ({flag.goes()})" if flag.goes() else ""
    text = f"{flag.name}: {flag.help}{also}{end}{removal}".replace("\\", "\\\\").replace('"""', "'''")
    return textwrap.fill(
        text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False
    )


def text() -> str:
    """The content of the stub."""
    listed = training_flags()
    lines = [f"    {flag.name}: {annotation(flag)} = {default(flag)},\n" for flag in listed]
    lines += [f"    {alias}: {annotation(flag)} = None,\n" for flag in listed for alias in flag.aliases]
    docs = "\n".join(map(described, listed)) + "\n"
    return f"{_HEAD}{''.join(lines)}) -> FittedRun:\n{_DOC}{docs}{_END}"


if __name__ == "__main__":
    STUB.write_text(text())
