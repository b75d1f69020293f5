"""Links to videos: a table of ids and addresses, whose addresses become links on the page if a page may have them.

    id,address
    v1,https://example.org/watch?v=v1
    v2,thumbs/v2.jpg
    v3,/data/videos/v3.mp4

Nothing here opens an address.
"""

from __future__ import annotations

import csv
import io
import os
import urllib.parse
from collections.abc import Collection, Iterator
from typing import NamedTuple

from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError

_EXPECTED = "expected a CSV file with the columns id,address"


class _MediaRow(NamedTuple):
    """A row of the table and the number of its line; a field that the row lacks is empty."""

    line: int
    id: str
    address: str


class _NoLinkError(Exception):
    """A page may not link to this address; the text says why, as the end of `it ...`."""


def check(path: str) -> None:
    """Refuses a table that does not exist, or lacks a column; raises like `read`. An empty path is no table."""
    next(_rows(path), None)


def read(path: str, page: str, wanted: Collection[str]) -> dict[str, str]:
    """{id as text: link} of the `wanted` ids; the log says how many there are, and which addresses were left out.

    Args:
      path: a CSV file with the columns `id` and `address`; empty if there is none.
      page: path of the page, to which relative links are relative.
      wanted: ids of the videos that the page names.

    Raises:
      UsageError: there is no such file, or it lacks a column.
      RunError: the file is not a CSV file of UTF-8 text.
    """
    links: dict[str, str] = {}
    refused: dict[str, list[_MediaRow]] = {}
    others: list[_MediaRow] = []
    for row in _rows(path):
        if row.id not in wanted:
            others.append(row)
            continue
        try:
            links[row.id] = link_to(row.address, page)
        except _NoLinkError as error:
            refused.setdefault(str(error), []).append(row)
    if path:
        _say(path, wanted, links, refused, others)
    return links


def read_addresses(path: str, wanted: Collection[str]) -> dict[str, str]:
    """{id as text: address, as the table has it} of the `wanted` ids; raises like `read`.

    Other programs have addresses of their own, such as /data/local-files/?d=v3.mp4, that are no links of a page.
    """
    addresses = {row.id: row.address.strip() for row in _rows(path) if row.id in wanted and row.address.strip()}
    if path:
        level = logging.INFO if addresses else logging.WARNING
        logging.log(level, "--media=%s has addresses of %d of the %d videos", path, len(addresses), len(wanted))
    return addresses


def _say(
    path: str,
    wanted: Collection[str],
    links: dict[str, str],
    refused: dict[str, list[_MediaRow]],
    others: list[_MediaRow],
) -> None:
    for reason, rows in refused.items():
        first = rows[0]
        logging.warning(
            "--media=%s: %d addresses make no link; the first, %r in line %d, %s",
            *(path, len(rows), first.address, first.line, reason),
        )
    summary = f"{len(links):,} of the {len(wanted):,} videos on the page are links"
    if links or refused or not wanted:
        logging.info("--media=%s: %s; %d rows are of other videos", path, summary, len(others))
        return
    seen = f"; the first is {others[0].id!r}, and a video on the page is {min(wanted)!r}" if others else ""
    logging.warning("--media=%s: %s, because none has an id of its %d rows%s", path, summary, len(others), seen)


def _rows(path: str) -> Iterator[_MediaRow]:
    if not path:
        return
    storage.refuse_missing(path, "media", _EXPECTED)
    try:
        rows = csv.reader(io.StringIO(storage.read_text(path).removeprefix("\ufeff"), newline=""), strict=True)
        header = [name.strip().lower() for name in next(rows, [])]
        if not {"id", "address"} <= set(header):
            raise UsageError(f"--media={path}: the columns are {', '.join(header) or 'missing'}; {_EXPECTED}.")
        places = header.index("id"), header.index("address")
        for row in rows:
            if row:  # not an empty line
                yield _MediaRow(rows.line_num, *(row[place] if place < len(row) else "" for place in places))
    except (csv.Error, UnicodeDecodeError) as error:
        raise RunError(f"{path} is no CSV file of UTF-8 text: {error}.") from error


def link_to(address: str, page: str) -> str:
    """The link from a page to an address: http, https, or a path. A path from the root becomes relative to the page.

    Browsers remove line breaks and tabs from an address, and take a backslash for a slash. So both are refused.

    Raises:
      _NoLinkError: a page may not link to the address.
    """
    address = address.strip(" ")
    if not address:
        raise _NoLinkError("is empty")
    if "\\" in address or any(ord(letter) < 32 or ord(letter) == 127 for letter in address):
        raise _NoLinkError("contains a backslash or a control character")
    if address.startswith("//"):
        raise _NoLinkError("has a host but no scheme; write http:// or https://")
    if address.startswith("/"):
        return _relative(address, page)
    scheme, colon, after_scheme = address.partition(":")
    if not colon or set(scheme) & set("/?#"):
        return address
    if scheme.lower() not in ("http", "https"):
        raise _NoLinkError("has another scheme than http and https; a file of that name is written with ./ before it")
    if not after_scheme.startswith("//") or not after_scheme.strip("/"):
        raise _NoLinkError("has no host after its scheme")
    return address


def _relative(path: str, page: str) -> str:
    """The path as an address that is relative to the folder of the page; its special characters are quoted."""
    if storage.is_remote(page):
        raise _NoLinkError("is a path of this machine, and the page is not on it")
    return urllib.parse.quote(os.path.relpath(path, os.path.dirname(os.path.abspath(page))))
