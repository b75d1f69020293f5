"""Exports a training's SavedModels: those of the checkpoint that its run means."""

from __future__ import annotations

from absl import logging

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.export import model_card
from yt8m.export.saved_model import ModelFacts, copy_saved_model, export_saved_model
from yt8m.runner import checkpoints
from yt8m.runs import best_checkpoint
from yt8m.video.workload import Workload


class Exporter:
    """Exports SavedModels to `export/<step>` in the run's folder; TensorFlow Serving takes the number as version.

    A run that means its best checkpoint exports that one, as soon as there is one, and not the newest.
    """

    def __init__(self, config: TrainConfig, workload: Workload) -> None:
        self._config, self._workload, self._steps, self._has_trained = config, workload, set[int](), False

    def __call__(self, checkpoint: str, step: int, is_new: bool) -> None:
        """Exports `checkpoint`, of global step `step`.

        An export of this step stays if `is_new` is False. If this start of the run took the step itself, the export has
        the weights of an earlier start that went further, and is replaced.
        """
        self._has_trained |= is_new
        newest, step = step, meant_step(self._config, step)
        folder = self._folder(step)
        if step != newest:
            best = storage.join(self._config.train_dir, run_dir.BEST_FOLDER)
            checkpoint, is_new = checkpoints.path_of(best, step), is_new and step not in self._steps
        if not is_new and storage.exists(storage.join(folder, "saved_model.pb")):
            return
        self._steps.add(step)
        config, workload = self._config, self._workload
        decay, extractors = config.optimizer.moving_average_decay, config.data.extractors
        facts = ModelFacts(
            decay,
            names=workload.names,
            extractors=extractors,
            is_own=True,
            video_frames=config.data.video_frames,
            columns=config.data.columns,
        )
        describe = model_card.card_writer(config, workload.names, config.train_dir, step)
        export_saved_model(folder, checkpoint, workload.reader, workload.modeler, facts, describe=describe)
        logging.info("exported step %d to %s", step, folder)

    def finish(self, newest: int) -> None:
        """Exports what the run means at its end, at step `newest`: the last validation may have kept another best one.

        The last call for a checkpoint was before that validation.
        """
        if meant_step(self._config, newest) not in self._steps:
            self(checkpoints.path_of(self._config.train_dir, newest), newest, self._has_trained)

    def publish(self, step: int) -> None:
        """Copies the export of a training that ended at `step` to `export_dir`, if the config names one."""
        if self._config.export_dir:
            copy_saved_model(self._folder(meant_step(self._config, step)), self._config.export_dir)
            logging.info("the trained model is in %s", self._config.export_dir)

    def _folder(self, step: int) -> str:
        return storage.join(self._config.train_dir, "export", str(step))


def meant_step(config: TrainConfig, newest: int) -> int:
    """The step of the checkpoint that the run means: of its best one, or of the newest, which is given."""
    best = best_checkpoint.kept_step(config.train_dir) if config.checkpoint == "best" else None
    return newest if best is None else best
