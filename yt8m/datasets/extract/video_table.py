"""Lists the videos to extract: from a table with paths, a pattern of files, or a folder, as a `Table`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yt8m import storage
from yt8m.datasets.make_records import tables
from yt8m.datasets.make_records.rows import CONTROL_CHARACTER
from yt8m.datasets.make_records.tables import COLUMNS, Rows, Table
from yt8m.errors import UsageError
from yt8m.extractors.containers import ENDINGS, OTHER_ENDINGS
from yt8m.options import about_flags

_CONTROL_CHARACTER_PROBLEM = "the path holds a line break or another control character"


def open_videos(videos: str, labels: str, extra_columns: Sequence[str]) -> _ListedVideos | _VideoFiles:
    """Opens the table of the videos. Each row has an id, labels and a path that is valid in the current folder.

    Args:
      videos: path of a table (.csv, .parquet), a folder, or a pattern of video files.
      labels: `folder` if the label of a video is the name of the folder that it lies in; `column` if the labels are in
        a column of the table.
      extra_columns: columns to read besides `COLUMNS`.

    Raises:
      UsageError: there are no videos, no path can be used, a column is missing, or `videos` is not a table and
        `extra_columns` is not empty.
      RunError: the table cannot be read.
    """
    if videos.lower().endswith(tables.ENDINGS):
        table = tables.open_columns("--videos", videos, ["path", *extra_columns])
        return _ListedVideos(table, labels == "folder", extra_columns)
    return _VideoFiles(videos, labels == "folder", extra_columns)


def _folder_name(path: str) -> str:
    """The name of the folder that a file lies in; the path may be relative, such as `1.mp4` or `../1.mp4`."""
    return os.path.basename(os.path.dirname(storage.absolute(path)))


class _ListedVideos:
    """The videos in a table, whose paths are relative to the folder of the table.

    If the table has no column `id`, the path in the table is the id of a video. If it has no column `labels`, and
    labels are not the names of folders, the videos have no labels. For the attributes, see `Table` and `_VideoFiles`;
    no video is left out, and no file is skipped.
    """

    features: Sequence[str] = ()
    left_out: Mapping[str, str] = {}
    skipped_endings: Mapping[str, int] = {}

    columns: Sequence[str]

    def __init__(self, table: Table, has_folder_labels: bool, extra_columns: Sequence[str]) -> None:
        self.path, self._table, self._has_folder_labels = table.path, table, has_folder_labels
        self.columns = list(
            dict.fromkeys(
                ("id", "labels", *(column for column in table.columns if column in (*COLUMNS, *extra_columns)))
            )
        )

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        for rows in self._table.batches(size, skip):
            paths_in_table = list(map(str, rows.cells["path"]))
            cells: dict[str, Sequence[Any]] = {"id": paths_in_table, "labels": [""] * rows.size, **rows.cells}
            cells["path"] = list(map(self._resolve_path, paths_in_table))
            if self._has_folder_labels:
                cells["labels"] = list(map(_folder_name, cells["path"]))
            bad = {
                number: "the path is empty"
                for number, path in enumerate(paths_in_table, rows.first)
                if not path.strip() and number not in rows.bad
            }
            yield rows._replace(cells=cells, bad={**rows.bad, **bad})

    def _resolve_path(self, path: str) -> str:
        """Joins the folder of the table and a path that is relative to this folder; returns other paths as they are."""
        folder = os.path.dirname(self.path)
        return path if storage.is_remote(path) or os.path.isabs(path) or not folder else storage.join(folder, path)


class _VideoFiles:
    """Video files, sorted by path. The id is the path relative to the deepest folder that contains all files.

    Attributes:
      left_out: {path: why the video is left out}.
      skipped_endings: {ending: number of files}, for the files in a folder that may be videos, but whose ending is not
        common; see `OTHER_ENDINGS`.
    """

    features: Sequence[str] = ()

    def __init__(self, videos: str, has_folder_labels: bool, extra_columns: Sequence[str]) -> None:
        self.path, self._has_folder_labels = videos, has_folder_labels
        self.skipped_endings: Counter[str] = Counter()
        if extra_columns:
            raise UsageError(
                f"--group_by={extra_columns[0]}: a pattern of files has no columns; name a table as --videos."
            )
        with about_flags(f"--videos={videos}: "):
            paths = sorted(storage.named_files(videos, self._videos_among, "video file"))
        self.left_out = {path: _CONTROL_CHARACTER_PROBLEM for path in paths if CONTROL_CHARACTER.search(path)}
        self._paths = [path for path in paths if path not in self.left_out]
        if not self._paths:
            raise UsageError(
                f"--videos={videos}: none of the {len(paths)} videos can be used: {_CONTROL_CHARACTER_PROBLEM}. Rename "
                "them."
            )
        # All sorted paths share the folders that the first and the last path share.
        ends = [path.split("/")[:-1] for path in (self._paths[0], self._paths[-1])]
        self._folder_length = len("/".join(os.path.commonprefix(ends)))  # noqa: RUF071 - compares lists of names
        self.columns: Sequence[str] = ["id", "labels", "path"]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        for start in range(skip, len(self._paths), size):
            paths = self._paths[start : start + size]
            folders = [_folder_name(path) if self._has_folder_labels else "" for path in paths]
            ids = [path[self._folder_length :].lstrip("/") for path in paths]
            yield Rows(start + 1, {"id": ids, "labels": folders, "path": paths}, {}, {})

    def _videos_among(self, paths: Sequence[str]) -> list[str]:
        """The paths that are files, and for each folder the video files in it at any depth, found by their endings.

        Counts the files with an ending of `OTHER_ENDINGS` in `skipped_endings`.
        """
        files: list[str] = []
        for path in paths:
            if not storage.is_dir(path):
                files.append(path)
                continue
            for folder, names in storage.tree(path).items():
                endings = (os.path.splitext(name)[1].lower() for name in names)
                self.skipped_endings.update(ending for ending in endings if ending in OTHER_ENDINGS)
                files += [storage.join(folder, name) for name in names if name.lower().endswith(ENDINGS)]
        return files
