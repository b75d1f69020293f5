"""The two errors that end a command, and suggestions for misspelt words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence


class UsageError(Exception):
    """The user asked for something impossible: exit status 2, before anything is written.

    The text says what was found, what was expected, where, and what to do.
    """

    exit_code = 2


class RunError(Exception):
    """The work failed while it ran (damaged data, no checkpoint, full disk): exit status 1."""

    exit_code = 1


def missing_extra(purpose: str, needs: str, extra: str, otherwise: str = "") -> UsageError:
    """An error that says how to install an optional dependency (from a checkout, since no package is published).

    Args:
      purpose: the feature that needs the dependency.
      needs: name of the dependency.
      extra: the extra of pyproject.toml that installs it.
      otherwise: what the user can do instead, such as `, or leave out --report`.
    """
    install = f"run pip install -e '.[{extra}]' in the checkout of yt8m{otherwise}"
    return UsageError(f"{purpose} needs {needs}, which is not installed: {install}.")


def first_line(error: Exception | str) -> str:
    """The line of the error's message that says what is wrong, without TensorFlow's prefixes and stack frames.

    If the error has no message, the name of its type.
    """
    text = getattr(error, "message", None) or str(error)
    lines = (_FRAME.sub("", line.strip()).strip() for line in str(text).splitlines())
    return next((line for line in lines if line and not line.startswith(_AROUND)), type(error).__name__)


# TensorFlow's prefixes. If one error reached several devices: "2 root error(s) found.", then "(0) DATA_LOSS: " before
# each. If a function of a dataset failed:
# "Error in user-defined function passed to ... transformation with iterator: Iterator::Root::...: "
_FRAME = re.compile(
    r"^\d+ root error\(s\) found\.$|"
    r"^(\(\d+\) [A-Z_]+: )?(Error in user-defined function passed to .*? with iterator: \S+: )?"
)
_AROUND = ("Graph execution error", "Detected at node", "File ", "Node: ", "[[{{node", "[[")


_SHOWN = 3  # largest number of problems that one message or log line lists


def shortened(problems: Sequence[str]) -> str:
    """The first problems, separated by semicolons, and how many more there are."""
    rest_text = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + rest_text


def suggestion(word: str, choices: Iterable[str], otherwise: str = "") -> str:
    """`; did you mean X?` if a choice X is similar to `word` or begins with it; else `otherwise`."""
    folded = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    close = close or [choice for choice in folded if len(word) > 2 and choice.startswith(word.lower())]
    return f"; did you mean {folded[close[0]]}?" if close else otherwise
