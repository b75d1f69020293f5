"""How parameter servers learn that training is over: the others put their names into a queue on each.

The note in a run's folder by which the processes of a cluster find each other's run.

What the replicas tell one another, in a table on the first parameter server.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, NamedTuple

import numpy as np

from yt8m import storage
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner.cluster.servers import PS_JOB, WORKER_JOB, server_device
from yt8m.storage import json_text

_CAPACITY = 1000


def queue_on(index: int) -> Any:
    """The queue of names on one parameter server. A server may name no other's: it does not see them."""
    with tf.device(server_device(index)):
        return tf.FIFOQueue(_CAPACITY, tf.string, [[]], shared_name=f"done_{index}")


def tell_ops(name: str, servers: int) -> list[tf.Operation]:
    """Ops that tell every parameter server that the process called `name` needs it no longer."""
    return [queue_on(index).enqueue(name) for index in range(servers)]


def say_done(cluster: ClusterConfig, runtime: Any) -> None:
    """Tells each parameter server, in a session of its own, that this chief or worker is through.

    For a training whose graph is already finalised, or is not the runner's.

    Args:
      cluster: all processes, and which one this is.
      runtime: this process' server, as `server.start` gave it.
    """
    own = f"/job:{WORKER_JOB}/task:{cluster.replica}"
    with tf.Graph().as_default():
        told = tell_ops(cluster.replica_name(cluster.replica), len(cluster.servers))
        # A worker that has ended before is not waited for.
        filters = tf.ConfigProto(device_filters=[f"/job:{PS_JOB}", own])
        with tf.Session(runtime.target, config=filters) as session:
            session.run(told)


NAME = "cluster.json"


class RunMarker(NamedTuple):
    """What the chief leaves.

    Attributes:
      run: a name that no other run has; a run that is resumed keeps it.
      ended: the last step, where the run has ended.
    """

    run: str
    ended: int | None = None


def read_run_marker(model_dir: str) -> RunMarker | None:
    """The note in the folder; None where there is none, or none that can be read."""
    path = storage.join(model_dir, NAME)
    if not storage.exists(path):
        return None
    try:
        found = json_text.parse(storage.read_text(path))
        return RunMarker(str(found["run"]), found.get("ended"))
    except (RunError, ValueError, KeyError, TypeError, AttributeError):
        return None


def begin_run_marker(model_dir: str) -> RunMarker:
    """The chief's note of a start: of the run that is in the folder, or of a new one."""
    found = read_run_marker(model_dir)
    note = RunMarker(found.run if found is not None else uuid.uuid4().hex)
    _write(model_dir, note)
    return note


def end_run_marker(model_dir: str, note: RunMarker, step: int) -> None:
    """Says that the run has ended at `step`."""
    _write(model_dir, note._replace(ended=step))


def _write(model_dir: str, note: RunMarker) -> None:
    storage.makedirs(model_dir)
    with storage.write_atomic(storage.join(model_dir, NAME), "w") as file:
        json.dump(note._asdict(), file)


_RUN, _ENDED = "run:", "ended:"


class SharedState:
    """Which run's variables are live there, and which replicas are through with their data.

    A table lives and dies with the variables of its server and needs no initialisation.

    Args:
      device: of the first parameter server.
    """

    def __init__(self, device: str) -> None:
        # tf.lookup's class gives a table no name to share it by.
        raw = tf.raw_ops
        with tf.device(device):
            self.table = raw.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="cluster_board")
            self._key = tf.placeholder(tf.string, [None], name="cluster_board_key")
            one = tf.ones_like(self._key, tf.int64)
            self._insert = raw.LookupTableInsertV2(table_handle=self.table, keys=self._key, values=one)
            self._remove = raw.LookupTableRemoveV2(table_handle=self.table, keys=self._key)
            self._keys, self._values = raw.LookupTableExportV2(
                table_handle=self.table, Tkeys=tf.string, Tvalues=tf.int64
            )

    def is_live(self, session: tf.Session, run: str) -> bool:
        """Whether the variables are those of the run `run`."""
        return f"{_RUN}{run}" in self._all(session)

    def set_live(self, session: tf.Session, run: str) -> None:
        """Says that they are; what belongs to another run has been cleared."""
        session.run(self._insert, {self._key: [f"{_RUN}{run}"]})

    def clear(self, session: tf.Session, run: str) -> None:
        """Nobody may take the variables up until `set_live`; what another run left is forgotten."""
        found = self._all(session)
        is_ours = f"{_RUN}{run}" in found
        doomed = [key for key in found if key.startswith(_RUN) or not is_ours]
        session.run(self._remove, {self._key: np.array(doomed, object)})

    def ended(self, session: tf.Session) -> set[int]:
        """The replicas that are through."""
        return {int(key.removeprefix(_ENDED)) for key in self._all(session) if key.startswith(_ENDED)}

    def set_ended(self, session: tf.Session, replica: int, is_ended: bool = True) -> None:
        """Says that a replica is through, or that it has begun again."""
        session.run(self._insert if is_ended else self._remove, {self._key: [f"{_ENDED}{replica}"]})

    def _all(self, session: tf.Session) -> dict[str, Any]:
        keys, values = session.run([self._keys, self._values])
        return {key.decode(): int(value) for key, value in zip(keys, values, strict=True)}
