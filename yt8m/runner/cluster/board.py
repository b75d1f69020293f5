"""What the replicas tell one another, in a table on the first parameter server."""

from __future__ import annotations

from typing import Any

import numpy as np

from yt8m.lazy import tf

_RUN, _ENDED = "run:", "ended:"


class Board:
    """Which run's variables are live there, and which replicas are through with their data.

    A table lives and dies with the variables of its server and needs no initialisation.

    Args:
      device: of the first parameter server.
    """

    def __init__(self, device: str) -> None:
        # tf.lookup's class gives a table no name to share it by.
        raw = tf.raw_ops
        with tf.device(device):
            self.table = raw.MutableHashTableV2(
                key_dtype=tf.string, value_dtype=tf.int64, shared_name="cluster_board"
            )
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
