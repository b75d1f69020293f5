"""The format of the records of a data set (level, features, classes), and the conversion of features stored as bytes.

`manifest.json` stores the format as the entry `data`, in which all keys but `level` and `features` are optional:

    {"level": "frame", "features": [{"name": "clip", "size": 16, "range": [-1.5, 3.0]}],
     "segment_labels": false, "num_classes": 3, "max_frames": 300, "positives": [101, 99, 100],
     "video_frames": [60, 120]}

Records of spans (`yt8m make-records --rows=spans`) have `"segment_labels": true`, and further `"segment_size": 5`, the
number of frames of a segment, `"frames_per_second": 1.0`, and `"annotated": "whole"` or `"spans"`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import RunError, quantity

# {feature of YouTube-8M's records: number of its values}
KNOWN_SIZES = {"mean_rgb": 1024, "mean_audio": 128, "rgb": 1024, "audio": 128}
MOST_CLASSES = 10_000_000  # the limit of --num_classes, at which the scores of one video take 40 MB
_MOST_VALUES = 1 << 31  # limit of the other counts, such as the values of a feature or the frames of a video
LEVELS = ("video", "frame")  # the values of `DataFormat.level`

Range = tuple[float, float]  # (smallest, largest) value of a feature that is stored as bytes
PUBLISHED: Range = (-2.0, 2.0)  # the range of YouTube-8M's features
# The largest batch that `videos_in_batch` chooses, as float32. 256 videos of 300 frames of 1,152 values take 354 MB.
_BATCH_BYTES = 1 << 29


def usual_range(level: str, name: str) -> Range | None:
    """The range that is assumed for a feature that no manifest describes; None if its values are floats.

    Frames are assumed to be bytes with the range of YouTube-8M, -2..2, unless their name ends in `/floats`: MediaPipe
    writes frames as floats under such names. Features of whole videos are assumed to be floats.
    """
    return PUBLISHED if level == "frame" and not name.endswith("/floats") else None


class FeatureFormat(NamedTuple):
    """One feature of the records.

    Attributes:
      name: the feature's name in the records.
      size: number of values per video, or per frame at frame level.
      range: for values stored as bytes, the smallest and largest value (see `dequantized`); None for floats.
    """

    name: str
    size: int
    range: Range | None = None

    def __str__(self) -> str:
        return f"{self.name} of {self.size}" + (f" in {self.range[0]:g}..{self.range[1]:g}" if self.range else "")


def features_of(
    level: str, names: Sequence[str], sizes: Sequence[int], ranges: Sequence[Sequence[float]] = ()
) -> tuple[FeatureFormat, ...]:
    """Describes the features of records by their names, sizes and ranges.

    Args:
      ranges: for each feature its smallest and largest value if it is stored as bytes, or () if it is stored as floats;
        if `ranges` is empty, each feature has its `usual_range`.
    """
    bounds = [(ends[0], ends[1]) if ends else None for ends in ranges] or [usual_range(level, name) for name in names]
    return tuple(FeatureFormat(*column) for column in zip(names, sizes, bounds, strict=True))


class DataFormat(NamedTuple):
    """The format of the records of a data set.

    Attributes:
      level: `video` if a record has one vector per feature for the whole video, `frame` if it has one per frame.
      features: the features, in the order in which models join them.
      segment_labels: whether the records have rated segments.
      num_classes: number of classes; None if unknown.
      max_frames: the largest number of frames of a video; None at video level, or if unknown.
      positives: [num_classes], the number of videos with each class in the shards of the manifest; None if they were
        not counted.
      video_frames: (median, largest) number of frames of the training videos, also at video level; None if unknown.
      segment_size, frames_per_second: number of frames of a rated segment, and of a second; None if unknown, then they
        are those of YouTube-8M, 5 and 1.
      annotated: where people have rated every class: in the `whole` video, or in its `spans`; None if single classes
        were rated, as in YouTube-8M.
      columns: the names of the values of the only feature, if it was made of the columns of a table; None if unknown.
      one_class: True if each training video has exactly one class; None if unknown.
    """

    level: str
    features: tuple[FeatureFormat, ...]
    segment_labels: bool = False
    num_classes: int | None = None
    max_frames: int | None = None
    positives: tuple[int, ...] | None = None
    video_frames: tuple[int, int] | None = None
    segment_size: int | None = None
    frames_per_second: float | None = None
    annotated: str | None = None
    columns: tuple[str, ...] | None = None
    one_class: bool | None = None

    def sizes(self) -> dict[str, int]:
        """{name of a feature: its size}, in the order of the features."""
        return {feature.name: feature.size for feature in self.features}

    def __str__(self) -> str:
        texts = [f"{self.level} level", *map(str, self.features)]
        size_text = f" of {quantity(self.segment_size, 'frame')}" if self.segment_size else ""
        texts += [f"segment labels{size_text}"] * self.segment_labels
        texts += [quantity(self.num_classes, "class")] if self.num_classes else []
        texts += [f"at most {quantity(self.max_frames, 'frame')}"] if self.max_frames else []
        return ", ".join(texts)

    def as_json(self) -> dict[str, Any]:
        """The dict that a manifest stores as its entry `data`; `parse` makes a `DataFormat` of it."""
        return _without_none(self) | {"features": [_without_none(feature) for feature in self.features]}


def _without_none(values: DataFormat | FeatureFormat) -> dict[str, Any]:
    """{attribute: value} of the attributes that are not None."""
    return {name: value for name, value in values._asdict().items() if value is not None}


def parse(written: Mapping[str, Any]) -> DataFormat:
    """Makes a format of the entry `data` of a manifest, which `DataFormat.as_json` returned."""
    level, positives = written["level"], written.get("positives")
    if level not in LEVELS:
        raise ValueError(f"the level is {level!r}, not {' or '.join(LEVELS)}")
    features = tuple(_parse_feature(values) for values in written["features"])
    if not features or len({feature.name for feature in features}) < len(features):
        raise ValueError("there must be at least one feature, and their names must differ")
    segment_labels = bool(written.get("segment_labels", False))
    classes, frames = _positive_count(written, "num_classes", MOST_CLASSES), _positive_count(written, "max_frames")
    counts = None if positives is None else tuple(map(whole_number, positives))
    return DataFormat(
        *(level, features, segment_labels, classes, frames, counts, _parse_video_frames(written)),
        segment_size=_positive_count(written, "segment_size"),
        frames_per_second=_parse_rate(written),
        annotated=_parse_annotated(written),
        columns=_parse_columns(written, features),
        one_class=True if written.get("one_class") else None,
    )


def _parse_annotated(written: Mapping[str, Any]) -> str | None:
    """What people have rated; raises `ValueError` if it is none of the words for it."""
    annotated = written.get("annotated")
    if annotated not in (None, "whole", "spans"):
        raise ValueError(f"annotated is {annotated!r}, not whole or spans")
    return None if annotated is None else str(annotated)


def _parse_columns(written: Mapping[str, Any], features: Sequence[FeatureFormat]) -> tuple[str, ...] | None:
    """The names of the columns; raises `ValueError` if they are not one for each value of the only feature."""
    columns = written.get("columns")
    if columns is None:
        return None
    if len(features) != 1 or len(columns) != features[0].size:
        raise ValueError(f"there are {len(columns)} columns; expected one for each value of one feature")
    return tuple(map(str, columns))


def _parse_rate(written: Mapping[str, Any]) -> float | None:
    """The frames per second; raises `ValueError` if the number is not positive."""
    rate = written.get("frames_per_second")
    if rate is not None and not 0 < float(rate) < math.inf:
        raise ValueError(f"frames_per_second is {rate}; expected a positive number")
    return None if rate is None else float(rate)


def _parse_video_frames(values: Mapping[str, Any]) -> tuple[int, int] | None:
    """The lengths of the training videos; raises `ValueError` if they are not two ascending numbers from 1 on."""
    if values.get("video_frames") is None:
        return None
    median, longest = (whole_number(length, most=_MOST_VALUES) for length in values["video_frames"])
    if not 1 <= median <= longest:
        raise ValueError(f"video_frames is {values['video_frames']}; expected two ascending numbers from 1 on")
    return median, longest


def _parse_feature(values: Mapping[str, Any]) -> FeatureFormat:
    """The format of a feature from its entry in a manifest; raises `ValueError` if size or range are wrong."""
    name, size = str(values["name"]), _positive_count(values, "size")
    if size is None:
        raise ValueError(f"feature {name} has no size")
    declared, bounds = values.get("range"), None
    if declared is not None:
        low, high = map(float, declared)
        if not (low < high and high - low < math.inf):
            raise ValueError(f"the range of feature {name} is {declared}; expected two ascending numbers")
        bounds = low, high
    return FeatureFormat(name, size, bounds)


def _positive_count(values: Mapping[str, Any], name: str, most: int = _MOST_VALUES) -> int | None:
    """`values[name]` as a whole number; None if it is missing. Raises `ValueError` if it is below 1 or above `most`."""
    return whole_number(values[name], 1, name, most) if name in values else None


def whole_number(value: Any, minimum: int = 0, name: str = "a number", most: int = 1 << 62) -> int:
    """A number that was read from JSON, as an int; raises `ValueError` or `TypeError` if it is no whole number.

    Args:
      minimum, most: the smallest and the largest number that are valid.
    """
    if isinstance(value, bool | str):
        raise ValueError(f"{name} is {value!r}; expected a number")
    number = int(value)
    if (isinstance(value, float) and value != number) or not minimum <= number <= most:
        raise ValueError(
            f"{name} is {str(value)[:30]}; expected at least {minimum} and at most {most}, without a fraction"
        )
    return number


def joined(formats: Sequence[tuple[str, DataFormat]]) -> DataFormat | None:
    """Joins the formats that several manifests declare; None if there are none.

    The number of classes is that of the first format that has it, and `max_frames` and the numbers in `video_frames`
    are the largest that a format has. The counts of positives are added if each format has them; else the result has
    none.
    """
    for (first_path, first), (path, other) in itertools.combinations(formats, 2):
        difference = next(_differences(first, other), None)
        if difference:
            raise RunError(
                f"{first_path} and {path} differ in {difference}: read shards of one data set together, "
                "or make the records of both again."
            )
    if not formats:
        return None
    members = [member for _, member in formats]
    counts = [member.positives for member in members if member.positives is not None]
    lengths = [member.video_frames for member in members if member.video_frames is not None]
    return members[0]._replace(
        num_classes=next((member.num_classes for member in members if member.num_classes), None),
        max_frames=max((member.max_frames for member in members if member.max_frames), default=None),
        positives=tuple(map(sum, itertools.zip_longest(*counts, fillvalue=0))) if len(counts) == len(members) else None,
        video_frames=(max(median for median, _ in lengths), max(most for _, most in lengths)) if lengths else None,
        segment_size=next((member.segment_size for member in members if member.segment_size), None),
        frames_per_second=next((member.frames_per_second for member in members if member.frames_per_second), None),
        columns=next((member.columns for member in members if member.columns), None),
        one_class=True if all(member.one_class for member in members) else None,
    )


def _differences(first: DataFormat, other: DataFormat) -> Iterator[str]:
    """Yields texts about the entries of two formats that contradict each other; None agrees with any value."""
    for name in ("level", "segment_labels", "num_classes", "segment_size", "frames_per_second"):
        values = getattr(first, name), getattr(other, name)
        if None not in values and values[0] != values[1]:
            yield f"{name} ({values[0]} and {values[1]})"
    if first.columns and other.columns and first.columns != other.columns:
        yield f"the columns ({shown_columns(first.columns)} and {shown_columns(other.columns)})"
    for pair in itertools.zip_longest(first.features, other.features):
        if pair[0] != pair[1]:
            yield f"the features ({pair[0] or 'none'} and {pair[1] or 'none'})"


def shown_columns(columns: Sequence[str]) -> str:
    """The names of columns for a message: the first few."""
    return ", ".join(columns[:5]) + (", ..." if len(columns) > 5 else "")


def videos_in_batch(values: int, most: int) -> int:
    """The default batch size of an evaluation or inference, chosen so that a batch takes at most 512 MiB.

    Args:
      values: the number of feature values of a video, over all of its frames; at least 1.
      most: the largest batch size.

    Returns:
      `most` if `most` videos take at most 512 MiB as float32; else the largest power of two of videos that do, or 1.
    """
    fitting = _BATCH_BYTES // (values * np.dtype(np.float32).itemsize)
    return most if fitting >= most else 1 << max(0, fitting.bit_length() - 1)


def quantized(values: NDArray[Any], bounds: Range) -> NDArray[np.uint8]:
    """Converts floats to bytes: each becomes the byte that `dequantized` converts to the nearest value.

    Args:
      values: the floats, of any shape; those outside the bounds are clipped to them.
      bounds: the smallest and the largest value of the feature.
    """
    low, high = bounds
    steps = (values - low - (high - low) / 512) * (255 / (high - low))
    return np.asarray(np.clip(np.rint(steps), 0, 255), np.uint8)


def dequantized(values: NDArray[np.uint8], bounds: Range) -> NDArray[np.float32]:
    """Converts bytes to floats by the formula of YouTube-8M's readers: byte * span/255 + span/512 + low.

    Args:
      values: the bytes, of any shape.
      bounds: (low, high), the smallest and the largest value of the feature; span is high - low.
    """
    low, high = bounds
    return values * np.float32((high - low) / 255) + np.float32((high - low) / 512 + low)
