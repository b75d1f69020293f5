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

NAME, INPUT_NAME, STATE = "model.ckpt", "input", "checkpoint"
_UNFINISHED = re.compile(
    rf"({re.escape(NAME)}|{INPUT_NAME})-\d+\..*(tempstate\d+|\.tmp[0-9a-f]{{32}})"
    rf"|\.{re.escape(NAME)}-\d+\.(index|data-)(?!.*\.tmp$).*"  # the hidden name under which a checkpoint is written
)
KEEP_EVERY_SECONDS = 0.25 * 3600  # besides the newest checkpoints, one checkpoint per quarter of an hour is kept
_FILE = re.compile(rf"({re.escape(NAME)}|{INPUT_NAME})-(\d+)(?:\.replica\d+)?\.(index|meta|json|data-\d+-of-\d+)")


def sweep(model_dir: str) -> None:
    """Removes the files of a save that was killed in the middle: they cannot be used, and may be large."""
    for name in storage.names_in(model_dir):
        if _UNFINISHED.fullmatch(name):
            remove(model_dir, name, "a file of an unfinished save remains")
    for step, names in files_of(model_dir).items():
        if not _is_saved(names):
            logging.info("the save of step %d was not finished: its files are removed", step)
            _delete(model_dir, names)


def path_of(model_dir: str, step: int, name: str = NAME) -> str:
    """The prefix of the checkpoint's files: `model_dir/model.ckpt-N` for step N."""
    return storage.join(model_dir, f"{name}-{step}")


def step_of(checkpoint: str) -> int:
    """The step N in the path `.../model.ckpt-N` of a checkpoint; -1 if the path does not end in a number."""
    tail = checkpoint.rpartition("-")[2]
    return int(tail) if tail.isdigit() else -1


def files_of(model_dir: str) -> dict[int, list[str]]:
    """{step: names of its files in the folder}, of checkpoints and of saved positions in the data."""
    files: dict[int, list[str]] = {}
    for name in storage.names_in(model_dir):
        if match := _FILE.fullmatch(name):
            files.setdefault(int(match[2]), []).append(name)
    return files


def steps_in(model_dir: str) -> list[int]:
    """The steps of the folder's checkpoints, newest first; some of their files may be damaged or missing."""
    return sorted((step for step, names in files_of(model_dir).items() if _is_saved(names)), reverse=True)


def _is_saved(names: Sequence[str]) -> bool:
    """Whether these files of one step include an index or a meta-graph, which are written after the data."""
    return any(name.startswith(NAME) and name.endswith((".index", ".meta")) for name in names)


