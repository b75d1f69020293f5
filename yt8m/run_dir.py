"""What a run writes into its folder, what a later start may change, and how a folder is cleared.

A run's folder holds config.json, model_flags.json, model.ckpt-N.*, event files, metrics.jsonl, export/,
eval/ and inference_model/.
"""

from __future__ import annotations

import dataclasses
import datetime
import fnmatch
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from absl import logging

from yt8m import config_file, registry, storage
from yt8m.config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.storage import own_runs

CONFIG, MODEL_FLAGS, LOCK = "config.json", "model_flags.json", "train.lock"

# Everything that a training, an evaluation or a prediction leaves in a run's folder.
WRITTEN = (
    CONFIG,
    MODEL_FLAGS,
    "checkpoint",
    "cluster.json",
    "input_checkpoint",
    "model.ckpt-*",
    "input-*",
    "best",
    "best.*",
    "events.out.tfevents.*",
    "graph.pbtxt",
    "metrics.jsonl",
    "predictions.csv",
    "eval",
    "export",
    "inference_model",
    "inference_model.*",
)
_A_RUN_HAS = (CONFIG, MODEL_FLAGS, "checkpoint", "model.ckpt-*")

# What makes a run's variables: another value is another model.
_IDENTITY = (
    "model.model",
    "model.hyper_parameters.",
    "data.feature_",
    "data.frame_features",
    "data.num_classes",
)
# Hyper-parameters that leave the variables as they are.
_NOT_IDENTITY = ("model.hyper_parameters.lstm_kernel",)
# What a later start may change without another graph.
_BESIDE_THE_GRAPH = (
    "train_dir",
    "init_from",
    "export_dir",
    "log_dir",
    "data.data_pattern",
    "data.manifest",
    "checkpoints.",
    "distributed.",
    "storage.",
    "callbacks",
    "max_steps",
    "log_every_n_steps",
    "save_summary_steps",
    "devices.log_device_placement",
    "devices.profile",
    "devices.xla",
)


class SavedRun(NamedTuple):
    """What a folder says of its run.

    Attributes:
      config: how it was trained.
      published: it comes from model_flags.json alone; hyper-parameters and class count are not in it.
    """

    config: TrainConfig
    published: bool


class Change(NamedTuple):
    """One value that a later start of a run gives otherwise."""

    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name.rpartition('.')[2]}: {_shown(self.old)} -> {_shown(self.new)}"


class Differences(NamedTuple):
    """How a later start differs from the run in the folder.

    Attributes:
      identity: another model, feature list or class count: cannot be resumed.
      graph: takes effect in a rebuilt graph only; the saved meta-graph has the old values in it.
      beside: takes effect with the saved meta-graph too.
    """

    identity: tuple[Change, ...]
    graph: tuple[Change, ...]
    beside: tuple[Change, ...]


def read(train_dir: str, *, trust_code: bool = False) -> SavedRun | None:
    """The run in a folder, by config.json or else model_flags.json; None where it has neither.

    Code that the file names is imported later only if the run `is_own` or with `trust_code`, or if the user
    gives the same name on the command line.

    Raises:
      RunError: the file is damaged, or of a version with other keys.
    """
    for name, parse in ((CONFIG, config_file.from_json), (MODEL_FLAGS, config_file.model_flags_from_json)):
        path = storage.join(train_dir, name)
        if storage.exists(path):
            text = _text(path)
            config = parse(text, path)
            code = registry.names_of_code(dataclasses.asdict(config))
            if trust_code or own_runs.is_noted(text):
                registry.trust(code)
            else:
                registry.distrust(code, path)
            return SavedRun(config, published=name == MODEL_FLAGS)
    return None


def is_own(train_dir: str) -> bool:
    """Whether this user trained the run on this machine, and its config.json is as that training left it.

    So is a copy that a command made of such a run's config.
    """
    try:
        return own_runs.is_noted(_text(storage.join(train_dir, CONFIG)))
    except RunError:
        return False


