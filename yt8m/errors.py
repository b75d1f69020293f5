"""The two errors that end a command, and helpers that write their messages."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

# The type around a number or text of NumPy in its repr: `np.int64(3)`, `np.True_`. In quotes it is a text of the user.
_NUMPY_REPR = re.compile(
    r"""(?<!['"\w.])np\.(?:(True|False)_|(?:u?int|float|str_|bytes_)\w*\(('[^']*'|"[^"]*"|b'[^']*'|[^()'"]*)\))"""
)


def without_numpy(text: str) -> str:
    """The text of a message in which values of NumPy are shown as Python shows its own: 3, not np.int64(3)."""
    return _NUMPY_REPR.sub(lambda match: match[1] or match[2], text) if "np." in text else text


class _ShownError(Exception):
    """An error whose message a user reads."""

    def __init__(self, *texts: object) -> None:
        super().__init__(*(without_numpy(text) if isinstance(text, str) else text for text in texts))


class UsageError(_ShownError):
    """The user asked for something impossible. The command ends with exit status 2, if possible before it writes files.

    The message says what is wrong and where, what was expected, and what to do.
    """

    exit_code = 2


class RunError(_ShownError):
    """The work failed while it ran (damaged data, no checkpoint, full disk). The command ends with exit status 1."""

    exit_code = 1


class DamagedFileError(RunError, ValueError):
    """The content of a file is not what it should be. It is a `ValueError` too, as the errors of parsers are."""


@contextlib.contextmanager
def refusing(refusal: Callable[[Exception], Exception]) -> Iterator[None]:
    """Inside the block, or in the decorated function, whatever a parser raises becomes one error with a message.

    Content that somebody else wrote can make a parser raise anything: an OverflowError for the number Infinity, a
    RecursionError for deep lists, or a TypeError from within NumPy. A list of exceptions always lacked one of them.
    Errors that have a message for the user already pass unchanged, except for the general one of a damaged file.

    Args:
      refusal: makes the error of what the parser raised.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, UsageError | RunError) and not isinstance(error, DamagedFileError):
            raise
        raise refusal(error) from error


# The first Python without a version of Apache Beam, and the first whose TensorFlow has no release yet.
_WITHOUT_BEAM = (3, 14)
_WITHOUT_RELEASED_TENSORFLOW = (3, 14)
_EXTRAS_OF_BEAM = ("beam", "dataflow")


def install_advice(extra: str) -> str:
    """What to do about an extra that is missing; the checkout is named because no package is published."""
    if extra in _EXTRAS_OF_BEAM and sys.version_info >= _WITHOUT_BEAM:
        return "Apache Beam has no version for Python 3.14, so use Python 3.11.2 to 3.13"
    return f"run pip install -e '.[{extra}]' in the checkout of yt8m"


def missing_extra(purpose: str, needs: str, extra: str, otherwise: str = "") -> UsageError:
    """An error that says what to do about an optional dependency that is not installed.

    Args:
      purpose: the feature that needs the dependency.
      needs: name of the dependency.
      extra: the extra of pyproject.toml that installs it.
      otherwise: the end of the message: what the user can do instead, such as `, or leave out --report`.
    """
    return UsageError(f"{purpose} needs {needs}, which is not installed: {install_advice(extra)}{otherwise}.")


def missing_tensorflow(needed_by: str, otherwise: str = "") -> UsageError:
    """An error that says how to install TensorFlow, without which a part of this project works.

    Args:
      needed_by: what needs TensorFlow, with the verb, such as `the training steps need`.
      otherwise: as for `missing_extra`.
    """
    option = "--pre " if sys.version_info >= _WITHOUT_RELEASED_TENSORFLOW else ""
    install = f"run pip install {option}'tensorflow>=2.21,<2.23'"
    return UsageError(f"{needed_by} TensorFlow, which is not installed: {install}{otherwise}.")


def refuse_without_tensorflow(needed_by: str = "this needs", otherwise: str = "") -> None:
    """Raises the error of `missing_tensorflow` if TensorFlow is not installed, without the time that its import takes.

    Commands that write files before they use it call this first.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise missing_tensorflow(needed_by, otherwise)


def first_line(error: Exception | str) -> str:
    """The first line of an error's message that says what is wrong; the name of its type if there is no message.

    The prefixes and the stack frames that TensorFlow puts around a message are left out.
    """
    text = getattr(error, "message", None) or str(error)
    lines = (_PREFIX.sub("", line.strip()).strip() for line in str(text).splitlines())
    return next((line for line in lines if line and not line.startswith(_STACK_LINES)), type(error).__name__)


# What TensorFlow writes before a message. If an error reached several devices: the line "2 root error(s) found.", then
# "(0) DATA_LOSS: " before each. If a function of a dataset failed:
# "Error in user-defined function passed to ... transformation with iterator: Iterator::Root::...: "
_PREFIX = re.compile(
    r"^\d+ root error\(s\) found\.$|"
    r"^(\(\d+\) [A-Z_]+: )?(Error in user-defined function passed to .*? with iterator: \S+: )?"
)
# How the lines begin that TensorFlow writes around a message.
_STACK_LINES = ("Graph execution error", "Detected at node", "File ", "Node: ", "[[{{node", "[[")


_MOST_LISTED = 3  # largest number of problems in one message or log line


def shortened(problems: Sequence[str]) -> str:
    """The first problems, separated by semicolons, and the number of the others."""
    others = f"; and {len(problems) - _MOST_LISTED} more" if len(problems) > _MOST_LISTED else ""
    return "; ".join(problems[:_MOST_LISTED]) + others


@contextlib.contextmanager
def reworded(change: Callable[[str], str]) -> Iterator[None]:
    """Inside the block, the message of a UsageError or RunError is what `change` makes of it, but for subclasses."""
    try:
        yield
    except (UsageError, RunError) as error:
        message = change(str(error))
        if type(error) not in (UsageError, RunError) or message == str(error):
            raise
        raise type(error)(message) from error


def quantity(number: int, noun: str, form: str = "") -> str:
    """A number of things in words, such as `1 video`, `3 classes`, or `1,200 videos` with the format `,`."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:{form}} {noun}{ending}"


def suggestion(word: str, choices: Iterable[str], otherwise: str = "") -> str:
    """`; did you mean X?` if a choice X is similar to `word` or begins with it; else `otherwise`."""
    by_lower_case = {choice.lower(): choice for choice in choices if len(choice) > 1 or choice.lower() == word.lower()}
    matches = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    matches = matches or [choice for choice in by_lower_case if len(word) > 2 and choice.startswith(word.lower())]
    return f"; did you mean {by_lower_case[matches[0]]}?" if matches else otherwise
