"""The best checkpoint of a run: a copy in best/ in the run's folder, with a note about it (best.json)."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from yt8m import storage
from yt8m.config.run_dir import BEST_FOLDER, BEST_NOTE
from yt8m.errors import RunError
from yt8m.runner import checkpoints
from yt8m.storage import copies


def keep_best(train_dir: str, checkpoint: str, step: int, gap: float) -> bool:
    """Copies a checkpoint to `train_dir`/best if none is kept there, or if the new GAP is above the kept one's."""
    if _number_in_note(storage.join(train_dir, BEST_FOLDER), "gap") >= gap:
        return False
    replace_best(train_dir, checkpoint, step, {"gap": gap})
    logging.info(
        "the best checkpoint so far is that of step %d (GAP %.4f), kept in %s/%s", step, gap, train_dir, BEST_FOLDER
    )
    return True


def replace_best(train_dir: str, checkpoint: str, step: int, figures: Mapping[str, Any]) -> None:
    """Copies `checkpoint` to `train_dir`/best, in place of the one that is kept there.

    First the files of the new checkpoint are added, then the note (best.json) names it, then the files of the former
    one are removed. So after a first call the folder always holds a complete checkpoint. Files of checkpoints that an
    interrupted call left are removed too. Other files, such as those of an evaluation of this folder, stay.

    Args:
      figures: further entries of the note, such as {"gap": 0.83}.
    """
    folder = storage.join(train_dir, BEST_FOLDER)
    storage.makedirs(folder)
    copied = [_copy_into(path, folder) for path in storage.glob(f"{copies.copy_of(checkpoint)}.*")]
    if not any(name.endswith(".index") for name in copied):
        raise storage.NotFoundError(f"{checkpoint} was deleted while it was copied to {folder}")
    note = {"step": step, **figures, "checkpoint": checkpoint.rpartition("/")[2]}
    storage.write(storage.join(folder, BEST_NOTE), json.dumps(note))
    for name in itertools.chain(*checkpoints.files_of(folder).values()):
        if name not in copied:
            storage.remove(storage.join(folder, name))


def best_step(folder: str, steps: Sequence[int]) -> int:
    """Finds the step of the best checkpoint.

    Returns:
      The step that the note (best.json) names, if it is one of `steps`; else the newest step, or -1 if there is none.
    """
    step_in_note = _number_in_note(folder, "step")
    return next((step for step in steps if step == step_in_note), steps[0] if steps else -1)


def kept_step(train_dir: str) -> int | None:
    """The step of the best checkpoint of a run; None if none is kept."""
    folder = storage.join(train_dir, BEST_FOLDER)
    steps = list(checkpoints.steps_in(folder))
    return best_step(folder, steps) if steps else None


def _number_in_note(folder: str, key: str) -> float:
    """The number under `key` in the note of best/; -1 if there is none, or the note cannot be read."""
    try:
        return float(storage.read_json(storage.join(folder, BEST_NOTE))[key])
    except (RunError, ValueError, KeyError, TypeError):
        return -1.0


def _copy_into(path: str, folder: str) -> str:
    name = path.rpartition("/")[2]
    with storage.write_atomic(storage.join(folder, name)) as file, storage.open_read(path) as source:
        shutil.copyfileobj(source, file)
    return name
