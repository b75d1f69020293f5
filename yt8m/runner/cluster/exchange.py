"""The messages between the processes of a cluster, and their two channels; `peers` tells which processes live.

    from            by                                 to                  message
    chief, workers  table on parameter server 0        chief, workers      the run whose variables the servers hold;
                                                                           which replicas have read all their data
    chief, workers  table on each parameter server     that server         that the sender no longer needs the server
    chief           cluster.json in the run's folder   workers, evaluator  the name of the run; the step at its end

There are two channels, because each must survive a different failure:

- **`SharedState`, a table on each parameter server.** It describes the variables on the servers and is lost with them:
  a server that restarts without variables has no table either. The chief writes the name of the run when the variables
  have values, and removes it before it restores them; workers use no other run's variables. A replica that has read
  all its data writes `ended`, and the chief, which saves the last checkpoint, waits for that. A replica that has
  closed its last session writes `done` on every server. A server ends when all replicas have done so, and learns that
  from its own table, since it may not reach the other servers.
- **`RunMarker`, the file cluster.json in the run's folder.** It can be read before there is a session, and when all
  processes have ended. A worker that comes late reads in it that training is over, and the evaluator that no
  checkpoint will follow.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from typing import Any, NamedTuple, NoReturn

import numpy as np
from absl import logging

from yt8m import storage
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError
from yt8m.lazy import tf

# The chief is task 0 of the workers' job, so that its devices are named like theirs.
WORKER_JOB, PS_JOB = "worker", "ps"
MARKER_NAME = "cluster.json"
_RUN, _ENDED, _DONE = "run:", "ended:", "done:"
REMIND_SECONDS = 60.0  # a process that waits for others says so this often


def server_device(index: int) -> str:
    """The device of one parameter server."""
    return f"/job:{PS_JOB}/task:{index}/device:CPU:0"


class SharedState:
    """A table on one parameter server, which all processes read and write: its keys are the messages.

    TensorFlow makes the table at its first use; no session has to initialise it. `graph.Synchrony` has a count in it
    too.

    Args:
      device: the device of the server.
    """

    def __init__(self, device: str) -> None:
        # The classes of tf.lookup cannot share a table by name.
        raw = tf.raw_ops
        with tf.device(device):
            self.table = raw.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="shared_state")
            self._key = tf.placeholder(tf.string, [None], name="shared_state_key")
            ones = tf.ones_like(self._key, tf.int64)
            self._insert = raw.LookupTableInsertV2(table_handle=self.table, keys=self._key, values=ones)
            self._remove = raw.LookupTableRemoveV2(table_handle=self.table, keys=self._key)
            self._keys, _ = raw.LookupTableExportV2(table_handle=self.table, Tkeys=tf.string, Tvalues=tf.int64)

    def is_live(self, session: tf.Session, run: str) -> bool:
        """Whether the variables have the values of the run `run`; false if they are new or of an earlier run."""
        return f"{_RUN}{run}" in self._all(session)

    def set_live(self, session: tf.Session, run: str) -> None:
        """Records that the variables have the values of the run `run`; call `clear` before they are assigned."""
        self._change(session, self._insert, f"{_RUN}{run}")

    def clear(self, session: tf.Session, run: str) -> None:
        """Records that the variables have no values, and removes the messages of all runs but `run`."""
        keys = self._all(session)
        is_ours = f"{_RUN}{run}" in keys
        self._change(session, self._remove, *(key for key in keys if key.startswith(_RUN) or not is_ours))

    def ended(self, session: tf.Session) -> set[int]:
        """The indices of the replicas that have read all their data."""
        return {int(number) for number in self._with_prefix(session, _ENDED)}

    def set_ended(self, session: tf.Session, replica: int, is_ended: bool = True) -> None:
        """Records whether a replica has read all its data (False if it started again)."""
        self._change(session, self._insert if is_ended else self._remove, f"{_ENDED}{replica}")

    def done(self, session: tf.Session) -> set[str]:
        """The names of the processes that no longer need this server."""
        return self._with_prefix(session, _DONE)

    def set_done(self, session: tf.Session, name: str) -> None:
        """Records that the process `name` no longer needs this server."""
        self._change(session, self._insert, f"{_DONE}{name}")

    def _with_prefix(self, session: tf.Session, prefix: str) -> set[str]:
        return {key.removeprefix(prefix) for key in self._all(session) if key.startswith(prefix)}

    def _change(self, session: tf.Session, op: tf.Operation, *keys: str) -> None:
        session.run(op, {self._key: np.array(keys, object)})

    def _all(self, session: tf.Session) -> list[str]:
        return [key.decode() for key in session.run(self._keys)]


def say_done(cluster: ClusterConfig, runtime: Any) -> None:
    """Tells each parameter server, in a session of its own, that this chief or worker no longer needs it.

    Call it after the last session of the training is closed.

    Args:
      cluster: all processes, and which one this is.
      runtime: the TensorFlow server of this process, from `servers.start`.
    """
    own_device = f"/job:{WORKER_JOB}/task:{cluster.replica}"
    with tf.Graph().as_default():
        states = [SharedState(server_device(index)) for index in range(len(cluster.servers))]
        # Without device filters, the session would wait for workers that have already ended.
        filters = tf.ConfigProto(device_filters=[f"/job:{PS_JOB}", own_device])
        with tf.Session(runtime.target, config=filters) as session:
            for state in states:
                state.set_done(session, cluster.replica_name(cluster.replica))


class RunMarker(NamedTuple):
    """The content of cluster.json, which the chief writes.

    Attributes:
      run: a unique name; a resumed run keeps it.
      ended: the last step; None until the run ends.
    """

    run: str
    ended: int | None = None


def read_run_marker(model_dir: str) -> RunMarker | None:
    """The marker in a run's folder; None if it is missing or cannot be read."""
    try:
        values = storage.read_json(storage.join(model_dir, MARKER_NAME))
        return RunMarker(str(values["run"]), values.get("ended"))
    except (RunError, ValueError, KeyError, TypeError, AttributeError):
        return None


def begin_run_marker(model_dir: str) -> RunMarker:
    """Writes and returns the marker of a run that has begun: the run in the folder, or a new one."""
    former = read_run_marker(model_dir)
    marker = RunMarker(former.run if former is not None else uuid.uuid4().hex)
    _write(model_dir, marker)
    return marker


def end_run_marker(model_dir: str, marker: RunMarker, step: int) -> None:
    """Writes that the run has ended at `step`."""
    _write(model_dir, marker._replace(ended=step))


def _write(model_dir: str, marker: RunMarker) -> None:
    storage.makedirs(model_dir)
    storage.write(storage.join(model_dir, MARKER_NAME), json.dumps(marker._asdict()))


def end_process(status: int) -> NoReturn:
    """Ends this process at once.

    There is no other way to stop TensorFlow's server, or a step that waits for a process.
    """
    logging.flush()
    sys.stdout.flush()
    os._exit(status)
