"""Tracks of labels as WebVTT, SubRip, Audacity and ELAN write them, made by hand from the documentation."""

from __future__ import annotations

import contextlib
import pathlib
import random
from typing import Any

import pytest

from yt8m.errors import RunError, UsageError
from yt8m.tables.understood import TableFlags, understand

_VTT = """WEBVTT - labels of film a

NOTE made by ann
on a Monday

STYLE
::cue { color: red }

1
00:12.400 --> 00:31.000 align:start
<v Ann>welding

01:00:05.000 --> 01:01:02.500
cutting
<c.loud>grinding</c>
"""
_SRT = (
    "1\r\n00:00:12,400 --> 00:00:31,000\r\nwelding\r\n\r\n2\r\n01:00:05,000 --> 01:01:02,500\r\ncutting\r\ngrinding\r\n"
)
_AUDACITY = "12.400000\t31.000000\twelding\n\\\t200.000000\t3000.000000\n3605.000000\t3662.500000\tcutting\n"
_ELAN = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2024-01-01T00:00:00+01:00" FORMAT="3.0" VERSION="3.0">
  <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
    <MEDIA_DESCRIPTOR MEDIA_URL="file:///films/a.mp4" MIME_TYPE="video/mp4"/>
  </HEADER>
  <TIME_ORDER>
    <TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="12400"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="31000"/>
    <TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="3605000"/><TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="3662500"/>
  </TIME_ORDER>
  <TIER LINGUISTIC_TYPE_REF="default" TIER_ID="work">
    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
      <ANNOTATION_VALUE>welding</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="ts3" TIME_SLOT_REF2="ts4">
      <ANNOTATION_VALUE>cutting</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
  </TIER>
  <TIER LINGUISTIC_TYPE_REF="default" TIER_ID="empty"/>
  OTHERS
