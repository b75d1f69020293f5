"""The errors of the classifier, which are of the types that scikit-learn expects, in the words of Python."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from yt8m.errors import UsageError
from yt8m.python_api.call_scope import with_arguments

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

    def spelled(name: str) -> str:
        owner = "extractor_settings" if name in extractor_settings else "options"
        return _ARGUMENTS.get(name, f'{owner}["{name}"]')

    return with_arguments(message, spelled)


def not_fitted(name: str) -> Exception:
    """The error of a call before `fit`: scikit-learn's own one where it is installed."""
    message = f"this {name} is not trained yet: call fit first; yt8m.load(path) loads one that was saved."
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return DataError(message)
    return NotFittedError(message)  # type: ignore[no-any-return]
