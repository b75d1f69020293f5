"""Copies of real files: shorter, of another codec, size and bitrate, all extracted by the command."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib

import made_videos
import numpy as np
import pytest
from made_videos import Picture

from yt8m.command_line import cli
from yt8m.config.programs import AuditConfig
from yt8m.labels.video_copies import VectorWriter, VideoVectors, find_copies
from yt8m.records.batches import read_records

VIDEOS, COPIED, SECONDS = 240, 40, 10.0
MPEG4 = ("mpeg4", "aac")


def scene(seed: int, height: int = 48, width: int = 64) -> Picture:
    """Broad patches of colour, which a camera pans over, behind two things that move."""
    draw = np.random.default_rng([seed, 7])
    patches = draw.integers(0, 256, (5, 9, 3))
    things = [made_videos.shape(kind, height, width, seed) for kind in draw.choice(["square", "disc"], 2)]
    rows = np.linspace(0, 3.99, height)

    def picture(second: float) -> np.ndarray:
        columns = np.linspace(0, 4.99, width) + 0.3 * second
        behind = patches[rows.astype(int)][:, columns.astype(int)].astype(np.uint8)
        for thing in things:
            shown = thing(second)
            behind = np.where((shown > 100).any(2, keepdims=True), shown, behind)
        return behind

    return picture


def crop(picture: Picture, start: float) -> Picture:
    return lambda second: picture(second + start)


def write_clips(folder: pathlib.Path) -> None:
    """Writes the videos, and three copies of the first ones."""
    for number in range(VIDEOS):
        picture = scene(number)
        made_videos.write(folder / f"v{number:03}.mp4", picture, None, SECONDS, fps=5)
        if number >= COPIED:
            continue
        # Up to 3 of the 10 seconds are cut off, at the start or at the end or both.
        start, length = (number % 3, SECONDS - 3) if number % 2 else (0, SECONDS - 1 - number % 3)
        made_videos.write(folder / f"crop{number:03}.mp4", crop(picture, start), None, length, fps=5)
        low = {"crf": "38"}
        made_videos.write(folder / f"h264{number:03}.mp4", scene(number, 72, 96), None, SECONDS, fps=8, options=low)
        made_videos.write(folder / f"mpeg4{number:03}.mp4", scene(number, 36, 48), None, SECONDS, codecs=MPEG4)


@pytest.mark.heavy
def test_copies_of_files_are_found_and_no_others(tmp_path: pathlib.Path) -> None:
    (tmp_path / "clips").mkdir()
    write_clips(tmp_path / "clips")
    table = tmp_path / "clips.csv"
    names = sorted(path.name for path in (tmp_path / "clips").iterdir())
    table.write_text("\n".join(["path,labels", *(f"clips/{name},clip" for name in names)]) + "\n")
    words = [f"--videos={table}", f"--out={tmp_path}/data", "--extractors=own_extractors:Thumbnails", "--level=video"]
    assert cli.call("extract", [*words, "--jobs=2"]) == 0
    ids, path = list[str](), tmp_path / "vectors.f16"
    with path.open("wb") as file:
        writer = VectorWriter(file)
        for batch in read_records(f"{tmp_path}/data/video/*/*.tfrecord"):
            writer.add(batch)
            ids += batch.ids
    similarity = {field.name: field.default for field in dataclasses.fields(AuditConfig)}["similarity"]
    pairs = find_copies(VideoVectors(str(path), len(ids)), writer.digests(), similarity)
    found = {frozenset(pathlib.Path(ids[place]).name for place in pair) for pair in zip(*pairs[:2], strict=True)}
    groups = [[f"{kind}{number:03}.mp4" for kind in ("crop", "h264", "mpeg4", "v")] for number in range(COPIED)]
    expected = {frozenset(pair) for group in groups for pair in itertools.combinations(group, 2)}
    assert len(found & expected) >= 0.98 * len(expected)
    assert len(found - expected) <= 1e-6 * len(ids) * (len(ids) - 1) / 2
