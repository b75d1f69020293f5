"""The note in a run's folder by which the processes of a cluster find each other's run."""

from __future__ import annotations

import json
import uuid
from typing import NamedTuple

from yt8m import json_text, storage
from yt8m.errors import RunError

NAME = "cluster.json"


class Note(NamedTuple):
    """What the chief leaves.

    Attributes:
      run: a name that no other run has; a run that is resumed keeps it.
      ended: the last step, where the run has ended.
    """

    run: str
    ended: int | None = None


def read(model_dir: str) -> Note | None:
    """The note in the folder; None where there is none, or none that can be read."""
    path = storage.join(model_dir, NAME)
    if not storage.exists(path):
        return None
    try:
        found = json_text.parse(storage.read_text(path))
        return Note(str(found["run"]), found.get("ended"))
    except (RunError, ValueError, KeyError, TypeError, AttributeError):
        return None


def begin(model_dir: str) -> Note:
    """The chief's note of a start: of the run that is in the folder, or of a new one."""
    found = read(model_dir)
    note = Note(found.run if found is not None else uuid.uuid4().hex)
    _write(model_dir, note)
    return note


def end(model_dir: str, note: Note, step: int) -> None:
    """Says that the run has ended at `step`."""
    _write(model_dir, note._replace(ended=step))


def _write(model_dir: str, note: Note) -> None:
    storage.makedirs(model_dir)
    with storage.write_atomic(storage.join(model_dir, NAME), "w") as file:
        json.dump(note._asdict(), file)
