"""Tracks a training with MLflow: its config, the figures of training and of validation, and the best checkpoint.

    export MLFLOW_TRACKING_URI=sqlite:///mlflow.db
    yt8m train --callbacks=examples.mlflow_callback:Tracker --eval_data_pattern=... ...

A run that is resumed goes on in the same run of MLflow; `mlflow.run` in its folder has the id.
"""

import json
import math
import pathlib

import mlflow

from yt8m.options import flat
from yt8m.runner import Callback, Context, StepValues


class Tracker(Callback):
    """Logs to the run of MLflow that belongs to the folder of the training."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.folder = pathlib.Path(context.config.model_dir)  # a local folder
        self.has_ended = False
        context.line.listen(self.log, validations=True)

    def begin(self) -> None:
        note = self.folder / "mlflow.run"
        if note.exists():
            mlflow.start_run(run_id=note.read_text())
            return
        note.write_text(mlflow.start_run(run_name=self.folder.name).info.run_id)
        config = json.loads((self.folder / "config.json").read_text())["config"]
        mlflow.log_params({name: str(value)[:500] for name, value in flat(config).items()})

    def log(self, values: StepValues) -> None:
        """Each line of training, and each validation, is a point of its curves."""
        part = "validate" if values.is_validation else "train"
        figures = {**values.figures, "loss": values.loss}
        known = {name: value for name, value in figures.items() if value is not None and math.isfinite(value)}
        # The names of MLflow's metrics have no @.
        mlflow.log_metrics({f"{part}/{name.replace('@', '_at_')}": known[name] for name in known}, step=values.step)

    def end(self, session: object) -> None:
        self.has_ended = True

    def close(self) -> None:
        """Called however the run ends, after the last validation."""
        if mlflow.active_run() is None:
            return
        if (self.folder / "best").is_dir():
            mlflow.log_artifacts(str(self.folder / "best"), "best")
        stopped = self.context.signals is not None and self.context.signals.requested
        mlflow.end_run("KILLED" if stopped else "FINISHED" if self.has_ended else "FAILED")
