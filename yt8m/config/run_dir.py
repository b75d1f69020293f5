"""The folder of a run: reads, writes and locks it, and moves its files aside.

config.json has the whole config of the training and the versions of the software; model_flags.json has some options in
the format of the published code (YouTube-8M's starter code); vocabulary.csv has the names of the classes; ended.json
says how the last start ended.
The folder also holds model.ckpt-N.*, event files, metrics.jsonl, export/, eval/ and inference_model/.
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

from yt8m import formats, options, plug_ins, registry, storage
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.errors import RunError, UsageError, refusing, suggestion
from yt8m.records import data_folders, thresholds, vocabulary
from yt8m.records.vocabulary import Vocabulary
from yt8m.storage import own_runs
from yt8m.version import __version__


def to_json(config: TrainConfig) -> str:
    """Returns the text of config.json: the config, the number of the format, and the versions of the software.

    It also has the packages of the plug-ins that the config names, if there are any (`plug_ins.packages_of`).
    """
    values = dataclasses.asdict(config)
    document: dict[str, Any] = {"format": formats.CONFIG, "versions": versions()}
    if packages := plug_ins.packages_of(registry.texts_in(values)):
        document["packages"] = packages
    document["config"] = values
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def from_json(text: str, path: str) -> TrainConfig:
    """Parses the text of config.json, which `to_json` made.

    An option that the text lacks takes its default, because it may have been added after the text was written. An
    unknown key is refused, because it may change the model.
    """
    document = _parse_json_object(text, path)
    formats.refuse_newer(path, document.get("format", formats.CONFIG), formats.CONFIG)
    saved_versions = document.get("versions", {})
    version = saved_versions.get("yt8m", "of unknown version") if isinstance(saved_versions, Mapping) else ""
    writer = f"yt8m {version}".strip()
    config = document.get("config")
    if not isinstance(config, Mapping):
        raise RunError(f"{path} has no config: it is not the config.json of a run. {_REMEDY}")
    return typing.cast("TrainConfig", _build_section(TrainConfig, config, "config", f"{path} (by {writer})"))


# Options in which runs may differ without `yt8m runs` and reports showing it.
_NOT_COMPARED = {
    *options.paths_where(TrainConfig, belongs_to="start"),
    *options.paths_where(TrainConfig, is_compared=False),
}
PUBLISHED = options.paths_where(TrainConfig, is_published=True)  # options in model_flags.json
# {path of an option, such as data.batch_size: name of its flag}
_FLAGS = {path: options.flag_of(field) for path, field in options.fields_of(TrainConfig)}


def is_compared(path: str) -> bool:
    """Whether a difference between runs in a value of a config is shown: one of an option, or within an option."""
    within = path.split(".")
    return not any(".".join(within[:length]) in _NOT_COMPARED for length in range(1, len(within) + 1))


def show_option(values: Mapping[str, Any], value: Any) -> str:
    """An option's value where runs are compared; extractors have their name and the size of their feature alone.

    Args:
      values: {path: value} of the options of the run.
    """
    if not (isinstance(value, list | tuple) and value and all(isinstance(entry, Mapping) for entry in value)):
        return "not set" if value is None else options.shown(value)
    names = [str(name).removeprefix("mean_") for name in values.get("data.feature_names", ())]
    sizes = dict(zip(names, values.get("data.feature_sizes", ()), strict=False))
    return ",".join(f"{entry.get('name')}[{sizes.get(entry.get('feature'), '?')}]" for entry in value)


def flag_at(path: str) -> str:
    """The name of the flag of an option or a hyper-parameter, such as `batch_size` for the path `data.batch_size`."""
    return _FLAGS.get(path) or path.rpartition(".")[2]


def model_flags_to_json(config: TrainConfig) -> str:
    """Returns the text of model_flags.json, which the published programs read."""
    values = {options.short_name(path): options.value_at(config, path) for path in PUBLISHED}
    if not config.data.segment_labels:
        del values["segment_labels"]
    return json.dumps(
        {name: value if isinstance(value, bool) else options.shown(value) for name, value in values.items()}
    )


def model_flags_from_json(text: str, path: str) -> TrainConfig:
    """Parses the text of model_flags.json; options that this file never has, such as hyper-parameters, are defaults."""
    flags = _parse_json_object(text, path)
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
    except metadata.PackageNotFoundError:  # TensorFlow is not installed, or under another name such as tensorflow-cpu
        tensorflow = "unknown"
    return {"yt8m": __version__, "tensorflow": tensorflow, "python": platform.python_version()}


def written_versions(train_dir: str) -> dict[str, str]:
    """{name: version} of the software that trained the run, from its config.json; empty if that cannot be read."""
    try:
        versions = storage.read_json(storage.join(train_dir, CONFIG))["versions"]
        return {str(name): str(value) for name, value in versions.items()}
    except (RunError, ValueError, KeyError, TypeError, AttributeError):
        return {}


_REMEDY = "Restore the file from a copy, or train into another folder."


def _parse_json_object(text: str, path: str) -> dict[str, Any]:
    try:
        document = storage.parse_json(text)
    except ValueError as error:
        raise RunError(f"{path} is cut short or damaged ({error}). {_REMEDY}") from error
    if not isinstance(document, dict):
        raise RunError(f"{path} holds a {type(document).__name__}; expected a JSON object. {_REMEDY}")
    return document


def _build_section(cls: type, values: Mapping[str, Any], key: str, path: str) -> Any:
    """Builds an instance of a config class from a JSON object; raises `RunError` if that is not possible."""
    kinds = typing.get_type_hints(cls)
    for name in values.keys() - kinds.keys():
        raise RunError(
            f"{path}: unknown key {key}.{name}{suggestion(name, kinds, '.')} This is yt8m {__version__}; "
            "use the version that wrote the file, or correct the key."
        )
    try:
        return cls(**{name: _build_value(kinds[name], value, f"{key}.{name}", path) for name, value in values.items()})
    except UsageError as error:
        raise RunError(f"{path}: {key}: {error}. {_REMEDY}") from error


def _build_value(kind: Any, value: Any, key: str, path: str) -> Any:
    is_section = dataclasses.is_dataclass(kind)
    if (is_section or typing.get_origin(kind) is Mapping) and not isinstance(value, Mapping):
        raise RunError(f"{path}: {key} is {value!r}; expected a JSON object. {_REMEDY}")
    return _build_section(typing.cast("type", kind), value, key, path) if is_section else options.with_tuples(value)


CONFIG, MODEL_FLAGS, ENDED, LOCK = "config.json", "model_flags.json", "ended.json", "train.lock"
SEARCH = "search.json"  # the trials of a choice of the model that have ended
TEST_FIGURES = "test.json"  # the evaluation of a chosen model on the split test
ADDED_CLASSES = "added_classes.json"  # the comparison of a run with added classes and the run that it was made from
INFERENCE_MODEL = "inference_model"  # the name of the folder and the prefix of its files, as in the published code
SEGMENT_MODEL = "segment_inference_model"  # the prefix that the published code uses after an evaluation of segments
BEST_FOLDER, BEST_NOTE = "best", "best.json"  # the folder of the best checkpoint, and the file in it with its metrics
RUNS = "runs"  # the folder in which a training without --train_dir makes the folder of its run

# Patterns of the names of the files and folders that trainings, evaluations and predictions write into a run's folder,
# except `LOCK` and `CURVES`. `start_new_model` moves these files and folders aside, and `yt8m runs` lists none of these
# folders as a run.
_STATE = (
    CONFIG,
    MODEL_FLAGS,
    ENDED,
    ADDED_CLASSES,
    vocabulary.NAME,
    "cluster.json",
    "validation.json",
    SEARCH,
    TEST_FIGURES,
    thresholds.OF_CHOICE,
)
_CHECKPOINTS = ("checkpoint", "model.ckpt-*", "input_checkpoint", "input-*", "best", "best.*", "graph.pbtxt")
_RESULTS = ("events.out.tfevents.*", "metrics.jsonl", "predictions.csv", "eval", "export")
WRITTEN = (*_STATE, *_CHECKPOINTS, *_RESULTS, "inference_model", "inference_model.*")
# A training with validation writes event files into these two folders; TensorBoard shows each as a curve of its own.
CURVES = ("train", "validate")
_RUN_MARKERS = (CONFIG, MODEL_FLAGS, "checkpoint", "model.ckpt-*")  # a folder with one of these is that of a run


class SavedRun(NamedTuple):
    """The config of a run as its folder saves it."""

    config: TrainConfig
    published: bool


def read(train_dir: str, *, trust_code: bool = False) -> SavedRun | None:
    """Reads the config of a run from config.json, else from model_flags.json; None if the folder has neither.

    Args:
      trust_code: whether code that the file names may be imported later. If False, this code may be imported only if
        the run `is_own`, or if the user gives the same name on the command line.
    """
    for name, parse in ((CONFIG, from_json), (MODEL_FLAGS, model_flags_from_json)):
        path = storage.join(train_dir, name)
        if storage.exists(path):
            return SavedRun(_read_config_file(path, parse, trust_code), published=name == MODEL_FLAGS)
    return None


def is_run(folder: str) -> bool:
    """Whether the folder holds the config of a run, of this project or of the published code."""
    return any(storage.exists(storage.join(folder, name)) for name in (CONFIG, MODEL_FLAGS))


def why_no_run(folder: str) -> str:
    """Why a folder is not that of a run, and what it is, if its files say so: a message without the end."""
    reason = f"{folder} holds neither {CONFIG} nor {MODEL_FLAGS}: it is not the folder of a run"
    if runs := [path for path in (storage.join(folder, name) for name in storage.names_in(folder)) if is_run(path)]:
        return f"{reason}, but runs are in it: name one, such as {runs[0]}"
    if data_folders.shards_in(folder, whole=True):
        return f"{reason}, but of records, which --data takes"
    kind = storage.folder_kind(folder)
    return f"{reason}, but {kind.description}; {kind.remedy}" if kind else reason


def read_config(path: str, *, trust_code: bool = False) -> TrainConfig:
    """Reads a file in the format of config.json, see `read` for `trust_code` and errors; the file must exist."""
    return _read_config_file(path, from_json, trust_code)


def _read_config_file(path: str, parse: Callable[[str, str], TrainConfig], trust_code: bool) -> TrainConfig:
    text = _read_text(path)
    config = parse(text, path)
    code = registry.names_of_code(dataclasses.asdict(config))
    is_trusted = trust_code or own_runs.is_noted(text)
    registry.set_trust(code, path, is_trusted=is_trusted)
    plug_ins.expect(_parse_json_object(text, path).get("packages"), path)
    if is_trusted:
        registry.find_near(code, os.path.dirname(path))
    return config


def is_own(train_dir: str) -> bool:
    """Whether this user trained or made the run on this machine, and the run's config.json is unchanged since then."""
    try:
        return own_runs.is_noted(_read_text(storage.join(train_dir, CONFIG)))
    except RunError:
        return False


