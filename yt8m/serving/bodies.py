"""Parses request bodies, which are untrusted bytes; uses neither the model nor the event loop.

Limits on the bytes, the records and the fields of a body are checked first, so that the work on any body is bounded.
The checks of JSON stop at the first error. Parsing a light body (see `is_light`) takes at most 8 ms, whatever it
contains.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, create_model

from yt8m.file_kinds import SAMPLE_BYTES, find_kind
from yt8m.records import checksums, shards
from yt8m.records.record_parser import first_unfit

# The content types of bodies: of features as JSON, and of serialized records.
JSON = "application/json"
RECORDS = ("application/octet-stream", "application/x-protobuf", "application/x-tfrecord")

_FRAME_FIELDS = 16  # limit on protocol buffer fields per frame; a feature list needs three
_BESIDE_FRAMES = 128  # outside of its frames, for example for labels, a video may have the fields of this many frames
_FIELD = "feature_"  # the beginning of the names of the fields in Python, since a feature may have any name
_QUOTES = 64  # limit on quotation marks per video in JSON; two names of fields and an id need six
# The largest light body in bytes: of JSON, and of records. YouTube-8M's video-level records have 5 kB.
_LIGHT_JSON, _LIGHT_RECORDS = 32 << 10, 8 << 10
_NAMES = re.compile(rb'\s*\{\s*"videos"\s*:\s*\[\s*"')  # the start of a JSON body whose videos are names


_EXPECTED = (
    "expected a serialized tf.train.Example or SequenceExample, a TFRecord file, a video, or, with Content-Type: "
    f"{JSON}, features as JSON"
)


class BodyLimits(NamedTuple):
    """The largest number of videos in a request body, and of frames of a video."""

    max_videos: int
    max_frames: int

    @property
    def max_fields(self) -> int:
        """The limit on protocol buffer fields in a body; each number in a packed list counts as a field."""
        return _FRAME_FIELDS * self.max_videos * (self.max_frames + _BESIDE_FRAMES)

    def refuse_videos(self, count: str) -> RefusedError:
        """The error for a body with too many videos; `count` is their number as text."""
        return RefusedError(413, f"{count} videos; a request may have {self.max_videos} (--max_videos).")

    def refuse_frames(self, count: str, where: str) -> RefusedError:
        """The error for a video with too many frames; `count` is their number as text, `where` names the video."""
        return RefusedError(413, f"{where}: {count} frames; a video may have {self.max_frames} (--max_frames).")

    def refuse_fields(self, where: str) -> RefusedError:
        """The error for a body with too many protocol buffer fields; `where` names the record that has one too many."""
        most = f"a request may have {self.max_fields} (--max_videos, --max_frames)"
        return RefusedError(413, f"{where}: too many protocol buffer fields; {most}.")


class BodyFeatures(NamedTuple):
    """The features that a video in a JSON body has.

    Attributes:
      sizes: (name, number of values) of each feature, in the order of the model.
      has_frames: whether a feature is a list of frames; otherwise it is one vector.
    """

    sizes: Sequence[tuple[str, int]]
    has_frames: bool = True

    @property
    def width(self) -> int:
        """The number of values of all features together."""
        return sum(size for _, size in self.sizes)

    @property
    def names(self) -> str:
        """The names of the features, for a message."""
        return ", ".join(name for name, _ in self.sizes)


class Parsed(NamedTuple):
    """The content of a body: either serialized records, or videos as ids and features.

    Attributes:
      records: the records; empty if the body is JSON.
      ids: the id of each video; empty if the body holds records.
      features: float32 [T, D] for each video, all its features side by side; empty if the body holds records.
    """

    records: list[bytes]
    ids: list[str]
    features: list[NDArray[np.float32]]


class RefusedError(Exception):
    """The service refuses a request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def is_light(content_type: str, body: bytes | bytearray) -> bool:
    """Whether a body is so small that the event loop may parse it: parsing it takes a few milliseconds at most."""
    return len(body) <= (_LIGHT_JSON if content_type == JSON else _LIGHT_RECORDS)


def parse_body(content_type: str, body: bytes, features: BodyFeatures, limits: BodyLimits) -> Parsed:
    """Parses a body.

    Args:
      body: the bytes.
    """
    if content_type in RECORDS:
        return Parsed(records_in(body, limits), [], [])
    return Parsed([], *features_in(body, features, limits))


