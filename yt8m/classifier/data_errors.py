"""The errors of the classifier, which are of the types that scikit-learn expects, in the words of Python."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator

from yt8m.errors import UsageError

# A flag in a message, with its value if that is a word: `--model=LogisticModl`, `unknown flag --base_learning_rat`; or
# a command in backquotes, which has flags indeed.
_FLAG = re.compile(r"`[^`]*`|(?:\bflag )?--(\w+)(?:=('[^']*'|[\w:/+.-]*[\w/])|=(?=\s))?")
_OWNER = re.compile(r"\b[A-Z]\w*Config: ")
_ARGUMENTS = {name: name for name in ("model", "budget", "extractors", "label_separator")} | {"seed": "random_state"}


class DataError(UsageError, ValueError):
    """X, y or another argument is not what the classifier takes. For scikit-learn this is a `ValueError`."""


@contextlib.contextmanager
def refusing_arguments(extractor_settings: Collection[str] = ()) -> Iterator[None]:
    """Inside the block, what a command refuses is a `DataError` in the words of Python."""
    try:
        yield
    except DataError:
        raise
    except UsageError as error:
        raise DataError(in_python(str(error), extractor_settings)) from error


def in_python(message: str, extractor_settings: Collection[str] = ()) -> str:
    """The message of a command with the arguments of the classifier in place of flags."""

    def argument(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if name is None:
            return match[0]
        owner = "extractor_settings" if name in extractor_settings else "options"
        spelled = _ARGUMENTS.get(name, f'{owner}["{name}"]')
        if value is None:
            return spelled
        is_literal = value.startswith("'") or value.lstrip("-").replace(".", "", 1).isdigit()
        return f"{spelled}={value if is_literal else repr(value)}"

    message = message.replace(", or --help of its command", "")
    message = _OWNER.sub("", message).replace("--help=all lists all flags", "help(yt8m.fit) lists all options")
    return _FLAG.sub(argument, message).replace(" the flag ", " the option ")


def not_fitted(name: str) -> Exception:
    """The error of a call before `fit`: scikit-learn's own one where it is installed."""
    message = f"this {name} is not trained yet: call fit first."
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return DataError(message)
    return NotFittedError(message)  # type: ignore[no-any-return]
