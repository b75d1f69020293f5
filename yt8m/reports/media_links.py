"""Reads a table of ids and addresses of videos (--media), whose addresses become links on a page.

    id,address
    v1,https://example.org/watch?v=v1
    v2,thumbs/v2.jpg
    v3,/data/videos/v3.mp4

An address that a page must not link to is left out. Nothing here opens an address.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Collection, Iterator
from typing import NamedTuple

from absl import logging

from yt8m import storage
from yt8m.tables.reading import open_columns

_EXPECTED = "expected a CSV file with the columns id,address"


class _MediaRow(NamedTuple):
    """A row of the table, and the number of its line in the file. A field that the row lacks is empty."""

    line: int
    id: str
    address: str


class _NoLinkError(Exception):
    """A page must not link to an address. The message says why, as a predicate: `is empty`."""


def check(path: str) -> None:
    """Refuses a table that does not exist or lacks a column; raises like `read`. An empty path stands for no table."""
    next(_read_rows(path), None)


def read(path: str, page: str, ids: Collection[str]) -> dict[str, str]:
    """{id: link} of the videos that have one. The log says how many these are, and which addresses were left out.

    Args:
      path: a CSV file with the columns `id` and `address`; empty if there is none.
    """
    links: dict[str, str] = {}
    refused: dict[str, list[_MediaRow]] = {}
    rows_of_other_videos: list[_MediaRow] = []
    for row in _read_rows(path):
        if row.id not in ids:
            rows_of_other_videos.append(row)
            continue
        try:
            links[row.id] = link_to(row.address, page)
        except _NoLinkError as error:
            refused.setdefault(str(error), []).append(row)
    if path:
        _log_summary(path, ids, links, refused, rows_of_other_videos)
    return links


def read_addresses(path: str, ids: Collection[str]) -> dict[str, str]:
    """{id: address} of the videos that have one, as texts; raises like `read`.

    The addresses are those of the table, unchanged, for other programs: these have addresses that a page could not link
    to, such as /data/local-files/?d=v3.mp4.
    """
    addresses = {row.id: row.address.strip() for row in _read_rows(path) if row.id in ids and row.address.strip()}
    if path:
        level = logging.INFO if addresses else logging.WARNING
        logging.log(level, "--media=%s has addresses of %d of the %d videos", path, len(addresses), len(ids))
    return addresses


def _log_summary(
    path: str,
    ids: Collection[str],
    links: dict[str, str],
    refused: dict[str, list[_MediaRow]],
    rows_of_other_videos: list[_MediaRow],
) -> None:
    """Logs the number of links, and the addresses that cannot be links."""
    for reason, rows in refused.items():
        first = rows[0]
        logging.warning(
            "--media=%s: %d addresses cannot be links; the first, %r in line %d, %s",
            *(path, len(rows), first.address, first.line, reason),
        )
    summary = f"{len(links):,} of the {len(ids):,} videos on the page are links"
    others = rows_of_other_videos
    if links or refused or not ids:
        logging.info("--media=%s: %s; %d rows are of other videos", path, summary, len(others))
        return
    example = f": its first id is {others[0].id!r}, and a video on the page is {min(ids)!r}" if others else ""
    logging.warning("--media=%s: %s; none of them is in its %d rows%s", path, summary, len(others), example)


def _read_rows(path: str) -> Iterator[_MediaRow]:
    """Yields the rows of the table, none if `path` is empty; raises like `read`."""
    if not path:
        return
    storage.refuse_missing(path, "media", _EXPECTED)
    for row in open_columns("--media", path, ["id", "address"]).rows():
        yield _MediaRow(row.number, row.cells["id"], row.cells["address"])


def link_to(address: str, page: str) -> str:
    """The link from the page with the path `page` to an address with http or https, or to a path.

    An absolute path becomes relative to the page. Other addresses only lose spaces at their ends. Browsers remove line
    breaks and tabs from an address, and take a backslash for a slash. So addresses with one of these characters are
    refused.
    """
    address = address.strip(" ")
    if not address:
        raise _NoLinkError("is empty")
    if "\\" in address or any(ord(letter) < 32 or ord(letter) == 127 for letter in address):
        raise _NoLinkError("contains a backslash or a control character")
    if address.startswith("//"):
        raise _NoLinkError("has a host but no scheme; write http:// or https://")
    if address.startswith("/"):
        return _link_to_file(address, page)
    scheme, colon, after_scheme = address.partition(":")
    if not colon or set(scheme) & set("/?#"):
        return address
    if scheme.lower() not in ("http", "https"):
        raise _NoLinkError("has another scheme than http and https; if it is the name of a file, write ./ before it")
    if not after_scheme.startswith("//") or not after_scheme.strip("/"):
        raise _NoLinkError("has no host after its scheme")
    return address


def _link_to_file(path: str, page: str) -> str:
    """The link from the page to an absolute path: the path relative to the folder of the page, percent-encoded."""
    if storage.is_remote(page):
        raise _NoLinkError("is a path of this machine, but the page is in a bucket")
    return urllib.parse.quote(os.path.relpath(path, os.path.dirname(os.path.abspath(page))))
