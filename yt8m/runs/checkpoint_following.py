"""The checkpoints of a run, each as training saves it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator

from absl import logging

from yt8m import storage
from yt8m.config import run_dir
from yt8m.errors import RunError
from yt8m.runner import checkpoints
from yt8m.runs.opened_run import OpenedRun
from yt8m.storage import copies

POLL_SECONDS = 5.0  # between two looks for a new checkpoint


def follow(run: OpenedRun, chosen: str, run_once: bool, deleted: Collection[str]) -> Iterator[str]:
    """Yields the newest checkpoint, then each newer one as it appears, until the training has recorded its end.

    A training that was killed records no end, so the iterator waits until the training is started again and ends.

    With --run_once or --checkpoint, one checkpoint is yielded: the newest, or the one that --checkpoint names. Only if
    training deleted that checkpoint before it was evaluated, the newest one follows.

    Args:
      chosen: the value of --checkpoint.
      deleted: those of the yielded checkpoints that training deleted before they were evaluated; the caller adds them.
    """
    train_dir, last = run.folder, run.checkpoint(chosen)
    yield last
    if run_once or run.choice(chosen) != "last":
        if last in deleted:
            yield from _replacement_of_deleted(last, train_dir)
        return
    announced = ""
    while True:
        # Training saves its last checkpoint before it records its end. So if the end is recorded now, the list of
        # checkpoints, which is read after it, includes the last one.
        ended = run_dir.read_end(train_dir)
        newest = _find_newer(train_dir, last)
        if newest is not None:
            copies.forget(last)
            last = newest
            yield last
            continue
        if ended is not None:
            logging.info("the training has ended (%s) and its newest checkpoint is evaluated", ended.message)
            return
        if last != announced:
            logging.info("waiting for a checkpoint newer than %s (--run_once evaluates once, and ends)", last)
            announced = last
        time.sleep(POLL_SECONDS)


def _find_newer(train_dir: str, evaluated_last: str) -> str | None:
    """The path of the newest readable checkpoint; None if no checkpoint is newer than `evaluated_last`, or readable."""
    # Compare the steps in the names first, since `newest_readable` reads whole checkpoints.
    if max(checkpoints.steps_in(train_dir), default=-1) <= checkpoints.step_of(evaluated_last):
        return None
    newest = checkpoints.newest_readable(train_dir)
    return newest if newest != evaluated_last else None


def _replacement_of_deleted(deleted: str, train_dir: str) -> Iterator[str]:
    """Yields the newest checkpoint, to be evaluated instead of `deleted`.

    `copies.hold` keeps the yielded checkpoint readable, even if training deletes it during the evaluation. If training
    deletes a checkpoint before `copies.hold` has its files, the one that is newest then is taken.
    """
    while True:
        newest = checkpoints.newest_readable(train_dir)
        if newest is None or checkpoints.step_of(newest) <= checkpoints.step_of(deleted):
            raise RunError(
                f"{deleted} was deleted while it was evaluated, and no newer checkpoint can be read. Start the "
                "evaluation again after the training has saved one; with a larger --keep_checkpoints the training "
                "deletes checkpoints later."
            )
        with contextlib.suppress(storage.NotFoundError), copies.hold(newest):
            yield newest
            return
        deleted = newest
