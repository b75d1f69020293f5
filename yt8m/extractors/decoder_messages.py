"""What a decoder is asked for, and the messages with which it answers."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from yt8m.errors import RunError
from yt8m.extractors import sampling_rules
from yt8m.extractors.base import Clips, Scaling, Sound


class DecodeError(Exception):
    """A video cannot be decoded. The text says why, as in "it is cut"; messages put it after the path of the video."""


class DecoderFailedError(DecodeError):
    """The decoder process failed, perhaps not because of the video: by an error of its own, or by its end."""


class UnusableDecoderError(DecodeError, RunError):
    """No video can be decoded here, so the command ends."""


class Request(NamedTuple):
    """The video to decode, and the forms of the pictures, clips and windows of sound to make from it (see `base.Form`).

    Attributes:
      per_second: frames to take per second; frame k is the frame of the video nearest to second
        `start + k / per_second`.
      most: the largest number of frames, which are the rows of the features.
      start, end: the part of the video in seconds; `end` is None for the end of the video.
      pictures: for each form of pictures, how to scale them; None for the video's own size.
    """

    path: str
    per_second: float = 1.0
    most: int = 300
    start: float = 0.0
    end: float | None = None
    pictures: tuple[Scaling | None, ...] = ()
    sounds: tuple[Sound, ...] = ()
    threads: int = 1
    clips: tuple[Clips, ...] = ()
    rule: str = sampling_rules.WHOLE
    max_bad_packets: int = 0

    @classmethod
    def from_json(cls, fields: list[Any]) -> Request:
        """Restores a request from JSON, in which each NamedTuple is the list of its fields."""
        request = cls(*fields)
        clips = [Clips(*fields) for fields in request.clips]
        return request._replace(
            pictures=tuple(map(_scaling_from_json, request.pictures)),
            sounds=tuple(Sound(*fields) for fields in request.sounds),
            clips=tuple(form._replace(scaling=_scaling_from_json(form.scaling)) for form in clips),
        )

    @property
    def seconds(self) -> float:
        """The length in seconds of the part to decode, unless the video ends earlier."""
        longest = self.most / self.per_second
        return longest if self.end is None else min(longest, self.end - self.start)


def _scaling_from_json(fields: Any) -> Scaling | None:
    return None if fields is None else Scaling(*fields)


class Message(NamedTuple):
    """A part of a decoded video.

    Attributes:
      values: picture uint8 [H, W, 3] (RGB), clip uint8 [frames, H, W, 3], or sound float32 [n, window]; else None.
      details: for `end`, {"rows": number of frames, "seconds": decoded seconds, "notes": texts that say what was
        unusual}; for `error`, {"reason": text}; else None.
    """

    kind: str
    form_index: int = 0
    row: int = 0
    values: NDArray[Any] | None = None
    details: dict[str, Any] | None = None
