"""What words say: names of columns, cells that say yes, no or nothing, numbers and times.

Lists of words stand here, or beside the only function that needs them.
"""

from __future__ import annotations

import re
import unicodedata


def words(text: str) -> tuple[str, ...]:
    """The words of a text: short lists of names are easier to read so. A `_` stands for itself."""
    return tuple(text.split())


def word_set(text: str) -> frozenset[str]:
    """The different words of a text."""
    return frozenset(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """The phrases of a text, with bars between them."""
    return tuple(map(str.strip, text.split("|")))


def normalized(name: str) -> str:
    """The name of a column in lower case, with `_` between its words."""
    text = unicodedata.normalize("NFKC", str(name)).strip()
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", text)
    return re.sub(r"\W+|_+", "_", text).strip("_").lower()