</ANNOTATION_DOCUMENT>
"""
_COMMENTS = """<TIER LINGUISTIC_TYPE_REF="note" PARENT_REF="work" TIER_ID="comment">
    <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a3" ANNOTATION_REF="a1">
      <ANNOTATION_VALUE>too fast</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
  </TIER>"""
_SPANS = [(12.4, 31.0, ("welding",)), (3605.0, 3662.5, ("cutting", "grinding"))]
_SPANS_OF_ONE = [(12.4, 31.0, ("welding",)), (3605.0, 3662.5, ("cutting",))]


def spans_of(path: pathlib.Path, **flags: Any) -> dict[str, list[tuple[Any, ...]]]:
    """{video: (start, end, labels) of its spans}."""
    table = understand("--table", str(path), TableFlags(**({"rows": "spans"} | flags)))
    (rows,) = table.batches(9)
    assert not rows.bad
    found = zip(rows.cells["id"], rows.cells["spans"], strict=True)
    return {name: [(span.start, span.end, span.labels) for span in spans] for name, spans in found}


@pytest.mark.parametrize(
    ("name", "text", "spans"),
    [
        ("a.vtt", _VTT, _SPANS),
        ("a.srt", _SRT, _SPANS),
        ("a.txt", _AUDACITY, _SPANS_OF_ONE),
        ("a.txt", _AUDACITY.replace(".", ","), _SPANS_OF_ONE),
        ("a.eaf", _ELAN.replace("OTHERS", ""), _SPANS_OF_ONE),
    ],
    ids=["WebVTT", "SubRip", "Audacity", "Audacity with commas", "ELAN"],
)
def test_a_track_has_the_spans_of_its_video(name: str, text: str, spans: list[Any], tmp_path: pathlib.Path) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert spans_of(path) == {"a": spans}
    assert spans_of(path, rows="", can_have_spans=True) == {"a": spans}
    assert spans_of(path, frame_rate=25.0) == {"a": spans}, "its times are seconds"
    videos = understand("--table", str(path), TableFlags())
    (rows,) = videos.batches(9)
    assert [list(map(videos.clean_label, names)) for names in rows.cells["labels"]] == [
        [label for _, _, labels in spans for label in labels]
    ]


def test_a_folder_has_the_tracks_of_many_videos(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.vtt").write_text(_VTT)
    (tmp_path / "b.txt").write_text(_AUDACITY)
    (tmp_path / "c.vtt").write_text("WEBVTT\n")
    (tmp_path / "c.npy").write_bytes(b"")
    assert spans_of(tmp_path) == {"a": _SPANS, "b": _SPANS_OF_ONE, "c": []}
    (tmp_path / "c.srt").write_text(_SRT)
    with pytest.raises(UsageError, match="several tracks of 'c'"):
        spans_of(tmp_path)
    (tmp_path / "c.srt").unlink()
    (tmp_path / "readme.txt").write_text("These are labels.\n")
    with pytest.raises(RunError, match=r"readme.txt, line 1: 'These are labels.'"):
        spans_of(tmp_path)


def test_a_folder_without_tracks_is_no_table(tmp_path: pathlib.Path) -> None:
    (tmp_path / "readme.txt").write_text("These are labels.\n")
    with pytest.raises(UsageError, match="is a folder"):
        spans_of(tmp_path)


def test_several_tiers_of_elan_must_be_chosen(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.eaf"
    path.write_text(_ELAN.replace("OTHERS", _COMMENTS))
    with pytest.raises(UsageError, match=r"work, comment.*--columns=labels=work,.*--columns=labels=work\+comment"):
        spans_of(path)
    assert spans_of(path, columns=("labels=work",)) == {"a": _SPANS_OF_ONE}
    both = spans_of(path, columns=("labels=work+comment",))["a"]
    assert (12.4, 31.0, ("too fast",)) in both
    assert len(both) == 3
    with pytest.raises(UsageError, match="tier 'speech'"):
        spans_of(path, columns=("labels=speech",))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.vtt", "WEBVTT\n\n00:01.000 -> 00:02.000\nx\n", "is no cue"),
        ("a.vtt", "WEBVTT\n\nsoon --> 00:02.000\nx\n", "no times"),
        ("a.eaf", "<ANNOTATION_DOCUMENT>", "is not XML"),
        ("a.eaf", "<annotations/>", "a file of ELAN"),
    ],
)
def test_a_damaged_track_is_named(name: str, text: str, message: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises((UsageError, RunError), match=rf"{name}.*{message}"):
        spans_of(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.vtt", _VTT), ("a.srt", _SRT), ("a.txt", _AUDACITY), ("a.eaf", _ELAN.replace("OTHERS", _COMMENTS))],
)
def test_whatever_is_left_of_a_track_is_read_or_refused(name: str, text: str, tmp_path: pathlib.Path) -> None:
    draw = random.Random(1)
    for _ in range(40):
        first, last = sorted(draw.sample(range(len(text)), 2))
        broken = draw.choice(
            [text[:first], text[first:], text[:first] + text[last:], text.replace("1", draw.choice("x:-\0"))]
        )
        (tmp_path / name).write_text(broken)
        for path in (tmp_path / name, tmp_path):
            with contextlib.suppress(UsageError, RunError):
                for rows in understand("--table", str(path), TableFlags(rows="spans")).batches(9):
                    assert set(rows.cells) >= {"id", "spans"}


def _elan(tiers: dict[str, list[tuple[int, int, str]]], media: str) -> str:
    slots, text = "", ""
    for name, marks in tiers.items():
        text += f'<TIER LINGUISTIC_TYPE_REF="default-lt" TIER_ID="{name}">'
        for start, end, value in marks:
            ids = [f"{name}{start}", f"{name}{end}e"]
            slots += "".join(
                f'<TIME_SLOT TIME_SLOT_ID="{slot}" TIME_VALUE="{time}"/>'
                for slot, time in zip(ids, (start, end), strict=True)
            )
            text += (
                f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a{ids[0]}" TIME_SLOT_REF1="{ids[0]}" '
                f'TIME_SLOT_REF2="{ids[1]}"><ANNOTATION_VALUE>{value}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION>'
                "</ANNOTATION>"
            )
        text += "</TIER>"
    header = f'<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">{media}</HEADER>'
    return f"<ANNOTATION_DOCUMENT>{header}<TIME_ORDER>{slots}</TIME_ORDER>{text}</ANNOTATION_DOCUMENT>"


def _media(name: str, origin: int) -> str:
    return f'<MEDIA_DESCRIPTOR MEDIA_URL="file:///{name}" MIME_TYPE="video/mp4" TIME_ORIGIN="{origin}"/>'


def test_the_times_of_elan_begin_at_the_origin_of_the_film(tmp_path: pathlib.Path) -> None:
    tiers = {"acts": [(1000, 3000, "weld")]}
    (tmp_path / "a.eaf").write_text(_elan(tiers, _media("a.mp4", 12340) + _media("a.wav", 12340)))
    assert spans_of(tmp_path / "a.eaf")["a"] == [(13.34, 15.34, ("weld",))]
    (tmp_path / "a.eaf").write_text(_elan(tiers, _media("a.mp4", 500) + _media("b.mp4", 12340)))
    assert spans_of(tmp_path / "a.eaf")["a"] == [(1.5, 3.5, ("weld",))]
    (tmp_path / "c.eaf").write_text(_elan(tiers, _media("a.mp4", 500) + _media("b.mp4", 12340)))
    with pytest.raises(UsageError, match=r"different times .TIME_ORIGIN.: a .500 ms., b .12340 ms."):
        spans_of(tmp_path / "c.eaf")


def test_tiers_of_empty_annotations_are_classes(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.eaf").write_text(_elan({"weld": [(1000, 3000, "")], "cut": [(7000, 9000, "")]}, ""))
    expected = [(1.0, 3.0, ("weld",)), (7.0, 9.0, ("cut",))]
    assert spans_of(tmp_path / "a.eaf")["a"] == expected
    (tmp_path / "a.eaf").write_text(_elan({"weld": [(1000, 3000, "x")], "cut": [(7000, 9000, "")]}, ""))
    with pytest.raises(UsageError, match=r"several tiers.*add --columns=labels=TIER_ID"):
        spans_of(tmp_path / "a.eaf")
    assert spans_of(tmp_path / "a.eaf", columns=("labels=TIER_ID",))["a"] == expected


def test_signs_of_webvtt_are_those_that_people_see(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:03.000\nR&amp;D\n<b>x</b> &lt; y\n")
    assert spans_of(tmp_path / "a.vtt")["a"] == [(1.0, 3.0, ("R&D", "x < y"))]
