"""Checks whether data fit the flags of a training, and whether they fit a trained model.

The format of data is read from their manifest or from their first records. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import options, storage
from yt8m.config.train_config import KNOWN_SIZES, DataConfig
from yt8m.errors import RunError, UsageError
from yt8m.options import shown
from yt8m.records import discovery, manifest
from yt8m.records.data_format import DataFormat, features_of, usual_range
from yt8m.records.discovery import DiscoveredFormat
from yt8m.records.vocabulary import Vocabulary

# The options that describe the layout of a record: feature_names, feature_sizes and frame_features.
DESCRIBING = options.paths_where(DataConfig, shapes="variables", is_published=True)
_ALL = "--feature_names, --feature_sizes and --frame_features"  # the flags of `DESCRIBING`, for a message


def format_of(data: DataConfig) -> DataFormat:
    """The format of the records that the config describes; `max_frames` is the number of frames that the model uses."""
    level = "frame" if data.frame_features else "video"
    features = features_of(level, data.feature_names, data.feature_sizes, data.feature_ranges)
    most = data.max_frames if data.frame_features else None
    return DataFormat(level, features, num_classes=data.num_classes, max_frames=most)


def fit_data(
    data: DataConfig,
    files: Sequence[str],
    flag: str,
    flags: Mapping[str, Any] | None = None,
    *,
    is_rated: bool = False,
    remedy: str = "",
) -> DataConfig:
    """Checks whether the data of an evaluation or inference fit the model of a run.

    Nothing is checked if the run has a custom reader, or if the format of the data is unknown. Nor is anything checked
    if bad records are tolerated and no manifest declares the format, because the first record, which then shows the
    format, may be a bad one.

    Args:
      data: the data config of the run, with the pattern of the evaluation's or inference's files.
      files: the paths of these files.
      flag: the name of the flag that names the files.
      flags: {flag: value} of flags that describe the records; None and False stand for flags that were not given.
      is_rated: whether the records must have rated segments.
      remedy: a sentence for the message that says what to do about data that do not fit; by default one that asks for
        other data or another run.

    Returns:
      `data`; if the manifest of the files declares their format, with the feature ranges of that manifest.

    Raises:
      UsageError: the records differ from those of the training, or from a flag; the message describes both.
      RunError: a manifest is damaged, or two contradict one another.
    """
    discovered = None if data.reader else discovery.find(files, data.manifest)
    if discovered is None or not (discovered.is_declared or data.max_bad_records == 0):
        return data
    refuse_contradiction({name: value for name, value in (flags or {}).items() if value}, discovered)
    difference = next(_find_misfits(data, discovered, is_rated), "")
    if difference:
        raise UsageError(
            f"--{flag}={data.data_pattern}: the data do not fit the model, which {difference} ({discovered}). "
            f"{remedy or 'Name data with the same format as the training data, or another run.'}"
        )
    ranges = feature_ranges(data.feature_names, discovered.format) if discovered.is_declared else data.feature_ranges
    return dataclasses.replace(data, feature_ranges=ranges)


def training_counts(names: Vocabulary, data: DataConfig) -> NDArray[np.int64] | None:
    """Finds the number of training videos of each class, in the vocabulary or else in the manifest of the data.

    Args:
      names: the vocabulary of the run; it may be empty.
      data: the data config of the training.

    Returns:
      int64 [C], for the C classes of `data`; of a vocabulary with more classes, the numbers of the first C. None if
      neither the column `count` of the vocabulary nor the manifest has the numbers, if the vocabulary has fewer
      classes or the manifest has another number of them, or if the manifest cannot be read.
    """
    if names.counts.any():
        return names.counts[: data.num_classes] if len(names) >= data.num_classes else None
    with contextlib.suppress(RunError, UsageError):
        files = storage.glob(data.data_pattern) if data.data_pattern else []
        own_manifest = manifest.read(data.manifest) if data.manifest else manifest.find(files)
        positives = np.array(own_manifest.data.positives or () if own_manifest.data else (), np.int64)
        return positives if len(positives) == data.num_classes and positives.any() else None
    return None


def _find_misfits(data: DataConfig, discovered: DiscoveredFormat, is_rated: bool) -> Iterator[str]:
    """Yields each difference between the data and the input of the model, as the end of a sentence about the model.

    Args:
      data: the data config of the run.
      discovered: the description of the data.
      is_rated: whether the data must have rated segments.
    """
    format, sizes = discovered.format, discovered.format.sizes()
    level = "frame" if data.frame_features else "video"
    if level != format.level:
        yield f"takes {level}-level records, but these are {format.level}-level ones"
    for name, size in zip(data.feature_names, data.feature_sizes, strict=True):
        if name not in sizes:
            yield f"takes the feature {name}, but these records have {shown(tuple(sizes))}"
        elif sizes[name] != size:
            yield f"takes {size} values of {name}, but these records have {sizes[name]}"
    if is_rated and discovered.is_declared and not format.segment_labels:
        yield "is to be evaluated on rated segments, but these records have none"
    if (format.num_classes or 0) > data.num_classes:
        yield f"has {data.num_classes} classes, but these records have {format.num_classes}"


def refuse_contradiction(
    flags: Mapping[str, Any],
    discovered: DiscoveredFormat,
    values: Mapping[str, Any] | None = None,
    is_own: bool = False,
) -> None:
    """Refuses flags that contradict the data.

    Args:
      flags: {flag: value} of the flags that were given.
      discovered: the description of the data.
      values: for a training, {flag: value} including the defaults of flags that were not given; None for other
        programs, in which only `flags` are compared.
      is_own: whether no feature of the records is one of YouTube-8M. Then default feature names that contradict the
        data are refused too. A default level that contradicts the data is refused in both cases.

    Raises:
      UsageError: a flag contradicts the data; the message describes the records and names the flags to give.
    """
    is_training = values is not None
    values = values or flags
    for name, actual in _find_contradictions(values, flags, discovered, is_own):
        flag = f"--{name}={shown(values[name])}{'' if name in flags else ' (the default)'}"
        actual_text, remedy = f"it is {shown(actual)}", f"--{name}={shown(actual)}"
        if name in DESCRIBING and name != "feature_sizes":
            names = shown(_order_names(discovered.format))
            actual_text = f"the records are {discovered.format.level}-level ones with the features {names}"
            remedy = " ".join(_flags_to_give(values, flags, discovered.format))
        if is_training and name == "frame_features":
            requested_level = "frame" if values[name] else "video"
            remedy += f" and a {discovered.format.level}-level --model, or name {requested_level}-level data"
        if is_own and name in DESCRIBING:
            remedy += f", or none of {_ALL}: they are then taken from the data"
        raise UsageError(f"{flag} contradicts the data: according to {discovered} {actual_text}. Give {remedy}.")


def _find_contradictions(
    values: Mapping[str, Any], flags: Mapping[str, Any], discovered: DiscoveredFormat, is_own: bool
) -> Iterator[tuple[str, Any]]:
    """Yields (name of the flag, value that the data have) for each flag that contradicts the data.

    The arguments are those of `refuse_contradiction`, but `values` must not be None.
    """
    format, sizes, names = discovered.format, discovered.format.sizes(), values.get("feature_names", ())
    has_frames = format.level == "frame"
    if values.get("frame_features", has_frames) != has_frames:
        yield "frame_features", has_frames
        return
    if "feature_sizes" in flags and "feature_names" not in flags and is_own:
        names = tuple(sizes)
    actual = tuple(sizes[name] for name in names if name in sizes)
    if "feature_sizes" in flags and len(actual) == len(names) and flags["feature_sizes"] != actual:
        yield "feature_sizes", actual
    if ("feature_names" in flags or is_own) and not set(values.get("feature_names", ())) <= sizes.keys():
        yield "feature_names", tuple(sizes)
    if discovered.is_declared and flags.get("segment_labels") and not format.segment_labels:
        yield "segment_labels", False
    if "num_classes" in flags and flags["num_classes"] != (format.num_classes or flags["num_classes"]):
        yield "num_classes", format.num_classes


def _flags_to_give(values: Mapping[str, Any], flags: Mapping[str, Any], format: DataFormat) -> Iterator[str]:
    """Yields the flags of the level and the features, such as `--frame_features`, that the user must give or change.

    Args:
      values: {flag: value} including defaults.
      flags: {flag: value} of the flags that were given.
      format: the format of the records.
    """
    has_frames, sizes = format.level == "frame", format.sizes()
    if values.get("frame_features", has_frames) != has_frames:
        yield "--frame_features" if has_frames else "--noframe_features"
    names = flags.get("feature_names", ())
    if not names or not set(names) <= sizes.keys():
        names = _order_names(format)
        yield f"--feature_names={shown(names)}"
    actual = tuple(sizes[name] for name in names)
    if flags.get("feature_sizes") != actual:
        yield f"--feature_sizes={shown(actual)}"


def _order_names(format: DataFormat) -> tuple[str, ...]:
    """The names of the features: first those of YouTube-8M in the published order, then others in the data's order."""
    names = format.sizes()
    published = [name for name in KNOWN_SIZES if name in names]
    return (*published, *(name for name in names if name not in published))


