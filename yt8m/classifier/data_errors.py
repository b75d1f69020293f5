"""The errors of the classifier, which are of the types that scikit-learn expects."""

from __future__ import annotations

from yt8m.errors import UsageError


class DataError(UsageError, ValueError):
    """X or y are not what the classifier takes. For scikit-learn this is a `ValueError`."""


def not_fitted(name: str) -> Exception:
    """The error of a call before `fit`: scikit-learn's own one where it is installed."""
    message = f"this {name} is not trained yet: call fit first."
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return DataError(message)
    return NotFittedError(message)  # type: ignore[no-any-return]
