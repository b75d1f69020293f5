"""What a trained model says of videos: names and scores, a CSV file, or scores over time."""

from __future__ import annotations

import base64
import contextlib
import csv
import functools
import html
import itertools
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import scoring, storage, terminal
from yt8m.errors import missing_extra
from yt8m.extractors.base import Scaling
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import DecodeError, Request, import_av
from yt8m.records.vocabulary import Vocabulary
from yt8m.scoring import Scorer, video_features
from yt8m.scoring.predict_config import PredictConfig, show_classes, tagger_for
from yt8m.scoring.scorer import best_classes, tags
from yt8m.scoring.video_features import Part, VideoFeatures
from yt8m.storage import copies

SECONDS = 5.0  # length of a part of the video
_PARTS_AT_ONCE = 64  # parts of a video that the model scores in a step
_CLASSES = 12  # rows of the page
_LEAST = 0.05  # a class that never scores more has no row, unless it is the best class of a part
_SIDE = 96  # pixels of a thumbnail
_PAGE_HEAD = 1 << 16  # bytes of a page that hold the address of its video


class VideoScores(NamedTuple):
    """The scores of a video.

    Attributes:
      path: the video.
      scores: float32 [C]; empty if the video is bad.
      seconds: length of what was scored; a video ends after at most 100,000 frames.
      bad: why it has no scores; empty if it has.
      over_time: the scores of its parts, if they were asked for.
    """

    path: str
    scores: NDArray[np.float32]
    seconds: float = 0.0
    bad: str = ""
    over_time: Timeline | None = None


def predict(scorer: Scorer, source: VideoFeatures, paths: Sequence[str], seconds: float = 0) -> Iterator[VideoScores]:
    """Yields the prediction for each video.

    A video longer than the records of the training is scored in windows of their length, without overlap. Its scores
    are the means of the windows' scores, weighted by the numbers of their frames.

    Args:
      scorer: the model.
      source: the extraction for this model.
      paths: the videos.
      seconds: length of the parts whose scores are wanted too; 0 for none.

    Raises:
      RunError: the scores are NaN.
    """
    for path, features in source.of_videos(paths):
        if features.bad:
            yield VideoScores(path, np.zeros(0, np.float32), bad=features.bad)
            continue
        score, count = functools.partial(_scores, scorer, source, features.arrays), len(features.arrays[0])
        windows = _parts(count, source.max_frames)
        scores = np.average(score(windows), axis=0, weights=[last - first for first, last in windows])
        over_time = None
        if seconds:
            timeline_windows = _with_long_end(_parts(count, max(1, round(seconds * source.per_second))))
            starts = [first / source.per_second for first, _ in timeline_windows]
            over_time = Timeline(starts, count / source.per_second, score(timeline_windows))
        scored_seconds = min(features.seconds, count / source.per_second)
        yield VideoScores(path, scores.astype(np.float32), scored_seconds, over_time=over_time)


def _parts(count: int, size: int) -> list[Part]:
    """`count` frames in parts of `size`; the last one may be shorter."""
    return [(first, min(first + size, count)) for first in range(0, count, size)]


def _with_long_end(windows: list[Part]) -> list[Part]:
    """The parts, the last one joined to the one before it if it has less than half its length."""
    if len(windows) > 1 and 2 * (windows[-1][1] - windows[-1][0]) < windows[0][1]:
        return [*windows[:-2], (windows[-2][0], windows[-1][1])]
    return windows


def _scores(
    scorer: Scorer, source: VideoFeatures, arrays: Sequence[NDArray[np.float32]], windows: Sequence[Part]
) -> NDArray[np.float32]:
    """float32 [parts, C]: the scores of parts of a video, of which `arrays` are the features."""
    takes, rows = scorer.takes, []
    for first in range(0, len(windows), _PARTS_AT_ONCE):
        batch = source.batch(takes, arrays, windows[first : first + _PARTS_AT_ONCE])
        rows.append(scorer.scores(takes.arranged(batch))[1])
    return np.concatenate(rows)


def run(config: PredictConfig, flags: Mapping[str, Any], paths: Sequence[str]) -> int:
    """Predicts for the videos as the flags say; returns the exit status: 1 if a video is bad.

    Raises:
      UsageError: the model does not fit, or its extractors cannot be used.
      RunError: weights cannot be fetched, or a file cannot be written.
    """
    status = 0
    with contextlib.ExitStack() as stack:
        scorer = stack.enter_context(
            scoring.open(config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="floats")
        )
        source = stack.enter_context(
            video_features.for_model(scorer.takes, flags, config.extractors, trust_code=config.trust_code)
        )
        tagger = tagger_for(config, scorer)
        predictions = predict(scorer, source, paths, SECONDS if config.timeline else 0)
        lines = []
        for prediction in terminal.with_bar(predictions, "predicting") if config.csv else predictions:
            if prediction.bad:
                status = 1
                print(f"{prediction.path}: {prediction.bad}", file=sys.stderr)
                continue
            rows = (
                tags(prediction.scores, tagger)
                if config.tags and tagger
                else best_classes(prediction.scores, config.top_k)
            )
            length, names = f"{prediction.seconds:.1f}", scorer.shown_names
            lines += [(prediction.path, index, names.name(index), f"{score:.6f}", length) for index, score in rows]
            if not config.csv:
                print(f"{prediction.path}: {length} seconds scored")
                show_classes([(f"{score:.3f}", names.name(index), str(index)) for index, score in rows])
            if prediction.over_time is not None:
                path = page_path(prediction.path)
                tag_names = [names.name(index) for index, _ in tags(prediction.scores, tagger)] if tagger else []
                write_timeline(path, prediction.path, prediction.over_time, names, tag_names)
                print(f"the timeline is in {path}")
    if config.csv:
        _write(config.csv, lines)
    return status


def _write(path: str, lines: Sequence[tuple[Any, ...]]) -> None:
    with storage.write_atomic(path, "w") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "index", "name", "score", "seconds"), *lines])
    print(f"the scores are in {path}")


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


def write_timeline(path: str, video: str, timeline: Timeline, names: Vocabulary, tags: Sequence[str]) -> None:
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
    try:
        import jinja2
    except ImportError as error:
        raise missing_extra("--timeline", "jinja2", "reports") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("yt8m", "data"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    page = environment.get_template("timeline.html.jinja").render(
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


def page_path(video: str) -> str:
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
    whole = int(second)
    hours, seconds = divmod(whole, 3600)
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
