"""Small videos made by PyAV: moving shapes with tones, in several containers and codecs."""

from __future__ import annotations

import heapq
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

# A module `av` of another version, which can open no video.
FAILING_AV = """
__version__ = "19.0.0"

class error:
    class FFmpegError(Exception):
        pass

def open(file, **options):
    raise TypeError("open() got an unexpected keyword argument 'metadata_errors'")
"""
KINDS = ("square", "stripes", "disc")
_TONES = {"square": 300.0, "stripes": 900.0, "disc": 2500.0}
CODECS = {
    "mp4": ("libx264", "aac"),
    "m4v": ("mpeg4", "aac"),
    "mov": ("libx264", "pcm_s16le"),
    "3gp": ("mpeg4", "aac"),
    "webm": ("libvpx-vp9", "libopus"),
    "mkv": ("ffv1", "pcm_s16le"),
    "avi": ("mpeg4", "mp3"),
    "mpg": ("mpeg2video", "mp2"),
    "mpeg": ("mpeg1video", "mp2"),
    "ts": ("libx264", "aac"),
    "flv": ("flv", "mp3"),
    "wmv": ("wmv2", "wmav2"),
    "ogv": ("libvpx", "libopus"),
}
SOUND_CODECS = {"mp3": "mp3", "m4a": "aac", "wav": "pcm_s16le", "flac": "flac", "ogg": "flac", "opus": "libopus"}
_REALTIME = {"deadline": "realtime", "cpu-used": "8"}
_QUICK = {"libx264": {"preset": "ultrafast"}, "libvpx-vp9": _REALTIME, "libvpx": _REALTIME}
_OF_FIXED_RATES = {"mpeg2video": 25, "mpeg1video": 25}  # {codec that takes few frame rates: one that it takes}

Picture = Callable[[float], np.ndarray]  # from a time in seconds to the picture at that time, uint8 [H, W, 3]
Tone = Callable[[np.ndarray], np.ndarray]  # from times in seconds to the samples at these times, from -1 to 1


def shape(kind: str, height: int = 48, width: int = 64, seed: int = 0) -> Picture:
    """A bright shape that moves over a dark background."""
    draw = np.random.default_rng(seed)
    back, front = draw.integers(0, 60, 3), draw.integers(160, 256, 3)
    speed, phase = draw.uniform(3, 12), draw.uniform(0, 6)
    rows, columns = np.mgrid[:height, :width]

    def picture(second: float) -> np.ndarray:
        x = width / 2 + width / 4 * np.sin(second * speed / 4 + phase)
        y = height / 2 + height / 4 * np.cos(second * speed / 5 + phase)
        inside = {
            "square": (abs(columns - x) < height / 5) & (abs(rows - y) < height / 5),
            "disc": (columns - x) ** 2 + (rows - y) ** 2 < (height / 4) ** 2,
            "stripes": (columns + rows + int(second * speed)) % 12 < 6,
        }[kind]
        return np.where(inside[..., np.newaxis], front, back).astype(np.uint8)

    return picture


def tone(kind: str, seed: int = 0) -> Tone:
    """The tone of a kind; its frequency differs a little from one seed to another."""
    hertz = _TONES[kind] * np.random.default_rng(seed).uniform(0.95, 1.05)
    return lambda seconds: 0.4 * np.sin(2 * np.pi * hertz * seconds)


def grey(second: float) -> np.ndarray:
    """A plain picture whose brightness grows by 8 a second, until 32 seconds."""
    return np.full((32, 32, 3), min(255, round(second * 8)), np.uint8)


