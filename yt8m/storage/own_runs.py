"""Records which runs, graphs and exports this user made on this machine, in a folder outside of the runs.

Programs run Python code that a run names only if this user made the run. A run is identified by a hash of its
config.json, a saved or exported graph by a hash of its bytes.

A record is an empty file with the hash as its name, in `yt8m/own-runs` under XDG_STATE_HOME (by default
~/.local/state). Making it is atomic, so that processes need no lock. A record is valid only if it and its folder belong
to this user and nobody else may write to them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

from yt8m.errors import RunError
from yt8m.storage.local import naming_errors

MAX_RECORDS = 10_000  # if there are more records, the oldest ones are removed


def note(content: str | bytes) -> None:
    """Records that this user made a run or a graph; if there are more than `MAX_RECORDS`, the oldest are removed.

    Args:
      content: the text of the run's config.json, or the bytes of the graph.
    """
    folder = _folder()
    with naming_errors("write to", folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _is_private(folder):
            raise RunError(
                f"{folder} belongs to another user, or others may write to it; make it yours by chown and chmod go-w"
            )
        path = os.path.join(folder, _hash(content))
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        os.utime(path)
        _drop_oldest(folder, path)


def is_noted(content: str | bytes) -> bool:
    """Whether `note` has recorded on this machine that this user made the run or the graph with this content.

    False, too, if others can write to the record or to its folder, or if these cannot be read.

    Args:
      content: the text of the run's config.json, or the bytes of the graph's file.
    """
    try:
        folder = _folder()
        return _is_private(folder) and _is_private(os.path.join(folder, _hash(content)))
    except (OSError, RunError):
        return False


def _folder() -> str:
    """The path of the folder of the records; raises `RunError` if the user has no home folder.

    A relative XDG_STATE_HOME is ignored, as the XDG specification demands. A relative path would be in the current
    folder, which may have been downloaded together with the run.
    """
    state_folder = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state_folder):
        state_folder = os.path.join(os.path.expanduser("~"), ".local", "state")
    if not os.path.isabs(state_folder):
        raise RunError("there is no home folder (HOME) and no absolute XDG_STATE_HOME; set one of the two variables")
    return os.path.join(state_folder, "yt8m", "own-runs")


def _hash(content: str | bytes) -> str:
    return hashlib.sha256(
        content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    ).hexdigest()


def _is_private(path: str) -> bool:
    """Whether `path` is a file or folder (no link) of this user, to which nobody else may write."""
    status = os.lstat(path)
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return is_plain and status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _drop_oldest(folder: str, newest_note: str) -> None:
    """If there are more than `MAX_RECORDS` records, removes the oldest ones, but not the record `newest_note`.

    A fiftieth more than necessary are removed, because to know the oldest one takes a look at each, and every start of
    a training makes records. Other processes may do the same at the same time.
    """
    names = os.listdir(folder)
    if len(names) <= MAX_RECORDS:
        return
    notes: list[tuple[float, str]] = []
    for path in (os.path.join(folder, name) for name in names):
        with contextlib.suppress(FileNotFoundError):
            notes.append((os.lstat(path).st_mtime, path))
    excess = len(notes) - MAX_RECORDS
    too_many = excess + MAX_RECORDS // 50 if excess > 0 else 0
    for path in [path for _, path in sorted(notes) if path != newest_note][:too_many]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
