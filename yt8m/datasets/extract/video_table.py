"""Lists the videos to extract: from a table with paths, a pattern of files, or a folder, as a `Table`."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from yt8m import storage
from yt8m.datasets.make_records.rows import CONTROL_CHARACTER
from yt8m.errors import UsageError
from yt8m.extractors import video_paths
from yt8m.extractors.containers import ENDINGS, OTHER_ENDINGS
from yt8m.options import about_flags
from yt8m.tables.cells import separators
from yt8m.tables.opening import is_table
from yt8m.tables.sources.source import Rows, folder_of
from yt8m.tables.understood import TableFlags, UnderstoodTable, understand
from yt8m.tables.words.class_names import clean_name, is_nothing
from yt8m.tables.words.meanings import SPLIT_WORDS, split_name

_VIDEO_ENDINGS = (*ENDINGS, *OTHER_ENDINGS)
_CONTROL_CHARACTER_PROBLEM = "the path holds a line break or another control character"


def open_videos(
    videos: str, labels: str, flags: TableFlags, *, has_earlier_ids: bool = False
) -> _ListedVideos | _VideoFiles:
    """Opens the table of the videos. Each row has an id, labels and a path that is valid in the current folder.

    Args:
      labels: `folder` if the label of a video is the name of the folder that it lies in; `column` if the labels are in
        a column of the table.
    """
    if is_table(videos) and not storage.is_dir(videos):
        flags = dataclasses.replace(flags, needs_labels=False, path_endings=_VIDEO_ENDINGS)
        table = understand("--videos", videos, flags)
        if "path" not in table.columns:
            listed = ", ".join(table.source_columns)[:300]
            raise UsageError(
                f"--videos={videos} has no column 'path'; it has: {listed}. Name it by --columns=path=COLUMN."
            )
        listed_videos = _ListedVideos(table, labels == "folder")
        listed_videos.may_be_joined = flags.separator == separators.AUTO
        return listed_videos
    files = _VideoFiles(videos, labels == "folder", flags.extra_columns, has_earlier_ids=has_earlier_ids)
    files.may_be_joined = flags.separator == separators.AUTO
    return files


def _folder_name(path: str) -> str:
    """The name of the folder that a file lies in; the path may be relative, such as `1.mp4` or `../1.mp4`."""
    return os.path.basename(os.path.dirname(storage.absolute(path)))


def _folder_label(path: str) -> tuple[str, ...]:
    """The label that the folder of a video gives it: the name of the folder, none if that says so, as `none` does."""
    name = clean_name(_folder_name(path))
    return () if is_nothing(name) else (name,)


def _refuse_joined_folders(videos: str, names: Collection[str]) -> None:
    """Raises `UsageError` if the name of a folder consists of the names of others, as `cat,dog` does."""
    everything = set(names)
    for name in sorted(everything):
        for separator in separators.USUAL:
            pieces = separators.split(name, separator) if separator in name else []
            if len(pieces) > 1 and everything.issuperset(pieces):
                raise UsageError(
                    f"--videos={videos}: the folder {name!r} may be one class, or the labels "
                    f"{' and '.join(map(repr, pieces))} of each of its videos. Choose by "
                    f"--label_separator={separators.NONE} (one class), or name a table with a column of labels."
                )


class _ListedVideos:
    """The videos in a table, whose paths are relative to the folder of the table.

    If the table has no column `id`, the path in the table is the id of a video. If it has no column `labels`, and
    labels are not the names of folders, the videos have no labels. For the attributes, see `Table` and `_VideoFiles`;
    no video is left out, and no file is skipped.
    """

    features: Sequence[str] = ()
    left_out: Mapping[str, str] = {}

    columns: Sequence[str]
    may_be_joined = True  # whether the name of a folder may be several labels

    def __init__(self, table: UnderstoodTable, has_folder_labels: bool) -> None:
        self.path, self._table, self._has_folder_labels = table.path, table, has_folder_labels
        self.passed_over = Counter[str]()
        self.are_clips, self.videos_in_parts = table.are_clips, table.videos_in_parts
        self.columns = list(dict.fromkeys(("id", "labels", *table.columns)))

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        for rows in self._table.batches(size, skip):
            paths_in_table = list(map(str, rows.cells["path"]))
            cells: dict[str, Sequence[Any]] = {"labels": [()] * rows.size, **rows.cells}
            cells["path"] = list(map(self._resolve_path, paths_in_table))
            if self._has_folder_labels:
                cells["labels"] = list(map(_folder_label, cells["path"]))
            bad = {
                number: "the path is empty"
                for number, path in enumerate(paths_in_table, rows.first)
                if not path.strip() and number not in rows.bad
            }
            yield rows._replace(cells=cells, bad={**rows.bad, **bad})

    def clean_label(self, name: Any) -> str:
        """See `Table`."""
        return str(name) if self._has_folder_labels else self._table.clean_label(name)

    def where(self, row: int) -> str:
        """See `UnderstoodTable`."""
        return self._table.where(row)

    def describe(self) -> list[str]:
        """See `UnderstoodTable`."""
        return [
            *self._table.describe(),
            *(["labels from the folders of the videos"] if self._has_folder_labels else []),
        ]

    def refuse_combinations(self, names: Collection[str]) -> None:
        """See `UnderstoodTable`."""
        if not self._has_folder_labels:
            self._table.refuse_combinations(names)
        elif self.may_be_joined:
            _refuse_joined_folders(self.path, names)

    def _resolve_path(self, path: str) -> str:
        """Joins the folder of the table and a path that is relative to this folder; returns other paths as they are."""
        folder = folder_of(self.path)
        return path if storage.is_remote(path) or os.path.isabs(path) or not folder else storage.join(folder, path)


class _VideoFiles:
    """Video files, sorted by path. The id is the path relative to the folder that the user named."""

    features: Sequence[str] = ()
    are_clips, videos_in_parts = False, 0
    may_be_joined = True  # whether the name of a folder may be several labels

    def __init__(
        self, videos: str, has_folder_labels: bool, extra_columns: Sequence[str], *, has_earlier_ids: bool
    ) -> None:
        self.path, self._has_folder_labels = videos, has_folder_labels
        if extra_columns:
            raise UsageError(
                f"--group_by={extra_columns[0]}: a pattern of files has no columns; name a table as --videos."
            )
        with about_flags(f"--videos={videos}: "):
            files = video_paths.find(videos)
        self.passed_over = files.passed_over
        self.left_out = {path: _CONTROL_CHARACTER_PROBLEM for path in files.paths if CONTROL_CHARACTER.search(path)}
        ids = _earlier_ids(files.paths, self.left_out) if has_earlier_ids else files.ids()
        self._ids = {path: name for path, name in zip(files.paths, ids, strict=True) if path not in self.left_out}
        if not self._ids:
            raise UsageError(
                f"--videos={videos}: none of the {len(files.paths)} videos can be used: {_CONTROL_CHARACTER_PROBLEM}. "
                "Rename them."
            )
        splits = (
            [] if has_earlier_ids or not has_folder_labels else _splits_of_folders(videos, list(self._ids.values()))
        )
        self._splits = dict(zip(self._ids, splits, strict=True)) if splits else {}
        self.columns: Sequence[str] = ["id", "labels", "path", *(["split"] if splits else [])]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        for start in range(skip, len(self._ids), size):
            paths = list(self._ids)[start : start + size]
            folders = [_folder_label(path) if self._has_folder_labels else () for path in paths]
            ids = [self._ids[path] for path in paths]
            splits = {"split": [self._splits[path] for path in paths]} if self._splits else {}
            yield Rows(start + 1, {"id": ids, "labels": folders, "path": paths, **splits}, {}, {})

    def clean_label(self, name: Any) -> str:
        """See `Table`."""
        return str(name)

    def where(self, row: int) -> str:
        """The place of a file in the list; files have no lines."""
        return f"row {row}"

    def describe(self) -> list[str]:
        """See `UnderstoodTable`."""
        folders = ["labels from their folders", *self._without_label()] if self._has_folder_labels else []
        splits = ["split from the folders above these"] if self._splits else []
        return [f"{self.path}: video files", *folders, *splits]

    def refuse_combinations(self, names: Collection[str]) -> None:
        """See `UnderstoodTable`."""
        if self._has_folder_labels and self.may_be_joined:
            _refuse_joined_folders(self.path, names)

    def _without_label(self) -> list[str]:
        """What to say of videos whose folder says that they have no label."""
        counts = Counter(_folder_name(path) for path in self._ids if not _folder_label(path))
        return [f"{count} of the folder {name!r} without a label" for name, count in sorted(counts.items())]


def _splits_of_folders(videos: str, ids: Sequence[str]) -> list[str]:
    """The split of each video, if folders such as `train` and `val` stand above those of the classes; else nothing.

    Raises `UsageError` if such folders would be the classes.
    """
    steps = [name.split("/") for name in ids]
    firsts = {names[0] for names in steps if len(names) > 1}
    if len(firsts) < 2 or not all(name.lower() in SPLIT_WORDS for name in firsts) or min(map(len, steps)) < 2:
        return []
    if min(map(len, steps)) == 2:
        raise UsageError(
            f"--videos={videos}: the folders {', '.join(sorted(firsts))} are splits, but --labels=folder makes classes "
            "of the folders that videos lie in. Put a folder for each class into them, or name a table as --videos."
        )
    return [split_name("split", names[0]) for names in steps]


def _earlier_ids(paths: Sequence[str], left_out: Collection[str]) -> list[str]:
    """The ids that videos had before ids were relative to the folder that is named, for data sets with these ids.

    They were relative to the deepest folder that has all videos. So a file that was added could change all ids.
    """
    folders = [path.split("/")[:-1] for path in paths if path not in left_out]
    common = len("/".join(os.path.commonprefix([folders[0], folders[-1]]))) if folders else 0  # noqa: RUF071 - lists of names
    return [path[common:].lstrip("/") for path in paths]
