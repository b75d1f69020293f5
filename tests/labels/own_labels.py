"""300 videos of three classes, with errors planted in their labels and ten copies, as records."""

from __future__ import annotations

import pathlib

import numpy as np

from yt8m.command_line import cli

NAMES = ("cat", "dog", "bird")
WRONG = range(7, 300, 25)  # these videos have another label than their own
MISSING = range(4, 300, 20)  # these show a second class that is no label
COPIED = range(30, 40)  # these come a second time, as `copy 030` and so on; the even ones with a little noise


def write_table(folder: pathlib.Path) -> None:
    """Writes the table `clips.npz`; a class shows in one of 16 values."""
    rng = np.random.default_rng(0)
    features = rng.normal(0, 0.4, (300, 16)).astype(np.float32)
    labels = []
    for number in range(300):
        features[number, number % 3] += 2
        if number in MISSING:
            features[number, (number + 1) % 3] += 2
        labels.append(NAMES[(number + (2 if number in WRONG else 0)) % 3])
        if number % 20 == 14:  # videos of two classes, both labelled
            features[number, (number + 1) % 3] += 2
            labels[-1] += f";{NAMES[(number + 1) % 3]}"
    ids = [f"clip {number:03}" for number in range(300)] + [f"copy {number:03}" for number in COPIED]
    noise = rng.normal(0, 0.02, (len(COPIED), 16)) * (1 - np.array(COPIED) % 2)[:, np.newaxis]
    features = np.concatenate([features, (features[COPIED] + noise).astype(np.float32)])
    np.savez(folder / "clips.npz", id=ids, labels=labels + [labels[number] for number in COPIED], clip=features)


def make_records(folder: pathlib.Path, *words: str) -> str:
    """Makes the records; returns their pattern."""
    assert cli.main(["make-records", f"--table={folder}/clips.npz", f"--out={folder}/data", *words]) == 0
    return f"{folder}/data/video/*/*.tfrecord"