def feature_ranges(names: Sequence[str], format: DataFormat) -> tuple[tuple[float, ...], ...]:
    """The value of `DataConfig.feature_ranges` for some features of the data.

    Args:
      names: the names of the features.
      format: the format of the data.

    Returns:
      (lowest, highest value) of each feature, or () for a feature stored as floats. The whole value is () if all
      features have the range of YouTube-8M, or if the data lack one of them.
    """
    ranges = {feature.name: feature.range for feature in format.features}
    published = {name: usual_range(format.level, name) for name in names}
    if not published.keys() <= ranges.keys() or all(ranges[name] == published[name] for name in names):
        return ()
    return tuple(ranges[name] or () for name in names)


def class_count(num_classes: int | None, discovered: DiscoveredFormat | None) -> int | None:
    """Finds the number of classes of records without a vocabulary.

    Args:
      num_classes: the value of --num_classes; None if it is not given.
      discovered: the description of the records; None if it is not known, which means 3862 classes. Records of
        YouTube-8M too have 3862 classes, unless a manifest says otherwise.

    Returns:
      The number of classes; None if neither the flag nor the data show it.

    Raises:
      UsageError: the flag contradicts the data.
    """
    if num_classes is not None and discovered is not None:
        refuse_contradiction({"num_classes": num_classes}, discovered)
    if num_classes is not None or discovered is None:
        return num_classes or DataConfig.num_classes
    is_own = not any(feature.name in KNOWN_SIZES for feature in discovered.format.features)
    return discovered.format.num_classes or (None if is_own else DataConfig.num_classes)
