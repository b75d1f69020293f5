"""The page of `yt8m predict --timeline`: a strip of thumbnails of the video, and the scores of classes over time."""

from __future__ import annotations

import base64
import contextlib
import importlib.resources
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import missing_extra
from yt8m.extractors.base import Scaling
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import DecodeError, Request, import_av
from yt8m.records.vocabulary import Vocabulary
from yt8m.storage import copies

SECONDS = 5.0  # length of a part of the video
_CLASSES = 12  # rows of the page
_LEAST = 0.05  # of a class that never scores more the row is left out, unless it is the best one of a part
_SIDE = 96  # pixels of a thumbnail


class Timeline(NamedTuple):
    """The scores of the parts of a video.

    Attributes:
      starts: second at which each of N parts begins.
      end: second at which the last part ends.
      scores: float32 [N, C].
    """

    starts: Sequence[float]
    end: float
    scores: NDArray[np.float32]


class _Scores(NamedTuple):
    """A class and its scores: percent of 100 each, with the text of the cell."""

    name: str
    cells: list[tuple[int, str]]


def write(path: str, video: str, found: Timeline, names: Vocabulary, tags: Sequence[str]) -> None:
    """Writes the page, one HTML file that loads no other.

    Args:
      path: the file to write.
      video: path of the video.
      found: the scores.
      names: the classes.
      tags: names of the classes that reach their thresholds.

    Raises:
      UsageError: jinja2 is not installed.
      RunError: the file cannot be written.
    """
    try:
        import jinja2
    except ImportError as error:
        raise missing_extra("--timeline", "jinja2", "reports") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("yt8m", "data"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    page = environment.get_template("timeline.html.jinja").render(
        style=(importlib.resources.files("yt8m") / "data" / "report.css").read_text(encoding="utf-8"),
        video=video,
        parts=[_clock(start) for start in found.starts],
        pictures=_thumbnails(video, found),
        rows=_rows(found, names),
        tags=tags,
        length=_clock(found.end),
        seconds=f"{SECONDS:g}",
    )
    with storage.write_atomic(path, "w") as file:
        file.write(page)


def best_classes(found: Timeline) -> list[int]:
    """The classes of the rows: the best one of each part, and those with the highest scores, highest first."""
    highest = found.scores.max(axis=0)
    order = np.argsort(-highest, kind="stable").tolist()
    winners = set(found.scores.argmax(axis=1).tolist())
    kept = [index for index in order if index in winners]
    others = [index for index in order if index not in winners and highest[index] >= _LEAST]
    chosen = kept[:_CLASSES] + others[: max(0, _CLASSES - len(kept))]
    return sorted(chosen, key=lambda index: (-highest[index], index))


def _rows(found: Timeline, names: Vocabulary) -> list[_Scores]:
    return [
        _Scores(names.name(index), [(round(100 * score), f"{score:.2f}") for score in found.scores[:, index].tolist()])
        for index in best_classes(found)
    ]


def _clock(second: float) -> str:
    whole = int(second)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _thumbnails(video: str, found: Timeline) -> list[str]:
    """A picture out of each part as an address with its content; none if the video has no pictures."""
    form = Scaling(_SIDE, _SIDE)
    request = Request(copies.file_copy(video), 1 / SECONDS, len(found.starts), SECONDS / 2, pictures=(form,))
    # a video without pictures is refused, because it has nothing of what is asked for
    with DecoderPool(1, Limits()) as pool, contextlib.suppress(DecodeError):
        for decoding in pool.decode([request]):
            pictures = [one.values for one in decoding.messages() if one.kind == "picture"]
            return [_address(values) for values in pictures if values is not None]
    return []


def _address(picture: NDArray[Any]) -> str:
    """The picture as a JPEG in a data: address."""
    av = import_av()
    codec = av.CodecContext.create("mjpeg", "w")
    codec.width, codec.height, codec.pix_fmt, codec.time_base = _SIDE, _SIDE, "yuvj420p", Fraction(1)
    frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuvj420p")
    frame.pts = 0
    content = b"".join(bytes(packet) for packet in [*codec.encode(frame), *codec.encode(None)])
    return f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"
