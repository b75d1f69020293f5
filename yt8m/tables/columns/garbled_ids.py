"""Ids and paths that a program has garbled: rounded, printed, made to dates, or read in another encoding."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.cells import misread
from yt8m.tables.columns.facts import Facts
from yt8m.tables.columns.roles import Roles
from yt8m.tables.sources.text_columns import TextColumn
from yt8m.tables.words.meanings import columns_flag

# Numbers that a spreadsheet rounded, and values as Python and MongoDB print them.
_ROUNDED = re.compile(r"\d[.,]\d+E\+(?:09|[1-9]\d)")
_PRINTED = re.compile(r"b'.*'|b\".*\"|(?:ObjectId|UUID)\(.*\)")
# The last two begin letters of UTF-8 that were read in cp1252.
_SIGNS_OF_GARBLED = (b"E+", b"b'", b'b"', b"ObjectId(", b"UUID(", b"\xc3\x83", b"\xc3\x82")
_USUAL_BYTES = bytes([*range(0x20, 0x7F), *range(0x80, 0x100), *b"\t\n\v\f\r"])
_UNPRINTED = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")


# Numbers with a sign between them, such as 3-14, and the dates that a spreadsheet makes of some of them.
_NUMBERS_OF_ID = re.compile(r"\d{1,3}[-/.]\d{1,3}", re.ASCII)
_DATE_OF_ID = re.compile(
    r"\d{1,2}[-. ]{1,2}(?:Jan|Feb|Mar|Mrz|Apr|May|Mai|Jun|Jul|Aug|Sep|Oct|Okt|Nov|Dec|Dez)[a-z]*(?:[-. ]{1,2}\d{2,4})?|"
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)-\d{2}|\d{4}-\d\d-\d\d(?:[T ]00:00:00)?",
    re.ASCII | re.IGNORECASE,
)
_MOST_MISREAD = 2000  # ids beyond ASCII that are looked at; a program misreads all or none


def refuse_garbled(path: str, roles: Roles, facts: Mapping[str, Facts], chosen: Collection[str]) -> None:
    """Raises `UsageError` if ids or paths of the first rows are garbled.

    Args:
      chosen: the meanings whose columns the user names, such as `id`, so that odd letters and dates are theirs.
    """
    _refuse_garbled_ids(path, roles.id, facts[roles.id].counts if roles.id in facts else (), "id" in chosen)
    if roles.path in facts and roles.path != roles.id and "path" not in chosen:
        _refuse_misread(path, roles.path, facts[roles.path].counts, "path")


def refuse_in_rows(
    path: str,
    roles: Roles,
    facts: Mapping[str, Facts],
    chosen: Collection[str],
    ids: Sequence[Any],
    paths: Sequence[Any],
) -> None:
    """Raises `UsageError` if ids or paths are garbled, in rows beyond those that were looked at before."""
    column = facts.get(roles.id)
    if column is not None and not column.are_all and _may_be_garbled(ids):
        _refuse_garbled_ids(path, roles.id, ids, "id" in chosen)
    column = facts.get(roles.path) if roles.path != roles.id and "path" not in chosen else None
    if column is not None and not column.are_all and _may_be_garbled(paths):
        _refuse_misread(path, roles.path, paths, "path")


def _refuse_garbled_ids(path: str, name: str, ids: Collection[Any], is_chosen: bool) -> None:
    """Raises `UsageError` if ids are not those of the videos any more, because a program rounded or printed them.

    Args:
      is_chosen: whether the user names the column of the ids, so that odd letters and dates are theirs.
    """
    if not is_chosen:
        _refuse_misread(path, name, ids, "id")
        _refuse_ids_as_dates(path, name, ids)
    for value in ids:
        text, reason = str(value), ""
        if _ROUNDED.fullmatch(text):
            reason = "was rounded by a spreadsheet: give the column the type text, and fill it again from its origin"
        elif _PRINTED.fullmatch(text):
            reason = "is how Python or a database prints an id: save the id itself, as text"
        elif isinstance(value, str) and _UNPRINTED.search(text):
            reason = "has signs that cannot be printed, as an id in bytes has: save ids as text, such as str(uuid)"
        if reason:
            raise UsageError(f'{path}: the id {text[:60]!r} in "{name}" {reason}.')


def _refuse_misread(path: str, name: str, values: Iterable[Any], meaning: str) -> None:
    """Refuses ids, or paths, such as `fÃ¼r`, whose UTF-8 a program read in another encoding: they name no file.

    Args:
      meaning: `id` or `path`.
    """
    texts = (value for value in values if isinstance(value, str) and not value.isascii())
    for text in itertools.islice(texts, _MOST_MISREAD):
        if original := misread.original_of(text):
            raise UsageError(
                f'{path}: the {meaning} {text[:60]!r} in "{name}" is {original[:60]!r} in UTF-8 which was read in '
                f"another encoding: save the table again from its origin. If the {meaning}s are so, say "
                f"{columns_flag(meaning, [name])}."
            )


def _refuse_ids_as_dates(path: str, name: str, ids: Iterable[Any]) -> None:
    """Refuses dates beside ids such as 3-14, of which a spreadsheet makes dates where the numbers allow it."""
    texts = [value for value in ids if isinstance(value, str) and len(value) < 24 and value[:3].strip()]
    date = next((text for text in texts if _DATE_OF_ID.fullmatch(text)), "")
    other = next(filter(_NUMBERS_OF_ID.fullmatch, texts), "") if date else ""
    if other:
        raise UsageError(
            f'{path}: the id {date!r} in "{name}" is a date, beside ids such as {other!r}, as a spreadsheet makes it '
            "of 3-1: give the column the type text, and fill it again from its origin. If the ids are so, say "
            f"{columns_flag('id', [name])}."
        )


def _may_be_garbled(ids: Sequence[Any]) -> bool:
    """Whether some of many ids may be garbled, as a quick look at all of their bytes says."""
    text = ids.raw() if isinstance(ids, TextColumn) else "".join(map(str, ids)).encode(errors="surrogatepass")
    return any(sign in text for sign in _SIGNS_OF_GARBLED) or text.translate(None, _USUAL_BYTES) != b""
