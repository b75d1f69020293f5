"""What a request's body holds, or why it is refused."""

from __future__ import annotations

import io
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from yt8m.records import shards
from yt8m.records.shards import masked_crc


class RefusedError(Exception):
    """A request that is not answered: an HTTP status, and one sentence that says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class VideoFeatures(_Strict):
    """One video of a JSON body."""

    id: str = ""
    rgb_and_audio: Annotated[list[list[float]], Field(min_length=1)]


class FeaturesBody(_Strict):
    """A JSON body."""

    videos: Annotated[list[VideoFeatures], Field(min_length=1)]


def records_in(body: bytes, max_videos: int, max_frames: int) -> list[bytes]:
    """The records of a body: one that is serialized, or a whole TFRecord file.

    Args:
      body: as it came.
      max_videos: of a request.
      max_frames: of a video.

    Raises:
      RefusedError: no records, damaged ones, too many, or with numbers that are none.
    """
    if len(body) >= 12 and body[8:12] == masked_crc(body[:8]):
        try:
            records = list(shards.read_records(io.BytesIO(body), "the body"))
        except shards.DamagedError as error:
            raise RefusedError(400, f"record {error.record}: {error.what}.") from error
    else:
        records = [body]
    _check_count(len(records), max_videos)
    for number, record in enumerate(records):
        _check_record(record, f"record {number}", max_frames)
    return records


def _check_record(payload: bytes, where: str, max_frames: int) -> None:
    try:
        record = shards.parse(payload)
        longest = max(map(len, record.lists.values()), default=0)
        _check_frames(longest, where, max_frames)
        for name, feature in record.context.items():
            _check_floats([feature], where, name)
        for name, features in record.lists.items():
            _check_floats(features, where, name)
    except ValueError as error:
        raise RefusedError(400, f"{where}: no tf.train.Example or SequenceExample: {error}.") from error
    if not record.context and not record.lists:
        raise RefusedError(400, f"{where}: no tf.train.Example or SequenceExample: it holds no feature.")


def _check_floats(features: list[shards.Feature], where: str, name: str) -> None:
    for place, feature in enumerate(features):
        if feature.kind == "float" and shards.unfit_values(np.array(feature.values(), np.float32)):
            raise RefusedError(400, f"{where}: feature {name!r}, frame {place}: {shards.UNFIT}.")


def features_in(
    body: bytes, size: int, max_videos: int, max_frames: int
) -> tuple[list[str], list[NDArray[np.float32]]]:
    """The ids and features, float32 [T, size] each, of a JSON body; raises as `records_in`."""
    try:
        videos = FeaturesBody.model_validate_json(body).videos
    except ValidationError as error:
        raise RefusedError(400, _first_of(error)) from error
    _check_count(len(videos), max_videos)
    found = []
    for number, video in enumerate(videos):
        where = f"videos[{number}].rgb_and_audio"
        _check_frames(len(video.rgb_and_audio), where, max_frames)
        for place, frame in enumerate(video.rgb_and_audio):
            if len(frame) != size:
                raise RefusedError(400, f"{where}[{place}]: {len(frame)} numbers; the model takes {size}.")
        with np.errstate(over="ignore"):
            features = np.array(video.rgb_and_audio, np.float32)
        if shards.unfit_values(features):
            raise RefusedError(400, f"{where}: a number is {shards.UNFIT}.")
        found.append(features)
    return [video.id for video in videos], found


def _first_of(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    return f"{place.lstrip('.') or 'the body'}: {first['msg']}."


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise RefusedError(413, f"{count} videos; a request may have {most} (--max_videos).")


def _check_frames(count: int, where: str, most: int) -> None:
    if count > most:
        raise RefusedError(413, f"{where}: {count} frames; a video may have {most} (--max_frames).")
