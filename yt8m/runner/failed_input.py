"""Keeps errors of the input out of saved positions in the data, and finds the checkpoint to resume from if one got in.

The input reads ahead. If it fails, for example at a damaged record or on a full disk, the error waits in its buffers
until the steps have used the batches before it. The state of the iterator that is saved meanwhile (--exact_resume) has
the error too, and a run that restored this state would fail at the same place for ever, even with the cause removed.

So such a state is not kept: `input-N.json` then says that the input had failed. The run resumes from the newest
checkpoint with a sound position, whose next steps are those of an unbroken run.
"""

from __future__ import annotations

import mmap
import re
from typing import Any

from absl import logging

from yt8m import storage
from yt8m.errors import RunError
from yt8m.runner import checkpoints
from yt8m.storage import copies, state_files

# The entry of `input-N.json` that says whether the input had failed. Files of earlier versions lack it.
FAILED = "failed"
# tf.data saves the status of each buffered element: the key of its code, and only for an error the key of its message.
# The keys of a state are one text with "@@" between them, and the next field of the proto begins with \x1a.
_MESSAGE = b"error_message"
_MESSAGE_KEY = re.compile(rb"@@[\w.:\[\]]*error_message(@@|\x1a)")
_LONGEST_KEY = 300  # bytes; a key has the name of each dataset from the last to the one that holds the status


def is_in_state(path: str) -> bool:
    """Whether the state of an iterator holds an error.

    Args:
      path: the local file of the state, `input-N.data-00000-of-00001`.
    """
    if not storage.size(path):
        return False
    with storage.open_read(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as state:
        place = state.find(_MESSAGE)
        while place >= 0:
            if _MESSAGE_KEY.search(state, max(0, place - _LONGEST_KEY), place + len(_MESSAGE) + 2):
                return True
            place = state.find(_MESSAGE, place + 1)
    return False


def discard_failed_state(path: str) -> bool:
    """Removes the saved state of an iterator if it holds an error; returns whether it did.

    Args:
      path: the path of the state's local files, without extension.
    """
    if not is_in_state(f"{path}.data-00000-of-00001"):
        return False
    for end in (".index", ".data-00000-of-00001"):
        storage.remove(f"{path}{end}")
    return True


def checkpoint_to_resume(model_dir: str, is_exact: bool) -> str | None:
    """The path of the checkpoint from which a training resumes; None if the folder has none.

    It is the newest one that can be read. With --exact_resume, if the input had failed before that one was saved, it is
    the newest older one with a sound position. If there is none, it is the newest after all, and the data are read from
    their beginning.

    Args:
      model_dir: the folder of the run, local or gs://.
    """
    newest = checkpoints.newest_readable(model_dir)
    if newest is None or not is_exact or not _any_has_failed(model_dir, step := checkpoints.step_of(newest)):
        return newest
    for older in (saved for saved in checkpoints.steps_in(model_dir) if saved < step):
        path = checkpoints.path_of(model_dir, older)
        if (
            _has_position(model_dir, older)
            and not _any_has_failed(model_dir, older)
            and not checkpoints.problem_of(path)
        ):
            logging.warning(
                "the input had failed before the checkpoint of step %d was saved, so its position in the data is of no "
                "use: training goes on from step %d, the newest checkpoint with a sound position",
                *(step, older),
            )
            return path
    logging.warning("the input had failed before each of the checkpoints in %s was saved", model_dir)
    return newest


def has_failed(path: str, step: int) -> bool:
    """Whether a saved position in the data holds an error of the input, which resuming would bring back.

    Args:
      path: its path without extension, `.../input-N`.
    """
    content = _read(f"{path}.json")
    if _begins_at(content, step):
        return False
    if FAILED in content or not storage.exists(f"{path}.index"):
        return bool(content.get(FAILED))
    return is_in_state(f"{copies.copy_of(path)}.data-00000-of-00001")


def _any_has_failed(model_dir: str, step: int) -> bool:
    """Whether the input of any process of the run had failed before the checkpoint of a step was saved."""
    names = [name for name in checkpoints.files_of(model_dir).get(step, []) if name.startswith(checkpoints.INPUT_NAME)]
    stems = {name.rpartition(".")[0] for name in names if name.endswith(".json")}
    return any(has_failed(storage.join(model_dir, stem), step) for stem in sorted(stems))


def _has_position(model_dir: str, step: int) -> bool:
    """Whether the state of the iterator was saved with the checkpoint of a step, or the data begin at that step."""
    path = checkpoints.path_of(model_dir, step, checkpoints.INPUT_NAME)
    return _begins_at(_read(f"{path}.json"), step) or storage.exists(f"{path}.index")


def _read(path: str) -> dict[str, Any]:
    """The content of a file `input-N.json`; empty if it cannot be read, of which the run warns when it resumes."""
    try:
        return state_files.read(path)
    except RunError:
        return {}


def _begins_at(content: dict[str, Any], step: int) -> bool:
    """Whether the run had read no data yet when it saved this position, so that they are read from their beginning."""
    return content.get("first_step") == step
