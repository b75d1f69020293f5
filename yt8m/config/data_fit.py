"""What a model takes, and whether data fit it: the flags of a training, or a trained model.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import options
from yt8m.config.data_config import KNOWN_SIZES, DataConfig
from yt8m.errors import RunError, UsageError
from yt8m.options import shown
from yt8m.records import vocabulary
from yt8m.records.data_format import DataFormat, features_of, shown_columns, usual_range
from yt8m.records.opened_data import DiscoveredFormat, OpenedData, open_data
from yt8m.records.vocabulary import Vocabulary

# The options that describe the layout of a record: feature_names, feature_sizes and frame_features.
DESCRIBING = options.paths_where(DataConfig, shapes="variables", is_published=True)
_NO_NAMES = vocabulary.of_names(())
_ALL = "--feature_names, --feature_sizes and --frame_features"  # the flags of `DESCRIBING`, for a message


def open_for(data: DataConfig, flag: str = "") -> OpenedData:
    """Opens the files that a data config names, by the flag `flag`; without a pattern only its vocabulary is known."""
    return open_data(data.data_pattern or None, vocabulary=data.vocabulary, manifest=data.manifest, flag=flag)


@dataclass(frozen=True)
class Takes:
    """What a model takes: level, features, sizes, ranges and classes, as a data config says, and names of the classes.

    Attributes:
      names: the model's own vocabulary; empty if it has none.
    """

    data: DataConfig
    names: Vocabulary = _NO_NAMES
    where: str = ""

    @property
    def format(self) -> DataFormat:
        """The format of the records; `max_frames` is the number of frames that the model uses."""
        data, level = self.data, "frame" if self.data.frame_features else "video"
        features = features_of(level, data.feature_names, data.feature_sizes, data.feature_ranges)
        most = data.max_frames if data.frame_features else None
        lengths = (data.video_frames[0], data.video_frames[1]) if data.video_frames else None
        return DataFormat(
            *(level, features),
            num_classes=data.num_classes,
            max_frames=most,
            video_frames=lengths,
            columns=data.columns or None,
            one_class=data.one_class or None,
        )

    def names_on(self, data: OpenedData, remedy: str = "") -> Vocabulary:
        """The names of the classes on some data, see `OpenedData.names_for`."""
        return data.names_for(self.names, self.data.num_classes, self.where, remedy)

    def misfits(self, discovered: DiscoveredFormat, is_rated: bool) -> Iterator[str]:
        """Yields each difference between data and input of the model, as the end of a sentence about the model."""
        format, sizes, takes = discovered.format, discovered.format.sizes(), self.format
        if takes.level != format.level:
            yield f"takes {takes.level}-level records, but these are {format.level}-level ones"
        for name, size in takes.sizes().items():
            if name not in sizes:
                yield f"takes the feature {name}, but these records have {shown(tuple(sizes))}"
            elif sizes[name] != size:
                yield f"takes {size} values of {name}, but these records have {sizes[name]}"
        if format.columns and takes.columns and format.columns != takes.columns:
            columns, other = shown_columns(takes.columns), shown_columns(format.columns)
            yield f"takes the columns {columns} in this order, but these records have {other}"
        if is_rated and discovered.is_declared and not format.segment_labels:
            yield "is to be evaluated on rated segments, but these records have none"
        if is_rated and (format.segment_size or self.data.segment_size) != self.data.segment_size:
            yield f"takes segments of {self.data.segment_size} frames, but these have {format.segment_size}"
        if (format.num_classes or 0) > self.data.num_classes:
            yield f"has {self.data.num_classes} classes, but these records have {format.num_classes}"


def fit(
    takes: Takes, data: OpenedData, flags: Mapping[str, Any], *, flag: str, is_rated: bool = False, remedy: str = ""
) -> DataConfig:
    """Checks whether the data of an evaluation or inference fit a model, and returns the config by which they are read.

    Nothing is checked if the run has a custom reader, or if the format of the data is unknown. Nor is anything checked
    if bad records are tolerated and no manifest declares the format, because the first record, which then shows the
    format, may be a bad one.

    Args:
      flags: {flag: value} of flags that describe the records; None and False stand for flags that were not given.
      remedy: a sentence for the message that says what to do about data that do not fit; by default one that asks for
        other data or another run.
    """
    config = takes.data
    if config.reader:
        return config
    discovered = data.format
    data.refuse_unknown_bytes(takes.format)
    if discovered is None:
        return config
    if not (discovered.is_declared or config.max_bad_records == 0):
        return config
    refuse_contradiction({name: value for name, value in flags.items() if value}, discovered)
    difference = next(takes.misfits(discovered, is_rated), "")
    if difference:
        raise UsageError(
            f"--{flag}={data.pattern}: the data do not fit the model, which {difference} ({discovered}). "
            f"{remedy or 'Name data with the same format as the training data, or another run.'}"
        )
    if not discovered.is_declared:
        return config
    return dataclasses.replace(config, feature_ranges=feature_ranges(config.feature_names, discovered.format))


def training_counts(names: Vocabulary, data: DataConfig, opened: OpenedData | None = None) -> NDArray[np.int64] | None:
    """The number of training videos of each class, in the vocabulary or else in the manifest of the training data.

    Args:
      names: the vocabulary of the run; it may be empty.
      opened: the training data, if they are open; otherwise they are opened if the vocabulary has no counts, and an
        error then means that the counts are not known, because the data may be gone.

    Returns:
      int64 [C], for the C classes of `data`; None if they are not known, see `OpenedData.class_counts`.
    """
    if names.counts.any():
        return names.class_counts(data.num_classes)
    with contextlib.suppress(RunError, UsageError):
        opened = opened or open_data(None if data.manifest else data.data_pattern or None, manifest=data.manifest)
        return opened.class_counts(data.num_classes, names)
    return None


def refuse_contradiction(
    flags: Mapping[str, Any],
    discovered: DiscoveredFormat,
    values: Mapping[str, Any] | None = None,
    is_own: bool = False,
) -> None:
    """Refuses flags that contradict the data.

    Args:
      flags: {flag: value} of the flags that were given.
      values: for a training, {flag: value} including the defaults of flags that were not given; None for other
        programs, in which only `flags` are compared.
      is_own: whether no feature of the records is one of YouTube-8M. Then default feature names that contradict the
        data are refused too. A default level that contradicts the data is refused in both cases.
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
    """Yields the flags of the level and the features, such as `--frame_features`, that the user must give or change."""
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

    Returns:
      (lowest, highest value) of each feature, or () for a feature stored as floats. The whole value is () if all
      features have the range of YouTube-8M, or if the data lack one of them.
    """
    ranges = {feature.name: feature.range for feature in format.features}
    published = {name: usual_range(format.level, name) for name in names}
    if not published.keys() <= ranges.keys() or all(ranges[name] == published[name] for name in names):
        return ()
    return tuple(ranges[name] or () for name in names)


def are_own(format: DataFormat) -> bool:
    """Whether no feature of the records is one of YouTube-8M's, so that nothing about them is known in advance."""
    return not any(feature.name in KNOWN_SIZES for feature in format.features)


def assumed_classes(data: OpenedData, num_classes: int | None) -> int | None:
    """The number of classes, see `OpenedData.num_classes`; YouTube-8M's if nothing says that the records are others.

    Args:
      num_classes: the value of --num_classes; None if it is not given.

    Returns:
      The number of classes; None if the records have other features than YouTube-8M's, and nothing shows the number.
    """
    count = data.num_classes(num_classes)
    if count is None and (data.format is None or not are_own(data.format.format)):
        return DataConfig.num_classes
    return count
