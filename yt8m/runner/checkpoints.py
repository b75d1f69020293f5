"""Finds the checkpoints in a run's folder, checks which of them can be read, and deletes old ones."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line
from yt8m.lazy import tf
from yt8m.storage import copies

T = TypeVar("T")
R = TypeVar("R")

# How the names of the files of a checkpoint, and of a saved position in the data, begin; the name of the state file.
NAME, INPUT_NAME, STATE = "model.ckpt", "input", "checkpoint"
# Matches the names of files of unfinished saves:
# - temporary files of TensorFlow, such as model.ckpt-3.index.tempstate17, or .tmp and 32 hexadecimal digits at the end;
# - hidden files such as .model.ckpt-3.index, which `RunSaver` renames when they are complete.
# Hidden names that end in .tmp do not match: `storage.unfinished` makes these files, and removes those that a killed
# process has left.
_UNFINISHED = re.compile(
    rf"({re.escape(NAME)}|{INPUT_NAME})-\d+\..*(tempstate\d+|\.tmp[0-9a-f]{{32}})"
    rf"|\.{re.escape(NAME)}-\d+\.(index|data-)(?!.*\.tmp$).*"
)
KEEP_EVERY_SECONDS = 0.25 * 3600  # besides the newest checkpoints, one checkpoint per quarter of an hour is kept
# Matches the names of the files of checkpoints and of saved positions in the data; group 2 is the step.
_FILE = re.compile(rf"({re.escape(NAME)}|{INPUT_NAME})-(\d+)(?:\.replica\d+)?\.(index|meta|json|data-\d+-of-\d+)")


def sweep(model_dir: str) -> None:
    """Removes the files of interrupted saves and deletions of checkpoints: they cannot be used and may be large.

    Args:
      model_dir: the folder of the run, local or gs://.
    """
    for name in storage.names_in(model_dir):
        if _UNFINISHED.fullmatch(name):
            remove(model_dir, name, "a file of an unfinished save remains")
    for step, names in files_of(model_dir).items():
        if not _is_saved(names):
            logging.info("the save of step %d was not finished: its files are removed", step)
            _delete(model_dir, names)


def path_of(model_dir: str, step: int, name: str = NAME) -> str:
    """The path prefix of the files of a checkpoint: `model_dir/model.ckpt-N` for step N."""
    return storage.join(model_dir, f"{name}-{step}")


def step_of(checkpoint: str) -> int:
    """The step N in the path `.../model.ckpt-N` of a checkpoint; -1 if the path does not end in a number."""
    tail = checkpoint.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1


def files_of(model_dir: str) -> dict[int, list[str]]:
    """{step: names of the files of its checkpoint and of its saved position in the data}, for all steps in a folder."""
    files: dict[int, list[str]] = {}
    for name in storage.names_in(model_dir):
        if match := _FILE.fullmatch(name):
            files.setdefault(int(match[2]), []).append(name)
    return files


def steps_in(model_dir: str) -> list[int]:
    """The steps of the checkpoints in a folder, the newest first. Files of these may be damaged or missing."""
    return sorted((step for step, names in files_of(model_dir).items() if _is_saved(names)), reverse=True)


def _is_saved(names: Sequence[str]) -> bool:
    """Whether one step's files include an index or a meta-graph, which come after the data: so these are complete."""
    return any(name.startswith(NAME) and name.endswith((".index", ".meta")) for name in names)


def newest_readable(model_dir: str) -> str | None:
    """The path of the newest checkpoint whose tensors can all be read; None if the folder has no checkpoints.

    A damaged checkpoint is skipped, and the log says so. The call reads the whole checkpoint.
    """
    read_state(model_dir)  # logs a warning if the state file is damaged
    while True:
        steps = steps_in(model_dir)
        damaged: list[str] = []
        for path in (path_of(model_dir, step) for step in steps):
            problem = problem_of(path)
            if not problem:
                if damaged:
                    logging.warning("USING THE OLDER CHECKPOINT %s", path)
                return path
            if is_gone(path) and steps_in(model_dir)[:1] > steps[:1]:
                break  # training saved a newer checkpoint and deleted this one: the folder is searched again
            damaged.append(f"{path} ({problem})")
            logging.error("DAMAGED CHECKPOINT: %s cannot be used: %s", path, problem)
        else:
            _refuse_a_fresh_start(model_dir, damaged)
            return None


def read_state(model_dir: str) -> Any:
    """Reads the state file `checkpoint` of a run.

    Returns:
      A CheckpointState proto; None if the file is missing, or if it is damaged, of which the log warns.
    """
    path = storage.join(model_dir, STATE)
    if not storage.exists(path):
        return None
    try:
        return _read_remote_state(path) if storage.is_remote(path) else tf.train.get_checkpoint_state(model_dir)
    except ValueError as error:  # UnicodeDecodeError is a ValueError
        logging.warning("THE FILE %s IS DAMAGED and is ignored: %s", path, error)
        return None


