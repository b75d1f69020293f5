"""Records of one's own small data for tests of the search, made by `make-records`."""

from __future__ import annotations

import pathlib

import numpy as np

from yt8m.command_line import cli


def write_rings(folder: pathlib.Path, videos: int = 400, splits: str = "train,validate,test") -> str:
    """Videos of three rings in two of eight values, which no linear model tells apart; returns the training pattern."""
    draw, names = np.random.default_rng(4), splits.split(",")
    ring, angle = draw.integers(0, 3, videos), draw.uniform(0, 2 * np.pi, videos)
    features = draw.normal(size=(videos, 8)).astype(np.float32)
    radius = ring + 1 + 0.1 * draw.normal(size=videos)
    features[:, 0], features[:, 1] = radius * np.cos(angle), 100 * radius * np.sin(angle)
    np.save(folder / "x.npy", features)
    rows = [f"v{k},ring {ring[k]},{names[(0, 0, 0, 1, 2)[k % 5] % len(names)]}" for k in range(videos)]
    (folder / "t.csv").write_text("\n".join(["id,labels,split", *rows]) + "\n")
    words = [f"--table={folder}/t.csv", f"--array={folder}/x.npy", "--feature_names=clip", "--shards=2"]
    assert cli.main(["make-records", *words, f"--out={folder}/data"]) == 0
    return f"{folder}/data/video/train/*.tfrecord"


def write_frames(folder: pathlib.Path, videos: int = 120) -> str:
    """Videos of ten frames of two classes, each of which shows in one of four values; returns the training pattern."""
    draw = np.random.default_rng(5)
    rows = ["id,path,labels,split"]
    for number in range(videos):
        frames = draw.normal(size=(10, 4)).astype(np.float32)
        frames[:, number % 2] += 2
        np.save(folder / f"{number}.npy", frames)
        split = ("train", "train", "train", "validate", "test")[number // 2 % 5]
        rows.append(f"v{number},{number}.npy,class {number % 2},{split}")
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    words = [f"--table={folder}/t.csv", "--feature_names=clip", "--level=frame", "--shards=2"]
    assert cli.main(["make-records", *words, f"--out={folder}/data"]) == 0
    return f"{folder}/data/frame/train/*.tfrecord"
