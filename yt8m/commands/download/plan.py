"""The published plan of a partition: lists its files, selects those of a shard, and gives their names on disk."""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterable
from typing import NamedTuple

from yt8m.errors import RunError
from yt8m.storage import json_text

_DIGITS = string.ascii_lowercase + string.ascii_uppercase + string.digits
_NAME = re.compile(r"([A-Za-z0-9_-]+)([A-Za-z0-9]{2})(\.tfrecord)")
_MD5 = re.compile(r"[0-9a-f]{32}")


class Planned(NamedTuple):
    """A file of the plan: its published name and the md5 of its content in hexadecimal."""

    name: str
    md5: str


def parse_plan(content: bytes, source: str) -> list[Planned]:
    """The files of a plan, sorted by name.

    Args:
      content: JSON `{"files": {name: md5, ...}}`.
      source: the address of the plan, for error messages.

    Raises:
      RunError: `content` is not a plan (but a proxy's error page, say), or it has a name or md5 that is not valid.
    """
    try:
        files = json_text.parse(content)["files"]
        planned = sorted(Planned(name, str(md5).lower()) for name, md5 in files.items())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        start = content[:60].decode("utf-8", "backslashreplace")
        raise RunError(
            f'{source} is no download plan; expected JSON {{"files": {{name: md5}}}}, found {start!r}.'
        ) from error
    for name, md5 in planned:
        if not _NAME.fullmatch(name) or not _MD5.fullmatch(md5):
            raise RunError(f"{source}: the entry {name!r}: {md5!r} is not NAME.tfrecord and an md5 of 32 digits.")
    if not planned:
        raise RunError(f"{source} lists no files; check --partition.")
    return planned


def in_shard(files: Iterable[Planned], shard: tuple[int, ...]) -> list[Planned]:
    """The files of shard X of Y, `shard` = (X, Y); all of them if it is empty.

    The published rule: the file is in the shard if the md5 of its *name*, as an integer, is X - 1 modulo Y.
    """
    if not shard:
        return list(files)
    index, count = shard
    return [one for one in files if _number(one.name) % count == index - 1]


def _number(name: str) -> int:
    return int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(), 16)


def saved_name(name: str) -> str:
    """The name of a file on disk: that of trainaa.tfrecord is train0000.tfrecord.

    The last two characters are a number in base 62 with the digits a-z A-Z 0-9.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no published name")
    stem, count, end = found.groups()
    return f"{stem}{_DIGITS.index(count[0]) * 62 + _DIGITS.index(count[1]):04d}{end}"
