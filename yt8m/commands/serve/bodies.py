"""Parses request bodies, which are untrusted bytes. Uses neither the model nor the event loop."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from yt8m.records import shards

JSON = "application/json"
RECORDS = ("application/octet-stream", "application/x-protobuf", "application/x-tfrecord")


class Limits(NamedTuple):
    """The limits of a request body: videos per request, and frames per video."""

    max_videos: int
    max_frames: int

    def check_videos(self, count: int) -> None:
        """Raises `RefusedError` if `count` is above `max_videos`."""
        if count > self.max_videos:
            raise RefusedError(413, f"{count} videos; a request may have {self.max_videos} (--max_videos).")

    def check_frames(self, count: int, where: str) -> None:
        """Raises `RefusedError` if `count` is above `max_frames`."""
        if count > self.max_frames:
            raise RefusedError(413, f"{where}: {count} frames; a video may have {self.max_frames} (--max_frames).")


class RefusedError(Exception):
    """The service refuses a request; holds the HTTP status and one sentence with the reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def records_in(body: bytes, limits: Limits) -> list[bytes]:
    """The records of a body: one serialized record, or a whole TFRecord file.

    Raises:
      RefusedError: there is no record, there are too many, or one is damaged or has values that are not finite.
    """
    records = [body]
    if len(body) >= 12 and body[8:12] == shards.masked_crc(body[:8]):
        try:
            records = list(shards.read_records(io.BytesIO(body), "the body"))
        except shards.DamagedError as error:
            raise RefusedError(400, f"record {error.record}: {error.what}.") from error
    limits.check_videos(len(records))
    for number, record in enumerate(records):
        _check_record(record, f"record {number}", limits)
    return records


def _check_record(payload: bytes, where: str, limits: Limits) -> None:
    try:
        record = shards.parse(payload)
        limits.check_frames(max(map(len, record.lists.values()), default=0), where)
        lists: dict[str, Sequence[shards.Feature]] = {name: [one] for name, one in record.context.items()}
        for name, features in (*lists.items(), *record.lists.items()):
            for place, feature in enumerate(features):
                if feature.kind == "float" and shards.unfit_values(np.array(feature.values(), np.float32)):
                    raise RefusedError(400, f"{where}: feature {name!r}, frame {place}: {shards.UNFIT}.")
        if not record.context and not record.lists:
            raise ValueError("it holds no feature")
    except ValueError as error:
        raise RefusedError(400, f"{where}: no tf.train.Example or SequenceExample: {error}.") from error


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class VideoFeatures(_Strict):
    """One video of a JSON body."""

    id: str = ""
    rgb_and_audio: Annotated[list[list[float]], Field(min_length=1)]


class FeaturesBody(_Strict):
    """A JSON body."""

    videos: Annotated[list[VideoFeatures], Field(min_length=1)]


def features_in(body: bytes, size: int, limits: Limits) -> tuple[list[str], list[NDArray[np.float32]]]:
    """The ids of the videos in a JSON body, and their features, each float32 [T, size].

    Raises:
      RefusedError: the body is not valid JSON of this form, is above a limit, or has values that are not finite.
    """
    try:
        videos = FeaturesBody.model_validate_json(body).videos
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise RefusedError(400, f"{path.lstrip('.') or 'the body'}: {first['msg']}.") from error
    limits.check_videos(len(videos))
    found = []
    for number, video in enumerate(videos):
        where = f"videos[{number}].rgb_and_audio"
        limits.check_frames(len(video.rgb_and_audio), where)
        for place, frame in enumerate(video.rgb_and_audio):
            if len(frame) != size:
                raise RefusedError(400, f"{where}[{place}]: {len(frame)} numbers; the model takes {size}.")
        with np.errstate(over="ignore"):
            features = np.array(video.rgb_and_audio, np.float32)
        if shards.unfit_values(features):
            raise RefusedError(400, f"{where}: a number is {shards.UNFIT}.")
        found.append(features)
    return [video.id for video in videos], found
