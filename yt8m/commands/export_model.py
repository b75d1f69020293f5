"""A model out of a checkpoint, its weights in as many bits as asked, and what that costs in GAP.

The command `yt8m export`.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence

from absl import logging

from yt8m import program, readers, runner, storage
from yt8m.commands import saved_run, workload
from yt8m.config import flags, run_dir
from yt8m.config.programs import ExportConfig
from yt8m.config.train_config import DataConfig, OptimizerConfig, TrainConfig
from yt8m.errors import RunError
from yt8m.export import model_card
from yt8m.export.inference_model import NAME, write_inference_model
from yt8m.export.saved_model import export_saved_model, replaced_folder
from yt8m.graph import Modeler
from yt8m.program import run_main
from yt8m.runner import checkpoints
from yt8m.video.meta_modeler import MetaGraphModeler

SAVED_MODEL = "saved_model"


def export(config: ExportConfig) -> int:
    """Writes `config.out`: saved_model/, inference_model/, config.json and README.md; whole or not at all.

    `inference.py --train_dir` and `train.py --teacher` take the folder as they take a run's.

    Raises:
      UsageError: no such run or checkpoint, or the folder is there already.
      RunError: the checkpoint cannot be read.
    """
    train_dir = saved_run.find_run(config.train_dir or config.run)
    saved_run.refuse_used(config.out)
    run = saved_run.load_run(train_dir, None, {}, trust_code=config.trust_code)

    def find() -> str:
        return saved_run.find_checkpoint(train_dir, config.checkpoint)

    checkpoints.with_newer(find(), find, lambda path: [path], lambda path: _export(config, train_dir, run, path))
    return 0


def _export(config: ExportConfig, train_dir: str, run: TrainConfig, checkpoint: str) -> None:
    data = _data(config, run)
    parts = workload.create(data, run.model, "eval", config.top_k)
    with replaced_folder(config.out.rstrip("/")) as part:
        storage.makedirs(part)
        # All that reads the checkpoint comes first: training may delete it meanwhile.
        parameters = _write(part, config, run, checkpoint, parts)
        before = _gap(config, run.optimizer, checkpoint, parts.modeler, data)
        prefix = os.path.join(part, NAME, NAME)
        loss = workload.create_loss(run.model)
        exported = MetaGraphModeler(prefix, config.top_k, loss, is_own=True)  # written just now
        after = _gap(config, OptimizerConfig(), prefix, exported, data)
        run_dir.write(part, dataclasses.replace(run, train_dir=config.out), is_own=run_dir.is_own(train_dir))
        step = checkpoints.step_of(checkpoint)
        figures = model_card.report_of(train_dir, step) | _loss_in_gap(before, after)
        model_card.write(part, run, step, parameters, figures=figures, weights=config.weights)
        sizes = model_card.sizes_in(part)
    _tell(config, sizes, before, after)


def _data(config: ExportConfig, run: TrainConfig) -> DataConfig:
    return saved_run.data_for(config, run.data, config.eval_data_pattern, run.data.segment_labels)


def _write(folder: str, config: ExportConfig, run: TrainConfig, checkpoint: str, parts: workload.Workload) -> int:
    """Both forms of the model; returns the number of parameters."""
    seen: list[int] = []
    decay = run.optimizer.moving_average_decay
    write_inference_model(
        os.path.join(folder, NAME),
        checkpoint,
        parts.modeler,
        frame_features=run.data.frame_features,
        moving_average_decay=decay,
        weights=config.weights,
        describe=lambda _, parameters: seen.append(parameters),
    )
    export_saved_model(
        os.path.join(folder, SAVED_MODEL),
        checkpoint,
        parts.reader,
        parts.modeler,
        moving_average_decay=decay,
        weights=config.weights,
        default=config.signature,
    )
    return seen[0]


def _gap(
    config: ExportConfig, optimizer: OptimizerConfig, checkpoint: str, modeler: Modeler, data: DataConfig
) -> float | None:
    """GAP on the data named; None where none are."""
    if not config.eval_data_pattern:
        return None
    settings = runner.RunnerConfig(
        mode="eval",
        model_dir=checkpoint.rpartition("/")[0],
        checkpoint=checkpoint,
        batch_size_per_gpu=config.batch_size,
        log_every_n_iter=1_000_000,
        optimizer=optimizer,
    )
    inputter = readers.BatchQueue.for_config(data, "eval")
    outcome = runner.build(settings, inputter, modeler, runner.CallbackConfig()).run()
    if outcome.exit_code:
        raise RunError(f"the evaluation of {checkpoint} failed: {outcome.message}")
    return float(outcome.results["figures"]["gap"])


def _loss_in_gap(before: float | None, after: float | None) -> dict[str, float]:
    if before is None or after is None:
        return {}
    return {"gap_of_the_checkpoint": before, "gap_as_exported": after, "loss_in_gap": before - after}


def _tell(config: ExportConfig, sizes: dict[str, int], before: float | None, after: float | None) -> None:
    print(f"weights: {config.weights}")
    for name in (NAME, SAVED_MODEL):
        print(f"{name}: {model_card.size(sizes[name])}")
    if before is not None and after is not None:
        print(f"GAP: {before:.6f} before, {after:.6f} as exported, {before - after:.6f} lost")
    logging.info("the model is in %s", config.out)


_PURPOSE = "Exports a model, its weights in as many bits as asked."


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command on `argv`, by default this process' own; returns the exit status."""
    return run_main("yt8m export", _run, argv)


def _run(words: list[str]) -> int:
    config = flags.read(ExportConfig, "yt8m export", _PURPOSE, words)
    program.set_up_log()
    # Here, so that flag errors and --help come before the graph code is loaded.

    return export(config)


if __name__ == "__main__":
    sys.exit(main())
