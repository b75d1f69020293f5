"""Stops a run whose gradients are no longer numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback


class TrainGuard(Callback):
    """Looks at the norm of each variable's gradient, which clipping computes anyway, at every step."""

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the norms alone."""
        return tf.train.SessionRunArgs(self.context.ops.gradient_norms)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Raises `RunError` naming the step and the first variable with a bad gradient."""
        norms = run_values.results
        if np.isfinite(norms).all():
            return
        bad = int(np.flatnonzero(~np.isfinite(norms))[0])
        raise RunError(
            f"step {self.context.step}: the gradient of {self.context.ops.gradient_variables[bad]} is not "
            f"finite (its norm is {norms[bad]}). The last checkpoint is from before; "
            "lower the learning rate, or look for NaN in the features."
        )
