"""`yt8m vocabulary search TEXT`: finds classes; see `runs.class_search`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.runs import class_search


def main(argv: list[str]) -> int:
    """Prints the classes that match; returns the exit status."""
    words: list[str] = []
    purpose = "yt8m vocabulary search TEXT: shows the classes whose name, vertical or number matches TEXT."
    return class_search.run(
        config_flags.read(class_search.SearchConfig, "yt8m vocabulary", purpose, argv, words), words
    )