def own_names(folder: str, num_classes: int | None) -> Vocabulary:
    """The vocabulary in the folder of a run or of a model; empty if there is none.

    Args:
      folder: path of the folder, local or gs://.
      num_classes: number of classes of the model; None if it is not known.
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
    """Writes config.json, model_flags.json and the vocabulary, if there is one; no file is ever left incomplete.

    Args:
      names: the vocabulary of the run; None or empty if it has none.
      is_own: whether this user trains the run on this machine, or makes it from a run for which this holds. Then the
        run is recorded, so that later commands import the code that its config names without --trust_code.
    """
    if is_own:
        registry.trust(registry.names_of_code(dataclasses.asdict(config)))
        note_own(train_dir, to_json(config))
    if names:
        vocabulary.write(storage.join(train_dir, vocabulary.NAME), names)
    # config.json comes first: a run that is killed before it has model_flags.json goes on by it and writes both again.
    for name, text in ((CONFIG, to_json(config)), (MODEL_FLAGS, model_flags_to_json(config))):
        storage.write(storage.join(train_dir, name), text)


class Ended(NamedTuple):
    """How the last start of a run ended.

    Attributes:
      step: the last step; None if it is not known.
    """

    status: str
    step: int | None
    message: str


def note_end(train_dir: str, ended: Ended) -> None:
    """Writes `ended` to ended.json in the run's folder; a failure is only logged, because the training is over."""
    try:
        storage.refuse_lost_lock(train_dir)
        storage.write(storage.join(train_dir, ENDED), json.dumps(ended._asdict(), ensure_ascii=False) + "\n")
    except (RunError, UsageError) as error:
        logging.error("`yt8m runs` will not know how this training ended: %s", error)


