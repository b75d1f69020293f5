"""Finds the format of the records in shards; `OpenedData.format` has it."""

from __future__ import annotations

from collections.abc import Sequence

from yt8m import storage
from yt8m.records.opened_data import DiscoveredFormat as DiscoveredFormat
from yt8m.records.opened_data import OpenedData
from yt8m.records.opened_data import of_record as of_record


def find(files: Sequence[str], manifest_path: str = "") -> DiscoveredFormat | None:
    """The format of the records; a manifest that is named need not exist."""
    named = manifest_path if manifest_path and storage.exists(manifest_path) else ""
    return OpenedData(files, tuple(files), "", named).format
