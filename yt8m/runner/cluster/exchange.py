"""The messages that the processes of a cluster exchange through a table and a file; `peers` checks which are alive.

    from            through                            to                  message
    chief, workers  table on parameter server 0        chief, workers      the run whose variables the servers hold;
                                                                           which replicas have read all their data
    chief, workers  table on each parameter server     that server, chief, that the sender no longer needs the server,
                                                       workers             or has failed; why the job is over
    chief           cluster.json in the run's folder   workers, evaluator  the name of the run; a fingerprint of its
                                                                           flags; the step at its end, or why it failed

The table and the file survive different failures:

- **`SharedState`, a table on each parameter server.** The table is lost together with the variables that it describes:
  a server that restarts has neither. The chief writes the name of the run when the variables have values, and removes
  the name before it restores the variables. A worker uses the variables only if the table has the name of its own run.
  A replica that has read all its data writes `ended`; the chief waits for that before it saves the last checkpoint. A
  replica that has closed its last session writes `done` on every server, one that ends with an error `failed`. A server
  ends when its own table has one of both from all replicas; it does not ask the other servers, which it may not be able
  to reach. `over` says that the whole job ends because of an error of one replica (see `failures`).
- **`RunMarker`, the file cluster.json in the run's folder.** It can be read before a session is open, and after all
  processes have ended. It tells a late worker that training is over, or that the worker has other flags than the chief,
  and the evaluator that no checkpoint will follow.
"""

from __future__ import annotations

import os
import sys
import uuid
from typing import Any, NamedTuple, NoReturn

import numpy as np
from absl import logging

from yt8m import forks, storage
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.storage import state_files

# The chief is task 0 of the job of the workers, so that all replicas have device names of the same form.
WORKER_JOB, PS_JOB = "worker", "ps"
MARKER_NAME = "cluster.json"  # the name of the file that has the `RunMarker`
# How the keys of the table begin; see the methods of `SharedState`.
_RUN, _ENDED, _DONE, _FAILED, _OVER = "run:", "ended:", "done:", "failed:", "over:"
_REASON_CHARACTERS = 1000  # a longer reason of a failure is cut
REMIND_SECONDS = 60.0  # the interval of the log messages of a process that waits for others


def server_device(index: int) -> str:
    """The name of the CPU device of parameter server number `index`."""
    return f"/job:{PS_JOB}/task:{index}/device:CPU:0"


class SharedState:
    """A hash table on one parameter server, which all processes read and write; its keys are the messages.

    TensorFlow makes the table at its first use; no session has to initialise it. `graph.Synchrony` keeps a count in the
    same table.
    """

    def __init__(self, device: str) -> None:
        # Raw ops are used, because the classes of tf.lookup cannot share a table between processes by its name.
        raw = tf.raw_ops
        with tf.device(device):
            self.table = raw.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="shared_state")
            self._key = tf.placeholder(tf.string, [None], name="shared_state_key")
            ones = tf.ones_like(self._key, tf.int64)
            self._insert = raw.LookupTableInsertV2(table_handle=self.table, keys=self._key, values=ones)
            self._remove = raw.LookupTableRemoveV2(table_handle=self.table, keys=self._key)
            self._keys, _ = raw.LookupTableExportV2(table_handle=self.table, Tkeys=tf.string, Tvalues=tf.int64)

    def is_live(self, session: tf.Session, run: str) -> bool:
        """Whether the variables have the values of the run named `run`; False if they have none or another run's."""
        return f"{_RUN}{run}" in self._read_keys(session)

    def set_live(self, session: tf.Session, run: str) -> None:
        """Records that the variables have the values of the run named `run`. Call `clear` before the values are set."""
        self._change(session, self._insert, f"{_RUN}{run}")

    def clear(self, session: tf.Session, run: str) -> None:
        """Records that the variables have no values.

        If the table does not have the name of the run `run`, other messages are of other runs and are removed too;
        except that of a replica that failed, which may have failed before the chief began.
        """
        keys = [key for key in self._read_keys(session) if not key.startswith((_FAILED, _OVER))]
        is_own_table = f"{_RUN}{run}" in keys
        self._change(session, self._remove, *(key for key in keys if key.startswith(_RUN) or not is_own_table))

    def ended(self, session: tf.Session) -> set[int]:
        """The indices of the replicas that have read all their data."""
        return {int(number) for number in self._read_suffixes(session, _ENDED)}

    def set_ended(self, session: tf.Session, replica: int, is_ended: bool = True) -> None:
        """Records whether a replica has read all its data."""
        self._change(session, self._insert if is_ended else self._remove, f"{_ENDED}{replica}")

    def failed(self, session: tf.Session) -> dict[str, str]:
        """{name of a process that ended with an error: the error}."""
        return dict(text.split("\n", 1) for text in sorted(self._read_suffixes(session, _FAILED)))

    def set_failed(self, session: tf.Session, name: str, reason: str) -> None:
        """Records that the process `name` ended with the error `reason`."""
        self._change(session, self._insert, f"{_FAILED}{name}\n{reason[:_REASON_CHARACTERS]}")

    def clear_failed(self, session: tf.Session, name: str) -> None:
        """Removes what `set_failed` recorded of the process `name`, which has started again."""
        keys = self._read_keys(session)
        self._change(session, self._remove, *(key for key in keys if key.startswith(f"{_FAILED}{name}\n")))

    def why_over(self, session: tf.Session) -> str:
        """Why the whole job ends; empty if it goes on."""
        return min(self._read_suffixes(session, _OVER), default="")

    def set_over(self, session: tf.Session, reason: str) -> None:
        """Records that the whole job ends, and why."""
        self._change(session, self._insert, f"{_OVER}{reason[:_REASON_CHARACTERS]}")

    def done(self, session: tf.Session) -> set[str]:
        """The names of the processes that no longer need this server."""
        return self._read_suffixes(session, _DONE)

    def set_done(self, session: tf.Session, name: str) -> None:
        """Records that the process `name` no longer needs this server."""
        self._change(session, self._insert, f"{_DONE}{name}")

    def _read_suffixes(self, session: tf.Session, prefix: str) -> set[str]:
        """What follows `prefix` in the keys of the table that begin with it."""
        return {key.removeprefix(prefix) for key in self._read_keys(session) if key.startswith(prefix)}

    def _change(self, session: tf.Session, op: tf.Operation, *keys: str) -> None:
        """Inserts keys into the table or removes them, as `op` does."""
        session.run(op, {self._key: np.array(keys, object)})

    def _read_keys(self, session: tf.Session) -> list[str]:
        """All keys of the table."""
        return [key.decode() for key in session.run(self._keys)]


