"""Finds and loads a saved run for evaluation, inference and export: folder, config, data and checkpoints.

This module also keeps the best checkpoint of a run.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from yt8m import storage
from yt8m.command_line.flags import with_hyper_parameters
from yt8m.config import run_dir
from yt8m.config.programs import EvalConfig, ExportConfig, InferenceConfig, PassConfig
from yt8m.config.train_config import DamagePolicy, DataConfig, TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.storage import copies, json_text

BEST_FOLDER, BEST_NOTE = "best", "best.json"


def keep_best(train_dir: str, checkpoint: str, step: int, gap: float) -> bool:
    """Copies `checkpoint` to `train_dir`/best if its GAP is above that of the checkpoint kept there.

    Returns:
      Whether it was copied.

    Raises:
      NotFoundError: training has deleted the checkpoint meanwhile.
    """
    if _noted(storage.join(train_dir, BEST_FOLDER), "gap") >= gap:
        return False
    replace_best(train_dir, checkpoint, step, {"gap": gap})
    logging.info(
        "the best checkpoint so far is that of step %d (GAP %.4f), kept in %s/%s", step, gap, train_dir, BEST_FOLDER
    )
    return True


def replace_best(train_dir: str, checkpoint: str, step: int, told: Mapping[str, Any]) -> None:
    """Copies `checkpoint` to `train_dir`/best, in place of the one that is kept there.

    The folder holds a whole checkpoint at every moment: the files of the new one are added, then the note (best.json)
    names it, then the files of the former one are removed. A copy that was interrupted is repeated by the next call.
    Files that are no checkpoint's stay, such as those of an evaluation of this folder.

    Args:
      train_dir: the run's folder.
      checkpoint: a path prefix.
      step: its global step.
      told: what else the note says about it.

    Raises:
      NotFoundError: training has deleted the checkpoint meanwhile.
    """
    folder = storage.join(train_dir, BEST_FOLDER)
    storage.makedirs(folder)
    copied = [_copy(path, folder) for path in storage.glob(f"{copies.copy_of(checkpoint)}.*")]
    if not any(name.endswith(".index") for name in copied):
        raise storage.NotFoundError(f"{checkpoint} was deleted while it was copied to {folder}")
    note = {"step": step, **told, "checkpoint": checkpoint.rpartition("/")[2]}
    storage.write(storage.join(folder, BEST_NOTE), json.dumps(note))
    for name in itertools.chain(*checkpoints.files_of(folder).values()):
        if name not in copied:
            storage.remove(storage.join(folder, name))


def _noted(folder: str, key: str) -> float:
    """A number in the note of best/; -1 if it is not there, or the note cannot be read."""
    try:
        return float(json_text.parse(storage.read_text(storage.join(folder, BEST_NOTE)))[key])
    except (RunError, ValueError, KeyError, TypeError):
        return -1.0


def _copy(path: str, folder: str) -> str:
    name = path.rpartition("/")[2]
    with storage.write_atomic(storage.join(folder, name)) as file, storage.open_read(path) as source:
        shutil.copyfileobj(source, file)
    return name


def newest(train_dir: str) -> str:
    """The path of the newest checkpoint that can be read.

    Raises:
      RunError: no checkpoint can be read.
    """
    last = checkpoints.newest_readable(train_dir)
    if last is None:
        raise RunError(f"no checkpoint in {train_dir}: train first, or name another --train_dir.")
    return last


def find_checkpoint(train_dir: str, choice: str) -> str:
    """The path of a checkpoint; `choice` is `last`, `best`, or a step.

    Raises:
      UsageError: there is no such checkpoint; the message lists the steps that exist.
      RunError: the checkpoint cannot be read, or the run has none at all.
    """
    if choice == "last":
        return newest(train_dir)
    folder = storage.join(train_dir, BEST_FOLDER) if choice == "best" else train_dir
    steps = checkpoints.steps_in(folder)
    if choice == "best" and not steps:
        raise UsageError(
            f"{train_dir} has no best checkpoint; train with --eval_data_pattern, or keep one by eval.py --keep_best."
        )
    step = _best_of(folder, steps) if choice == "best" else int(choice)
    if step not in steps:
        known = ", ".join(map(str, steps)) or "none"
        raise UsageError(f"{train_dir} has no checkpoint of step {step}; it has: {known}.")
    path = checkpoints.path_of(folder, step)
    problem = checkpoints.problem_of(path)
    if problem and choice == "best" and _best_of(folder, checkpoints.steps_in(folder)) != step:
        return find_checkpoint(train_dir, choice)  # try again: an evaluation has just replaced it by a better one
    if problem:
        raise RunError(f"{path} cannot be read: {problem}")
    return path


def _best_of(folder: str, steps: Sequence[int]) -> int:
    """The step that the note in best/ names, if its checkpoint is there; else the newest."""
    noted = _noted(folder, "step")
    return next((step for step in steps if step == noted), steps[0] if steps else -1)


def refuse_used(out: str) -> None:
    """Refuses an output path that exists already.

    Raises:
      UsageError: `out` exists.
    """
    if storage.exists(out) or storage.is_dir(out):
        raise UsageError(f"--out={out} is there already; name a new folder, or remove that one.")


RUNS = "runs"


def find_run(train_dir: str) -> str:
    """`train_dir`, or the newest run under runs/ if none is named.

    Raises:
      UsageError: there is no such run.
    """
    if train_dir:
        if not storage.is_dir(train_dir):
            raise UsageError(f"--train_dir={train_dir}: there is no such folder.")
        return train_dir
    found = [os.path.join(RUNS, name) for name in (os.listdir(RUNS) if os.path.isdir(RUNS) else [])]
    found = [path for path in found if os.path.exists(os.path.join(path, run_dir.CONFIG))]
    if not found:
        raise UsageError(
            "no --train_dir is given and there is no run under runs/; train one first "
            "(python train.py --model=LogisticModel) or name its folder."
        )
    newest = max(found, key=lambda path: os.path.getmtime(os.path.join(path, run_dir.CONFIG)))
    logging.info("no --train_dir was named: taking the newest run, %s", newest)
    return newest


def load_run(train_dir: str, given: PassConfig | None = None, *, trust_code: bool = False) -> TrainConfig:
    """The config that the run in `train_dir` was trained with.

    A run of the published code has only model_flags.json. Its hyper-parameters come from the flags `given`, and its
    number of classes from these flags, from a meta-graph in the folder, or from the vocabulary that the flags name.
    `run_dir.read` says when code that the run names is imported.

    Raises:
      RunError: the folder holds no run, or its files cannot be read.
      UsageError: the model has no such hyper-parameter, or its code is not trusted.
    """
    saved = run_dir.read(train_dir, trust_code=trust_code)
    if saved is None:
        raise RunError(
            f"{train_dir} holds neither {run_dir.CONFIG} nor {run_dir.MODEL_FLAGS}: it is not the folder of a run."
        )
    config, given = saved.config, given or PassConfig()
    if given.hyper_parameters:  # if there are none, do not load the model's code: a meta-graph may replace it
        config = dataclasses.replace(config, model=with_hyper_parameters(config.model, given.hyper_parameters))
    named = vocabulary.of_data(given.vocabulary, ())
    num_classes = vocabulary.class_count(given.num_classes, named) if saved.published else given.num_classes
    if saved.published and given.num_classes is None:
        num_classes = _classes_in_meta_graph(train_dir) or num_classes
    if num_classes is not None:
        config = dataclasses.replace(config, data=dataclasses.replace(config.data, num_classes=num_classes))
    return config


def data_for(
    config: EvalConfig | InferenceConfig | ExportConfig, data: DataConfig, pattern: str, segment_labels: bool
) -> DataConfig:
    """The data config of an evaluation, inference or export.

    Features and classes come from the run's `data`; the files from `pattern`; batch size, readers and limits from
    `config`.

    Raises:
      UsageError: segments are requested, but the model takes video-level features.
    """
    if segment_labels and not data.frame_features:
        raise UsageError(
            f"--segment_labels: the model was trained on video-level features "
            f"({','.join(data.feature_names)}), which hold no frames to cut segments from; "
            "name a run that was trained with --frame_features."
        )
    taken = ["batch_size", "num_readers"]
    if isinstance(config, DamagePolicy):
        taken += [field.name for field in dataclasses.fields(DamagePolicy)]
    return dataclasses.replace(
        data,
        data_pattern=pattern,
        segment_labels=segment_labels,
        vocabulary=getattr(config, "vocabulary", ""),
        max_frames=getattr(config, "max_frames", None) or data.max_frames,
        **{name: getattr(config, name) for name in taken},
    )


def names_for(own: Vocabulary, where: str, data: DataConfig, remedy: str = "") -> Vocabulary:
    """The vocabulary of a model: its `own`, or else that of the data; empty if there is neither.

    Args:
      own: the vocabulary of the model; empty if it has none.
      where: the folder or the archive of the model.
      data: the data config that `data_for` returned.
      remedy: what the user can do about a difference, as a sentence; by default that of a trained model.

    Raises:
      UsageError: the vocabulary of the data numbers the classes differently than the model's; the message names the
          first difference.
      RunError: the vocabulary file of the data is not valid.
    """
    found = vocabulary.of_data(data.vocabulary, storage.glob(data.data_pattern) if data.data_pattern else ())
    names = vocabulary.for_model(own, data.num_classes, where, found, remedy)
    if found and not own:
        vocabulary.log(found)
    return names


def _classes_in_meta_graph(train_dir: str) -> int | None:
    from yt8m.graph.restore import read_meta_graph
    from yt8m.video.meta_modeler import class_count

    steps = checkpoints.steps_in(train_dir)
    for step in steps:
        meta = f"{checkpoints.path_of(train_dir, step)}.meta"
        try:
            count = class_count(read_meta_graph(meta))
        except storage.NotFoundError:
            continue
        logging.info("the class count, %d, comes from %s", count, meta)
        return count
    # If training is still running, it may have deleted all of these since they were listed: look again.
    is_old = checkpoints.steps_in(train_dir)[:1] != steps[:1]
    return _classes_in_meta_graph(train_dir) if is_old else None
