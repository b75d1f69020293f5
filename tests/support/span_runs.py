"""Films with planted spans, as records, and a run that was trained on their cells."""

from __future__ import annotations

import csv
import pathlib

import numpy as np

from yt8m.command_line import cli

CELL = 2  # seconds
NAMES = ("weld", "cut", "bend")
SECONDS = 60
TRAINED, FILMS = 16, 24  # the first films are for training, the others for validation


def make(folder: pathlib.Path) -> None:
    """Makes films, records in `data`, and the run `run`."""
    make_films(folder)
    make_records(folder, "data")
    words = [f"--data={folder}/data/frame/train/*.tfrecord", f"--train_dir={folder}/run", "--num_epochs=60"]
    words += ["--model=FrameLevelLogisticModel", "--batch_size=64", "--base_learning_rate=0.1"]
    assert cli.call("train", words) == 0


def make_films(folder: pathlib.Path) -> None:
    """Makes `spans.csv`, and an array for each film `v0` and so on."""
    draw, rows = np.random.default_rng(3), [("video", "path", "label", "start", "end", "split")]
    for number in range(FILMS):
        frames = draw.normal(size=(SECONDS, 6)).astype(np.float32)
        split = "train" if number < TRAINED else "validate"
        for index, name in enumerate(NAMES):
            start = int(draw.integers(0, 20)) * CELL
            end = start + int(draw.integers(3, 8)) * CELL
            frames[start:end, index] += 6
            rows.append((f"v{number}", f"v{number}.npy", name, str(start), str(end), split))
        np.save(folder / f"v{number}.npy", frames)
    with (folder / "spans.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def make_records(folder: pathlib.Path, name: str, *flags: str, cell: int = CELL) -> None:
    """Makes records of frames with the spans."""
    words = [f"--table={folder}/spans.csv", f"--out={folder}/{name}", "--level=frame", "--rows=spans", "--shards=1"]
    assert cli.call("make-records", [*words, f"--segment_size={cell}", *flags]) == 0


def evaluate(folder: pathlib.Path, *flags: str) -> int:
    """Chooses on the films of validation how cells are joined."""
    data = f"--eval_data_pattern={folder}/data/frame/validate/*.tfrecord"
    return cli.call("eval", [f"--train_dir={folder}/run", data, "--spans", *flags])


def make_evaluated(folder: pathlib.Path) -> None:
    """Both."""
    make(folder)
    assert evaluate(folder) == 0
