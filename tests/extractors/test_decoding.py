from __future__ import annotations

import pathlib
import re
from fractions import Fraction
from typing import Any

import cases
import made_videos
import numpy as np
import pytest
import scipy.signal

from yt8m.extractors.base import Scaling, Sound
from yt8m.extractors.decoding import DecodeError, Message, Request, decode

SOUND = Sound(16000, 15600, 16000)
TONE = made_videos.tone("square")


def decoded(path: str, **more: Any) -> list[Message]:
    return list(decode(Request(path, **{"pictures": (None,), "sounds": (SOUND,), **more})))


def levels(messages: list[Message]) -> list[int]:
    """The seconds that the pictures of `made_videos.grey` tell, times 8."""
    return [round(float(one.values.mean())) for one in messages if one.kind == "picture" and one.values is not None]


def windows(messages: list[Message]) -> np.ndarray:
    return np.concatenate([one.values for one in messages if one.kind == "sound" and one.values is not None])


def end_details(messages: list[Message]) -> dict[str, Any]:
    assert messages[-1].kind == "end"
    return messages[-1].details or {}


@pytest.mark.parametrize("ending", cases.all_of(["mp4", "webm"], heavy=["mkv", "avi"]))
def test_a_frame_a_second_and_a_window_of_sound(tmp_path: pathlib.Path, ending: str) -> None:
    path = made_videos.write(tmp_path / f"clip.{ending}", made_videos.grey, TONE, 5.3, channels=2)
    found = decoded(path)
    np.testing.assert_allclose(levels(found), [0, 8, 16, 24, 32], atol=2)
    assert end_details(found)["rows"] == 5
    assert end_details(found)["seconds"] == pytest.approx(5.3, abs=0.12)
    sound = windows(found)
    assert sound.shape == (5, 15600)
    # two equal channels keep their loudness, and the tone its height
    assert np.sqrt(2 * (sound[1:5] ** 2).mean()) == pytest.approx(0.4, abs=0.03)
    frequencies, power = scipy.signal.periodogram(sound[2], 16000)
    assert 285 <= frequencies[power.argmax()] <= 315


def test_resampled_sound_is_the_sound(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "clip.mkv", None, TONE, 2.5, rate=44100, channels=2, codecs=("", "pcm_s16le"))
    found = windows(decoded(path))
    expected = TONE((np.arange(15600) + 16000) / 16000)
    np.testing.assert_allclose(found[1], expected, atol=2e-4)


def test_rows_of_other_rates_and_parts(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "clip.mp4", made_videos.grey, TONE, 20.0)
    np.testing.assert_allclose(levels(decoded(path, per_second=2.0, most=5)), [0, 4, 8, 12, 16], atol=2)
    part = decoded(path, start=3.5, end=6.5)
    np.testing.assert_allclose(levels(part), [28, 36, 44], atol=2)
    assert windows(part).shape == (3, 15600)
    late = decoded(path, start=15.0)  # sought
    np.testing.assert_allclose(levels(late), [120, 128, 136, 144, 152], atol=2)
    np.testing.assert_allclose(windows(late)[:4], windows(decoded(path))[15:19], atol=0.02)
    with pytest.raises(DecodeError, match=r"no frame .*no sound"):
        decoded(path, start=100.0)


def test_a_variable_frame_rate_is_told_and_followed(tmp_path: pathlib.Path) -> None:
    times = [0.0, 0.1, 0.2, 1.4, 1.5, 2.05, 2.1, 4.0]
    path = made_videos.write(tmp_path / "clip.mkv", made_videos.grey, None, times=times)
    found = decoded(path)
    np.testing.assert_allclose(levels(found), [8 * times[place] for place in (0, 3, 5, 6)], atol=2)
    assert {"variable frame rate", "no sound"} <= set(end_details(found)["notes"])


def test_without_sound_pictures_or_a_whole_second(tmp_path: pathlib.Path) -> None:
    silent = decoded(made_videos.write(tmp_path / "silent.mp4", made_videos.grey, None, 2.0))
    assert end_details(silent) == {"rows": 2, "seconds": pytest.approx(2.0, abs=0.1), "notes": ["no sound"]}
    blind = decoded(made_videos.write(tmp_path / "blind.mkv", None, TONE, 2.4))
    assert end_details(blind)["notes"] == ["no pictures"]
    assert (end_details(blind)["rows"], windows(blind).shape) == (2, (2, 15600))
    short = decoded(made_videos.write(tmp_path / "short.mp4", made_videos.grey, TONE, 0.3))
    assert end_details(short)["rows"] == 1
    assert "shorter than a second" in end_details(short)["notes"]
    assert windows(short)[0][int(0.5 * 16000) :].max() == 0