def newest_readable(model_dir: str) -> str | None:
    """The newest checkpoint whose tensors can all be read; None if the folder has no checkpoints.

    A damaged checkpoint is skipped, and the log says so.

    Raises:
      RunError: there are checkpoints but none can be read; a new run would overwrite them.
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
                break  # training deleted this checkpoint after it saved a newer one: look again
            damaged.append(f"{path} ({problem})")
            logging.error("DAMAGED CHECKPOINT: %s cannot be used: %s", path, problem)
        else:
            _refuse_a_fresh_start(model_dir, damaged)
            return None


def read_state(model_dir: str) -> Any:
    """The CheckpointState proto in `model_dir`; None if the file is missing, or damaged (which is logged)."""
    path = storage.join(model_dir, STATE)
    if not storage.exists(path):
        return None
    try:
        return _remote_state(path) if storage.is_remote(path) else tf.train.get_checkpoint_state(model_dir)
    except ValueError as error:  # UnicodeDecodeError is a ValueError
        logging.warning("THE FILE %s IS DAMAGED and is ignored: %s", path, error)
        return None


def _remote_state(path: str) -> Any:
    """Reads a state file in a bucket, and makes the names in it paths, as TensorFlow does for a local file."""
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
    """The checkpoint that the state file names as newest; None if it cannot be read. A save ends with that file."""
    state = read_state(model_dir)
    path = str(state.model_checkpoint_path) if state is not None else ""
    return path if path and not problem_of(path) else None


def _refuse_a_fresh_start(model_dir: str, damaged: Sequence[str]) -> None:
    """Raises `RunError` if the folder holds a run; an interrupted first save does not count as a run."""
    if storage.exists(storage.join(model_dir, STATE)) or steps_in(model_dir):
        problem = "; ".join(damaged) or f"the checkpoints that the file {STATE!r} names are missing"
        raise RunError(
            f"{model_dir} holds a run, but none of its checkpoints can be read: {problem}. "
            "Restore a checkpoint, or start again in another folder or with --start_new_model."
        )


def is_gone(checkpoint: str) -> bool:
    """Whether the checkpoint was deleted, and this process keeps no local copy of it.

    A checkpoint without an index counts as deleted, because the index is deleted before the data.
    """
    return not copies.is_held(checkpoint) and not storage.exists(f"{checkpoint}.index")


def with_newer(model: T, find: Callable[[], T], paths: Callable[[T], Sequence[str]], use: Callable[[T], R]) -> R:
    """Returns `use(model)`, or `use(find())` if training replaced a checkpoint by a newer one while it was read.

    The second call of `use` reads a local copy, which training cannot delete. So there is no third call.

    Args:
      model: an earlier result of `find`.
      find: finds one or several checkpoints that can be read.
      paths: returns the paths of the checkpoints in a result of `find`, always in the same order.
      use: reads the checkpoints of a result of `find`.

    Raises:
      The error of `use`, if its checkpoints still exist or there are no newer ones; also the errors of `find`.
    """
    try:
        return use(model)
    except (tf.errors.OpError, RunError, UsageError, ValueError, RuntimeError, OSError):
        before = paths(model)
        gone = [is_gone(path) for path in before]
        if not any(gone):
            raise
        newer = find()
        after = paths(newer)
        if len(after) < len(before) or not all(
            step_of(new) > step_of(old)
            for new, old, was_deleted in zip(after, before, gone, strict=True)
            if was_deleted
        ):
            raise
    first_gone = gone.index(True)
    logging.warning("%s was deleted while it was read: reading %s instead", before[first_gone], after[first_gone])
    return _use_copies(newer, find, paths, use)


def _use_copies(model: T, find: Callable[[], T], paths: Callable[[T], Sequence[str]], use: Callable[[T], R]) -> R:
    """`use(model)` with local copies of its checkpoints; finds newer ones until all could be copied."""
    while True:
        with contextlib.ExitStack() as holding:
            try:
                for path in paths(model):
                    holding.enter_context(copies.hold(path))
            except storage.NotFoundError:
                pass  # this checkpoint was deleted too, before it was copied
            else:
                return use(model)
        model = find()


def problem_of(checkpoint: str) -> str:
    """The reason why a checkpoint cannot be read; empty if all of its tensors can be read and match their checksums."""
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
    """The steps to delete: all except the newest `keep` steps and, before those, one step per quarter of an hour.

    If a step has an earlier time than the step before it, because the clock was set back, the interval between the two
    counts as 0.

    Args:
      times: {step: when it was saved, in seconds}.
      keep: number of newest steps to keep; 0 keeps all steps.
      last_preserved: the time of the newest quarter-hourly checkpoint, or of the start of the run.

    Returns:
      The steps to delete, and the new `last_preserved`.
    """
    if not keep or not times:
        return [], last_preserved
    passed = _passed(times)
    first = min(times)
    # Steps up to `decided`, the newest quarter-hourly one, were kept for good.
    decided = min((step for step in times if times[step] == last_preserved), default=None)
    if decided is None and last_preserved > times[first]:
        decided = first  # a user deleted the newest quarter-hourly step: the first remaining step replaces it
    since = last_preserved if decided is None else passed[decided]
    doomed = []
    for step in sorted(times)[:-keep]:
        if decided is not None and step <= decided:
            continue
        if passed[step] >= since + KEEP_EVERY_SECONDS:
            last_preserved, since = times[step], passed[step]
        else:
            doomed.append(step)
    return doomed, last_preserved


def _passed(times: Mapping[int, float]) -> dict[int, float]:
    """`times` made monotonic in the steps: a negative interval between two steps becomes 0."""
    passed: dict[int, float] = {}
    before = now = times[min(times)]
    for step in sorted(times):
        now += max(0.0, times[step] - before)
        passed[step], before = now, times[step]
    return passed


def write_state(model_dir: str, step: int, keep: int, elapsed: float | None = None) -> None:
    """Writes the state file `checkpoint`, which names `step` as the newest, and deletes old checkpoints.

    Checkpoints of later steps than `step` are ignored: they are damaged, so the run resumed at an older step.

    Args:
      model_dir: the run's folder.
      step: the step that was just saved; its files are on the disk.
      keep: number of newest checkpoints to keep; 0 keeps all.
      elapsed: seconds since the previous save of this process; None at its first save, for which the wall clock is
        read instead.
    """
    files, (saved_times, preserved) = files_of(model_dir), _times_in_state(model_dir)
    saved_times = {saved_step: when for saved_step, when in saved_times.items() if saved_step < step}
    newest = saved_times[max(saved_times)] if saved_times else 0.0
    saved_times[step] = newest + elapsed if saved_times and elapsed is not None else max(newest, time.time())
    times = _times(model_dir, files, step, saved_times)
    doomed, preserved = to_delete(times, keep, preserved or min(times.values()) - 1e-3)
    kept_steps = sorted(set(times) - set(doomed))
    state = tf.train.generate_checkpoint_state_proto(
        ".",  # the file names checkpoints without their folder, so that the folder of a run can be moved
        f"{NAME}-{step}",
        [f"{NAME}-{saved_step}" for saved_step in kept_steps],
        [times[saved_step] for saved_step in kept_steps],
        preserved,
    )
    storage.write(storage.join(model_dir, STATE), str(state))
    for saved_step in doomed:
        _delete(model_dir, files[saved_step])


def _times_in_state(model_dir: str) -> tuple[dict[int, float], float]:
    """({step: when it was saved, in seconds}, `last_preserved` of `to_delete` or 0), from the state file."""
    state = read_state(model_dir)
    if state is None:
        return {}, 0.0
    paths, times = state.all_model_checkpoint_paths, state.all_model_checkpoint_timestamps
    return dict(zip(map(step_of, paths), times, strict=False)), float(state.last_preserved_timestamp)


def _times(
    model_dir: str, files: Mapping[int, Sequence[str]], step: int, saved_times: Mapping[int, float]
) -> dict[int, float]:
    """{step: when it was saved, in seconds} up to `step`: from `saved_times`, or else the file time of its index."""
    steps = {
        saved_step for saved_step, names in files.items() if saved_step < step and f"{NAME}-{saved_step}.index" in names
    }
    steps.add(step)
    written = {} if saved_times.keys() >= steps else storage.times(model_dir)
    times = {saved_step: saved_times.get(saved_step, written.get(f"{NAME}-{saved_step}.index")) for saved_step in steps}
    return {saved_step: when for saved_step, when in times.items() if when is not None}


def _delete(model_dir: str, names: Sequence[str]) -> None:
    # The meta-graph is deleted first, then the index. If the process is killed between the two, a usable checkpoint
    # without a meta-graph remains, which the next save deletes. If it is killed later, the next start removes the rest.
    for name in sorted(names, key=lambda name: (not name.endswith(".meta"), not name.endswith(".index"))):
        remove(model_dir, name, "a file of an old checkpoint remains")


def remove(model_dir: str, name: str, message: str) -> None:
    """Removes the file `name` of the run; if that fails, logs `message` and the reason."""
    try:
        storage.remove(storage.join(model_dir, name))
    except RunError as error:
        logging.warning("%s: %s", message, error)