def forget_end(train_dir: str) -> None:
    """Removes ended.json at a start of the run. So a run that lacks the file was killed, unless its lock is held."""
    with contextlib.suppress(storage.NotFoundError):
        storage.remove(storage.join(train_dir, ENDED))


def read_end(train_dir: str) -> Ended | None:
    """Reads from ended.json how the last start of a run ended; None if the run still runs, was killed, or never ran."""
    path = storage.join(train_dir, ENDED)
    try:
        values = _parse_json_object(_read_text(path), path)
    except storage.NotFoundError:
        return None
    ended = Ended(values.get("status", ""), values.get("step"), values.get("message", ""))
    if not (ended.status and all(map(isinstance, ended, (str, int | None, str)))):
        raise RunError(f"{path} is damaged: it needs a status, a step and a message. {_REMEDY}")
    return ended


def start_new_model(train_dir: str, now: datetime.datetime | None = None) -> str | None:
    """Moves the files that a run wrote into a new folder next to the run's folder; other files stay.

    Args:
      now: the time in the name of the new folder; None for the current time.

    Returns:
      The path of the new folder, `<train_dir>.old-<time>`; None if the run's folder is missing or has at most the lock
      file.
    """
    # The lock file is not moved, because this process holds the lock.
    names = [name for name in storage.names_in(train_dir) if name != LOCK]
    if not any(matches(name, (*_RUN_MARKERS, SEARCH)) for name in names):  # also of a choice that was killed
        if names:
            raise UsageError(
                f"--start_new_model: {train_dir} is not the folder of a run: it holds {', '.join(names[:3])}, "
                f"but no {CONFIG} and no checkpoint. Nothing was moved; name another folder."
            )
        return None
    backup = _find_free_name(f"{_normalize_path(train_dir)}.old-{now or datetime.datetime.now():%Y%m%d-%H%M%S}")
    storage.makedirs(backup)
    for name in names:
        if matches(name, WRITTEN) or _is_curves_folder(train_dir, name):
            storage.rename(storage.join(train_dir, name), storage.join(backup, name))
    return backup


