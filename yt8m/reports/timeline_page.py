"""The page of --timeline: the scores of a video's best classes in each part of 5 seconds, with thumbnails."""

from __future__ import annotations

import base64
import functools
import html
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.extractors import sampling_rules
from yt8m.extractors.base import Scaling
from yt8m.extractors.decoder_messages import UnusableDecoderError
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import DecodeError, Request, import_av
from yt8m.records.thresholds import Tagger
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import templates
from yt8m.storage import copies

SECONDS = 5.0  # length of a part of the video
_MOST_ROWS = 12  # largest number of rows of the page; each row shows a class
_LEAST_SCORE = 0.05  # a class whose scores are all lower has no row, unless it is the best class of a part
_THUMBNAIL_SIDE = 96  # the shorter side of a thumbnail, in pixels
_HEAD_BYTES = 1 << 16  # number of bytes at the start of a page in which `_video_of_page` looks for the address


class Timeline(NamedTuple):
    """The scores of the parts of a video.

    Attributes:
      starts: second at which each of N parts begins.
      end: second at which the last part ends.
      scores: float32 [N, C], the score of each class in each part, from 0 to 1.
    """

    starts: Sequence[float]
    end: float
    scores: NDArray[np.float32]


class _Row(NamedTuple):
    """A row of the page.

    Attributes:
      cells: (score in percent, score as a text, whether the class is a tag) of each part.
    """

    name: str
    cells: list[tuple[int, str, bool]]


# What is marked, by whether the tag of a part is its best class.
_MARKS = {False: "Marked scores reach the threshold of their class.", True: "The best score of each part is marked."}


def write(
    path: str,
    video: str,
    timeline: Timeline,
    names: Vocabulary,
    tags: Mapping[str, int | None],
    tagger: Tagger | None = None,
) -> None:
    """Writes the page, an HTML file that loads no other file.

    Args:
      tags: {name of a tag of the whole video: number of videos from which its threshold comes, if they are few}.
      tagger: the thresholds; None if there are none, so that no cell is marked.
    """
    template = templates.environment("--timeline").get_template("timeline.html.jinja")
    page = template.render(
        video=video,
        address=storage.absolute(video),
        parts=[format_time(start) for start in timeline.starts],
        pictures=_thumbnails(video, timeline),
        rows=_rows(timeline, names, tagger),
        marks=tagger and _MARKS[tagger.takes_best],
        tags=tags,
        length=format_time(timeline.end),
        seconds=f"{SECONDS:g}",
    )
    storage.write(path, page)


def path_for(video: str) -> str:
    """The path of a video's page in the working folder: VIDEO.timeline.html, or VIDEO.2.timeline.html and so on.

    It is the first of these names that no file has, or only an earlier page of the same video.
    """
    name = os.path.basename(video)
    names = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(2)))
    paths = (f"{name}.timeline.html" for name in names)
    return next(path for path in paths if not storage.exists(path) or _video_of_page(path) == storage.absolute(video))


def _video_of_page(path: str) -> str:
    """The absolute path or gs:// address of the video that a page of this module shows; empty for another file."""
    address = re.search(rb'<meta name="video" content="(.*?)">', storage.read_start(path, _HEAD_BYTES))
    return html.unescape(address[1].decode()) if address else ""


def classes_of_rows(timeline: Timeline) -> list[int]:
    """The classes that have a row, at most _MOST_ROWS, sorted by their highest score in any part, highest first.

    The best class of each part is taken first. Then other classes are taken, those with the highest scores first, if
    their highest score is at least _LEAST_SCORE.
    """
    highest = timeline.scores.max(axis=0)
    order = np.argsort(-highest, kind="stable").tolist()
    winners = set(timeline.scores.argmax(axis=1).tolist())
    winning_classes = [index for index in order if index in winners]
    others = [index for index in order if index not in winners and highest[index] >= _LEAST_SCORE]
    shown_classes = winning_classes[:_MOST_ROWS] + others[: max(0, _MOST_ROWS - len(winning_classes))]
    return sorted(shown_classes, key=lambda index: (-highest[index], index))


def _rows(timeline: Timeline, names: Vocabulary, tagger: Tagger | None) -> list[_Row]:
    rows = []
    for index in classes_of_rows(timeline):
        scores = timeline.scores[:, index]
        are_marked = np.zeros(len(scores), np.bool_)
        if tagger is not None:
            are_marked = tagger.are_tags_of_parts(index, timeline.scores)
        columns = zip(scores.tolist(), are_marked.tolist(), strict=True)
        rows.append(_Row(names.name(index), [(round(100 * score), f"{score:.2f}", mark) for score, mark in columns]))
    return rows


def format_time(second: float) -> str:
    """A time as H:MM:SS, or as M:SS if it is below an hour."""
    hours, seconds = divmod(int(second), 3600)
    return f"{hours}:{seconds // 60:02}:{seconds % 60:02}" if hours else f"{seconds // 60}:{seconds % 60:02}"


def _thumbnails(video: str, timeline: Timeline) -> list[str]:
    """The picture from the middle of each part, as a data: address; empty if no picture can be decoded."""
    scaling = Scaling(0, _THUMBNAIL_SIDE)
    request = Request(
        *(copies.file_copy(video), 1 / SECONDS, len(timeline.starts), SECONDS / 2),
        pictures=(scaling,),
        rule=sampling_rules.PUBLISHED,  # the last part may be shorter than the others, and has a picture too
    )
    with DecoderPool(1, Limits()) as pool:
        return decoded_pictures(request, pool)


def decoded_pictures(request: Request, pool: DecoderPool) -> list[str]:
    """The pictures of a request as data: addresses; none, with a warning, if the video cannot be decoded."""
    try:
        for decoding in pool.decode([request]):
            pictures = [message.values for message in decoding.messages() if message.kind == "picture"]
            return [jpeg_address(values) for values in pictures if values is not None]
    except UnusableDecoderError as error:
        _warn_once(f"pages have no pictures of videos: {error}")
    except DecodeError as error:
        _warn_once(f"{request.path}: its page has no pictures of it: {error}")
    return []


@functools.cache
def _warn_once(text: str) -> None:
    logging.warning("%s", text)


def jpeg_address(picture: NDArray[Any]) -> str:
    """The picture as a JPEG in a data: address."""
    av = import_av()
    codec = av.CodecContext.create("mjpeg", "w")
    height, width = (side // 2 * 2 for side in picture.shape[:2])  # JPEG has one colour for two pixels each way
    codec.width, codec.height, codec.pix_fmt, codec.time_base = width, height, "yuvj420p", Fraction(1)
    cut = np.ascontiguousarray(picture[:height, :width])
    frame = av.VideoFrame.from_ndarray(cut, format="rgb24").reformat(format="yuvj420p")
    frame.pts = 0
    content = b"".join(bytes(packet) for packet in [*codec.encode(frame), *codec.encode(None)])
    return f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"
