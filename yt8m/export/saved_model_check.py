"""The checksum of a SavedModel, by which a graph with changed bytes is found: it would compute other scores.

TensorFlow checks the weights by itself, by a CRC-32C of each tensor.
"""

from __future__ import annotations

import google_crc32c

from yt8m import storage
from yt8m.errors import RunError

FILE = "saved_model.pb"  # the file of the graph; TensorFlow gives it this name
EXTRA = "assets.extra"  # the folder for files that TensorFlow leaves alone; it gives it this name
_CHECKSUM = "checksum"


def write_checksum(folder: str) -> None:
    """Writes the checksum of the graph in a local folder."""
    content = storage.read_bytes(storage.join(folder, FILE))
    storage.makedirs(storage.join(folder, EXTRA))
    storage.write(storage.join(folder, EXTRA, _CHECKSUM), f"{_computed(content)}\n")


def refuse_damaged(folder: str, local_folder: str, content: bytes) -> None:
    """Raises `RunError` if the graph of an export is not the one that was written.

    Exports without a checksum pass: earlier versions wrote none.

    Args:
      folder: the folder that errors name.
      local_folder: a local copy of it.
      content: the content of its file `FILE`.
    """
    path = storage.join(local_folder, EXTRA, _CHECKSUM)
    if storage.exists(path) and storage.read_text(path).strip() != _computed(content):
        raise RunError(
            f"{folder}: {FILE} is damaged, or another program changed it: it does not fit its checksum. Restore it "
            f"from a copy, or export the model again; if you changed it on purpose, delete {EXTRA}/{_CHECKSUM}."
        )


def _computed(content: bytes) -> str:
    return "crc32c:" + google_crc32c.Checksum(content).digest().hex()
