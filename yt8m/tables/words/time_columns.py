"""Columns of times by their names, such as `start`, `Begin Time (s)`, `onset_ms`; and the unit that a name says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.times import NotATimeError, is_bare, is_empty, parse_time

START, END, DURATION = "start", "end", "duration"
FRAMES = "frames"
_MILLISECONDS, _MICROSECONDS, _NANOSECONDS = "milliseconds", "microseconds", "nanoseconds"
_SECONDS, _MINUTES, _HOURS = "seconds", "minutes", "hours"
CLOCK = "minutes and seconds"  # such as a time code; a bare number counts seconds
_DIGITS = "hours, minutes and seconds"  # as mmss and hh:mm:ss say; a bare number may be any of them
CLOCKS = frozenset([CLOCK, _DIGITS])  # units of times with colons
# {unit: how many of it are a second}, 0 for times as they are; frames have no rate of their own.
_PER_SECOND = {
    _MILLISECONDS: 1e3,
    _MICROSECONDS: 1e6,
    _NANOSECONDS: 1e9,
    _HOURS: 1 / 3600,
    _MINUTES: 1 / 60,
    _SECONDS: 0.0,
    CLOCK: 0.0,
    _DIGITS: 0.0,
}
_UNIT_WORDS = {
    _MILLISECONDS: "ms msec msecs millis millisec millisecs millisecond milliseconds",
    _MICROSECONDS: "us usec usecs micros microsecond microseconds",
    _NANOSECONDS: "ns nsec nanos nanosecond nanoseconds",
    _SECONDS: "s ss sec secs second seconds",
    _MINUTES: "min mins minute minutes",
    _HOURS: "h hr hrs hour hours",
    CLOCK: "timecode",
    _DIGITS: "hh mm hhmm hhmmss mmss hms",
    FRAMES: "frame frames framenumber",
}
_UNIT_OF = {word: unit for unit, unit_words in _UNIT_WORDS.items() for word in unit_words.split()}
_LINKS = frozenset(["in", "number", "no", "nr", "index", "idx", "id"])  # words that may stand beside the unit

_SURE = {START: "start start_time starttime t_start time_start begin", END: "end end_time endtime t_end time_end stop"}
# Further names, which count in tables of spans alone: elsewhere they may mean other things.
_OF_SPANS = {
    START: "anfang beginn début debut inicio início inizio onset tmin t_min time_min begin_time from t0 beg time_begin "
    "from_time start_timestamp timestamp_start start_ts ts_start begin_timestamp begin_ts t_begin start_offset "
    "begin_offset offset_start start_position start_pos segment_start clip_start event_start action_start "
    "span_start interval_start annotation_start label_start tc_in timecode_in in_point in",
    END: "ende fin fim fine offset tmax t_max time_max finish to t1 stop_time finish_time to_time end_timestamp "
    "timestamp_end time_stop stop_timestamp timestamp_stop end_ts ts_end te end_offset offset_end end_position end_pos "
    "stop_ts t_stop segment_end clip_end event_end action_end "
    "span_end interval_end annotation_end label_end tc_out timecode_out out_point out",
}
# Names of starts where no other column has them: beside ends or lengths, and beside lengths alone.
_STARTS_BESIDE_OTHERS = frozenset(["timestamp", "time_stamp", "ts", "time"])
_STARTS_BESIDE_LENGTHS = frozenset(["offset"])
# Names of starts beside lengths if no other column may have them; those of COUNTERS may also count the spans.
COUNTERS = frozenset(["position", "pos", "cue"])
_LATER_STARTS = COUNTERS | word_set(
    "start_at starts_at at when seek seek_to cue_point event_time video_time playback_time playback_position "
    "video_position media_time"
)
_WORDS_OF_DURATIONS = (
    "duration dur length len dauer l\u00e4nge durée duree longueur duración duracion longitud duração duracao durata "
    "lunghezza duur varaktighet varighed længde l\u00e4ngd lengde czas_trwania 时长 時長 長さ 길이"
)
_SPANS = ("segment", "event", "action", "span", "interval", "annotation", "label")
_DURATIONS = frozenset(_WORDS_OF_DURATIONS.split()) | {
    f"{span}_{word}" for span in _SPANS for word in ("duration", "length", "dur")
}
_ENDS_OF_DURATIONS = ("duration", "dauer", "length", "l\u00e4nge")  # of words such as `Spieldauer`
FRAME_RATES = frozenset(["fps", "frame_rate", "framerate", "video_fps", "frames_per_second"])
_LENGTHS_OF_VIDEOS = frozenset(
    ["video_duration", "video_length", "media_duration", "total_length", "total_duration", "film_duration"]
)


def _ranks(names: dict[str, str]) -> dict[str, tuple[str, int]]:
    return {name: (meaning, rank) for meaning, listed in names.items() for rank, name in enumerate(listed.split())}


_MEANING_OF = _ranks(_SURE)
_MEANING_IN_SPANS = _ranks(_OF_SPANS)


class TimeName(NamedTuple):
    """The name of a column in two parts.

    Attributes:
      bare: the name without its unit.
      unit: the unit that the name says, such as `milliseconds`; empty if it says none.
    """

    bare: str
    unit: str


def divided(name: str) -> TimeName:
    """The name and the unit of a column, by its name as `meanings.normalized` writes it."""
    if name in _MEANING_OF or name in _MEANING_IN_SPANS:
        return TimeName(name, "")
    words = name.split("_")
    first = words[0] if words[0] in _UNIT_OF and len(words) > 1 else ""
    others = words[1:] if first else words
    size = len(others)
    while size > 1 and (others[size - 1] in _UNIT_OF or others[size - 1] in _LINKS):
        size -= 1
    units = [_UNIT_OF[word] for word in [first, *others[size:]] if word in _UNIT_OF]
    return TimeName("_".join(others[:size]), units[0] if units else "") if units else TimeName(name, "")


def unit_of(column: str) -> str:
    """The unit that the name of a column says, such as `milliseconds`; empty if it says none."""
    return divided(normalized(column)).unit


def meaning_of_time(name: str) -> tuple[str, int] | None:
    """(start or end, rank) of a column that means a time in any table; None for others, and for numbers of frames."""
    bare, unit = divided(name)
    return _MEANING_OF.get(bare) if unit != FRAMES else None


def meaning_in_spans(name: str) -> tuple[str, int] | None:
    """(start or end, rank) of a column that means a time in a table of spans alone."""
    bare, unit = divided(name)
    if unit == FRAMES and bare in _MEANING_OF:
        return _MEANING_OF[bare]
    return _MEANING_IN_SPANS.get(bare)


def is_duration(name: str) -> bool:
    """Whether a column of a table of spans has their lengths."""
    return divided(name).bare in _DURATIONS


def meaning_of_span(column: str) -> str:
    """`start`, `end` or `duration`, if the name of a column of a table of spans says so; else empty."""
    name = normalized(column)
    time = meaning_of_time(name) or meaning_in_spans(name)
    return time[0] if time else DURATION if is_duration(name) else ""


def starts_beside_others(columns: Sequence[str]) -> list[str]:
    """The columns that have starts because others have ends or lengths: `timestamp` beside `end_timestamp`.

    `offset` is the end beside `onset`, but may be the start beside `duration`.
    """
    bare_names = {column: divided(normalized(column)).bare for column in columns}
    times = {column: meaning_of_span(column) for column in columns}
    if START in times.values():
        return []
    offsets = [column for column, bare in bare_names.items() if bare in _STARTS_BESIDE_LENGTHS]
    has_ends = any(time == END and column not in offsets for column, time in times.items())
    has_lengths = DURATION in times.values()
    if offsets and has_lengths and not has_ends:
        return offsets
    starts = [column for column, bare in bare_names.items() if bare in _STARTS_BESIDE_OTHERS]
    if has_lengths and not (has_ends or starts):
        return [column for column, bare in bare_names.items() if bare in _LATER_STARTS]
    return starts if has_ends or has_lengths else []


def says_length(name: str) -> bool:
    """Whether a column that the user names as the end has lengths by its name, such as `clip_duration`."""
    name_words = divided(name).bare.split("_")
    return is_duration(name) or any(word in _DURATIONS or word.endswith(_ENDS_OF_DURATIONS) for word in name_words)


def is_length_of_video(name: str) -> bool:
    """Whether a column has the length of the whole video of each row."""
    return divided(name).bare in _LENGTHS_OF_VIDEOS


def matching_pair(starts: Sequence[str], ends: Sequence[str], units: Mapping[str, str]) -> tuple[str, str]:
    """The first start and end that count in one unit; else the first of each, empty if there is none.

    Args:
      units: {column: its unit}.
    """
    pairs = ((start, end) for start in starts for end in ends if units[start] == units[end])
    return next(pairs, (next(iter(starts), ""), next(iter(ends), "")))


def per_second(unit: str, frame_rate: float = 0.0) -> float:
    """How many of a unit are a second, or 0 for times; columns that name no unit count frames if a rate is given."""
    return _PER_SECOND.get(unit, frame_rate)


def as_clock(cell: Any, unit: str) -> Any:
    """A cell as it is; a bare number in a column such as `start mm.ss` with the unit, so that it is no time.

    0.30 may be half a minute there, or 30 seconds, and 0130 a minute and a half.
    """
    return f"{cell} as {unit}" if unit == _DIGITS and is_bare(cell) else cell


def in_seconds(cell: Any, unit: str) -> Any:
    """A cell that counts in a unit as seconds; one that holds no number stays as it is, with the unit.

    An empty cell, and one whose column says seconds or nothing, is returned as it is.
    """
    rate, cell = per_second(unit), as_clock(cell, unit)
    if not rate or is_empty(cell):
        return cell
    try:
        return parse_time(cell, rate)
    except NotATimeError:
        return f"{cell} {unit}"
