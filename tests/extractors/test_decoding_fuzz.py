"""Damaged videos: none ends the pool or hangs, nothing is written, and every cut file is told."""

from __future__ import annotations

import os
import pathlib

import made_videos
import numpy as np
import pytest

from yt8m.extractors.base import Sound
from yt8m.extractors.decoder_pool import DecoderPool, Decoding, Limits
from yt8m.extractors.decoding import DecodeError, Request

_LIMITS = Limits(seconds=60.0, megabytes=2048)
_KINDS = ("cut", "flipped", "zeroed", "removed", "repeated", "swapped")


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("bases")
    return {
        ending: pathlib.Path(
            made_videos.write(folder / f"base.{ending}", made_videos.shape("disc"), made_videos.tone("disc"), 2.0)
        ).read_bytes()
        for ending in ("mp4", "webm", "mkv")
    }


def damaged(content: bytes, kind: str, draw: np.random.Generator) -> bytes:
    first, second = sorted(draw.integers(0, len(content), 2).tolist())
    second = min(max(second, first + 1), first + 4000)
    if kind == "cut":
        return content[:first]
    if kind == "removed":
        return content[:first] + content[second:]
    if kind == "repeated":
        return content[:second] + content[first:]
    if kind == "swapped":
        middle = (first + second) // 2
        return content[:first] + content[middle:second] + content[first:middle] + content[second:]
    changed = bytearray(content)
    if kind == "zeroed":
        changed[first:second] = bytes(second - first)
    else:
        # half of the damage is near the beginning, where the containers describe what follows
        most = len(content) if draw.random() < 0.5 else 600
        for place in draw.integers(0, most, int(draw.integers(1, 40))).tolist():
            changed[place] = int(draw.integers(0, 256))
    return bytes(changed)


def outcome(decoding: Decoding) -> str:
    """Empty if the video gave features without an error."""
    try:
        kinds = [message.kind for message in decoding.messages()]
    except DecodeError as error:
        return str(error)
    assert kinds[-1] == "end"
    return ""


@pytest.mark.promise("X7")
@pytest.mark.parametrize(
    "count", [60, pytest.param(2000, marks=[pytest.mark.heavy, pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_damaged_videos(bases: dict[str, bytes], tmp_path: pathlib.Path, count: int) -> None:
    draw, requests, kinds = np.random.default_rng(count), [], []
    for number in range(count):
        ending, kind = list(bases)[number % 3], _KINDS[number // 3 % len(_KINDS)]
        path = tmp_path / f"{number}.{ending}"
        path.write_bytes(damaged(bases[ending], kind, draw))
        requests.append(Request(str(path), pictures=(None,), sounds=(Sound(16000, 15600, 16000),)))
        kinds.append(kind)
    before = sorted(os.listdir(tmp_path))
    with DecoderPool(2, _LIMITS) as pool:
        found = [outcome(decoding) for decoding in pool.decode(requests)]
    assert len(found) == count
    assert [number for number, told in enumerate(found) if kinds[number] == "cut" and not told] == []
    assert [told for told in found if "takes longer" in told] == []
    assert sum(map(bool, found)) > count / 6  # the damage is felt
    assert sorted(os.listdir(tmp_path)) == before