def _read_remote_state(path: str) -> Any:
    """Reads a state file in a bucket. The name of the newest checkpoint becomes a path, as TensorFlow does locally."""
    from google.protobuf import text_format

    state = tf.train.generate_checkpoint_state_proto(".", NAME)
    state.Clear()
    try:
        text_format.Parse(storage.read_text(path), state)
    except text_format.ParseError as error:
        raise ValueError(str(error)) from error
    folder, name = path.rpartition("/")[0], state.model_checkpoint_path
    state.model_checkpoint_path = name if name.startswith("gs://") or not name else storage.join(folder, name)
    return state


def pointed_to(model_dir: str) -> str | None:
    """The path of the checkpoint that the state file names as the newest.

    It is None if the state file is missing or damaged, or if that checkpoint cannot be read. A save writes the state
    file last, so the checkpoint that it names is complete.
    """
    state = read_state(model_dir)
    path = str(state.model_checkpoint_path) if state is not None else ""
    return path if path and not problem_of(path) else None


def _refuse_a_fresh_start(model_dir: str, damaged: Sequence[str]) -> None:
    """Raises `RunError` if the folder has a run none of whose checkpoints can be read.

    The files of an interrupted first save do not count as a run.
    """
    if storage.exists(storage.join(model_dir, STATE)) or steps_in(model_dir):
        problem = "; ".join(damaged) or f"the checkpoints that the file {STATE!r} names are missing"
        raise RunError(
            f"{model_dir} holds a run, but none of its checkpoints can be read: {problem}. "
            "Restore a checkpoint, or start again in another folder or with --start_new_model."
        )


def is_gone(checkpoint: str) -> bool:
    """Whether a checkpoint was deleted and this process has no local copy of it.

    A checkpoint without an index counts as deleted, because the index is deleted before the data.
    """
    return not copies.is_held(checkpoint) and not storage.exists(f"{checkpoint}.index")


def with_newer(model: T, find: Callable[[], T], paths: Callable[[T], Sequence[str]], use: Callable[[T], R]) -> R:
    """Reads checkpoints, or newer ones if a training deletes them while they are read.

    `use(model)` is called first. If it fails and a checkpoint was deleted, `use(find())` is called, on local copies of
    the newer checkpoints, which the training cannot delete.
    """
    try:
        return use(model)
    except (tf.errors.OpError, RunError, UsageError, ValueError, RuntimeError, OSError):
        old_paths = paths(model)
        are_gone = [is_gone(path) for path in old_paths]
        if not any(are_gone):
            raise
        newer = find()
        new_paths = paths(newer)
        if len(new_paths) < len(old_paths) or not all(
            step_of(new) > step_of(old)
            for new, old, was_deleted in zip(new_paths, old_paths, are_gone, strict=True)
            if was_deleted
        ):
            raise
    first = are_gone.index(True)
    logging.warning("%s was deleted while it was read: reading %s instead", old_paths[first], new_paths[first])
    return _use_copies(newer, find, paths, use)


def _use_copies(model: T, find: Callable[[], T], paths: Callable[[T], Sequence[str]], use: Callable[[T], R]) -> R:
    """Calls `use` on local copies of checkpoints; the arguments are those of `with_newer`.

    If a checkpoint is deleted before it is copied, newer ones are searched, until all of a model can be copied.
    """
    while True:
        with contextlib.ExitStack() as holding:
            try:
                for path in paths(model):
                    holding.enter_context(copies.hold(path))
            except storage.NotFoundError:
                pass  # training deleted the checkpoint before it was copied: a newer one is searched
            else:
                return use(model)
        model = find()


def problem_of(checkpoint: str) -> str:
    """The reason why a checkpoint cannot be read; empty if all its tensors can be read and match their checksums.

    Args:
      checkpoint: its path prefix, local or gs://.
    """
    if is_gone(checkpoint):
        return "its .index is missing"
    try:
        local_path = copies.copy_of(checkpoint)
    except storage.NotFoundError:
        return "it was deleted while it was copied"
    try:
        reader = tf.train.load_checkpoint(local_path)
        for tensor in reader.get_variable_to_shape_map():
            reader.get_tensor(tensor)
    except Exception as error:  # TensorFlow's reader raises errors of many types, even IndexError
        return first_line(error)
    return ""


