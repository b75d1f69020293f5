"""Which classes segments may have."""

from __future__ import annotations

from yt8m import vocabulary
from yt8m.tools import text_lines


def segment_classes(path: str = "") -> set[int]:
    """The classes in a CSV file with the header `Index`; without a file, the published 1000.

    Raises:
      RunError: a line of the file is no class number, or there is none.
    """
    if not path:
        return set(vocabulary.segment_classes().tolist())
    found: set[int] = set()
    line = text_lines.Line(path, 1, b"")
    for line in text_lines.read(path):
        name = line.text.strip()
        number = text_lines.number(name)
        if number >= 0:
            found.add(number)
        elif line.number > 1:
            line.refuse(f"{text_lines.shown(name)} is no class number; expected one a line under `Index`.")
    if not found:
        line.refuse("there is no class; expected one number a line under the header `Index`.")
    return found
