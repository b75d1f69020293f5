"""The folder of a run: reads, writes and locks it, and moves its files aside.

config.json has the whole config and the versions of the software; model_flags.json has some options in the format of
the published code; vocabulary.csv has the names of the classes. The folder also holds model.ckpt-N.*, event files,
metrics.jsonl, export/, eval/ and inference_model/.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fnmatch
import json
import os
import platform
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from absl import logging

import yt8m
from yt8m import formats, options, registry, storage
from yt8m.config.train_config import DataConfig, ModelConfig, TrainConfig
from yt8m.errors import RunError, UsageError, suggestion
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary
from yt8m.storage import own_runs


def to_json(config: TrainConfig) -> str:
    """The text of config.json."""
    whole = {"format": formats.CONFIG, "versions": versions(), "config": dataclasses.asdict(config)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def from_json(text: str, path: str) -> TrainConfig:
    """Reads the text that `to_json` wrote.

    A missing key takes its default, because the option may have been added later. An unknown key is refused, because it
    may change the model.

    Args:
      text: the content of the file.
      path: the path of the file, for the error message.

    Raises:
      RunError: the text is not a valid config.json, or has a newer format.
    """
    whole = _object(text, path)
    formats.refuse_newer(path, whole.get("format", formats.CONFIG), formats.CONFIG)
    written = whole.get("versions", {})
    by = f"yt8m {written.get('yt8m', 'of unknown version')}" if isinstance(written, Mapping) else "yt8m"
    config = whole.get("config")
    if not isinstance(config, Mapping):
        raise RunError(f"{path} has no config: it is not the config.json of a run. {_REMEDY}")
    return typing.cast("TrainConfig", _section(TrainConfig, config, "config", f"{path} (by {by})"))


# Options that lists and reports of runs do not compare; options in model_flags.json.
NOT_COMPARED = options.paths_where(TrainConfig, belongs_to="start") + options.paths_where(
    TrainConfig, is_compared=False
)
PUBLISHED = options.paths_where(TrainConfig, is_published=True)
_FLAGS = {path: options.flag_of(field) for path, field in options.fields_of(TrainConfig)}


def flag_at(path: str) -> str:
    """The flag of the option or hyper-parameter at `path` of a run, such as `batch_size` for `data.batch_size`."""
    return _FLAGS.get(path) or path.rpartition(".")[2]


def model_flags_to_json(config: TrainConfig) -> str:
    """The text of model_flags.json, which the published programs read."""
    values = {options.short_name(path): options.value_at(config, path) for path in PUBLISHED}
    if not config.data.segment_labels:
        del values["segment_labels"]
    return json.dumps(
        {name: value if isinstance(value, bool) else options.shown(value) for name, value in values.items()}
    )


def model_flags_from_json(text: str, path: str) -> TrainConfig:
    """A config with the values of model_flags.json; all other values, such as the class count, are defaults.

    Raises:
      RunError: a key is missing or has an unusable value.
    """
    flags = _object(text, path)
    missing = {options.short_name(path) for path in PUBLISHED} - {"segment_labels"} - flags.keys()
    if missing:
        raise RunError(f"{path} lacks {', '.join(sorted(missing))}. {_REMEDY}")
    try:
        data = DataConfig(
            feature_names=tuple(name.strip() for name in flags["feature_names"].split(",")),
            feature_sizes=tuple(int(size) for size in flags["feature_sizes"].split(",")),
            frame_features=flags["frame_features"],
            segment_labels=flags.get("segment_labels", False),
        )
        return TrainConfig(data=data, model=ModelConfig(flags["model"], {}, flags["label_loss"]))
    except (UsageError, ValueError, AttributeError) as error:
        raise RunError(f"{path}: {error}. {_REMEDY}") from error


def versions() -> dict[str, str]:
    """{name: version} of this package, TensorFlow and Python; does not import TensorFlow."""
    from importlib import metadata  # slow to import, and only a run that is written needs it

    try:
        tensorflow = metadata.version("tensorflow")
    except metadata.PackageNotFoundError:  # TensorFlow was installed under another name
        tensorflow = "unknown"
    return {"yt8m": yt8m.__version__, "tensorflow": tensorflow, "python": platform.python_version()}


def written_versions(train_dir: str) -> dict[str, str]:
    """{name: version} of the software that trained the run, from its config.json; empty if that cannot be read."""
    try:
        versions = storage.read_json(storage.join(train_dir, CONFIG))["versions"]
        return {str(name): str(value) for name, value in versions.items()}
    except (RunError, ValueError, KeyError, TypeError, AttributeError):
        return {}


_REMEDY = "Restore the file from a copy, or train into another folder."


def _object(text: str, path: str) -> dict[str, Any]:
    try:
        whole = storage.parse_json(text)
    except ValueError as error:
        raise RunError(f"{path} is cut short or damaged ({error}). {_REMEDY}") from error
    if not isinstance(whole, dict):
        raise RunError(f"{path} holds a {type(whole).__name__}; expected a JSON object. {_REMEDY}")
    return whole


def _section(cls: type, values: Mapping[str, Any], key: str, path: str) -> Any:
    """Makes an instance of the config class `cls` from the JSON object under `key` in the file."""
    kinds = typing.get_type_hints(cls)
    for name in values.keys() - kinds.keys():
        raise RunError(
            f"{path}: unknown key {key}.{name}{suggestion(name, kinds, '.')} This is yt8m {yt8m.__version__}; "
            "use the version that wrote the file, or correct the key."
        )
    try:
        return cls(**{name: _value(kinds[name], value, f"{key}.{name}", path) for name, value in values.items()})
    except UsageError as error:
        raise RunError(f"{path}: {key}: {error}. {_REMEDY}") from error


def _value(kind: Any, value: Any, key: str, path: str) -> Any:
    is_section = dataclasses.is_dataclass(kind)
    if (is_section or typing.get_origin(kind) is Mapping) and not isinstance(value, Mapping):
        raise RunError(f"{path}: {key} is {value!r}; expected a JSON object. {_REMEDY}")
    return _section(typing.cast("type", kind), value, key, path) if is_section else options.with_tuples(value)


CONFIG, MODEL_FLAGS, ENDED, LOCK = "config.json", "model_flags.json", "ended.json", "train.lock"
ADDED_CLASSES = "added_classes.json"  # the comparison of a run with added classes and the run that it was made from
INFERENCE_MODEL = "inference_model"  # the name of the folder and the prefix of its files, as in the published code
BEST_FOLDER, BEST_NOTE = "best", "best.json"  # the folder of the best checkpoint, and the file in it with its metrics
RUNS = "runs"  # the folder of runs without --train_dir

# Patterns of all files that trainings, evaluations and predictions write into a run's folder.
_STATE = (CONFIG, MODEL_FLAGS, ENDED, ADDED_CLASSES, vocabulary.NAME, "cluster.json", "validation.json")
_CHECKPOINTS = ("checkpoint", "model.ckpt-*", "input_checkpoint", "input-*", "best", "best.*", "graph.pbtxt")
_RESULTS = ("events.out.tfevents.*", "metrics.jsonl", "predictions.csv", "eval", "export")
WRITTEN = (*_STATE, *_CHECKPOINTS, *_RESULTS, "inference_model", "inference_model.*")
CURVES = ("train", "validate")  # folders of event files, which TensorBoard shows in one chart, of runs with validation
_A_RUN_HAS = (CONFIG, MODEL_FLAGS, "checkpoint", "model.ckpt-*")


class SavedRun(NamedTuple):
    """The config of a run as its folder saves it.

    Attributes:
      config: the config of the training.
      published: whether it comes from model_flags.json, which lacks hyper-parameters and the number of classes.
    """

    config: TrainConfig
    published: bool


def read(train_dir: str, *, trust_code: bool = False) -> SavedRun | None:
    """Reads the config of a run from config.json, else from model_flags.json; None if the folder has neither.

    Code that the file names may be imported later only if the run `is_own`, if `trust_code` is True, or if the user
    gives the same name on the command line.

    Raises:
      RunError: the file is damaged, or has unknown keys or a newer format.
    """
    for name, parse in ((CONFIG, from_json), (MODEL_FLAGS, model_flags_from_json)):
        path = storage.join(train_dir, name)
        if storage.exists(path):
            return SavedRun(_read(path, parse, trust_code), published=name == MODEL_FLAGS)
    return None


def is_run(folder: str) -> bool:
    """Whether the folder holds the config of a run, of this project or of the published code."""
    return any(storage.exists(storage.join(folder, name)) for name in (CONFIG, MODEL_FLAGS))


def read_config(path: str, *, trust_code: bool = False) -> TrainConfig:
    """Reads a file in the format of config.json; code that it names and errors are treated as in `read`."""
    return _read(path, from_json, trust_code)


def _read(path: str, parse: Callable[[str, str], TrainConfig], trust_code: bool) -> TrainConfig:
    text = _text(path)
    config = parse(text, path)
    code = registry.names_of_code(dataclasses.asdict(config))
    registry.set_trust(code, path, is_trusted=trust_code or own_runs.is_noted(text))
    return config


def is_own(train_dir: str) -> bool:
    """Whether this user trained or made the run on this machine, and its config.json is unchanged since then."""
    try:
        return own_runs.is_noted(_text(storage.join(train_dir, CONFIG)))
    except RunError:
        return False


def own_names(folder: str, num_classes: int | None) -> Vocabulary:
    """The vocabulary in the folder of a run or of a model; empty if there is none.

    Args:
      folder: path of the folder, local or gs://.
      num_classes: number of classes of the model; None if it is not known.

    Raises:
      RunError: the file is not a valid vocabulary.
      UsageError: the vocabulary has another number of classes.
    """
    path = storage.join(folder, vocabulary.NAME)
    names = vocabulary.read(path) if storage.exists(path) else vocabulary.of_names(())
    if names and num_classes not in (None, len(names)):
        raise UsageError(
            f"{path} names {len(names)} classes, but the model has {num_classes}: leave out --num_classes, "
            "or restore the file from a copy."
        )
    return names


def write(train_dir: str, config: TrainConfig, names: Vocabulary | None = None, *, is_own: bool = False) -> None:
    """Writes config.json, model_flags.json and the vocabulary (if there is one), each whole or not at all.

    Args:
      train_dir: the folder of the run.
      config: the config of the run.
      names: the vocabulary of the run; None or empty if it has none.
      is_own: whether this user trains the run here, or makes it from a run that `is_own`. Then the run is recorded, so
        that later commands import the code that its config names without --trust_code.
    """
    if is_own:
        registry.trust(registry.names_of_code(dataclasses.asdict(config)))
        note_own(train_dir, to_json(config))
    if names:
        vocabulary.write(storage.join(train_dir, vocabulary.NAME), names)
    for name, text in ((MODEL_FLAGS, model_flags_to_json(config)), (CONFIG, to_json(config))):
        storage.write(storage.join(train_dir, name), text)


class Ended(NamedTuple):
    """How the last start of a run ended.

    Attributes:
      status: a value of `runner.Status`: finished, out_of_data, stopped or failed.
      step: the last step; None if it is not known.
      message: a sentence that says why the run ended.
    """

    status: str
    step: int | None
    message: str


def note_end(train_dir: str, ended: Ended) -> None:
    """Writes ended.json; a failure is only logged, because the training itself is over."""
    try:
        storage.refuse_lost_lock(train_dir)
        storage.write(storage.join(train_dir, ENDED), json.dumps(ended._asdict(), ensure_ascii=False) + "\n")
    except (RunError, UsageError) as error:
        logging.error("`yt8m runs` will not know how this training ended: %s", error)


def forget_end(train_dir: str) -> None:
    """Removes ended.json. A run without this file whose lock is free was killed."""
    with contextlib.suppress(storage.NotFoundError):
        storage.remove(storage.join(train_dir, ENDED))


def ended(train_dir: str) -> Ended | None:
    """How the last start of the run ended; None if it still runs or was killed.

    Raises:
      RunError: the file is damaged.
    """
    path = storage.join(train_dir, ENDED)
    try:
        values = _object(_text(path), path)
    except storage.NotFoundError:
        return None
    ended_run = Ended(values.get("status", ""), values.get("step"), values.get("message", ""))
    if not (ended_run.status and all(map(isinstance, ended_run, (str, int | None, str)))):
        raise RunError(f"{path} is damaged: it needs a status, a step and a message. {_REMEDY}")
    return ended_run


def start_new_model(train_dir: str, now: datetime.datetime | None = None) -> str | None:
    """Moves the files that a run wrote into a new folder next to `train_dir`; other files stay.

    Args:
      train_dir: the run's folder.
      now: the time in the name of the backup; None for the current time.

    Returns:
      The backup's path (`<train_dir>.old-<time>`), or None if there was nothing to move.

    Raises:
      UsageError: the folder has files, but holds no run.
    """
    # The lock file is not moved, because this process holds the lock.
    names = [name for name in storage.names_in(train_dir) if name != LOCK]
    if not any(matches(name, _A_RUN_HAS) for name in names):
        if names:
            raise UsageError(
                f"--start_new_model: {train_dir} is not the folder of a run: it holds {', '.join(names[:3])}, "
                f"but no {CONFIG} and no checkpoint. Nothing was moved; name another folder."
            )
        return None
    backup = _free_name(f"{_whole(train_dir)}.old-{now or datetime.datetime.now():%Y%m%d-%H%M%S}")
    storage.makedirs(backup)
    for name in names:
        if matches(name, WRITTEN) or _is_of_curves(train_dir, name):
            storage.rename(storage.join(train_dir, name), storage.join(backup, name))
    return backup


def _is_of_curves(train_dir: str, name: str) -> bool:
    """Whether `name` is a folder of event files only; a folder `train` or `validate` may also hold the user's data."""
    if name not in CURVES or not storage.is_dir(storage.join(train_dir, name)):
        return False
    return all(matches(inner, ("events.out.tfevents.*",)) for inner in storage.listdir(storage.join(train_dir, name)))


def lock(train_dir: str) -> AbstractContextManager[None]:
    """Locks the folder against other trainers during a `with` block.

    Raises:
      storage.Locked: another trainer has locked the folder; the message names its process.
    """
    return storage.lock(storage.join(train_dir, LOCK))


def note_own(folder: str, content: str | bytes) -> None:
    """Records in `own_runs` the text of a run's config, or the graph of an export; a failure is only logged."""
    try:
        own_runs.note(content)
    except RunError as error:
        logging.warning(
            "cannot record that %s was made on this machine (%s). Later commands will treat it as made elsewhere: they "
            "warn of its graph, and need --trust_code if it names code of your own",
            folder,
            error,
        )


def _text(path: str) -> str:
    try:
        return storage.read_text(path)
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged: it is not text ({error})") from error


def _whole(path: str) -> str:
    """`path` without `.` components and without a slash at its end, so that a suffix can be appended."""
    return path.rstrip("/") if storage.is_remote(path) else os.path.abspath(path)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether the name of a file matches one of the patterns."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _free_name(path: str) -> str:
    """`path`, with a number appended if a file or folder of that name exists."""
    free, number = path, 1
    while storage.exists(free):
        number += 1
        free = f"{path}-{number}"
    return free
