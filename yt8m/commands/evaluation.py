"""Evaluation of a run's checkpoints: once, or each new one as it comes.

What an evaluation tells: a line in the log, a table, eval/report.json and summaries for TensorBoard.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from rich.console import Console
from rich.table import Table

from yt8m import runner, storage
from yt8m.commands import input_check, report, saved_run, workload
from yt8m.commands.input_check import check_input
from yt8m.commands.report import eval_samples
from yt8m.commands.saved_run import keep_best
from yt8m.config import run_dir
from yt8m.config.programs import DataConfig, EvalConfig, TrainConfig
from yt8m.errors import RunError
from yt8m.eval_util.segments import MOST
from yt8m.eval_util.videos import VideoSample
from yt8m.export import model_card
from yt8m.export.inference_model import write_inference_model
from yt8m.lazy import tf
from yt8m.records import vocabulary
from yt8m.runner import checkpoints, metric_files
from yt8m.runner.metric_files import EventFile
from yt8m.storage import copies

POLL_SECONDS = 5.0


class Evaluated(NamedTuple):
    """One checkpoint's figures."""

    checkpoint: str
    step: int
    figures: dict[str, Any]
    num_examples: int
    sample: VideoSample | None = None


Evaluate = Callable[[EvalConfig, TrainConfig, str, str, workload.Workload], runner.Outcome]


def evaluate(config: EvalConfig, given: Iterator[str] | None = None, evaluate_one: Evaluate | None = None) -> int:
    """Evaluates as `config` says; returns the exit status.

    Args:
      config: the evaluation's.
      given: the checkpoints to evaluate; by default those that `config` asks for.
      evaluate_one: evaluates one checkpoint; by default this process does so alone.

    Raises:
      UsageError: no such run, no data.
      RunError: the folder holds no checkpoint, or one that cannot be evaluated.
    """
    train_dir, run, parts = prepare(config)
    deleted: set[str] = set()
    for checkpoint in given or _checkpoints(train_dir, config.run_once, deleted):
        outcome = _evaluated(config, run, train_dir, checkpoint, parts, evaluate_one or run_one)
        if outcome is None:
            logging.warning("%s was deleted while it was evaluated: taking the next", checkpoint)
            deleted.add(checkpoint)
        elif outcome.exit_code:
            return outcome.exit_code
        elif outcome.signal:
            return 128 + outcome.signal
    return 0


def _evaluated(
    config: EvalConfig,
    run: TrainConfig,
    train_dir: str,
    checkpoint: str,
    parts: workload.Workload,
    evaluate_one: Evaluate,
) -> runner.Outcome | None:
    """Evaluates one checkpoint and writes what comes of it; None where training took it away meanwhile."""
    outcome = None
    try:
        outcome = evaluate_one(config, run, train_dir, checkpoint, parts)
        if not outcome.exit_code:
            videos = getattr(outcome.results.get("evaluator"), "sample", None)
            done = Evaluated(checkpoint, outcome.global_step, *_figures(outcome.results), videos)
            write_report(train_dir, done, run)
            _write_page(train_dir, done, run)
            _keep(config, run, train_dir, done, parts)
    except (tf.errors.OpError, RunError, ValueError):
        if not checkpoints.is_gone(checkpoint):
            raise
        return outcome if outcome is not None and outcome.signal else None
    is_lost = outcome.exit_code and not outcome.signal and checkpoints.is_gone(checkpoint)
    return None if is_lost else outcome


def prepare(config: EvalConfig) -> tuple[str, TrainConfig, workload.Workload]:
    """The run's folder, the run, and what is evaluated with."""
    if config.report:
        report.need_matplotlib()
    train_dir = saved_run.find_run(config.train_dir)
    run = saved_run.load_run(train_dir, config.num_classes, config.hyper_parameters, trust_code=config.trust_code)
    data = _data(config, run)
    parts = workload.create(data, run.model, "eval", config.top_k)
    parts.modeler.keeps_videos = config.report
    return train_dir, run, parts._replace(walked=check_input(parts.inputter, data))


def _data(config: EvalConfig, run: TrainConfig) -> DataConfig:
    segments = config.segment_labels or run.data.segment_labels
    data = saved_run.data_for(
        run.data,
        config.eval_data_pattern,
        batch_size=config.batch_size,
        num_readers=config.num_readers,
        max_frames=config.max_frames,
        segment_labels=segments,
    )
    data = saved_run.with_damage_policy(config, data)
    return data if config.eval_data_pattern else input_check.default_to_sample_data(data, "validate")


