"""Finds video files, those that patterns match and those in folders, for all commands that take videos."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from yt8m import storage
from yt8m.errors import UsageError, quantity
from yt8m.extractors.containers import ENDINGS, OTHER_ENDINGS

# Folders that systems make, in lower case: macOS in zip files, with a hidden copy beside each file, Windows and Linux
# on disks, Synology and QNAP beside the files that they store.
_OF_SYSTEMS = frozenset(
    (
        "__macosx",
        "$recycle.bin",
        "recycler",
        "system volume information",
        "lost+found",
        "@eadir",
        "#recycle",
        "@recycle",
    )
)
HIDDEN = "hidden"  # the key of hidden files in `FoundVideos.passed_over`


class FoundVideos(NamedTuple):
    """Video files, sorted by path.

    Attributes:
      folder: the folder that the user named, to which ids are relative. For a pattern it is the part before the first
        component with a wildcard; for several patterns, the deepest folder that has the folders of all.
      passed_over: {ending: number of files}, for the files in a folder that may be videos, but whose ending is not
        common (see `OTHER_ENDINGS`); under `HIDDEN` the number of files with the ending of a video whose names or
        folders begin with a dot, such as the `._clip.mp4` that macOS writes beside each file on disks of other systems,
        or that lie in folders such as `lost+found`.
    """

    paths: list[str]
    folder: str
    passed_over: Counter[str]

    def ids(self) -> list[str]:
        """The id of each video: its path relative to `folder`. A file that is added later changes no id."""
        return [path[len(self.folder) :].lstrip("/") for path in self.paths]

    def paths_by_id(self) -> dict[str, str]:
        """{id: path} of the videos."""
        return dict(zip(self.ids(), self.paths, strict=True))


def find(patterns: str | Sequence[str]) -> FoundVideos:
    """Finds the videos that patterns name.

    Args:
      patterns: files, folders or patterns; one or several with commas between them, or a list of such texts. Files that
        are named, or that match a pattern, are taken whatever their ending; of a folder, and of all folders below it,
        the files with the endings of videos are taken, but no hidden ones.
    """
    passed_over, folders = Counter[str](), list[str]()

    def videos_among(paths: list[str]) -> list[str]:
        if len(paths) == 1:
            _refuse_other_kind(paths[0])
        videos = [video for path in paths for video in _videos_at(path, passed_over)]
        if paths and not videos:
            _refuse_without_video(paths, passed_over)
        return videos

    texts = [patterns] if isinstance(patterns, str) else patterns
    for text in texts:
        _refuse_levels(text)
        for pattern, paths in storage.paths_by_pattern(text):
            folders.append(_folder_of(pattern, paths))
            passed_over[HIDDEN] += len(_hidden_matches(pattern, paths))
    paths = sorted(storage.named_files(texts, videos_among, "video file", by_name=True))
    _refuse_twice(paths)
    return FoundVideos(paths, _common_folder(folders), passed_over)


def _hidden_matches(pattern: str, paths: Sequence[str]) -> list[str]:
    """The hidden files that a pattern such as `*.mp4` would match if their names did not begin with a dot."""
    folder, _, last = pattern.rpartition("/")
    if not last.startswith(("*", "?", "[")) or list(paths) == [pattern]:
        return []
    matches = storage.glob(storage.join(folder, f".{last}") if folder else f".{last}")
    return [path for path in matches if os.path.splitext(path)[1].lower() in (*ENDINGS, *OTHER_ENDINGS)]


def _refuse_other_kind(path: str) -> None:
    """Refuses a single file on this machine whose first bytes say that it is no video."""
    if storage.is_remote(path) or storage.is_dir(path):
        return
    kind = storage.kind_of(path)
    if kind and not kind.is_video:
        raise UsageError(f"{path} is no video: {kind}.")


def _refuse_without_video(folders: Sequence[str], passed_over: Counter[str]) -> NoReturn:
    """Refuses folders in which no file is taken."""
    skipped = "".join(f" ({line})" for line in describe_passed_over(passed_over))
    raise UsageError(
        f"no video file is in {', '.join(folders)} nor in the folders below{skipped}. Of a folder the files with these "
        f"endings are taken: {' '.join(ENDINGS)}; name others by a pattern."
    )


def _refuse_levels(pattern: str) -> None:
    """Refuses `**`, which other programs take for folders of all levels, and which is one level here."""
    folder, stars, _ = pattern.partition("**")
    if stars and not storage.exists(pattern):
        raise UsageError(
            f"{pattern}: ** is no pattern of yt8m. Name the folder {folder.rstrip('/') or '.'}: its videos are taken, "
            "and those of all folders below it."
        )


def _refuse_twice(paths: Sequence[str]) -> None:
    """Refuses one file under two paths, such as cat/1.mp4 and ./cat/1.mp4, which would be two videos."""
    first_of: dict[str, str] = {}
    for path in paths:
        whole = path if storage.is_remote(path) else os.path.normpath(storage.absolute(path))
        if (first := first_of.setdefault(whole, path)) != path:
            raise UsageError(f"{first} and {path} are one file; name its folder once.")


def has_folder(patterns: Sequence[str]) -> bool:
    """Whether one of the patterns names a folder, or matches one on this machine.

    Of the matches of a pattern in a bucket none is looked up, because each look would be a request.
    """
    matches = [paths for text in patterns for _, paths in storage.paths_by_pattern(text)]
    return any(
        storage.is_dir(path) for paths in matches for path in paths if len(paths) == 1 or not storage.is_remote(path)
    )


def ids_by_path(patterns: Sequence[str], paths: Sequence[str]) -> dict[str, str]:
    """The id of each of these video files, which the patterns match.

    The ids are those of `FoundVideos.ids`, as of `yt8m extract`; but if each pattern is a file, its path is its id.
    """
    matches = [pair for text in patterns for pair in storage.paths_by_pattern(text)]
    if not has_folder(patterns) and all(matching == [pattern] for pattern, matching in matches):
        return {path: path for path in paths}
    ids = {path: video_id for video_id, path in find(patterns).paths_by_id().items()}
    return {path: ids[path] for path in paths}


def _videos_at(path: str, passed_over: Counter[str]) -> Iterator[str]:
    """Yields the path of a file, or the videos in a folder; counts the other files of the folder in `passed_over`."""
    if not storage.is_dir(path):
        yield path
        return
    for folder, names in storage.tree(path, has_hidden=True).items():
        inner = folder[len(path) :].split("/")
        is_hidden = any(part.startswith(".") or part.lower() in _OF_SYSTEMS for part in inner)
        for name in names:
            ending = os.path.splitext(name)[1].lower()
            if is_hidden or name.startswith("."):
                passed_over.update([HIDDEN] if ending in (*ENDINGS, *OTHER_ENDINGS) else [])
            elif ending in ENDINGS:
                yield storage.join(folder, name)
            elif ending in OTHER_ENDINGS:
                passed_over.update([ending])


def _folder_of(pattern: str, paths: Sequence[str]) -> str:
    """The folder that a pattern names; `paths` are those that match it."""
    if list(paths) == [pattern]:  # an existing path matches itself, even if it has characters of a pattern
        return pattern.rstrip("/") if storage.is_dir(pattern) else pattern.rpartition("/")[0]
    components = pattern.split("/")
    first = next((index for index, part in enumerate(components) if storage.is_pattern(part)), len(components) - 1)
    return "/".join(components[:first])


def _common_folder(folders: Sequence[str]) -> str:
    """The deepest folder that has all these folders; empty if there is none."""
    components = [folder.split("/") for folder in folders]
    common = os.path.commonprefix(components)  # noqa: RUF071 - compares lists of names
    return "/".join(common)


def describe_passed_over(passed_over: Counter[str]) -> list[str]:
    """Sentences about the files of a folder that were passed over; none if there are none."""
    endings = [f"{count} {ending}" for ending, count in sorted(passed_over.items()) if ending != HIDDEN]
    hidden, lines = passed_over[HIDDEN], []
    if endings:
        lines.append(
            f"skipped files: {', '.join(endings)}; from a folder only common endings are used, so name them by a "
            "pattern"
        )
    if hidden:
        lines.append(
            f"skipped {quantity(hidden, 'hidden file')}, whose names or folders begin with a dot, "
            "or that lie in folders of systems, such as @eaDir and lost+found"
        )
    return lines
