"""What training calls to export a checkpoint as a SavedModel."""

from __future__ import annotations

import shutil

from absl import logging

from yt8m import storage
from yt8m.config import TrainConfig
from yt8m.graph.export import export_saved_model
from yt8m.jobs import model_card
from yt8m.jobs.workload import Workload


class Exporter:
    """Writes `export/<step>` in the run's folder; a version number is what serving programs look for."""

    def __init__(self, config: TrainConfig, parts: Workload) -> None:
        self._config, self._parts = config, parts

    def __call__(self, checkpoint: str, step: int) -> None:
        """Exports `checkpoint`, of global step `step`; does nothing where that is there already."""
        folder = self._folder(step)
        if storage.exists(storage.join(folder, "saved_model.pb")):
            return
        export_saved_model(
            folder,
            checkpoint,
            self._parts.reader,
            self._parts.modeler,
            moving_average_decay=self._config.optimizer.moving_average_decay,
            describe=model_card.describing(self._config, self._config.train_dir, step),
        )
        logging.info("exported step %d to %s", step, folder)

    def publish(self, step: int) -> None:
        """Copies the export of global step `step` to `export_dir`, where one is named."""
        if self._config.export_dir:
            _copy(self._folder(step), self._config.export_dir)
            logging.info("the trained model is in %s", self._config.export_dir)

    def _folder(self, step: int) -> str:
        return storage.join(self._config.train_dir, "export", str(step))


def _copy(source: str, target: str) -> None:
    """A SavedModel file by file, `saved_model.pb` last: what looks for that finds a whole model."""
    for name in sorted(storage.listdir(source), key=lambda name: name == "saved_model.pb"):
        path = storage.join(source, name)
        if storage.is_dir(path):
            _copy(path, storage.join(target, name))
            continue
        with storage.open_read(path) as file, storage.write_atomic(storage.join(target, name)) as copy:
            shutil.copyfileobj(file, copy)