def _is_curves_folder(train_dir: str, name: str) -> bool:
    """Whether `name` is one of the folders `CURVES` with nothing but event files.

    A folder `train` or `validate` that holds anything else has data of the user.
    """
    if name not in CURVES or not storage.is_dir(storage.join(train_dir, name)):
        return False
    return all(matches(inner, ("events.out.tfevents.*",)) for inner in storage.listdir(storage.join(train_dir, name)))


def lock(train_dir: str) -> AbstractContextManager[None]:
    """Locks the folder against other trainers during a `with` block."""
    return storage.lock(storage.join(train_dir, LOCK))


def note_own(folder: str, content: str | bytes) -> None:
    """Records that this user made a run or an export on this machine; a failure is only logged.

    Args:
      content: the text of the run's config.json, or the bytes of the export's saved_model.pb.
    """
    try:
        own_runs.note(content)
    except RunError as error:
        logging.warning(
            "cannot record that %s was made on this machine (%s). Later commands will treat it as made elsewhere: they "
            "warn of its graph, and need --trust_code if it names code of your own",
            folder,
            error,
        )


def _read_text(path: str) -> str:
    with refusing(lambda error: RunError(f"{path} is damaged: it is not text ({error.__cause__}). {_REMEDY}")):
        return storage.read_text(path)


def _normalize_path(path: str) -> str:
    """Returns `path` without slashes at its end, so that a suffix can be appended; a local path becomes absolute."""
    return path.rstrip("/") if storage.is_remote(path) else os.path.abspath(path)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether the name of a file matches one of the shell patterns, such as `model.ckpt-*`."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _find_free_name(path: str) -> str:
    """Returns `path`, with a number appended if a file or folder of that name exists already."""
    free, number = path, 1
    while storage.exists(free):
        number += 1
        free = f"{path}-{number}"
    return free
