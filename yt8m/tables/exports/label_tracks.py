"""Tracks of labels, a file for each video: cues of WebVTT and SubRip, label tracks of Audacity, and files of ELAN.

The name of a file without its ending is the id of its video. A folder may hold the tracks of many videos.
"""

from __future__ import annotations

import html
import os
import re
import xml.etree.ElementTree
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.tables.sources import encodings
from yt8m.tables.sources.source import MemorySource, source_of_spans

_WEBVTT, _ELAN, _TEXT = ".vtt", ".eaf", ".txt"
_CUES = (_WEBVTT, ".srt")
ENDINGS = (*_CUES, _ELAN)  # of files that can be nothing else
_TIMING = re.compile(r"\s*([\d:.,]+)\s+-->\s+([\d:.,]+)(\s.*)?")
_TAG = re.compile(r"<[^>\n]*>|\{\\[^}\n]*\}")  # also the places that SubRip takes over from SubStation
_NO_CUE = ("NOTE", "STYLE", "REGION", "WEBVTT")  # the first words of blocks that are no cues
# Audacity writes six decimals, with the comma of some countries. Lines that begin with \ are ranges of frequencies.
_AUDACITY = re.compile(r"(-?\d+[.,]\d{6})\t(-?\d+[.,]\d{6})(?:\t(.*))?")
_SAMPLE = 1 << 16
TIERS = "TIER_ID"  # as a column of labels: the names of the tiers are the classes
_JOIN = "+"


class _Mark(NamedTuple):
    """A label of a track; `start` and `end` are cells, as `times.parse_time` reads them."""

    start: Any
    end: Any
    labels: list[str]


def files_in(folder: str) -> list[str]:
    """The tracks in a folder, sorted; none if it has no file of a kind that is always a track, or a text of Audacity.

    Other texts beside them are refused when they are read.
    """
    names = [name for name in sorted(storage.listdir(folder)) if name.lower().endswith((*ENDINGS, _TEXT))]
    tracks = [storage.join(folder, name) for name in names if not name.startswith(".")]
    return tracks if any(path.lower().endswith(ENDINGS) or is_audacity(path) for path in tracks) else []


def files_of(table: str) -> list[str]:
    """The files of a table: its tracks if it is a folder, else itself."""
    return files_in(table) if storage.is_dir(table) else [table]


def is_audacity(path: str) -> bool:
    """Whether a text is a label track of Audacity."""
    with encodings.open_text(path, encodings.detect(path).name) as file:
        lines = [line for line in file.read(_SAMPLE).splitlines()[:100] if line and not line.startswith("\\")]
    return bool(lines) and all(map(_AUDACITY.fullmatch, lines))


def read(path: str, files: Sequence[str], control: str = "") -> MemorySource:
    """The rows of tracks: with times a row for each label, and without them a row for each video.

    Args:
      path: the file or the folder, for messages.
      control: the tiers of ELAN whose annotations are labels, with `+` between them; empty if there is only one;
        `TIER_ID` if the tiers are the classes.
    """
    path = path.rstrip("/") or path
    if not control and _are_classes_of_tiers(files):
        control = TIERS
    tracks = {_id_of(file): _marks(file, control) for file in files}
    if len(tracks) < len(files):
        names = [_id_of(file) for file in files]
        repeated = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{path} has several tracks of {repeated!r}; keep one file for each video.")
    if control and not any(tracks.values()):
        raise UsageError(f"{path}: no track has an annotation of a tier {control!r}, which --columns=labels names.")
    rows = [
        (name, mark.labels, mark.start, mark.end)
        for name, marks in tracks.items()
        for mark in marks or [_Mark(None, None, [])]
    ]
    form = f"{len(files)} tracks of labels" if len(files) > 1 else "a track of labels"
    labels = [list(dict.fromkeys(name for mark in marks for name in mark.labels)) for marks in tracks.values()]
    cells: dict[str, list[Any]] = {"id": list(tracks), "labels": labels}
    source = MemorySource(path, cells, f"{form}, of whole videos", {name: name for name in cells})
    spans = source_of_spans(path, form, rows)
    spans.places = [
        f"label {number} of {name[:60]!r}"
        for name, marks in tracks.items()
        for number in range(1, 1 + max(len(marks), 1))
    ]
    return source.with_spans(spans)


