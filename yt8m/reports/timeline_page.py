"""The page of a video's scores over time: its best classes in every 5 seconds, with thumbnails."""

from __future__ import annotations

import base64
import contextlib
import html
import itertools
import os
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.extractors.base import Scaling
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import DecodeError, Request, import_av
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import templates
from yt8m.storage import copies

SECONDS = 5.0  # length of a part of the video
_CLASSES = 12  # rows of the page
_LEAST = 0.05  # a class that never scores more has no row, unless it is the best class of a part
_SIDE = 96  # pixels of a thumbnail
_PAGE_HEAD = 1 << 16  # bytes of a page that hold the address of its video


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


def write(path: str, video: str, timeline: Timeline, names: Vocabulary, tags: Sequence[str]) -> None:
    """Writes the page, one HTML file that loads no other.

    Args:
      path: the file to write.
      video: path of the video.
      timeline: the scores.
      names: the classes.
      tags: names of the classes that reach their thresholds.

    Raises:
      UsageError: jinja2 is not installed.
      RunError: the file cannot be written.
    """
    template = templates.environment("--timeline").get_template("timeline.html.jinja")
    page = template.render(
        video=video,
        address=storage.absolute(video),
        parts=[_clock(start) for start in timeline.starts],
        pictures=_thumbnails(video, timeline),
        rows=_rows(timeline, names),
        tags=tags,
        length=_clock(timeline.end),
        seconds=f"{SECONDS:g}",
    )
    storage.write(path, page)


def path_for(video: str) -> str:
    """The path of a video's page in the working folder: VIDEO.timeline.html, or VIDEO.2.timeline.html and so on.

    Names of other files are passed over, also those of pages of other videos of the same name.
    """
    name = os.path.basename(video)
    names = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(2)))
    paths = (f"{name}.timeline.html" for name in names)
    return next(path for path in paths if not storage.exists(path) or _video_of_page(path) == storage.absolute(video))


def _video_of_page(path: str) -> str:
    """The address of the video that a page shows; empty if the file is no such page."""
    address = re.search(rb'<meta name="video" content="(.*?)">', storage.read_start(path, _PAGE_HEAD))
    return html.unescape(address[1].decode()) if address else ""


def classes_of_rows(timeline: Timeline) -> list[int]:
    """The classes of the rows: the best one of each part, and those with the highest scores, highest first."""
    highest = timeline.scores.max(axis=0)
    order = np.argsort(-highest, kind="stable").tolist()
    winners = set(timeline.scores.argmax(axis=1).tolist())
    winning_classes = [index for index in order if index in winners]
    others = [index for index in order if index not in winners and highest[index] >= _LEAST]
    chosen = winning_classes[:_CLASSES] + others[: max(0, _CLASSES - len(winning_classes))]
    return sorted(chosen, key=lambda index: (-highest[index], index))


def _rows(timeline: Timeline, names: Vocabulary) -> list[_Scores]:
    return [
        _Scores(
            names.name(index), [(round(100 * score), f"{score:.2f}") for score in timeline.scores[:, index].tolist()]
        )
        for index in classes_of_rows(timeline)
    ]


def _clock(second: float) -> str:
    hours, seconds = divmod(int(second), 3600)
    return f"{hours}:{seconds // 60:02}:{seconds % 60:02}" if hours else f"{seconds // 60}:{seconds % 60:02}"


def _thumbnails(video: str, timeline: Timeline) -> list[str]:
    """A picture out of each part as an address with its content; none if the video has no pictures."""
    form = Scaling(_SIDE, _SIDE)
    request = Request(copies.file_copy(video), 1 / SECONDS, len(timeline.starts), SECONDS / 2, pictures=(form,))
    # a video without pictures is refused, because it has nothing of what is asked for
    with DecoderPool(1, Limits()) as pool, contextlib.suppress(DecodeError):
        for decoding in pool.decode([request]):
            pictures = [message.values for message in decoding.messages() if message.kind == "picture"]
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