def write(
    path: pathlib.Path,
    picture: Picture | None,
    sound: Tone | None,
    seconds: float = 2.0,
    *,
    fps: Fraction | int = 10,
    times: Sequence[float] | None = None,
    rate: int = 44100,
    channels: int = 1,
    codecs: tuple[str, str] | None = None,
    pixels: str = "",
    options: Mapping[str, str] | None = None,
    more: Callable[[Any], None] | None = None,
) -> str:
    """Writes a video and returns its path.

    Args:
      path: path of the file; its ending determines the container.
      picture, sound: what the video shows and plays; None for no such stream.
      seconds: length of the video.
      fps: frames per second.
      times: the second at which each frame is shown, for a variable frame rate; None for the constant rate `fps`.
      rate, channels: sample rate and number of channels of the sound; all channels have the same sound.
      codecs: (codec of the pictures, codec of the sound); None for the usual ones of the container.
      pixels: the pixel format; empty for the usual one of the codec.
      options: further options of the encoder of the pictures, such as `g`, the number of frames between keyframes.
      more: function that is called with the container before its streams are written.
    """
    import av

    ending = path.suffix[1:]
    video_codec, audio_codec = codecs or CODECS.get(ending) or ("", SOUND_CODECS[ending])
    fps = _OF_FIXED_RATES.get(video_codec, fps)
    with av.open(str(path), "w") as container:
        if more is not None:
            more(container)
        packets: list[Iterator[tuple[float, Any]]] = []
        if picture is not None:
            first = picture(0.0)
            chosen = {**_QUICK.get(video_codec, {}), **(options or {})}
            video = container.add_stream(video_codec, rate=Fraction(fps), options=chosen)
            video.height, video.width = first.shape[:2]
            video.pix_fmt = pixels or ("bgr0" if video_codec == "ffv1" else "yuv420p")
            packets.append(_encoded_pictures(video, picture, seconds, Fraction(fps), times))
        if sound is not None:
            layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
            audio = container.add_stream(audio_codec, rate=48000 if audio_codec == "libopus" else rate, layout=layout)
            audio.bit_rate = 96000
            packets.append(_encoded_sound(audio, sound, seconds, channels))
        for _, several in heapq.merge(*packets, key=lambda pair: pair[0]):
            container.mux(several)
    return str(path)


def turn(path: str) -> str:
    """Turns an mp4 a quarter clockwise as phones do, by the matrix in the track's header; returns the path."""
    file = pathlib.Path(path)
    content, one = file.read_bytes(), (1 << 16).to_bytes(4, "big")
    none, minus, last = bytes(4), (-(1 << 16)).to_bytes(4, "big", signed=True), (1 << 30).to_bytes(4, "big")
    upright = one + none * 3 + one + none * 3 + last
    quarter = none + one + none + minus + none * 4 + last
    place = content.index(upright, content.index(b"tkhd"))
    file.write_bytes(content[:place] + quarter + content[place + len(quarter) :])
    return path


def write_kinds(folder: pathlib.Path, count: int) -> None:
    """Writes `count` videos into a folder for each kind. Every fourth is larger, so that batches have two shapes."""
    for number in range(count):
        kind = KINDS[number % 3]
        (folder / kind).mkdir(exist_ok=True)
        picture = shape(kind, *((48, 64) if number % 4 else (64, 96)), seed=number)
        write(folder / kind / f"{number}.mp4", picture, tone(kind, number), 2.0 + number % 3)


def _encoded_pictures(
    stream: Any, picture: Picture, seconds: float, fps: Fraction, times: Sequence[float] | None
) -> Iterator[tuple[float, Any]]:
    """Yields (time in seconds, packets) of the pictures, so that the streams can be interleaved by time."""
    import av

    shown = [number / float(fps) for number in range(round(seconds * fps))] if times is None else times
    unit = Fraction(1, 1000) if times is not None else 1 / fps
    stream.codec_context.time_base = unit
    for number, second in enumerate(shown):
        frame = av.VideoFrame.from_ndarray(picture(second), format="rgb24").reformat(format=stream.pix_fmt)
        frame.pts = number if times is None else round(second * 1000)
        frame.time_base = unit
        yield second, stream.encode(frame)
    yield seconds, stream.encode(None)


def _encoded_sound(stream: Any, sound: Tone, seconds: float, channels: int) -> Iterator[tuple[float, Any]]:
    """Yields (time in seconds, packets) of the sound."""
    import av

    rate, size = stream.rate, 1152 if stream.name in ("mp2", "mp3", "libmp3lame") else 1024
    samples = sound(np.arange(round(seconds * rate)) / rate).astype(np.float32)
    resampler = av.AudioResampler(stream.format.name, stream.layout.name, rate, size)
    for start in range(0, len(samples), size):
        part = np.repeat(samples[np.newaxis, start : start + size], channels, axis=0)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(part), format="fltp", layout=stream.layout.name)
        frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
        for converted in resampler.resample(frame):
            yield start / rate, stream.encode(converted)
    for converted in resampler.resample(None):
        yield seconds, stream.encode(converted)
    yield seconds, stream.encode(None)
