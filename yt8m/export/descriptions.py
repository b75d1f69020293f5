"""What a model that was exported says of itself, as JSON beside its graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Keys of each description, and the types of their values. The format of the data is checked by its own parser.
_KEYS: dict[str, type] = dict(model=str, extractors=list, step=int, is_averaged=bool)


def check(about: Mapping[str, Any], **further_keys: type) -> None:
    """Raises an error, any, if a description lacks a key or has a value of another type.

    Args:
      further_keys: the keys that this kind of export has besides, and the types of their values.
    """
    wrong = [key for key, kind in {**_KEYS, **further_keys}.items() if not isinstance(about[key], kind)]
    if wrong or not all(isinstance(entry, dict) for entry in about["extractors"]):
        raise ValueError(f"the description of the model has other values of {', '.join(wrong) or 'extractors'}")
