"""Rankings of several processes, joined, against the ranking of one."""

from __future__ import annotations

import io
import pathlib

import numpy as np
import pytest

from yt8m.commands import segment_inference
from yt8m.commands.segment_inference import SegmentRanking
from yt8m.errors import RunError


def ranking(names: list[bytes], scores: np.ndarray, most: int) -> SegmentRanking:
    made = SegmentRanking([7, 3], most)
    made.add(names, scores)
    return made


def written(folder: pathlib.Path, rankings: list[SegmentRanking | None]) -> list[str]:
    """The parts; that of None is of a process without files."""
    paths = []
    for at, one in enumerate(rankings):
        paths.append(str(folder / f"part-{at}"))
        with open(paths[-1], "wb") as file:
            if one is not None:
                segment_inference.write_part(file, one)
    return paths


@pytest.mark.parametrize("most", [5, 40, 1000])
def test_parts_joined_are_the_whole(tmp_path: pathlib.Path, most: int) -> None:
    draw = np.random.default_rng(most)
    names = [b"v%d:%d" % (video, 5 * place) for video in range(12) for place in range(10)]
    scores = draw.normal(size=(len(names), 2)).round(1).astype(np.float32)  # with ties, and below 0
    scores[draw.random(scores.shape) < 0.2] = -np.inf
    whole, joined = io.BytesIO(), io.BytesIO()
    segment_inference.write(whole, ranking(names, scores, most))
    cuts = [(0, 30), (30, 40), (40, 120)]
    parts = [ranking(names[start:end], scores[start:end], most) for start, end in cuts]
    parts.append(ranking([], scores[:0], most))
    segment_inference.join_parts(joined, written(tmp_path, [*parts[:1], None, *parts[1:]]), most)
    assert joined.getvalue() == whole.getvalue()
    assert len(whole.getvalue().split()) > 6


def test_what_cannot_be_joined(tmp_path: pathlib.Path) -> None:
    none = np.zeros((0, 2), np.float32)
    with pytest.raises(RunError, match="hold no frame"):
        segment_inference.join_parts(io.BytesIO(), written(tmp_path, [ranking([], none, 5), None]), 5)
    paths = written(tmp_path, [ranking([b"a:0"], np.ones((1, 2), np.float32), 5)] * 2)
    (tmp_path / "part-1").write_bytes(b"8,a:0 3\n")
    with pytest.raises(RunError, match="list different classes"):
        segment_inference.join_parts(io.BytesIO(), paths, 5)
