"""The errors of the classifier, which are of the types that scikit-learn expects, in the words of Python."""

from __future__ import annotations

import re
from collections.abc import Collection

from yt8m.errors import UsageError

# A flag in a message, with its value if that is a word: `--model=LogisticModl`, `unknown flag --base_learning_rat`.
_FLAG = re.compile(r"(?:\bflag )?--(\w+)(?:=([\w:/+-]+(?:\.\w+)*))?")
_ARGUMENTS = {name: name for name in ("model", "budget", "extractors", "label_separator")} | {"seed": "random_state"}


class DataError(UsageError, ValueError):
    """X, y or another argument is not what the classifier takes. For scikit-learn this is a `ValueError`."""


def refused(error: UsageError, settings: Collection[str] = ()) -> DataError:
    """The error of a command as one of the classifier, which names arguments in place of flags.

    Args:
      settings: the names of the settings of extractors.
    """

    def in_python(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        owner = "extractor_settings" if name in settings else "options"
        argument = _ARGUMENTS.get(name, f'{owner}["{name}"]')
        if value is None:
            return argument
        return f"{argument}={value if value.lstrip('-').replace('.', '', 1).isdigit() else repr(value)}"

    return DataError(_FLAG.sub(in_python, str(error)).replace("ModelSearchConfig: ", ""))


def not_fitted(name: str) -> Exception:
    """The error of a call before `fit`: scikit-learn's own one where it is installed."""
    message = f"this {name} is not trained yet: call fit first."
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return DataError(message)
    return NotFittedError(message)  # type: ignore[no-any-return]
