"""Locks in a bucket: an object that its holder creates and keeps fresh."""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

from absl import logging
from google.api_core import exceptions as api

from yt8m.errors import RunError, UsageError
from yt8m.storage.failures import Locked, NotFoundError, parse_holder, this_holder
from yt8m.storage.gcs_client import ask, blob_at

BEAT_SECONDS, LEASE_SECONDS = 30.0, 300.0
_BEAT = "beat"  # the metadata in which a holder says when it was last alive

# Locks of this very process: a restarted container may bear the host name and pid of its predecessor.
_held: set[str] = set()
_lost: set[str] = set()


@contextlib.contextmanager
def lock(path: str) -> Iterator[None]:
    """Holds the lock object `path` during the block; see `yt8m.storage.lock`."""
    generation = _take(path)
    _held.add(path)
    over = threading.Event()
    thread = threading.Thread(target=_keep, args=(path, generation, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _held.discard(path)
        _lost.discard(path)
        _let_go(path, generation)


def refuse_lost(folder: str) -> None:
    """Refuses to go on in a folder whose lock was this process' and was taken over.

    Raises:
      RunError: names the lock.
    """
    for path in _lost:
        if path.startswith(folder.rstrip("/") + "/"):
            raise RunError(
                f"{path} was taken over by another process, since this one was out of touch for more than "
                f"{LEASE_SECONDS:g} s. Nothing more is written there."
            )


def _keep(path: str, generation: int, over: threading.Event) -> None:
    while not over.wait(BEAT_SECONDS):
        blob = blob_at(path)
        blob.metadata = {_BEAT: _now().isoformat()}
        try:
            blob.patch(if_generation_match=generation, retry=None)
        except (api.NotFound, api.PreconditionFailed):
            _lost.add(path)
            logging.error("the lock %s is no longer this process'", path)
            return
        except Exception as error:  # a beat that is missed does no harm: the next one may come through
            logging.warning("the lock %s could not be kept fresh just now: %s", path, error)


def _let_go(path: str, generation: int) -> None:
    try:
        with contextlib.suppress(NotFoundError):
            ask("unlock", path, lambda: _delete(path, generation))
    except (RunError, UsageError) as error:
        logging.error("%s. It counts as free after %g s.", error, LEASE_SECONDS)


def _take(path: str) -> int:
    """Creates the lock object and gives its generation.

    Raises:
      Locked: another has it.
    """
    content = this_holder()
    return ask("lock", path, lambda: _try_to_take(path, content))


def _try_to_take(path: str, content: bytes) -> int:
    blob = blob_at(path)
    if blob.exists(retry=None):  # also for servers that know no preconditions
        blob.reload(retry=None)
        generation, found = int(blob.generation), blob.download_as_bytes(retry=None)
        if found == content:  # made by an earlier attempt whose answer was lost
            return generation
        holder = parse_holder(found)
        if not _is_dead(path, holder, blob):
            raise Locked(path, holder)
        with contextlib.suppress(api.NotFound):
            _delete(path, generation)
    try:
        blob.upload_from_string(content, if_generation_match=0, retry=None)
    except api.PreconditionFailed as error:
        found = blob.download_as_bytes(retry=None)
        if found != content:
            raise Locked(path, parse_holder(found)) from error
        blob.reload(retry=None)
    return int(blob.generation)


def _delete(path: str, generation: int) -> None:
    """Removes the lock where it is still that one."""
    with contextlib.suppress(api.PreconditionFailed):
        blob_at(path).delete(if_generation_match=generation, retry=None)


def _is_dead(path: str, holder: dict[str, Any], blob: Any) -> bool:
    """Whether the holder was a process of this machine that no longer runs, or has long been silent."""
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int):
        return _silent_for(blob) > LEASE_SECONDS
    if pid == os.getpid():
        return path not in _held
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _silent_for(blob: Any) -> float:
    """Seconds since the holder was last alive, by the two machines' clocks."""
    said = (blob.metadata or {}).get(_BEAT)
    try:
        last = datetime.datetime.fromisoformat(said) if said else blob.updated
        return (_now() - last).total_seconds()
    except (TypeError, ValueError):
        return 0.0


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
