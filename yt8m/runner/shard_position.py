"""The cheap position in the data: how many shards of the run's sequence were begun, with each checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from yt8m import json_text, storage
from yt8m.errors import RunError
from yt8m.graph import InputOps
from yt8m.lazy import tf
from yt8m.runner import checkpoints


class ShardPosition:
    """Counts the shards that the steps so far have records of; a resumed run leaves these out.

    Args:
      ops: the graph's input side, with numbered shards.
      files: what is read now.
      order: what else decides in which order shards are begun.
      num_epochs: passes over the files; None for no end.
    """

    def __init__(
        self, ops: InputOps, files: Sequence[str], order: Mapping[str, Any], num_epochs: int | None
    ) -> None:
        self._ops, self._shards, self._num_epochs = ops, len(files), num_epochs
        text = json.dumps([list(files), dict(order)], sort_keys=True, default=str)
        self._digest = hashlib.sha256(text.encode()).hexdigest()
        self._begun = 0

    @property
    def last_shard(self) -> tf.Tensor:
        """To be fetched with each step."""
        return self._ops.last_shard

    def note(self, last_shard: int) -> None:
        """Counts a step that has ended."""
        self._begun = max(self._begun, last_shard + 1)

    def save(self, session: tf.Session, model_dir: str, step: int) -> None:
        """Writes `input-N.json`."""
        told = {"data": self._digest, "begun": self._begun, "shards": self._shards}
        with storage.write_atomic(_path(model_dir, step), "w") as file:
            json.dump(told, file)

    def resume(self, model_dir: str, step: int) -> dict[tf.Tensor, int]:
        """What to feed when the iterator is started; says in the log where the data go on.

        Where there is no position, or it does not fit the data, the pass starts anew.
        """
        problem = self._read(_path(model_dir, step))
        if problem:
            logging.warning(
                "the position in the data of step %d is not taken up (%s): the pass starts anew",
                step,
                problem,
            )
        else:
            self._tell()
        return {self._ops.begun: self._begun}

    def _read(self, path: str) -> str:
        """Takes over what is in the file; returns why not, if so."""
        if not storage.exists(path):
            return f"there is no {path}"
        try:
            told = json_text.parse(storage.read_text(path))
            if "begun" not in told:
                return f"{path} belongs to --exact_resume"
            if told["data"] != self._digest:
                return "the files or the seed have changed"
            self._begun = int(told["begun"])
        except (RunError, ValueError, KeyError, TypeError) as error:
            return f"{path} cannot be read: {error}"
        return ""

    def _tell(self) -> None:
        epoch, shard = divmod(self._begun, self._shards)
        if self._num_epochs is not None and epoch >= self._num_epochs:
            logging.warning(
                "all %d shards of the last epoch (%d of %d) were begun before: nothing is left to read; "
                "--num_epochs allows for more",
                *(self._shards, self._num_epochs, self._num_epochs),
            )
            return
        logging.info(
            "the data go on at epoch %d, shard %d of %d; %d begun shards are not read again in this epoch",
            *(epoch + 1, shard + 1, self._shards, shard),
        )


def _path(model_dir: str, step: int) -> str:
    return checkpoints.path_of(model_dir, step, checkpoints.INPUT_NAME) + ".json"
