"""eval/spans.html: the figures of spans, the worst ones with pictures, and the true and found spans of their videos."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from yt8m import storage
from yt8m.extractors import sampling_rules
from yt8m.extractors.base import Scaling
from yt8m.extractors.containers import ENDINGS
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.extractors.decoding import Request
from yt8m.records.span_files import EvaluatedFilm, FoundSpan
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import media_links, templates, timeline_page
from yt8m.storage import copies

PAGE = "spans.html"
MISSED, WRONG, SHIFTED = "missed", "wrong", "other times"
_LEAST_OVERLAP = 0.5  # the tIoU at which a span is right on the page
_MOST_SPANS, _MOST_FILMS = 60, 20  # on the page
_PICTURES = 3  # of a span
_SIDE = 96  # the shorter side of a picture, in pixels


class BadSpan(NamedTuple):
    """A span that was missed, or that is not right.

    Attributes:
      kind: `MISSED` for a true span; `WRONG` or, if it overlaps a true one, `SHIFTED` for one that the model found.
      badness: from 0 to 1: the score of a span that is not right; 1 minus the mean score of a missed one.
      overlap: the largest tIoU with a span of the other side.
    """

    film: EvaluatedFilm
    span: FoundSpan
    kind: str
    badness: float
    overlap: float


def tiou(first: FoundSpan, other: FoundSpan) -> float:
    """The time that two spans share, divided by the time that either covers."""
    shared = max(0.0, min(first.end, other.end) - max(first.start, other.start))
    covered = first.end - first.start + other.end - other.start - shared
    return shared / covered if covered else 0.0


def find_worst(films: Sequence[EvaluatedFilm], most: int = _MOST_SPANS) -> list[BadSpan]:
    """The worst spans of all videos, the worst first.

    As in ActivityNet's evaluation, each found span takes the free true one of its class that it overlaps most, those
    with the best scores first.
    """
    bad = [span for film in films for span in _bad_spans(film)]
    return sorted(bad, key=lambda span: -span.badness)[:most]


def _bad_spans(film: EvaluatedFilm) -> list[BadSpan]:
    free, bad = list(film.truth), list[BadSpan]()
    for span in sorted(film.predicted, key=lambda each: -each.score):
        rivals = [other for other in free if other.number == span.number]
        best = max(rivals, key=lambda other: tiou(span, other), default=None)
        if best is not None and tiou(span, best) >= _LEAST_OVERLAP:
            free.remove(best)
            continue
        overlap = _largest_overlap(span, film.truth)
        bad.append(BadSpan(film, span, SHIFTED if overlap else WRONG, span.score, overlap))
    bad += [BadSpan(film, span, MISSED, 1 - span.score, _largest_overlap(span, film.predicted)) for span in free]
    return bad


def _largest_overlap(span: FoundSpan, others: Sequence[FoundSpan]) -> float:
    return max((tiou(span, other) for other in others if other.number == span.number), default=0.0)


def write(
    path: str,
    films: Sequence[EvaluatedFilm],
    figures: Mapping[str, tuple[float, float, float]],
    classes: Sequence[tuple[str, float]],
    names: Vocabulary,
    media: str,
) -> None:
    """Writes the page, an HTML file that loads no other file.

    Args:
      figures: {name: (value, ends of its interval)}.
      classes: (name, average AP) of each class, the worst first.
      media: the value of --media; the videos among its files that are on this machine have pictures.
    """
    worst = find_worst(films)
    shown_films = list({id(span.film): span.film for span in worst}.values())[:_MOST_FILMS]
    ids = {span.film.video for span in worst}
    links = media_links.read(media, path, ids)
    files = {video: address for video, address in media_links.read_addresses(media, ids).items() if _is_video(address)}
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(DecoderPool(1, Limits())) if files else None  # it needs PyAV
        rows = [_row(span, names, files, pool) for span in worst]
    text = templates.render(
        "spans.html.jinja",
        figures=[(name, f"{value:.3f}", interval_text(low, high)) for name, (value, low, high) in figures.items()],
        classes=[(name, f"{value:.3f}") for name, value in classes],
        worst=rows,
        links=links,
        films=[(film.video, timeline_page.format_time(film.seconds), _bars(film, names)) for film in shown_films],
    )
    storage.write(path, text)


def interval_text(low: float, high: float) -> str:
    """The ends of an interval; a dash if there is none."""
    return f"{low:.3f} to {high:.3f}" if low <= high else "-"


def _is_video(address: str) -> bool:
    """Whether an address is a video file that can be read here."""
    return address.lower().endswith(ENDINGS) and "://" not in address and storage.exists(address)


def _row(bad: BadSpan, names: Vocabulary, files: Mapping[str, str], pool: DecoderPool | None) -> dict[str, object]:
    """A row of the table of the worst spans."""
    start, end = bad.span.start, bad.span.end
    return {
        "video": bad.film.video,
        "class": names.name(bad.span.number),
        "kind": bad.kind,
        "time": f"{timeline_page.format_time(start)} to {timeline_page.format_time(end)}",
        "second": f"{start:g}",
        "score": f"{bad.span.score:.2f}",
        "overlap": f"{bad.overlap:.2f}",
        "pictures": pictures_of(files[bad.film.video], start, end, pool) if pool and bad.film.video in files else [],
    }


def pictures_of(video: str, start: float, end: float, pool: DecoderPool) -> list[str]:
    """Pictures of a part of a video as data: addresses; none if it cannot be decoded."""
    step = (end - start) / _PICTURES
    request = Request(
        *(copies.file_copy(video), 1 / step, _PICTURES, start + step / 2),
        pictures=(Scaling(0, _SIDE),),
        rule=sampling_rules.PUBLISHED,
    )
    return timeline_page.decoded_pictures(request, pool)


class Bar(NamedTuple):
    """A span as a bar, in percent of the length of the video."""

    left: str
    width: str
    title: str


class TimelineRow(NamedTuple):
    """The bars of a class in a video."""

    name: str
    truth: list[Bar]
    predicted: list[Bar]


def _bars(film: EvaluatedFilm, names: Vocabulary) -> list[TimelineRow]:
    """A row for each class that the video shows, or that the model finds in it."""
    numbers = sorted({span.number for span in (*film.truth, *film.predicted)})
    return [
        TimelineRow(
            names.name(number),
            *(
                [_bar(span, film.seconds) for span in spans if span.number == number]
                for spans in (film.truth, film.predicted)
            ),
        )
        for number in numbers
    ]


def _bar(span: FoundSpan, seconds: float) -> Bar:
    title = f"{timeline_page.format_time(span.start)} to {timeline_page.format_time(span.end)}, score {span.score:.2f}"
    return Bar(f"{100 * span.start / seconds:.3f}", f"{100 * (span.end - span.start) / seconds:.3f}", title)
