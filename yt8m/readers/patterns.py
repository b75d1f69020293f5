"""From file patterns to files."""

from __future__ import annotations

from collections.abc import Callable

from yt8m.errors import UsageError


def matching(pattern: str, list_files: Callable[[str], list[str]]) -> list[str]:
    """The paths that match one of the patterns in `pattern`, which commas separate.

    Raises:
      UsageError: one of them matches nothing.
    """
    whole = list_files(pattern) if pattern else []
    if whole == [pattern]:  # a path of its own, though it may hold a comma
        return whole
    found = []
    for piece in (part.strip() for part in pattern.split(",")):
        paths = list_files(piece) if piece else []
        if not paths:
            raise UsageError(
                f"no file matches {piece!r}; give the shards to read, such as '/data/train*.tfrecord' "
                "or 'gs://bucket/train*.tfrecord' (quoted, so that the shell leaves the * alone)."
            )
        found += paths
    return found
