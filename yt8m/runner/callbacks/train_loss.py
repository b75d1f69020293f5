"""The loss in the line."""

from __future__ import annotations

from typing import Any

import numpy as np

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback


class TrainLoss(Callback):
    """Fetches the label loss on the steps that get a line, and on no others: it is not free."""

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Asks for the loss when a line is due."""
        return tf.train.SessionRunArgs(self.context.ops.label_loss) if self.context.line_due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Puts it into the line; raises `RunError` where it is not finite."""
        if run_values.results is None:
            return
        loss = float(run_values.results)
        if not np.isfinite(loss):
            raise RunError(
                f"step {self.context.step}: the loss is {loss}. The last checkpoint is from before."
            )
        self.context.line.values.loss = loss
