"""What words say: names of columns, cells that say yes, no or nothing, numbers and times.

Lists of words stand here, or beside the only function that needs them.
"""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The words of a text: short lists of names are easier to read so. A `_` stands for itself."""
    return tuple(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """The phrases of a text, with bars between them."""
    return tuple(map(str.strip, text.split("|")))