def say_done(cluster: ClusterConfig, runtime: Any) -> None:
    """Tells each parameter server that this chief or worker no longer needs it.

    Call this after the last session of the training was closed. This function opens and closes a session of its own.

    Args:
      cluster: all processes, and the role of this one.
      runtime: the TensorFlow server of this process, from `servers.start`.
    """
    own_device = f"/job:{WORKER_JOB}/task:{cluster.replica}"
    with tf.Graph().as_default():
        states = [SharedState(server_device(index)) for index in range(len(cluster.servers))]
        # Without device filters, the session would wait for workers that have already ended.
        filters = tf.ConfigProto(device_filters=[f"/job:{PS_JOB}", own_device])
        with forks.new_session(runtime.target, config=filters) as session:
            for state in states:
                state.set_done(session, cluster.replica_name(cluster.replica))


class RunMarker(NamedTuple):
    """The content of cluster.json, which the chief writes.

    Attributes:
      ended: the last step of the run; None until the run ends.
      flags: the `shared_flags.fingerprint` of the chief; None if the training has no workers on parameter servers.
      failed: why the whole job ended with an error; empty if it did not.
    """

    run: str
    ended: int | None = None
    flags: int | None = None
    failed: str = ""


def read_run_marker(model_dir: str) -> RunMarker | None:
    """The content of cluster.json in a run's folder; None if the file is missing or cannot be read."""
    try:
        values = state_files.read(storage.join(model_dir, MARKER_NAME))
        return RunMarker(str(values["run"]), values.get("ended"), values.get("flags"), str(values.get("failed") or ""))
    except (RunError, ValueError, KeyError, TypeError, AttributeError):
        return None


def begin_run_marker(model_dir: str, flags: int | None = None) -> RunMarker:
    """Writes into cluster.json that a run has begun.

    Args:
      flags: the fingerprint of the chief's flags; None if no worker compares its own with it.

    Returns:
      What was written. The run keeps the name that the file had; it gets a new one if there was no readable file.
    """
    former = read_run_marker(model_dir)
    marker = RunMarker(former.run if former is not None else uuid.uuid4().hex, flags=flags)
    _write_run_marker(model_dir, marker)
    return marker


def end_run_marker(model_dir: str, marker: RunMarker, step: int) -> None:
    """Writes into cluster.json that a run has ended."""
    _write_run_marker(model_dir, marker._replace(ended=step))


def fail_run_marker(model_dir: str, marker: RunMarker, reason: str) -> None:
    """Writes into cluster.json that the whole job has ended with an error."""
    _write_run_marker(model_dir, marker._replace(failed=reason))


def _write_run_marker(model_dir: str, marker: RunMarker) -> None:
    """Writes cluster.json."""
    storage.makedirs(model_dir)
    state_files.write(storage.join(model_dir, MARKER_NAME), marker._asdict())


def end_process(status: int) -> NoReturn:
    """Ends this process at once, with the exit status `status`.

    Nothing else stops TensorFlow's server, or a step that waits for a dead process.
    """
    logging.flush()
    sys.stdout.flush()
    os._exit(status)
