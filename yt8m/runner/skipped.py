"""What of the input was left out or changed: told as it happens and at the end."""

from __future__ import annotations

import json
from typing import Any

from absl import logging

from yt8m import storage
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.record_reader import DamagedError
from yt8m.runner.context import Context
from yt8m.runner.metrics_file import QuietlyFailing


class SkippedHook(tf.train.SessionRunHook):
    """Writes each bad record into metrics.jsonl, and at the end all of them into the log.

    An inputter that goes on past bad records has a `tolerance` with what it skipped; a reader that sets
    values to 0 has `zeroed`. Their counts are left in the results under `bad_records` and `zeroed_values`.
    """

    def __init__(self, context: Context, inputter: Any) -> None:
        self._context, self._inputter = context, inputter
        path = storage.join(context.config.model_dir, "metrics.jsonl")
        self._path, self._quietly = path, QuietlyFailing(path)
        self._told = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes what is new."""
        skipped = self._skipped()
        for damage in skipped[self._told :]:
            logging.warning("a bad record, the rest of its shard is skipped: %s", damage)
            where = {"shard": damage.path, "record": damage.record, "what": damage.what}
            self._write({"bad_record": where})
        self._told = len(skipped)

    def end(self, session: tf.Session) -> None:
        """The summary."""
        self.after_run(None, None)
        skipped, zeroed = self._skipped(), self._zeroed()
        self._context.results.update(bad_records=len(skipped), zeroed_values=zeroed)
        if skipped:
            shards = "; ".join(f"{damage.path} from record {damage.record} on" for damage in skipped)
            logging.warning("%d bad records: left out are %s", len(skipped), shards)
        if zeroed:
            logging.warning("%d values were NaN, infinite or too large, and were set to 0", zeroed)
        if skipped or zeroed:
            self._write({"bad_records": len(skipped), "zeroed_values": zeroed})

    def close(self) -> None:
        """Lets go of what the inputter took to look into records."""
        close = getattr(self._inputter, "close", None)
        if close is not None:
            close()

    def _skipped(self) -> list[DamagedError]:
        tolerance = getattr(self._inputter, "tolerance", None)
        return list(tolerance.skipped.values()) if tolerance is not None else []

    def _zeroed(self) -> int:
        zeroed = getattr(getattr(self._inputter, "reader", None), "zeroed", None)
        return zeroed.count if zeroed is not None else 0

    def _write(self, values: dict[str, Any]) -> None:
        told = {"step": self._context.step, "mode": self._context.config.mode, **values}
        line = json.dumps(told, ensure_ascii=False)
        self._quietly(lambda: storage.append_line(self._path, line), (RunError,))