def _checkpoints(train_dir: str, run_once: bool, deleted: Collection[str]) -> Iterator[str]:
    """The newest checkpoint; then each newer one as it comes, or with `run_once` until one was not deleted.

    Args:
      train_dir: the run's folder.
      run_once: whether one evaluation is enough.
      deleted: those that training took away while they were evaluated, as the caller finds out.

    Raises:
      RunError: there is none to begin with, or none in place of one that was deleted.
    """
    last = saved_run.newest(train_dir)
    yield last
    if run_once:
        if last in deleted:
            yield from _in_place_of(last, train_dir)
        return
    while True:
        time.sleep(POLL_SECONDS)
        # By name first: to see that a checkpoint is readable means to read all of it.
        if max(checkpoints.steps_in(train_dir), default=-1) > checkpoints.step_of(last):
            newest = checkpoints.newest_readable(train_dir)
            if newest is not None and newest != last:
                copies.forget(last)
                last = newest
                yield last


def _in_place_of(deleted: str, train_dir: str) -> Iterator[str]:
    """One newer checkpoint, which is held: a training that saves faster than we read is met once."""
    while True:
        newest = checkpoints.newest_readable(train_dir)
        if newest is None or checkpoints.step_of(newest) <= checkpoints.step_of(deleted):
            raise RunError(f"{deleted} was deleted while it was evaluated, and there is no newer checkpoint.")
        with contextlib.suppress(storage.NotFoundError), copies.hold(newest):
            yield newest
            return
        deleted = newest


def run_one(
    config: EvalConfig, run: TrainConfig, train_dir: str, checkpoint: str, parts: workload.Workload
) -> runner.Outcome:
    """Evaluates one checkpoint in this process.

    Raises:
      RunError: a shard changed since it was walked; names it.
    """
    if parts.walked is not None:
        parts.walked.check_unchanged()
    settings = runner.RunnerConfig(
        mode="eval",
        model_dir=train_dir,
        checkpoint=checkpoint,
        batch_size_per_gpu=config.batch_size,
        gpu_count=config.num_gpu,
        log_every_n_iter=config.log_every_n_steps,
        seed=run.seed,
        optimizer=run.optimizer,
        progress=sys.stderr.isatty(),
    )
    callbacks = runner.CallbackConfig(config.callbacks)
    outcome = runner.build(settings, parts.inputter, parts.modeler, callbacks).run()
    if parts.walked is not None and outcome.status is runner.Status.OUT_OF_DATA:
        parts.walked.check_read(parts.inputter)
    return outcome


def _figures(results: Any) -> tuple[dict[str, Any], int]:
    if not results.get("examples"):
        raise RunError("the evaluation data hold no example: nothing was evaluated.")
    return results["figures"], results["examples"]


def _write_page(train_dir: str, done: Evaluated, run: TrainConfig) -> None:
    """Where videos were kept: the file of them, and the page that is made of it."""
    videos = done.sample.videos() if done.sample else None
    if done.sample is not None and videos is not None:
        figures = report_json(done, run)
        eval_samples.write(train_dir, eval_samples.EvalSamples(figures, videos, run.data.num_classes, done.sample.seen))
        report.write([train_dir])


def _keep(config: EvalConfig, run: TrainConfig, train_dir: str, done: Evaluated, parts: workload.Workload) -> None:
    """What an evaluation leaves beside its report."""
    prefix = write_inference_model(
        storage.join(train_dir, "inference_model"),
        done.checkpoint,
        parts.modeler,
        frame_features=run.data.frame_features,
        moving_average_decay=run.optimizer.moving_average_decay,
        describe=model_card.describing(run, train_dir, done.step),
    )
    logging.info("the inference model of step %d is %s", done.step, prefix)
    if config.keep_best:
        keep_best(train_dir, done.checkpoint, done.step, float(done.figures["gap"]))


FOLDER = "eval"
AT_N = f"MAP@{MOST}"  # over rated segments, as the 2019 challenge has it
_SHOWN = 5  # best and worst classes in the table