def records_in(body: bytes, limits: BodyLimits) -> list[bytes]:
    """The records of a body: one serialized record, or a whole TFRecord file."""
    records = [body]
    if len(body) >= 12 and body[8:12] == checksums.masked_crc(body[:8]):
        try:
            records_of_file = shards.read_records(io.BytesIO(body), "the body")
            records = list(itertools.islice(records_of_file, limits.max_videos + 1))
        except shards.DamagedError as error:
            raise RefusedError(400, f"record {error.record}: {error.what}.") from error
    if len(records) > limits.max_videos:
        raise limits.refuse_videos(f"more than {limits.max_videos}")
    # A body of at most `max_fields` bytes cannot have more fields than that, so its fields need not be counted.
    fields, are_counted = 0, len(body) > limits.max_fields
    for number, record in enumerate(records):
        with _refuse_unparsable(f"record {number}", record if record is body else b""):
            for size in shards.field_sizes(record) if are_counted else ():
                fields += size
                if fields > limits.max_fields:
                    raise limits.refuse_fields(f"record {number}")
            _check_record(record, f"record {number}", limits)
    return records


@contextlib.contextmanager
def _refuse_unparsable(where: str, body: bytes) -> Iterator[None]:
    """Turns a `ValueError` of the parser into a `RefusedError` that names the record by `where`.

    Args:
      body: the whole body, if it is to be one record: the message says what else it is, if its first bytes do.
    """
    try:
        yield
    except ValueError as error:
        if kind := find_kind(body[:SAMPLE_BYTES]):
            raise RefusedError(400, f"the body is {kind.description}: {_EXPECTED}.") from error
        raise RefusedError(400, f"{where}: no tf.train.Example or SequenceExample: {error}.") from error


def _check_record(payload: bytes, where: str, limits: BodyLimits) -> None:
    """Checks a serialized record; `where` names it in messages."""
    record = shards.parse(payload)
    longest = max(map(len, record.lists.values()), default=0)
    if longest > limits.max_frames:
        raise limits.refuse_frames(str(longest), where)
    lists: dict[str, Sequence[shards.Feature]] = {
        name: [feature_of_context] for name, feature_of_context in record.context.items()
    }
    for name, features in (*lists.items(), *record.lists.items()):
        for frame, feature in enumerate(features):
            values = np.array(feature.value if feature.kind == "float" else (), np.float32)
            if shards.unfit_values(values):
                problem = f"{first_unfit(values)}; no value may be {shards.UNFIT}"
                raise RefusedError(400, f"{where}: feature {name!r}, frame {frame}: {problem}.")
    if not record.context and not record.lists:
        raise ValueError("it holds no feature")


