"""The reader of a run: one of YouTube-8M's two, or the class that `--reader=package.module:Class` names.

A user's own reader turns records of another layout into a `Batch`. `BatchQueue` still handles files, shuffling,
epochs and exact resume.
"""

from __future__ import annotations

import inspect
from typing import Any

from yt8m.config.registry import Registry
from yt8m.config.train_config import DataConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers.base import Reader
from yt8m.readers.youtube8m import YT8MAggregatedFeatureReader, YT8MFrameFeatureReader
from yt8m.types import Batch

_readers: Registry[Any] = Registry("reader")

_METHODS = ("prepare_serialized_examples", "video_matrix")
# Fields of DataConfig that the constructor of a user's reader gets: the first always, the second only if it has a
# parameter of that name.
_REQUIRED = ("num_classes", "feature_sizes", "feature_names")
_OPTIONAL = ("max_frames", "segment_labels", "segment_size", "nan_policy")


def reader_for(data: DataConfig) -> Reader:
    """An instance of the reader that `data` asks for.

    Raises:
      UsageError: the user's class cannot be loaded or is not a reader.
    """
    if data.reader:
        return _own_reader(data)
    names = _REQUIRED + (_OPTIONAL if data.frame_features else ("nan_policy",))
    cls: Any = YT8MFrameFeatureReader if data.frame_features else YT8MAggregatedFeatureReader
    return cls(**{name: getattr(data, name) for name in names})  # type: ignore[no-any-return]


def own_reader_class(name: str) -> Any:
    """The class that `package.module:Class` names: derived from `Reader`, or with its members.

    Raises:
      UsageError: it cannot be loaded, is not a class, or lacks a method; or the name comes from a run
        that is not trusted.
    """
    if ":" not in name:
        raise UsageError(
            f"--reader={name}: expected package.module:Class, a reader of your own. Leave the flag out to "
            "read records as YouTube-8M has them."
        )
    cls = _readers.get(name)
    missing = [method for method in _METHODS if not callable(getattr(cls, method, None))]
    missing += sorted(getattr(cls, "__abstractmethods__", ()))
    if not isinstance(cls, type) or missing:
        raise UsageError(
            f"--reader={name}: expected a class derived from yt8m.readers.Reader, or with its members; "
            f"{cls!r} lacks {', '.join(missing) or 'a constructor'}."
        )
    return cls


def _own_reader(data: DataConfig) -> Reader:
    cls = own_reader_class(data.reader)
    signature = inspect.signature(cls)
    values = {name: getattr(data, name) for name in _REQUIRED}
    for name in _OPTIONAL:
        value = getattr(data, name)
        if name in signature.parameters:
            values[name] = value
        elif value != DataConfig.__dataclass_fields__[name].default:
            raise UsageError(
                f"--{name}={value}: the constructor of --reader={data.reader} has no parameter {name}. "
                "Leave the flag out, or add the parameter."
            )
    try:
        signature.bind(**values)
    except TypeError as error:
        raise UsageError(f"--reader={data.reader}: cannot be called with {', '.join(values)}: {error}.") from error
    reader: Reader = cls(**values)
    _check_batch(reader, data)
    return reader


def _check_batch(reader: Any, data: DataConfig) -> None:
    """Refuses a reader that lacks an attribute or returns an unusable `Batch`, before a run writes anything."""
    missing = [name for name in _REQUIRED if not hasattr(reader, name)]
    if missing:
        raise UsageError(f"--reader={data.reader}: its instances lack {', '.join(missing)}; set them in __init__.")
    try:
        with tf.Graph().as_default():
            batch = reader.prepare_serialized_examples(tf.placeholder(tf.string, [None]))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(f"--reader={data.reader}: prepare_serialized_examples fails: {problem}") from error
    frames = [None] if data.frame_features else []
    expected = [[None, *frames, size] for size in data.feature_sizes]
    found = [feature.shape.as_list() if feature.shape.rank else None for feature in getattr(batch, "features", ())]
    if not isinstance(batch, Batch) or not _has_shapes(found, expected):
        raise UsageError(
            f"--reader={data.reader}: prepare_serialized_examples must return a yt8m.types.Batch with features of "
            f"the shapes {expected}, as --feature_sizes and --frame_features say; it returned a "
            f"{type(batch).__name__} with features of the shapes {found}. tf.ensure_shape tells a shape."
        )


def _has_shapes(found: list[Any], expected: list[list[int | None]]) -> bool:
    """Whether ranks and last dimensions are the expected ones; other dimensions may differ."""
    ends = [(len(shape), shape[-1]) for shape in found if shape]
    return ends == [(len(shape), shape[-1]) for shape in expected]
