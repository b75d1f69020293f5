"""A copy of the best checkpoint by GAP, which no clean-up of the run's folder takes away."""

from __future__ import annotations

import json

from absl import logging

from yt8m import json_text, storage
from yt8m.errors import RunError
from yt8m.storage import copies

FOLDER, NOTE = "best", "best.json"


def keep_best(train_dir: str, checkpoint: str, step: int, gap: float) -> bool:
    """Copies `checkpoint` to `train_dir`/best where its GAP is above that of the copy there.

    The note with step and GAP is written last, so a copy that was cut short is made again.

    Returns:
      Whether it was copied.

    Raises:
      NotFoundError: training has deleted the checkpoint meanwhile.
    """
    folder = storage.join(train_dir, FOLDER)
    note = storage.join(folder, NOTE)
    if _gap_of(note) >= gap:
        return False
    storage.makedirs(folder)
    former = storage.listdir(folder) if storage.is_dir(folder) else []
    copied = [_copy(path, folder) for path in storage.glob(f"{copies.copy_of(checkpoint)}.*")]
    if not any(name.endswith(".index") for name in copied):
        raise storage.NotFoundError(f"{checkpoint} was deleted while it was copied to {folder}")
    with storage.write_atomic(note, "w") as file:
        json.dump({"step": step, "gap": gap, "checkpoint": checkpoint.rpartition("/")[2]}, file)
    for name in set(former) - set(copied) - {NOTE}:
        storage.remove(storage.join(folder, name))
    logging.info("the best checkpoint so far is that of step %d (GAP %.4f), kept in %s", step, gap, folder)
    return True


def _gap_of(note: str) -> float:
    try:
        return float(json_text.parse(storage.read_text(note))["gap"])
    except (RunError, ValueError, KeyError, TypeError):
        return -1.0


def _copy(path: str, folder: str) -> str:
    name = path.rpartition("/")[2]
    with storage.write_atomic(storage.join(folder, name)) as file:
        file.write(storage.read_bytes(path))
    return name