def write(train_dir: str, config: TrainConfig, *, is_own: bool = False) -> None:
    """Writes config.json and model_flags.json, each whole or not at all.

    Args:
      train_dir: the folder.
      config: the run's.
      is_own: this user trains the run, or it is a copy of one that `is_own`: noted, so that code which the
        config names is imported without being asked for.
    """
    if is_own:
        registry.trust(registry.names_of_code(dataclasses.asdict(config)))
        _note(train_dir, config_file.to_json(config))
    for name, text in (
        (MODEL_FLAGS, config_file.model_flags_to_json(config)),
        (CONFIG, config_file.to_json(config)),
    ):
        with storage.write_atomic(storage.join(train_dir, name), "w") as file:
            file.write(text)


def differences(old: SavedRun, new: TrainConfig) -> Differences:
    """What `new` would change. Values that the old run did not save count as unchanged."""
    before, after = _flat(dataclasses.asdict(old.config)), _flat(dataclasses.asdict(new))
    unsaved = ("data.num_classes",) if old.published else ()
    changes = [
        Change(name, before[name], value)
        for name, value in after.items()
        if name in before and name not in unsaved and before[name] != value
    ]
    identity = tuple(
        change for change in changes if change.name.startswith(_IDENTITY) and change.name not in _NOT_IDENTITY
    )
    beside = tuple(change for change in changes if change.name.startswith(_BESIDE_THE_GRAPH))
    graph = tuple(change for change in changes if change not in identity and change not in beside)
    return Differences(identity, graph, beside)


def refuse_other_model(train_dir: str, found: Differences) -> None:
    """Refuses to go on with a run as another model.

    Raises:
      UsageError: names each difference.
    """
    if found.identity:
        changes = "; ".join(map(str, found.identity))
        raise UsageError(
            f"{train_dir} holds a run of another model ({changes}). Give the same flags to go on with it, "
            "another --train_dir, or --start_new_model to move it aside."
        )


def start_new_model(train_dir: str, now: datetime.datetime | None = None) -> str | None:
    """Moves what a run wrote into a folder beside it; anything else stays where it is.

    Args:
      train_dir: the run's folder.
      now: the time in the name of the backup.

    Returns:
      The backup's path (`<train_dir>.old-<time>`), or None where there was nothing to move.

    Raises:
      UsageError: there are files, but no run's.
    """
    # The lock is ours: whoever clears a folder holds it.
    names = [name for name in _names(train_dir) if name != LOCK]
    if not any(_matches(name, _A_RUN_HAS) for name in names):
        if names:
            raise UsageError(
                f"--start_new_model: {train_dir} is no folder of a run: it holds {', '.join(names[:3])}, "
                f"but no {CONFIG} and no checkpoint. Nothing was moved; name another folder."
            )
        return None
    backup = _free_name(f"{_whole(train_dir)}.old-{now or datetime.datetime.now():%Y%m%d-%H%M%S}")
    storage.makedirs(backup)
    for name in names:
        if _matches(name, WRITTEN):
            storage.rename(storage.join(train_dir, name), storage.join(backup, name))
    return backup


def lock(train_dir: str) -> AbstractContextManager[None]:
    """Holds the folder for one trainer during a `with` block.

    Raises:
      storage.Locked: another trainer holds it; the text names its process.
    """
    return storage.lock(storage.join(train_dir, LOCK))


def _note(train_dir: str, text: str) -> None:
    try:
        own_runs.note(text)
    except RunError as error:
        logging.warning(
            "%s is not noted as a run of yours (%s): later commands warn of its graph, and need --trust_code "
            "if the run names code of your own",
            train_dir,
            error,
        )


def _text(path: str) -> str:
    try:
        return storage.read_text(path)
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged: it is no text ({error})") from error


def _names(folder: str) -> list[str]:
    return storage.listdir(folder) if storage.is_dir(folder) else []


def _whole(path: str) -> str:
    """The path without a slash at its end and without `.`, so that a name can be set behind it."""
    return path.rstrip("/") if storage.is_remote(path) else os.path.abspath(path)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _free_name(path: str) -> str:
    """`path`, or with a number behind it where that is taken."""
    free, number = path, 1
    while storage.exists(free):
        number += 1
        free = f"{path}-{number}"
    return free


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"data.batch_size": 1024, ...}."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