def write_report(train_dir: str, done: Evaluated, run: TrainConfig) -> None:
    """Gives out the figures of one checkpoint, in every form."""
    logging.info("%s", summary_line(done.step, done.figures))
    if not len(done.figures["aps"]):
        logging.warning("no example has a label (a test split?): these figures say nothing of the model")
    print_table(done, run.data.num_classes)
    folder = storage.join(train_dir, FOLDER)
    with storage.write_atomic(storage.join(folder, "report.json"), "w") as file:
        json.dump(report_json(done, run), file, indent=2, ensure_ascii=False, allow_nan=False)
    _write_summaries(folder, done)


def summary_line(step: int, figures: dict[str, Any]) -> str:
    """The published line; `num_classes` counts the classes that have a positive in these data."""
    rated = f"| {AT_N}: {figures['map_at_n']:.3f} " if "map_at_n" in figures else ""
    return (
        f"epoch/eval number {step} | Avg_Hit@1: {figures['avg_hit_at_one']:.3f} "
        f"| Avg_PERR: {figures['avg_perr']:.3f} | MAP: {figures['map']:.3f} | GAP: {figures['gap']:.3f} "
        f"{rated}| Avg_Loss: {figures['avg_loss']:.6f} | num_classes: {len(figures['aps'])}"
    )


def report_json(done: Evaluated, run: TrainConfig) -> dict[str, Any]:
    """All figures as JSON has them; a figure that is not defined on these data is null."""
    figures = done.figures
    return {
        "checkpoint": done.checkpoint,
        "global_step": done.step,
        "model": run.model.model,
        "num_examples": done.num_examples,
        "num_classes_with_positives": len(figures["aps"]),
        **{name: _number(figures[key]) for name, key in _FIGURES},
        **({"map_at_n": _number(figures["map_at_n"])} if "map_at_n" in figures else {}),
        "classes": [
            {"class": index, "name": name, "average_precision": ap, "positives": positives}
            for index, name, ap, positives in _classes(figures, run.data.num_classes)
        ],
        "versions": run_dir.versions(),
    }


_FIGURES = (
    ("hit_at_one", "avg_hit_at_one"),
    ("perr", "avg_perr"),
    ("gap", "gap"),
    ("map", "map"),
    ("loss", "avg_loss"),
)


def print_table(done: Evaluated, num_classes: int) -> None:
    """The figures and the best and worst of the run's classes, on standard output."""
    table = Table(title=f"step {done.step}, {done.num_examples} examples")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for title, key in zip(("Hit@1", "PERR", "GAP", "mAP", "loss"), [key for _, key in _FIGURES], strict=True):
        table.add_row(title, f"{float(done.figures[key]):.4f}")
    if "map_at_n" in done.figures:
        table.add_row(f"{AT_N}, rated pairs", f"{done.figures['map_at_n']:.4f}")
    ranked = sorted(_classes(done.figures, num_classes), key=lambda row: (-row[2], row[0]))
    for title, rows in (("best", ranked[:_SHOWN]), ("worst", ranked[_SHOWN:][-_SHOWN:])):
        table.add_section()
        for index, name, ap, _ in rows:
            table.add_row(f"{title}: {name} ({index})", f"{ap:.4f}")
    Console(soft_wrap=True).print(table)


def _classes(figures: dict[str, Any], num_classes: int) -> list[tuple[int, str, float, int]]:
    names = vocabulary.of(num_classes)
    found = zip(figures["aps_class"], figures["aps"], figures["aps_positives"], strict=True)
    return [(int(index), names.name(int(index)), float(ap), int(count)) for index, ap, count in found]


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _write_summaries(folder: str, done: Evaluated) -> None:
    """The published tags and a precision-recall curve over all classes, at the step of the checkpoint."""
    titles = ("Avg_Hit@1", "Avg_PERR", "GAP", "MAP", "Avg_Loss")
    tags = list(zip(titles, [key for _, key in _FIGURES], strict=True))
    if "map_at_n" in done.figures:
        tags = [*tags, (AT_N, "map_at_n")]
    values = [tf.Summary.Value(tag=f"Epoch/Eval_{tag}", simple_value=float(done.figures[key])) for tag, key in tags]
    events = EventFile(folder)
    events.add(tf.Summary(value=values), done.step)
    curve = metric_files.precision_recall("Epoch/Eval_PR", done.figures["threshold_counts"])
    events.add(curve, done.step)
    events.close()