def _id_of(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _marks(path: str, control: str) -> list[_Mark]:
    reader: Callable[[str], Iterator[_Mark]] = _cues if path.lower().endswith(_CUES) else _audacity
    if path.lower().endswith(_ELAN):
        return [*_elan(path, control)]
    return [*reader(path)]


def _cues(path: str) -> Iterator[_Mark]:
    """Yields the cues of WebVTT or SubRip; each line of a cue is a label."""
    text = encodings.read_text(path).removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    plain = _plain_webvtt if path.lower().endswith(_WEBVTT) else _without_tags
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.split("\n")
        times = next((place for place, line in enumerate(lines) if "-->" in line), None)
        if times is None:
            if block.strip() and not block.startswith(_NO_CUE):
                raise RunError(f"{path}: {lines[0][:60]!r} is no cue; expected times, as in 00:12.400 --> 00:31.000.")
            continue
        match = _TIMING.fullmatch(lines[times])
        if match is None:
            raise RunError(f"{path}: {lines[times][:60]!r} are no times of a cue, as in 00:12.400 --> 00:31.000.")
        labels = [label for line in lines[times + 1 :] if (label := plain(line).strip())]
        yield _Mark(match[1], match[2], labels)


def _without_tags(line: str) -> str:
    return _TAG.sub("", line)


def _plain_webvtt(line: str) -> str:
    """The text of a line of WebVTT, in which `&amp;` and such stand for signs."""
    return html.unescape(_without_tags(line)).replace("\xa0", " ")


def _audacity(path: str) -> Iterator[_Mark]:
    """Yields the labels of a track of Audacity."""
    for number, line in enumerate(encodings.read_text(path).removeprefix("\ufeff").splitlines(), 1):
        match = _AUDACITY.fullmatch(line)
        if match:
            yield _Mark(match[1], match[2], [match[3].strip()] if (match[3] or "").strip() else [])
        elif line.strip() and not line.startswith("\\"):
            raise RunError(
                f"{path}, line {number}: {line[:60]!r} is no label of Audacity; expected start, end and label, with "
                "tabs between them and six decimals."
            )


def _elan(path: str, control: str) -> Iterator[_Mark]:
    """Yields the annotations of tiers of ELAN. Those that refer to others have the times of these."""
    root = _document(path)
    origin = _time_origin(path, root)
    slots = {slot.get("TIME_SLOT_ID"): _seconds(slot.get("TIME_VALUE"), origin) for slot in root.iter("TIME_SLOT")}
    times = {
        item.get("ANNOTATION_ID"): (slots.get(item.get("TIME_SLOT_REF1")), slots.get(item.get("TIME_SLOT_REF2")))
        for item in root.iter("ALIGNABLE_ANNOTATION")
    }
    parents = {item.get("ANNOTATION_ID"): item.get("ANNOTATION_REF") for item in root.iter("REF_ANNOTATION")}
    tiers = _tiers(path, root, control)
    for tier in tiers:
        for item in (*tier.iter("ALIGNABLE_ANNOTATION"), *tier.iter("REF_ANNOTATION")):
            name, visited = item.get("ANNOTATION_ID"), set[str | None]()
            while name in parents and name not in visited:
                visited.add(name)
                name = parents[name]
            text = tier.get(TIERS, "") if control == TIERS else (item.findtext("ANNOTATION_VALUE") or "").strip()
            start, end = times.get(name, (None, None))
            yield _Mark(start, end, [text] if text else [])


def _document(path: str) -> xml.etree.ElementTree.Element:
    """The root of a file of ELAN."""
    root = encodings.parse_xml(path)
    if root.tag != "ANNOTATION_DOCUMENT":
        raise UsageError(f"{path}: expected a file of ELAN; the root is <{root.tag}>.")
    return root


def _are_classes_of_tiers(files: Sequence[str]) -> bool:
    """Whether all annotations of all files of ELAN are empty, so that only the names of their tiers say a class."""
    roots = [_document(file) for file in files if file.lower().endswith(_ELAN)]
    has_annotations = any(root.find("TIER/ANNOTATION") is not None for root in roots)
    return has_annotations and not any(map(_has_text, roots))


def _has_text(tier: xml.etree.ElementTree.Element) -> bool:
    return any((value.text or "").strip() for value in tier.iter("ANNOTATION_VALUE"))


def _time_origin(path: str, root: xml.etree.ElementTree.Element) -> float:
    """The milliseconds of the film at which the times of the annotations begin."""
    media = [*root.iter("MEDIA_DESCRIPTOR")]
    of_film = [item for item in media if _id_of(item.get("MEDIA_URL", "")) == _id_of(path)]
    origins = {float(item.get("TIME_ORIGIN") or 0) for item in of_film or media}
    if len(origins) > 1:
        listed = ", ".join(f"{_id_of(item.get('MEDIA_URL', ''))} ({item.get('TIME_ORIGIN') or 0} ms)" for item in media)
        raise UsageError(
            f"{path}: its media begin at different times (TIME_ORIGIN): {listed[:200]}. Name the file as the film "
            "whose features are meant, or unlink the other media in ELAN."
        )
    return max(origins, default=0.0)


def _seconds(value: str | None, origin: float) -> float | None:
    """The seconds of a time slot, which counts milliseconds; None for one that has no time of its own."""
    return None if value is None else (float(value) + origin) / 1000


def _tiers(path: str, root: xml.etree.ElementTree.Element, control: str) -> list[xml.etree.ElementTree.Element]:
    """The tiers whose annotations are labels: those that the user names, or the only one with annotations."""
    tiers = {tier.get(TIERS, ""): tier for tier in root.iter("TIER")}
    filled = [name for name, tier in tiers.items() if tier.find("ANNOTATION") is not None]
    if control == TIERS:
        return [tiers[name] for name in filled]
    if control:
        return [tiers[name] for name in control.split(_JOIN) if name in tiers]
    if len(filled) > 1:
        raise UsageError(
            f"{path}: annotations of several tiers may be the labels: {', '.join(filled)[:200]}; choose one by "
            f"--columns=labels={filled[0]}, or several by --columns=labels={_JOIN.join(filled[:2])}. If the names of "
            f"the tiers are the classes, add --columns=labels={TIERS}."
        )
    return [tiers[name] for name in filled]
