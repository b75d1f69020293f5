"""Paths where data are expected: files of records, and in place of them videos, arrays or tables."""

from __future__ import annotations

import os
from typing import Any

from yt8m import file_kinds, storage
from yt8m.errors import UsageError
from yt8m.file_kinds import FileKind


def paths_in(data: Any) -> list[str]:
    """The paths or patterns, if the data are one or a list of them; else none."""
    items = [data] if isinstance(data, str | os.PathLike) else data if isinstance(data, list | tuple) else []
    return [os.fspath(item) for item in items] if all(isinstance(item, str | os.PathLike) for item in items) else []


def refuse_other_files(paths: list[str]) -> None:
    """Refuses a file that is known by its first bytes, and holds no records, with what takes it in Python."""
    for path in paths:
        kind = None if storage.is_remote(path) or storage.is_dir(path) else storage.kind_of(path)
        if kind is not None and kind != file_kinds.RECORDS and not kind.is_compressed:
            raise UsageError(f"{path} is {kind.description}, and holds no records: {_remedy(kind)}.")


def _remedy(kind: FileKind) -> str:
    if kind.is_video:
        return "predict_video(path) takes a video"
    if kind in (file_kinds.NPY, file_kinds.NPZ):
        return "give its arrays, numpy.load(path)"
    if kind.is_text or kind in (file_kinds.PARQUET, file_kinds.ARROW, file_kinds.OFFICE, file_kinds.OLD_OFFICE):
        return "give the features in it as an array or a DataFrame"
    return kind.remedy
