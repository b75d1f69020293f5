"""What training calls to export a checkpoint as a SavedModel."""

from __future__ import annotations

from absl import logging

from yt8m import storage
from yt8m.config import TrainConfig
from yt8m.graph.export import export_saved_model
from yt8m.jobs.workload import Workload


class Exporter:
    """Writes `export/<step>` in the run's folder; a version number is what serving programs look for."""

    def __init__(self, config: TrainConfig, parts: Workload) -> None:
        self._config, self._parts = config, parts

    def __call__(self, checkpoint: str, step: int) -> None:
        """Exports `checkpoint`, of global step `step`; does nothing where that is there already."""
        folder = storage.join(self._config.train_dir, "export", str(step))
        if storage.exists(storage.join(folder, "saved_model.pb")):
            return
        export_saved_model(
            folder,
            checkpoint,
            self._parts.reader,
            self._parts.modeler,
            moving_average_decay=self._config.optimizer.moving_average_decay,
        )
        logging.info("exported step %d to %s", step, folder)
