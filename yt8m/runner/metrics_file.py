"""metrics.jsonl: one JSON object a line, each written whole."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from absl import logging

from yt8m import storage
from yt8m.errors import RunError
from yt8m.runner.lines import StepValues
from yt8m.storage.sending import GrowingFile


class QuietlyFailing:
    """Calls that may fail without ending the run: the first failure is logged, then they are left out.

    Nobody wants to lose a training run because there was no room for its curves.
    """

    def __init__(self, what: str) -> None:
        self._what, self._failed = what, False

    def __call__(self, call: Callable[[], Any], errors: tuple[type[Exception], ...]) -> None:
        """Runs `call`, unless an earlier one failed."""
        if self._failed:
            return
        try:
            call()
        except errors as error:
            self._failed = True
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            logging.error("%s cannot be written any more, the run goes on without: %s", self._what, reason)


class MetricsFile:
    """Appends the values of each line as `{"step": ..., "loss": ..., ...}`."""

    def __init__(self, path: str) -> None:
        self._file, self._quietly = GrowingFile(path, go_on=True), QuietlyFailing(path)

    def add(self, values: StepValues) -> None:
        """One line; a figure that is not finite is written as null, which JSON has."""
        line = json.dumps({key: _finite(value) for key, value in _as_dict(values).items()})
        self._quietly(lambda: storage.append_line(self._file.local, line), (RunError,))


def _as_dict(values: StepValues) -> dict[str, Any]:
    named = {
        "step": values.step,
        "loss": values.loss,
        "examples_per_second": values.examples_per_second,
        "examples": values.examples,
    }
    return {key: value for key, value in named.items() if value is not None} | values.figures


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
