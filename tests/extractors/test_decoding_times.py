"""Rows by whole seconds, and videos whose time stamps, pixels or packets are not as they should be."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import cases
import made_videos
import numpy as np
import pytest

from yt8m.extractors import sampling_rules
from yt8m.extractors.base import Scaling, Sound
from yt8m.extractors.decoding import DecodeError, Message, Request, decode

SOUND = Sound(16000, 16000, 16000)
TONE = made_videos.tone("square")
RULES = (sampling_rules.WHOLE, sampling_rules.PUBLISHED, sampling_rules.EARLIER)
EARLIER_WHOLE = "whole-2"


def decoded(path: str, **more: Any) -> list[Message]:
    return list(decode(Request(path, **{"pictures": (None,), "sounds": (SOUND,), **more})))


def seconds_shown(messages: list[Message]) -> list[float]:
    """The time at which each picture was shown when the video was made, as `made_videos.grey` tells it."""
    return [float(one.values.mean()) / 8 for one in messages if one.kind == "picture" and one.values is not None]


def end_of(messages: list[Message]) -> dict[str, Any]:
    assert messages[-1].kind == "end"
    return messages[-1].details or {}


def windows(messages: list[Message]) -> np.ndarray:
    return np.concatenate([one.values for one in messages if one.kind == "sound" and one.values is not None])


@pytest.mark.parametrize("ending", cases.all_of(["mp4"], heavy=["webm", "ts", "mkv", "avi", "flv"]))
@pytest.mark.parametrize("fps", cases.all_of([25], heavy=[12, 30]))
def test_n_seconds_give_n_rows(tmp_path: pathlib.Path, ending: str, fps: int) -> None:
    for seconds in (1, 3):
        path = made_videos.write(tmp_path / f"{seconds}.{ending}", made_videos.grey, TONE, seconds, fps=fps)
        found = decoded(path)
        assert (end_of(found)["rows"], len(seconds_shown(found)), len(windows(found))) == (seconds,) * 3
        np.testing.assert_allclose(seconds_shown(found), np.arange(seconds), atol=0.25)


@pytest.mark.parametrize(("seconds", "rows"), cases.all_of([(0.3, 1), (2.5, 3)], heavy=[(2.4, 2), (2.9, 3)]))
def test_the_last_second_counts_if_half_of_it_is_there(tmp_path: pathlib.Path, seconds: float, rows: int) -> None:
    for ending in ("mp4", "webm"):
        path = made_videos.write(tmp_path / f"clip.{ending}", made_videos.grey, TONE, seconds)
        assert end_of(decoded(path))["rows"] == rows
    path = made_videos.write(tmp_path / "sound.mkv", None, TONE, seconds)
    assert end_of(decoded(path, pictures=()))["rows"] == rows


def test_the_earlier_rules_go_up_to_the_row_nearest_to_the_last_frame(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "clip.mp4", made_videos.grey, TONE, 3.0)
    assert [end_of(decoded(path, rule=rule))["rows"] for rule in RULES] == [3, 4, 4]


def test_rows_at_another_rate_and_of_a_part(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "clip.mp4", made_videos.grey, TONE, 8.0)
    assert end_of(decoded(path, per_second=4.0))["rows"] == 32
    assert end_of(decoded(path, per_second=0.5))["rows"] == 4
    for start, end, rows in ((1.5, 4.5, 3), (1.5, 4.9, 3), (1.5, 5.0, 4), (6.0, 20.0, 2), (6.7, None, 1)):
        found = decoded(path, start=start, end=end)
        assert end_of(found)["rows"] == rows
        np.testing.assert_allclose(seconds_shown(found), start + np.arange(rows), atol=0.25)
    with pytest.raises(DecodeError, match=r"no frame .*no sound"):
        decoded(path, start=9.0)
    assert "only the first 8 frames" not in end_of(decoded(path, most=8))["notes"]
    assert "only the first 7 frames" in end_of(decoded(path, most=7))["notes"]


def test_sound_that_outlasts_the_pictures_has_its_rows(tmp_path: pathlib.Path) -> None:
    times = [number / 10 for number in range(20)]
    path = made_videos.write(tmp_path / "clip.mkv", made_videos.grey, TONE, 5.0, times=times)
    found = decoded(path)
    assert (end_of(found)["rows"], len(seconds_shown(found)), len(windows(found))) == (5, 2, 5)
    assert "sound that goes on after the pictures" in end_of(found)["notes"]
    assert end_of(decoded(path, rule=sampling_rules.EARLIER))["rows"] == 3


def recording(path: pathlib.Path, seconds: Sequence[float], **more: Any) -> bytes:
    """A recording whose pictures tell the time from `seconds[0]` to `seconds[1]`, and whose time stamps begin at 0."""
    first, last = seconds
    made_videos.write(path, lambda second: made_videos.grey(first + second), TONE, last - first, **more)
    return path.read_bytes()


def shifted(path: pathlib.Path, seconds: float) -> bytes:
    """The packets of a transport stream with other time stamps."""
    import av

    target = path.with_name(f"shifted {path.name}")
    with av.open(str(path)) as source, av.open(str(target), "w") as container:
        streams = {one.index: container.add_stream_from_template(one) for one in source.streams}
        for packet in source.demux():
            if packet.dts is not None:
                packet.pts, packet.dts = (time + round(seconds / packet.time_base) for time in (packet.pts, packet.dts))
                packet.stream = streams[packet.stream.index]
                container.mux(packet)
    return target.read_bytes()


@pytest.mark.parametrize(
    ("shift", "note"),
    cases.all_of(
        [(3.0, "times begin anew at 0:06"), (3600.0, "times jump at 0:06")], heavy=[(0.0, "times begin anew at 0:06")]
    ),
)
def test_joined_recordings_go_on_after_one_another(tmp_path: pathlib.Path, shift: float, note: str) -> None:
    first = recording(tmp_path / "first.ts", (0.0, 6.0))
    recording(tmp_path / "second.ts", (6.0, 12.0))
    joined = tmp_path / "joined.ts"
    joined.write_bytes(first + shifted(tmp_path / "second.ts", shift))
    found = decoded(str(joined))
    assert end_of(found)["rows"] == 12
    assert note in end_of(found)["notes"]
    np.testing.assert_allclose(seconds_shown(found), np.arange(12), atol=0.6)
    assert len(windows(found)) == 12
    loudness = np.sqrt((windows(found) ** 2).mean(axis=1))
    assert loudness.min() > 0.2  # no silence is put in
    part = decoded(str(joined), start=7.0, end=10.0)
    np.testing.assert_allclose(seconds_shown(part), [7, 8, 9], atol=0.6)


def test_the_earlier_rule_trusts_time_stamps(tmp_path: pathlib.Path) -> None:
    joined = tmp_path / "joined.ts"
    joined.write_bytes(recording(tmp_path / "first.ts", (0.0, 3.0)) + recording(tmp_path / "second.ts", (3.0, 6.0)))
    assert end_of(decoded(str(joined), rule=sampling_rules.EARLIER))["rows"] == 4


@pytest.mark.parametrize("ending", cases.all_of(["mp4"], heavy=["mkv"]))
def test_a_jump_is_refused_where_the_format_has_none(tmp_path: pathlib.Path, ending: str) -> None:
    times = [number / 10 for number in range(50)] + [3600 + number / 10 for number in range(50)]
    path = made_videos.write(tmp_path / f"clip.{ending}", made_videos.grey, None, times=times)
    with pytest.raises(DecodeError, match=r"jump by 3595\.1 seconds at 0:05\b"):
        decoded(path)


def test_pictures_that_stand_still_are_no_jump(tmp_path: pathlib.Path) -> None:
    """Slides, each shown for as long as the speaker speaks."""
    slides = [0.0, 0.5, 1.0, 1.5, 2.0, 80.0]
    path = made_videos.write(tmp_path / "talk.mkv", made_videos.grey, TONE, 82.0, times=slides, rate=8000)
    assert end_of(decoded(path))["rows"] == 82
    assert "one picture for 78 seconds at 0:02" in end_of(decoded(path))["notes"]
    silent = made_videos.write(tmp_path / "slides.mp4", made_videos.grey, None, times=[0, 20, 45, 130, 131])
    np.testing.assert_allclose(seconds_shown(decoded(silent))[::40][:3], [0, 45, 45], atol=14)


def test_pictures_of_uneven_times_may_stand_still(tmp_path: pathlib.Path) -> None:
    """Slides without sound: each picture lasts until the next one, or comes whenever the screen changes."""
    times = [0.0, 0.1, 0.9, 1.0, 1.1, 2.5, 42.5, 42.6, 42.7, 43.0]
    for ending in ("mkv", "mp4"):
        path = made_videos.write(tmp_path / f"slides.{ending}", made_videos.grey, None, times=times)
        assert "one picture for 40 seconds at 0:02" in end_of(decoded(path))["notes"]


def with_pause(source: str, target: pathlib.Path, seconds: float, kinds: tuple[str, ...]) -> str:
    """Writes a recording whose streams of these kinds pause at 0:05."""
    import av

    with av.open(source) as read, av.open(str(target), "w") as written:
        streams = {one.index: written.add_stream_from_template(one) for one in read.streams}
        for packet in read.demux():
            if packet.dts is not None:
                if packet.dts * packet.time_base >= 5 and packet.stream.type in kinds:
                    packet.pts, packet.dts = (
                        time + round(seconds / packet.time_base) for time in (packet.pts, packet.dts)
                    )
                packet.stream = streams[packet.stream.index]
                written.mux(packet)
    return str(target)


@pytest.mark.parametrize("ending", cases.all_of(["mp4"], heavy=["mkv"]))
def test_a_pause_of_pictures_and_sound_is_refused(tmp_path: pathlib.Path, ending: str) -> None:
    whole = made_videos.write(tmp_path / f"whole.{ending}", made_videos.grey, TONE, 10.0, rate=8000)
    path = with_pause(whole, tmp_path / f"pause.{ending}", 40.0, ("video", "audio"))
    for rule in (sampling_rules.WHOLE, EARLIER_WHOLE):
        with pytest.raises(DecodeError, match=r"pauses for (39|40)\.\d seconds at 0:05.*setpts"):
            decoded(path, rule=rule)
    talk = with_pause(whole, tmp_path / f"talk.{ending}", 8.0, ("video", "audio"))
    with pytest.raises(DecodeError, match=r"pauses for (7|8)\.\d seconds at 0:05.*setpts"):
        decoded(talk)
    assert end_of(decoded(talk, rule=EARLIER_WHOLE))["rows"] == 18


@pytest.mark.parametrize("ending", cases.all_of(["mp4"], heavy=["mkv"]))
def test_a_pause_of_which_no_picture_is_in_two_rows_is_taken(tmp_path: pathlib.Path, ending: str) -> None:
    def brighter(second: float) -> np.ndarray:
        return made_videos.grey(2.5 * second)

    whole = made_videos.write(tmp_path / f"whole.{ending}", brighter, TONE, 10.0, rate=8000)
    path = with_pause(whole, tmp_path / f"pause.{ending}", 1.7, ("video", "audio"))
    shown = seconds_shown(decoded(path))
    assert len(shown) == len(set(shown)) == 12
    with pytest.raises(DecodeError, match=r"pauses for 1\.\d seconds at 0:05"):
        decoded(path, per_second=5.0)
    longer = with_pause(whole, tmp_path / f"longer.{ending}", 8.0, ("video", "audio"))
    assert end_of(decoded(longer, per_second=0.2))["rows"] == 4  # a row is five seconds


@pytest.mark.parametrize("seconds", cases.all_of([1.5, 8.0], heavy=[0.8, 3.0, 5.0, 9.7, 12.0, 100.0]))
@pytest.mark.parametrize("kinds", [("video", "audio"), pytest.param(("video",), marks=pytest.mark.heavy)])
def test_a_jump_of_the_clock_of_a_transport_stream_fills_no_rows(
    tmp_path: pathlib.Path, seconds: float, kinds: tuple[str, ...]
) -> None:
    sound = TONE if "audio" in kinds else None
    whole = made_videos.write(tmp_path / "whole.ts", made_videos.grey, sound, 10.0, rate=16000)
    path = with_pause(whole, tmp_path / "jump.ts", seconds, kinds)
    expected, found = decoded(whole), decoded(path)
    np.testing.assert_allclose(seconds_shown(found), seconds_shown(expected), atol=0.25)
    assert len(seconds_shown(found)) == 10
    assert [note for note in end_of(found)["notes"] if note.startswith("times")] in (
        [["times jump at 0:05"]] if seconds > 1 else [["times jump at 0:05"], ["times jump at 0:06"]]
    )
    if sound:
        np.testing.assert_allclose(np.sqrt((windows(found) ** 2).mean(axis=1)).min(), 0.28, atol=0.08)
    rows = end_of(decoded(path, rule=EARLIER_WHOLE))["rows"]
    assert rows == (10 if seconds > 10 else 10 + round(seconds))  # records that exist keep their rows


@pytest.mark.parametrize("gap", cases.all_of([7.0], heavy=[0.7, 2.0, 4.0, 9.5]))
def test_joined_recordings_whose_clock_jumps_a_little(tmp_path: pathlib.Path, gap: float) -> None:
    """Three pieces of one clock, of which a part between them is missing."""
    whole = b""
    for number in range(3):
        recording(tmp_path / "piece.ts", (number * 4.0, number * 4.0 + 4.0))
        whole += shifted(tmp_path / "piece.ts", number * (4.0 + gap))
    joined = tmp_path / "joined.ts"
    joined.write_bytes(whole)
    found = decoded(str(joined))
    np.testing.assert_allclose(seconds_shown(found), np.arange(12), atol=0.6)
    assert len(windows(found)) == 12
    assert [note for note in end_of(found)["notes"] if note.startswith("times jump")] == [
        "times jump at 0:04",
        "times jump at 0:08",
    ]


@pytest.mark.heavy
def test_a_picture_of_a_transport_stream_stands_still_while_the_sound_goes_on(tmp_path: pathlib.Path) -> None:
    whole = made_videos.write(tmp_path / "whole.ts", made_videos.grey, TONE, 30.0, rate=16000)
    for seconds, notes in ((6.0, []), (15.0, ["one picture for 15 seconds at 0:05"])):
        found = decoded(with_pause(whole, tmp_path / "still.ts", seconds, ("video",)))
        shown = seconds_shown(found)
        np.testing.assert_allclose(shown[6 + int(seconds) : 20], np.arange(6, 20 - seconds), atol=0.3)
        said = [note for note in end_of(found)["notes"] if "times" in note or "one picture" in note]
        assert said == notes
    silence = decoded(with_pause(whole, tmp_path / "silence.ts", 6.0, ("audio",)))
    np.testing.assert_allclose(seconds_shown(silence)[:30], np.arange(30), atol=0.25)


def test_a_pause_of_pictures_of_an_even_rate_is_refused_unless_the_picture_lasts(tmp_path: pathlib.Path) -> None:
    whole = made_videos.write(tmp_path / "whole.mkv", made_videos.grey, None, 10.0)
    with pytest.raises(DecodeError, match=r"pauses for 40\.\d seconds at 0:05"):
        decoded(with_pause(whole, tmp_path / "pause.mkv", 40.0, ("video",)))
    still = with_pause(whole, tmp_path / "still.mp4", 40.0, ("video",))  # in mp4, the last picture lasts 40 seconds
    notes = end_of(decoded(still))["notes"]
    assert [note for note in notes if "one picture" in note] == ["one picture for 40 seconds at 0:05"]


def test_a_picture_stands_still_while_the_sound_goes_on(tmp_path: pathlib.Path) -> None:
    times = [number / 10 for number in range(50)] + [45 + number / 10 for number in range(50)]
    path = made_videos.write(tmp_path / "clip.mp4", made_videos.grey, TONE, 50.0, times=times, rate=8000)
    assert end_of(decoded(path))["rows"] == 50
    whole = made_videos.write(tmp_path / "whole.mkv", made_videos.grey, TONE, 30.0, rate=8000)
    even = with_pause(whole, tmp_path / "even.mkv", 20.0, ("video",))
    assert "one picture for 20 seconds at 0:05" in end_of(decoded(even))["notes"]


def test_a_negative_start_is_the_start(tmp_path: pathlib.Path) -> None:
    recording(tmp_path / "clip.ts", (0.0, 5.0))
    late = 2**33 / 90000 - 3  # the stamps of transport streams have 33 bits and pass through 0 after three seconds
    path = tmp_path / "wrapped.ts"
    path.write_bytes(shifted(tmp_path / "clip.ts", late))
    np.testing.assert_allclose(seconds_shown(decoded(str(path))), np.arange(5), atol=0.25)


def test_a_sample_rate_that_changes_is_noted(tmp_path: pathlib.Path) -> None:
    first = recording(tmp_path / "first.ts", (0.0, 4.0), rate=16000)
    joined = tmp_path / "joined.ts"
    joined.write_bytes(first + recording(tmp_path / "second.ts", (4.0, 8.0), rate=48000))
    for rule in RULES:
        notes = end_of(decoded(str(joined), rule=rule))["notes"]
        assert "the sample rate of the sound changes" in notes
    sound = windows(decoded(str(joined)))
    assert len(sound) == 8
    for second in (1, 2, 5, 6):  # the same tone before and after
        spectrum = np.abs(np.fft.rfft(sound[second]))
        assert 285 <= spectrum.argmax() <= 315


def test_avi_with_frames_out_of_order_has_a_constant_rate(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(
        tmp_path / "clip.avi", made_videos.grey, TONE, 6.0, codecs=("libx264", "mp3"), options={"bf": "3", "g": "15"}
    )
    found = decoded(path)
    assert end_of(found)["notes"] == []
    np.testing.assert_allclose(seconds_shown(found), np.arange(6), atol=0.25)
    late = decoded(path, start=5.0)
    np.testing.assert_allclose(seconds_shown(late), [5], atol=0.25)


@pytest.mark.parametrize("ending", cases.all_of(["mp4", "wav", "wmv", "flv"], heavy=["mov", "m4a", "3gp"]))
def test_files_of_which_only_the_first_recording_would_be_read(tmp_path: pathlib.Path, ending: str) -> None:
    has_pictures = ending in made_videos.CODECS
    whole = made_videos.write(tmp_path / f"first.{ending}", made_videos.grey if has_pictures else None, TONE, 2.0)
    assert end_of(decoded(whole))["rows"] == 2
    joined = tmp_path / f"joined.{ending}"
    joined.write_bytes(pathlib.Path(whole).read_bytes() * 2)
    with pytest.raises(DecodeError, match=r"several recordings.*ffmpeg"):
        decoded(str(joined))


def damaged(path: pathlib.Path, number: int) -> None:
    """Overwrites a packet of pictures."""
    import av

    with av.open(str(path)) as container:
        packet = [one for one in container.demux(video=0) if one.size][number]
        place, size = packet.pos, packet.size
    content = bytearray(path.read_bytes())
    content[place : place + size] = b"\xff" * size
    path.write_bytes(content)


def test_damaged_packets_may_be_left_out(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "clip.mp4"
    made_videos.write(path, made_videos.grey, TONE, 6.0, options={"g": "10"})
    for number in (23, 44):
        damaged(path, number)
    for most in (0, 1):
        with pytest.raises(DecodeError, match="it is damaged"):
            decoded(str(path), max_bad_packets=most)
    found = decoded(str(path), max_bad_packets=2)
    assert "damaged packets: 2" in end_of(found)["notes"]
    np.testing.assert_allclose(seconds_shown(found), np.arange(6), atol=0.4)


@pytest.mark.parametrize("filler", [b"\0", b"\xff"])
def test_a_transport_stream_with_damaged_bytes(tmp_path: pathlib.Path, filler: bytes) -> None:
    shapes = made_videos.shape("stripes", 96, 128)
    path = pathlib.Path(made_videos.write(tmp_path / "clip.ts", shapes, TONE, 6.0))
    content = path.read_bytes()
    place = len(content) // 2
    path.write_bytes(content[:place] + filler * 1200 + content[place + 1200 :])
    with pytest.raises(DecodeError, match=r"damaged: .*packet at 0:0[23] .*--max_bad_packets=N"):
        decoded(str(path))
    end = end_of(decoded(str(path), max_bad_packets=5))
    assert end["rows"] == 6
    assert any(note.startswith("damaged packets: ") for note in end["notes"])
    assert end_of(decoded(str(path), rule=EARLIER_WHOLE))["rows"] == 6  # the rule of earlier data sets takes it


def test_damaged_sound_of_mp4_may_be_left_out(tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(made_videos.write(tmp_path / "clip.mp4", made_videos.shape("stripes", 96, 128), TONE, 6.0))
    content = path.read_bytes()
    place = len(content) // 2
    path.write_bytes(content[:place] + b"\xff" * 1200 + content[place + 1200 :])
    with pytest.raises(DecodeError, match="--max_bad_packets=N"):
        decoded(str(path))
    assert end_of(decoded(str(path), max_bad_packets=1000))["rows"] == 6


def with_pixels(path: pathlib.Path, ratio: Fraction) -> str:
    """A video of 72 x 60 stored pixels, with a white rectangle of 20 x 40 in its middle."""
    import av

    picture = np.zeros((60, 72, 3), np.uint8)
    picture[10:50, 26:46] = 255
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=5)
        stream.width, stream.height, stream.pix_fmt = 72, 60, "yuv420p"
        stream.codec_context.sample_aspect_ratio = ratio
        for number in range(5):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return str(path)


def white(message: Message) -> tuple[int, int]:
    """The width and the height of the white rectangle."""
    assert message.values is not None
    is_white = message.values[..., 0] > 128
    return int(is_white.any(axis=0).sum()), int(is_white.any(axis=1).sum())


def test_pixels_that_are_not_square(tmp_path: pathlib.Path) -> None:
    wide, high = (with_pixels(tmp_path / f"{number}.mp4", Fraction(number, 2)) for number in (4, 1))
    for path, shape, rectangle in ((wide, (60, 144, 3), (40, 40)), (high, (120, 72, 3), (20, 80))):
        found = decoded(path)
        assert found[0].values is not None
        assert found[0].values.shape == shape
        np.testing.assert_allclose(white(found[0]), rectangle, atol=1)
    assert "non-square pixels (2:1)" in end_of(decoded(wide))["notes"]
    (cut,) = (one for one in decoded(wide, pictures=(Scaling(30, 30),)) if one.kind == "picture")
    np.testing.assert_allclose(white(cut), (20, 20), atol=1)
    stored = decoded(wide, rule=sampling_rules.EARLIER)
    assert stored[0].values is not None
    assert stored[0].values.shape == (60, 72, 3)
    assert end_of(stored)["notes"] == ["no sound"]


@pytest.mark.parametrize("fps", [10, 30])
def test_avi_with_mp3_sound_has_a_constant_rate(tmp_path: pathlib.Path, fps: int) -> None:
    path = made_videos.write(tmp_path / "clip.avi", made_videos.grey, TONE, 3.0, fps=fps)
    assert end_of(decoded(path))["notes"] == []
