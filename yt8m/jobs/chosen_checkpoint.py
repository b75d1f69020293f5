"""A checkpoint of a run by the word that a user chose it with."""

from __future__ import annotations

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.jobs.best import FOLDER
from yt8m.runner import checkpoints


def newest(train_dir: str) -> str:
    """The path of the newest checkpoint that can be read.

    Raises:
      RunError: there is none.
    """
    last = checkpoints.newest_readable(train_dir)
    if last is None:
        raise RunError(f"no checkpoint in {train_dir}: train first, or name another --train_dir.")
    return last


def find(train_dir: str, choice: str) -> str:
    """The path of the checkpoint: `last`, `best`, or a step.

    Raises:
      UsageError: it is not there; names those that are.
      RunError: it cannot be read, or there is none at all.
    """
    if choice == "last":
        return newest(train_dir)
    folder = storage.join(train_dir, FOLDER) if choice == "best" else train_dir
    steps = checkpoints.steps_in(folder)
    if choice == "best" and not steps:
        raise UsageError(f"{train_dir} has no best checkpoint; keep one by eval.py --keep_best.")
    step = steps[0] if choice == "best" else int(choice)
    if step not in steps:
        known = ", ".join(map(str, steps)) or "none"
        raise UsageError(f"{train_dir} has no checkpoint of step {step}; it has: {known}.")
    path = checkpoints.path_of(folder, step)
    problem = checkpoints.problem_of(path)
    if problem and choice == "best" and checkpoints.steps_in(folder)[:1] > steps[:1]:
        return find(train_dir, choice)  # an evaluation has just put a better one in its place
    if problem:
        raise RunError(f"{path} cannot be read: {problem}")
    return path


def refuse_used(out: str) -> None:
    """Refuses to write over anything.

    Raises:
      UsageError: `out` is there already.
    """
    if storage.exists(out) or storage.is_dir(out):
        raise UsageError(f"--out={out} is there already; name a new folder, or remove that one.")