class _StrictModel(BaseModel):
    """The base class of the pydantic models; it forbids other fields, conversions of types, NaN and infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _vector(size: int) -> Any:
    return Annotated[list[float], Field(min_length=size, max_length=size), FailFast()]


def _frames(size: int, limits: BodyLimits) -> Any:
    return Annotated[list[_vector(size)], Field(min_length=1, max_length=limits.max_frames), FailFast()]  # type: ignore[misc]


@functools.cache
def features_body(features: BodyFeatures, limits: BodyLimits) -> type[BaseModel]:
    """Creates the pydantic model of a JSON body: {"videos": [{"id": "abcd", "rgb": [FRAME, ...], ...}, ...]}.

    A FRAME is a list of numbers. A video has either all features by their names, or `rgb_and_audio`, whose frames hold
    the values of all features one after another. The id may be missing, and is then empty.
    """
    fields: dict[str, Any] = {"rgb_and_audio": (_frames(features.width, limits), None)}
    for number, (name, size) in enumerate(features.sizes):
        values = _frames(size, limits) if features.has_frames else _vector(size)
        fields[f"{_FIELD}{number}"] = (values, Field(None, alias=name))
    video = create_model("Video", __base__=_StrictModel, id=(str, ""), **fields)
    videos = Annotated[list[video], Field(min_length=1, max_length=limits.max_videos), FailFast()]  # type: ignore[valid-type]
    return create_model("Features", __base__=_StrictModel, videos=(videos, ...))


@functools.cache
def names_body(limits: BodyLimits) -> type[BaseModel]:
    """Creates the pydantic model of a JSON body that names videos of the service; see `names_in`."""
    videos = Annotated[list[str], Field(min_length=1, max_length=limits.max_videos), FailFast()]
    return create_model("Names", __base__=_StrictModel, videos=(videos, ...))


def names_in(body: bytes | bytearray, limits: BodyLimits) -> list[str]:
    """The names of a JSON body that names videos of the service: {"videos": ["cat/1.mp4", ...]}; else none."""
    if not _NAMES.match(body):
        return []
    if not is_light(JSON, body):
        raise RefusedError(413, f"a body of names of videos may have {_LIGHT_JSON} bytes.")
    try:
        return names_body(limits).model_validate_json(bytes(body)).videos  # type: ignore[attr-defined, no-any-return]
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise _explain_fault(fault, BodyFeatures(()), limits) from error


def features_in(body: bytes, features: BodyFeatures, limits: BodyLimits) -> tuple[list[str], list[NDArray[np.float32]]]:
    """Parses a JSON body.

    Args:
      body: the bytes.

    Returns:
      (the ids of the videos, their features side by side, each float32 [T, D]).
    """
    if body.count(b'"') > _QUOTES * (limits.max_videos + 1):
        raise RefusedError(413, f"too many strings for a request of {limits.max_videos} videos (--max_videos).")
    try:
        videos: Any = features_body(features, limits).model_validate_json(body)
    except ValidationError as error:
        raise _explain_fault(error.errors(include_url=False, include_input=False)[0], features, limits) from error
    frames_of_videos = [
        _join_features(video, f"videos[{number}]", features) for number, video in enumerate(videos.videos)
    ]
    return [video.id for video in videos.videos], frames_of_videos


def _join_features(video: Any, where: str, features: BodyFeatures) -> NDArray[np.float32]:
    """The frames of a video with all features side by side, float32 [T, D]."""
    fields = {name: getattr(video, f"{_FIELD}{number}") for number, (name, _) in enumerate(features.sizes)}
    missing = [name for name, values in fields.items() if values is None]
    is_joined = video.rgb_and_audio is not None
    if (is_joined and len(missing) < len(fields)) or (not is_joined and missing):
        raise RefusedError(400, f"{where}: expected {features.names}; or in place of them all rgb_and_audio.")
    if is_joined:
        fields = {"rgb_and_audio": video.rgb_and_audio}
    arrays = []
    for name, values in fields.items():
        with np.errstate(over="ignore"):
            arrays.append(np.atleast_2d(np.array(values, np.float32)))
        if shards.unfit_values(arrays[-1]):
            problem = f"{first_unfit(arrays[-1])}; no value may be {shards.UNFIT}"
            raise RefusedError(400, f"{where}.{name}: {problem}.")
    if len(set(map(len, arrays))) > 1:
        raise RefusedError(
            400, f"{where}: {features.names} have {', '.join(str(len(each)) for each in arrays)} frames."
        )
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1)


def _explain_fault(fault: Any, features: BodyFeatures, limits: BodyLimits) -> RefusedError:
    """The refusal for one of the errors that pydantic reports."""
    location = fault["loc"]  # such as ("videos", 0, "rgb_and_audio", 7) for frame 7 of video 0
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".") or "the body"
    context = fault.get("ctx", {})
    count = "too many" if context.get("actual_length") is None else str(context["actual_length"])
    if fault["type"] == "too_long" and len(location) == 1:
        return limits.refuse_videos(count)
    has_frames = features.has_frames or location[2:3] == ("rgb_and_audio",)
    if fault["type"] == "too_long" and len(location) == 3 and has_frames:
        return limits.refuse_frames(count, path)
    if fault["type"] in ("too_long", "too_short") and len(location) == (4 if has_frames else 3):
        size = context.get("max_length", context.get("min_length"))
        return RefusedError(400, f"{path}: {count} numbers; the model takes {size}.")
    if fault["type"] == "extra_forbidden" and len(location) == 3 and features.sizes:
        return RefusedError(400, f"{path}: the model has no such feature; expected {features.names}, and perhaps id.")
    return RefusedError(400, f"{path}: {fault['msg']}.")
