"""Labels that deny a label in the cells: `cat, no fox`, `cat: yes; dog: no`, `cat+;dog-`. They are refused.

To split such cells would make classes of the denials.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from yt8m.errors import UsageError
from yt8m.tables.words.class_names import FALSE_WORDS, TRUE_WORDS

_DENIED = re.compile(
    r"(?:[-!~\u00ac\u2212](?=\S)|(?:no|not|without|kein|keine|nicht|sans|sin|pas de)[ _-]+)(.+)", re.IGNORECASE
)
_ANSWER = re.compile(r"(.+?)\s*(?:[:=]|[(\[])\s*(\w+|[^\w\s]\ufe0f?)\s*[)\]]?")
_MARKED = re.compile(r"(.+?)\s*([^\w\s()\[\]]\ufe0f?)")
_ANSWERS_FIRST = re.compile(r"(?:no|absent|negative|not present)\s*[:=]\s*(.+)", re.IGNORECASE)
_SPOKEN_ANSWER = re.compile(r"(.+?)\s+(yes|no|present|absent)", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"(.+?)\s*[(\[]\s*(no|not present|absent|negative|false|not visible)\s*[)\]]", re.IGNORECASE)
_SIGNED = re.compile(r"(.*\w)\s*([+\-\u2212])")
_BETWEEN = re.compile(r"[,;|\n]")
_MOST_OF = 0.5  # share of the labels that are answers, if they are no names


def refuse_negations(cells: Iterable[str], known_names: Collection[str], source: str) -> None:
    """Refuses texts of several labels of which some deny a label, whatever is between them."""
    pieces = [[part.strip() for part in _BETWEEN.split(cell) if part.strip()] for cell in cells]
    refuse_denied(pieces, known_names, source)


def refuse_denied(pieces: Sequence[Sequence[str]], known_names: Collection[str], source: str) -> None:
    """Refuses cells of several labels of which some deny a label.

    Args:
      pieces: the labels of each cell. Of cells with one label, `no helmet` is a class beside `helmet`.
    """
    known_names = set(known_names)
    names = {name for cell in pieces for name in cell} - known_names
    together = {name for cell in pieces if len(cell) > 1 for name in cell} - known_names
    for name in sorted(together):
        denied = _DENIED.fullmatch(name) or _IN_BRACKETS.fullmatch(name) or _ANSWERS_FIRST.fullmatch(name)
        if denied and denied[1].strip() in names and not denied[1].isdecimal():
            raise _refusal(name, denied[1].strip(), source)
    answers = TRUE_WORDS | FALSE_WORDS | {"+", "-", "\u2212"}
    for pattern in (_ANSWER, _MARKED, _SPOKEN_ANSWER, _SIGNED):
        matches = [match for match in map(pattern.fullmatch, sorted(together)) if match and match[2].lower() in answers]
        denials = [match for match in matches if match[2].lower() in FALSE_WORDS | {"-", "\u2212"}]
        stems = {match[1] for match in matches}
        are_answers = stems & names or len(stems) < len(matches) or len(matches) > _MOST_OF * len(together)
        if denials and are_answers:
            raise _refusal(denials[0][0], denials[0][1], source)


def _refusal(name: str, stem: str, source: str) -> UsageError:
    return UsageError(
        f"{source}: {name[:60]!r} seems to deny the label {stem[:60]!r} within a cell. Write only the labels that a "
        'video has into each cell, or an object such as {"cat": 1, "dog": 0}; or name all classes by '
        "--vocabulary=FILE, if these are names."
    )