def to_delete(times: Mapping[int, float], keep: int, last_preserved: float) -> tuple[list[int], float]:
    """Chooses the checkpoints to delete.

    The newest `keep` checkpoints are kept, and one of the older ones per quarter of an hour. If a checkpoint has an
    earlier time than the one before it, because the clock was set back, the interval between the two counts as 0.

    Args:
      times: {step of a checkpoint: when it was saved, in seconds}.
      keep: number of newest checkpoints to keep; 0 keeps all.
      last_preserved: the time of the newest checkpoint that was kept as the one of its quarter of an hour; if there is
        none yet, the time just before the first checkpoint.
    """
    if not keep or not times:
        return [], last_preserved
    monotonic_times = _monotonic_times(times)
    first = min(times)
    # The checkpoints up to this step were examined before, and are kept forever.
    last_preserved_step = min((step for step in times if times[step] == last_preserved), default=None)
    if last_preserved_step is None and last_preserved > times[first]:
        # A user has deleted the checkpoint that was kept last. The first remaining one takes its place.
        last_preserved_step = first
    since = last_preserved if last_preserved_step is None else monotonic_times[last_preserved_step]
    steps_to_delete = []
    for step in sorted(times)[:-keep]:
        if last_preserved_step is not None and step <= last_preserved_step:
            continue
        if monotonic_times[step] >= since + KEEP_EVERY_SECONDS:
            last_preserved, since = times[step], monotonic_times[step]
        else:
            steps_to_delete.append(step)
    return steps_to_delete, last_preserved


def _monotonic_times(times: Mapping[int, float]) -> dict[int, float]:
    """{step: time} in which no step has an earlier time than the step before: a negative interval becomes 0."""
    monotonic: dict[int, float] = {}
    previous = now = times[min(times)]
    for step in sorted(times):
        now += max(0.0, times[step] - previous)
        monotonic[step], previous = now, times[step]
    return monotonic


def write_state(model_dir: str, step: int, keep: int, elapsed: float | None = None) -> None:
    """Writes the state file `checkpoint`, which names the checkpoint of `step` as the newest; deletes old checkpoints.

    Checkpoints of later steps than `step` are left out: they are damaged, which is why the run resumed at an earlier
    step.

    Args:
      keep: number of newest checkpoints to keep; 0 keeps all.
      elapsed: seconds since the previous save of this process; None for its first save, whose time is then read from
        the wall clock.
    """
    files, (saved_times, preserved) = files_of(model_dir), _read_times(model_dir)
    saved_times = {saved_step: when for saved_step, when in saved_times.items() if saved_step < step}
    newest = saved_times[max(saved_times)] if saved_times else 0.0
    saved_times[step] = newest + elapsed if saved_times and elapsed is not None else max(newest, time.time())
    times = _complete_times(model_dir, files, step, saved_times)
    steps_to_delete, preserved = to_delete(times, keep, preserved or min(times.values()) - 1e-3)
    kept_steps = sorted(set(times) - set(steps_to_delete))
    state = tf.train.generate_checkpoint_state_proto(
        ".",  # the state file names checkpoints without their folder, so that the folder of a run can be moved
        f"{NAME}-{step}",
        [f"{NAME}-{saved_step}" for saved_step in kept_steps],
        [times[saved_step] for saved_step in kept_steps],
        preserved,
    )
    storage.write(storage.join(model_dir, STATE), str(state))
    for saved_step in steps_to_delete:
        _delete(model_dir, files[saved_step])


def _read_times(model_dir: str) -> tuple[dict[int, float], float]:
    """Reads the times of checkpoints from the state file.

    Returns:
      {step of a checkpoint: when it was saved, in seconds}; and the argument `last_preserved` of `to_delete`, or 0 if
      there is no state file.
    """
    state = read_state(model_dir)
    if state is None:
        return {}, 0.0
    paths, times = state.all_model_checkpoint_paths, state.all_model_checkpoint_timestamps
    return dict(zip(map(step_of, paths), times, strict=False)), float(state.last_preserved_timestamp)


def _complete_times(
    model_dir: str, files: Mapping[int, Sequence[str]], step: int, saved_times: Mapping[int, float]
) -> dict[int, float]:
    """{step of a checkpoint: when it was saved, in seconds}, of all checkpoints up to one step that have an index."""
    steps = {
        saved_step for saved_step, names in files.items() if saved_step < step and f"{NAME}-{saved_step}.index" in names
    }
    steps.add(step)
    file_times = {} if saved_times.keys() >= steps else storage.times(model_dir)
    times = {
        saved_step: saved_times.get(saved_step, file_times.get(f"{NAME}-{saved_step}.index")) for saved_step in steps
    }
    return {saved_step: when for saved_step, when in times.items() if when is not None}


def _delete(model_dir: str, names: Sequence[str]) -> None:
    """Deletes the files of one checkpoint."""
    # The meta-graph is deleted first, then the index. If the process is killed between the two, a usable checkpoint
    # without a meta-graph remains, which the next save deletes. If it is killed later, the next start removes the rest.
    for name in sorted(names, key=lambda name: (not name.endswith(".meta"), not name.endswith(".index"))):
        remove(model_dir, name, "a file of an old checkpoint remains")


def remove(model_dir: str, name: str, message: str) -> None:
    """Removes a file of a run. If that fails, a warning is logged."""
    try:
        storage.remove(storage.join(model_dir, name))
    except RunError as error:
        logging.warning("%s: %s", message, error)
