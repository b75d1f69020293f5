"""Files in which a command keeps what its next start has to know: JSON objects with a checksum.

A byte that a disk or another program changed may leave sound JSON with another number in it. The checksum tells such a
file from a whole one. Files of earlier versions have none, and are read as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import google_crc32c

from yt8m import storage
from yt8m.errors import DamagedFileError, first_line, refusing

_KEY = b', "checksum": "'  # what stands between the other entries of the object and its checksum


def write(path: str, values: Mapping[str, Any]) -> None:
    """Writes entries, of which there is at least one, into a file, whole or not at all; JSON can hold their values."""
    content = json.dumps(dict(values)).encode()[:-1]
    storage.write(path, content + _KEY + f'{google_crc32c.value(content):08x}"}}\n'.encode())


def read(path: str) -> dict[str, Any]:
    """The entries that `write` wrote; raises `DamagedFileError` if the file has changed since, or holds no entries."""
    written = storage.read_bytes(path)
    content, key, end = written.rpartition(_KEY)
    if key and end != f'{google_crc32c.value(content):08x}"}}\n'.encode():
        raise DamagedFileError(f"{path} is damaged: its checksum is that of another content")
    with refusing(lambda error: DamagedFileError(f"{path} is damaged: {first_line(error)}")):
        values = storage.parse_json(written)
    if not isinstance(values, dict):
        raise DamagedFileError(f"{path} is damaged: it holds no JSON object")
    values.pop("checksum", None)
    return values