def test_several_streams_and_odd_pixels(tmp_path: pathlib.Path) -> None:
    def more(container: Any) -> None:
        for _ in range(2):
            container.add_stream("pcm_s16le", rate=8000, layout="mono")

    found = decoded(made_videos.write(tmp_path / "clip.mkv", made_videos.grey, TONE, 2.0, more=more))
    assert "several audio streams" in end_details(found)["notes"]
    odd = made_videos.write(
        tmp_path / "odd.mkv", made_videos.grey, None, 2.0, codecs=("ffv1", ""), pixels="yuv422p10le"
    )
    assert "pixel format yuv422p10le" in end_details(decoded(odd))["notes"]
    np.testing.assert_allclose(levels(decoded(odd)), [0, 8], atol=2)


def test_a_rotated_video_is_upright(tmp_path: pathlib.Path) -> None:
    corner = np.zeros((32, 64, 3), np.uint8)
    corner[:16, :16] = 255
    found = decoded(made_videos.turn(made_videos.write(tmp_path / "clip.mp4", lambda _: corner, None, 1.0)))
    picture = found[0].values
    assert picture is not None
    assert picture.shape == (64, 32, 3)
    assert picture[:14, -14:].min() > 200  # the upper left corner is the upper right one now
    assert picture[:14, :14].max() < 60
    assert "rotated" in end_details(found)["notes"]


def test_scaling(tmp_path: pathlib.Path) -> None:
    halves = np.zeros((40, 80, 3), np.uint8)
    halves[:, 40:] = 255
    path = made_videos.write(tmp_path / "clip.mkv", lambda _: halves, None, 1.0)
    forms = (Scaling(20), Scaling(20, 40), Scaling(20, 20), None)
    found = decoded(path, pictures=forms)
    squashed, cut, shorter, whole = (one.values for one in found[:4] if one.values is not None)
    assert [one.shape for one in (squashed, cut, shorter, whole)] == [(20, 20, 3)] * 3 + [(40, 80, 3)]
    np.testing.assert_array_equal(whole, halves)
    np.testing.assert_array_equal(cut, halves[10:30, 30:50])
    for picture in (squashed, shorter):
        assert picture[:, :8].max() < 40
        assert picture[:, 12:].min() > 215


STATES_NOTHING = {"mpg", "mpeg", "ts"}
PERHAPS_CUT = "perhaps cut: its container does not say how long it is"


