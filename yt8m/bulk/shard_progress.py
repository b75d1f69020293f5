"""How far a job of `yt8m bulk` is: the bar or the lines that the user sees while the workers compute.

Workers may be on other machines, and some runners tell nothing until they end. So a worker leaves an empty file for
each shard that it has finished, in a folder that the process which started the job lists now and then.
"""

from __future__ import annotations

import re
import threading

from absl import logging

from yt8m import progress_bar, storage
from yt8m.bulk.bulk_config import Done
from yt8m.errors import RunError

LOOK_SECONDS = 2.0
REMOTE_LOOK_SECONDS = 15.0  # a list of a bucket costs money


def leave_mark(done: Done, folder: str) -> Done:
    """Leaves the file of a finished shard, whose name holds the number of the shard and that of its records."""
    with storage.write_atomic(storage.join(folder, f"{done.number}-{done.records}"), "w"):
        return done


class ShardProgress:
    """Shows how many shards and records are done, and the time left, in a thread; a context.

    On a terminal it shows a bar, elsewhere a line every 30 seconds.

    Args:
      folder: the folder of the marks, which only this attempt of the job uses.
      shards: number of shards.
      unit: what a shard holds, such as `records`.
    """

    def __init__(self, folder: str, shards: int, unit: str) -> None:
        self._folder, self._unit = folder, unit
        self._work = progress_bar.CountedWork(shards, "shards", lambda line: logging.info("%s", line))
        self._seconds = REMOTE_LOOK_SECONDS if storage.is_remote(folder) else LOOK_SECONDS
        self._over = threading.Event()

    def __enter__(self) -> ShardProgress:
        self._work.__enter__()
        self._thread = threading.Thread(target=self._watch, name="shard-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._over.set()
        self._thread.join()
        if self._work.has_bar:
            self.look()
        self._work.__exit__()

    def _watch(self) -> None:
        while not self._over.wait(self._seconds):
            self.look()

    def look(self) -> None:
        """Counts the marks, and shows them if that is due."""
        done, records = self._counted()
        self._work.show(done, records, self._unit, f"{records} {self._unit}, ")

    def _counted(self) -> tuple[int, int]:
        """The numbers of finished shards and of their records. A shard that was done twice counts once."""
        try:
            names = storage.names_in(self._folder)
        except RunError as error:  # a bucket that does not answer now shall not end the job
            logging.debug("cannot see how far the job is: %s", error)
            return 0, 0
        matches = [re.fullmatch(r"(\d+)-(\d+)", name) for name in names]
        counts = {int(match[1]): int(match[2]) for match in matches if match}
        return len(counts), sum(counts.values())
