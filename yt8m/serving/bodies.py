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
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, create_model

from yt8m.records import checksums, shards
from yt8m.records.record_parser import first_unfit

# The content types of bodies: of features as JSON, and of serialized records.
JSON = "application/json"
RECORDS = ("application/octet-stream", "application/x-protobuf", "application/x-tfrecord")

_FRAME_FIELDS = 16  # limit on protocol buffer fields per frame; a feature list needs three
_BESIDE_FRAMES = 128  # outside of its frames, for example for labels, a video may have the fields of this many frames
_QUOTES = 64  # limit on quotation marks per video in JSON; two names of fields and an id need six
# The largest light body in bytes: of JSON, and of records. YouTube-8M's video-level records have 5 kB.
_LIGHT_JSON, _LIGHT_RECORDS = 32 << 10, 8 << 10


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


class Parsed(NamedTuple):
    """The content of a body: either serialized records, or videos as ids and features.

    Attributes:
      records: the records; empty if the body is JSON.
      ids: the id of each video; empty if the body holds records.
      features: float32 [T, feature_size] for each video; empty if the body holds records.
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


def parse_body(content_type: str, body: bytes, feature_size: int, limits: BodyLimits) -> Parsed:
    """Parses a body.

    Args:
      body: the bytes.
    """
    if content_type in RECORDS:
        return Parsed(records_in(body, limits), [], [])
    return Parsed([], *features_in(body, feature_size, limits))


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
        with _refuse_unparsable(f"record {number}"):
            for size in shards.field_sizes(record) if are_counted else ():
                fields += size
                if fields > limits.max_fields:
                    raise limits.refuse_fields(f"record {number}")
            _check_record(record, f"record {number}", limits)
    return records


@contextlib.contextmanager
def _refuse_unparsable(where: str) -> Iterator[None]:
    """Turns a `ValueError` of the parser into a `RefusedError` that names the record by `where`."""
    try:
        yield
    except ValueError as error:
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


@functools.cache
def features_body(size: int, limits: BodyLimits) -> type[BaseModel]:
    """Creates the pydantic model of a JSON body: {"videos": [{"id": "abcd", "rgb_and_audio": [FRAME, ...]}, ...]}.

    A FRAME is a list of numbers. The id may be missing, and is then empty.
    """
    frame = Annotated[list[float], Field(min_length=size, max_length=size), FailFast()]
    frames = Annotated[list[frame], Field(min_length=1, max_length=limits.max_frames), FailFast()]
    video = create_model("Video", __base__=_StrictModel, id=(str, ""), rgb_and_audio=(frames, ...))
    videos = Annotated[list[video], Field(min_length=1, max_length=limits.max_videos), FailFast()]  # type: ignore[valid-type]
    return create_model("Features", __base__=_StrictModel, videos=(videos, ...))


def features_in(body: bytes, size: int, limits: BodyLimits) -> tuple[list[str], list[NDArray[np.float32]]]:
    """Parses a JSON body.

    Args:
      body: the bytes.

    Returns:
      (the ids of the videos, their features, each float32 [T, size]).
    """
    if body.count(b'"') > _QUOTES * (limits.max_videos + 1):
        raise RefusedError(413, f"too many strings for a request of {limits.max_videos} videos (--max_videos).")
    try:
        videos: Any = features_body(size, limits).model_validate_json(body)
    except ValidationError as error:
        raise _explain_fault(error.errors(include_url=False, include_input=False)[0], limits) from error
    ids, features_of_videos = [], []
    for number, video in enumerate(videos.videos):
        with np.errstate(over="ignore"):
            features = np.array(video.rgb_and_audio, np.float32)
        if shards.unfit_values(features):
            problem = f"{first_unfit(features)}; no value may be {shards.UNFIT}"
            raise RefusedError(400, f"videos[{number}].rgb_and_audio: {problem}.")
        ids.append(video.id)
        features_of_videos.append(features)
    return ids, features_of_videos


def _explain_fault(fault: Any, limits: BodyLimits) -> RefusedError:
    """The refusal for one of the errors that pydantic reports."""
    location = fault["loc"]  # such as ("videos", 0, "rgb_and_audio", 7) for frame 7 of video 0
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".") or "the body"
    context = fault.get("ctx", {})
    count = "too many" if context.get("actual_length") is None else str(context["actual_length"])
    if fault["type"] == "too_long" and len(location) == 1:
        return limits.refuse_videos(count)
    if fault["type"] == "too_long" and len(location) == 3:
        return limits.refuse_frames(count, path)
    if fault["type"] in ("too_long", "too_short") and len(location) == 4:
        size = context.get("max_length", context.get("min_length"))
        return RefusedError(400, f"{path}: {count} numbers; the model takes {size}.")
    return RefusedError(400, f"{path}: {fault['msg']}.")