def test_the_interpolation_can_be_chosen(tmp_path: pathlib.Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    path = made_videos.write(tmp_path / "clip.mkv", lambda _: noise, None, 1.0)
    kinds = ("area", "bilinear", "bicubic", "lanczos", "spline")
    messages = decoded(path, pictures=tuple(Scaling(8, 0, kind) for kind in kinds))
    pictures = {
        kind: one.values.astype(float) for kind, one in zip(kinds, messages, strict=False) if one.values is not None
    }
    blocks = noise.reshape(8, 4, 8, 4, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(pictures["area"], blocks, atol=1.5)
    sharpness = {kind: picture.std() for kind, picture in pictures.items()}
    assert len(set(sharpness.values())) == len(kinds)
    assert sharpness["bilinear"] < sharpness["bicubic"] < sharpness["lanczos"]


@pytest.mark.promise("X7")
@pytest.mark.parametrize(
    "ending",
    cases.only([*made_videos.CODECS, *made_videos.SOUND_CODECS], ["mp4", "webm", "mkv", "ts", "mp3", "wav", "flac"]),
)
def test_a_cut_file_is_noticed(tmp_path: pathlib.Path, ending: str) -> None:
    picture = made_videos.grey if ending in made_videos.CODECS else None
    path = pathlib.Path(made_videos.write(tmp_path / f"clip.{ending}", picture, TONE, 4.0))
    assert (PERHAPS_CUT in end_details(decoded(str(path)))["notes"]) is (ending in STATES_NOTHING)
    content = path.read_bytes()
    for share in (0.0, 0.3, 0.5, 0.9, 0.999):
        path.write_bytes(content[: int(share * len(content))])
        expected = "it is empty" if not share else "it is cut|it is damaged"
        expected += f"|{PERHAPS_CUT}" if share and ending in STATES_NOTHING else ""
        assert re.match(expected, outcome(str(path)))


def outcome(path: str) -> str:
    """Why the file is refused, or else the note that it may be cut, if it has that."""
    try:
        return PERHAPS_CUT if PERHAPS_CUT in end_details(decoded(path))["notes"] else ""
    except DecodeError as error:
        return str(error)


@pytest.mark.promise("X7")
@pytest.mark.parametrize(("ending", "packet"), cases.all_of([("ts", 188)], heavy=[("mpg", 2048), ("mpeg", 2048)]))
def test_a_cut_between_packets_cannot_be_known_and_is_noted(tmp_path: pathlib.Path, ending: str, packet: int) -> None:
    path = pathlib.Path(made_videos.write(tmp_path / f"clip.{ending}", made_videos.grey, TONE, 6.0))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2 // packet * packet])
    assert PERHAPS_CUT in end_details(decoded(str(path)))["notes"]
    only_a_part = decoded(str(path), most=2)  # all of it is there
    assert PERHAPS_CUT not in end_details(only_a_part)["notes"]


@pytest.mark.promise("X7")
@pytest.mark.parametrize("ending", ["mkv", "webm"])
@pytest.mark.parametrize("is_live", [False, True])
def test_sound_that_outlasts_the_pictures_is_no_cut(tmp_path: pathlib.Path, ending: str, is_live: bool) -> None:
    times = [number / 10 for number in range(20)]
    path = pathlib.Path(made_videos.write(tmp_path / f"clip.{ending}", made_videos.grey, TONE, 5.0, times=times))
    path.write_bytes(of_unknown_size(path.read_bytes()) if is_live else path.read_bytes())
    whole = decoded(str(path))
    assert end_details(whole)["seconds"] == pytest.approx(5.0, abs=0.1)
    assert PERHAPS_CUT not in end_details(whole)["notes"]


def of_unknown_size(content: bytes) -> bytes:
    """A Matroska file as a live recording writes it."""
    place = content.index(b"\x18\x53\x80\x67") + 4
    return content[:place] + b"\x01" + b"\xff" * 7 + content[place + 8 :]


@pytest.mark.promise("X7")
def test_a_cut_file_whose_container_does_not_state_its_size(tmp_path: pathlib.Path) -> None:
    """The duration still tells; the size of the segment is set to unknown, as in a live recording."""
    path = pathlib.Path(made_videos.write(tmp_path / "clip.webm", made_videos.grey, TONE, 6.0))
    unknown = of_unknown_size(path.read_bytes())
    path.write_bytes(unknown)
    assert end_details(decoded(str(path)))["rows"] == 6
    path.write_bytes(unknown[: len(unknown) // 2])
    with pytest.raises(DecodeError, match=r"it is cut: .*\d\.\d of 6\.\d seconds"):
        decoded(str(path))
    duration = unknown.index(b"\x44\x89\x88")
    path.write_bytes(unknown[:duration] + b"\xec\x89" + bytes(9) + unknown[duration + 11 :])  # Void in its place
    assert PERHAPS_CUT in end_details(decoded(str(path)))["notes"]


@pytest.mark.promise("X7")
@pytest.mark.parametrize(
    "content",
    [
        b"hello" * 100,
        b"\x1a\x45\xdf\xa3" + bytes(400),
        b"#EXTM3U\n#EXTINF:1,\nsecret.mp4\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile secret.mp4\n",
    ],
)
def test_foreign_files_are_refused_and_name_no_others(tmp_path: pathlib.Path, content: bytes) -> None:
    made_videos.write(tmp_path / "secret.mp4", made_videos.grey, None, 2.0)
    for name in ("clip.mp4", "clip.m3u8", "clip.txt"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DecodeError):
            decoded(str(tmp_path / name))


def test_a_frame_rate_that_is_no_whole_number(tmp_path: pathlib.Path) -> None:
    path = made_videos.write(tmp_path / "clip.mp4", made_videos.grey, None, 12.0, fps=Fraction(196, 10))
    np.testing.assert_allclose(levels(decoded(path)), [8 * second for second in range(12)], atol=2)
