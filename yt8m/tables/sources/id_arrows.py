"""Lines with an arrow between an id and labels, `v00 -> cat, dog`; no arrows within labels, as in `v00=a->b`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from yt8m.tables.sources.headers import PARTS, form_of
from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import count_known, plain_meaning

_ARROWS = ("=>", "->", "\u2192")
_LINE = re.compile(r"([^\s,;|\"'\[({][^,;|\t\"]*?)\s*(?<![-=<])(=>|->|\u2192)\s*([^\"]*)")
# An id without signs that stand between ids and labels, but for those of an address or a drive.
_PLAIN = re.compile(r"(?:[A-Za-z][\w+.-]*://[^:=?]*(?:\?[^:]*)?|(?:[A-Za-z]:(?=[\\/]))?[^:=]*)")
_GLUED = re.compile(r"[^\s=-](?:=>|->|\u2192)")  # an arrow without a blank before it
_BULLET = re.compile(r"[-*+\u2022] ")


def arrow_after_ids(text: str, named_columns: Collection[str] = ()) -> str:
    """The arrow between an id and labels that recur, in each line, as in `v00 -> cat, dog`; else empty.

    Args:
      named_columns: names of columns, as `normalized` writes them, that the user has named.
    """
    matches = [_LINE.fullmatch(line.strip()) for line in text.splitlines() if line.strip()]
    pairs = [(match[1], match[2], match[3]) for match in matches if match]
    if len(pairs) < max(len(matches), 2) or len({arrow for _, arrow, _ in pairs}) > 1:
        return ""
    pairs = pairs[1:] if is_header(pairs[0][0], pairs[0][2], named_columns) else pairs
    ids = [first for first, _, _ in pairs]
    seconds = [second for _, _, second in pairs]
    has_others = any(arrow in second for second in seconds for arrow in _ARROWS)
    if (
        has_others
        or (_GLUED.search(text) and _end_ids(seconds))
        or not _are_plain(ids, _GLUED.search(text) is None)
        or all(second.endswith("],") for second in seconds)
    ):  # or a program's text
        return ""
    labels = {part for _, _, second in pairs for part in PARTS.split(second) if part}
    is_list = len(labels) < len(ids) and not all(map(str.isdecimal, ids))
    return pairs[0][1] if is_list else ""


def is_header(first: str, second: str, named_columns: Collection[str] = ()) -> bool:
    """Whether the first line names the columns: by two known words, by a word for ids, or by words of the user."""
    is_named = not {normalized(first), normalized(second)}.isdisjoint(named_columns)
    return is_named or count_known([first, second]) == len((first, second)) or plain_meaning(first) in ("id", "path")


def _end_ids(seconds: Sequence[str]) -> bool:
    """Whether the part before a comma ends ids: it is the same in all lines, as in `v00->x,cat`, or is numbered.

    As in `v00->cam1,cat`, where the part has one form in all lines, which nothing after the commas has.
    """
    fields = [second.split(",") for second in seconds]
    if not all(len(words) > 1 for words in fields):
        return False
    ends, labels = {words[0].strip() for words in fields}, {word.strip() for words in fields for word in words[1:]}
    forms = {form_of(end) for end in ends}
    is_numbered = len(forms) == 1 and all(re.search(r"\d", form) for form in forms)
    return len(ends) == 1 or (is_numbered and forms.isdisjoint(map(form_of, labels)))


def _are_plain(ids: Sequence[str], are_spaced: bool) -> bool:
    """Whether all ids differ, and nothing in them may be a label: `v00=open` and `v00 walk` are no ids.

    Those with blanks have a first word that recurs, as in `clip v00`, so that it is no id, and blanks before arrows.
    """
    if len(set(ids)) < len(ids) or not all(map(_PLAIN.fullmatch, ids)) or any(map(_BULLET.match, ids)):
        return False
    words = [text.split() for text in ids]
    if all(len(id_words) == 1 for id_words in words):
        return True
    firsts, lasts = ({id_words[place] for id_words in words} for place in (0, -1))
    return len(firsts) < len(ids) == len(lasts) and are_spaced
