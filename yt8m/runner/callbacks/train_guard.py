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
        """Asks for the norms, and for the tower to blame."""
        ops = self.context.ops
        tower = {} if ops.bad_tower is None else {"tower": ops.bad_tower}
        return tf.train.SessionRunArgs({"norms": ops.gradient_norms, **tower})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Raises `RunError` naming the step, the tower and the first variable with a bad gradient."""
        norms, tower = run_values.results["norms"], run_values.results.get("tower", -1)
        if np.isfinite(norms).all():
            return
        bad = int(np.flatnonzero(~np.isfinite(norms))[0])
        where = f" on tower {tower}" if tower >= 0 else ""
        raise RunError(
            f"step {self.context.step}: the gradient of {self.context.ops.gradient_variables[bad]} is not "
            f"finite{where} (its norm is {norms[bad]}). The last checkpoint is from before; "
            "lower the learning rate, or look for NaN in the features."
        )
