"""Tracks a training with Weights & Biases: its config, the figures of training and of validation, the best checkpoint.

    yt8m train --callbacks=examples.wandb_callback:Tracker --eval_data_pattern=... ...

The environment of wandb says where to (WANDB_PROJECT, WANDB_MODE=offline, ...). A run that is resumed goes on in the
same run of wandb; `wandb.run` in its folder has the id.
"""

import json
import math
import os
import pathlib
import uuid

import wandb

from yt8m.options import flat
from yt8m.runner import Callback, Context, StepValues


class Tracker(Callback):
    """Logs to the run of wandb that belongs to the folder of the training."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.folder = pathlib.Path(context.config.model_dir)  # a local folder
        self.run: wandb.Run | None = None
        self.has_ended = False
        context.line.listen(self.log, validations=True)

    def begin(self) -> None:
        note = self.folder / "wandb.run"
        if not note.exists():
            note.write_text(uuid.uuid4().hex[:8])
        config = json.loads((self.folder / "config.json").read_text())["config"]
        project = os.environ.get("WANDB_PROJECT", "yt8m")
        self.run = wandb.init(
            project=project, id=note.read_text(), name=self.folder.name, resume="allow", config=flat(config)
        )
        # Lines and validations may come in another order than their steps, which wandb's own counter does not allow.
        self.run.define_metric("*", step_metric="step")

    def log(self, values: StepValues) -> None:
        """Each line of training, and each validation, is a point of its curves."""
        part = "validate" if values.is_validation else "train"
        figures = {**values.figures, "loss": values.loss}
        known = {
            f"{part}/{name}": value for name, value in figures.items() if value is not None and math.isfinite(value)
        }
        if self.run is not None:
            self.run.log({**known, "step": values.step})

    def end(self, session: object) -> None:
        self.has_ended = True

    def close(self) -> None:
        """Called however the run ends, after the last validation."""
        if self.run is None:
            return
        if (self.folder / "best").is_dir():
            best = wandb.Artifact(f"{self.run.id}-best", "model")
            best.add_dir(str(self.folder / "best"))
            self.run.log_artifact(best)
        self.run.finish(exit_code=0 if self.has_ended else 1)
