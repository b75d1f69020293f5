"""A run's config as text: config.json (everything, with versions) and the published model_flags.json."""

from __future__ import annotations

import dataclasses
import json
import platform
import typing
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import yt8m
from yt8m import json_text
from yt8m.config import DataConfig, ModelConfig, TrainConfig
from yt8m.errors import RunError, UsageError, suggestion


def to_json(config: TrainConfig) -> str:
    """The text of config.json."""
    whole = {"versions": versions(), "config": dataclasses.asdict(config)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def from_json(text: str, path: str) -> TrainConfig:
    """What `to_json` wrote, here or by another version.

    A key that is missing (an older file) takes its default. A key that is not known (a newer file, a
    slip of an editor) is refused, since it may stand for something that shapes the model.

    Args:
      text: the content.
      path: where it stands, for the message.

    Raises:
      RunError: not readable as such; names the key and what to do.
    """
    whole = _object(text, path)
    written = whole.get("versions", {})
    by = f"yt8m {written.get('yt8m', 'of unknown version')}" if isinstance(written, Mapping) else "yt8m"
    if not isinstance(whole.get("config"), Mapping):
        raise RunError(f"{path} has no config: it is no config.json of a run. {_REMEDY}")
    return typing.cast("TrainConfig", _section(TrainConfig, whole["config"], "config", f"{path} (by {by})"))


def model_flags_to_json(config: TrainConfig) -> str:
    """The text of model_flags.json, which the published programs read."""
    flags: dict[str, Any] = {
        "model": config.model.model,
        "feature_sizes": ",".join(map(str, config.data.feature_sizes)),
        "feature_names": ",".join(config.data.feature_names),
        "frame_features": config.data.frame_features,
        "label_loss": config.model.label_loss,
    }
    if config.data.segment_labels:
        flags["segment_labels"] = True
    return json.dumps(flags)


def model_flags_from_json(text: str, path: str) -> TrainConfig:
    """A config with what model_flags.json says; the rest, class count included, is at its defaults.

    Raises:
      RunError: a key is missing or has an unusable value.
    """
    flags = _object(text, path)
    missing = {"model", "feature_sizes", "feature_names", "frame_features", "label_loss"} - flags.keys()
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
    """Versions of this package, TensorFlow and Python, without importing TensorFlow."""
    try:
        tensorflow = metadata.version("tensorflow")
    except metadata.PackageNotFoundError:  # a build under another name
        tensorflow = "unknown"
    return {"yt8m": yt8m.__version__, "tensorflow": tensorflow, "python": platform.python_version()}


_REMEDY = "Restore the file from a copy, or train into another folder."


def _object(text: str, path: str) -> dict[str, Any]:
    try:
        whole = json_text.parse(text)
    except ValueError as error:
        raise RunError(f"{path} is cut short or damaged ({error}). {_REMEDY}") from error
    if not isinstance(whole, dict):
        raise RunError(f"{path} holds a {type(whole).__name__} where an object is needed. {_REMEDY}")
    return whole


def _section(cls: type, values: Mapping[str, Any], key: str, path: str) -> Any:
    """One config class from its part of the file."""
    kinds = typing.get_type_hints(cls)
    for name in values.keys() - kinds.keys():
        raise RunError(
            f"{path}: unknown key {key}.{name}{suggestion(name, kinds)}. This is yt8m {yt8m.__version__}; "
            "use the version that wrote the file, or mend the key."
        )
    try:
        return cls(
            **{name: _value(kinds[name], value, f"{key}.{name}", path) for name, value in values.items()}
        )
    except UsageError as error:
        raise RunError(f"{path}: {key}: {error}. {_REMEDY}") from error


def _value(kind: Any, value: Any, key: str, path: str) -> Any:
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise RunError(f"{path}: {key} is {value!r} where an object is needed. {_REMEDY}")
        return _section(typing.cast("type", kind), value, key, path)
    if typing.get_origin(kind) is Mapping:
        if not isinstance(value, Mapping):
            raise RunError(f"{path}: {key} is {value!r} where an object is needed. {_REMEDY}")
        return {name: _tuples(inner) for name, inner in value.items()}
    return _tuples(value)


def _tuples(value: Any) -> Any:
    """JSON has lists only; ours are tuples."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {name: _tuples(inner) for name, inner in value.items()} if isinstance(value, dict) else value
