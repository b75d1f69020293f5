"""Small runs and shards for the tests of `yt8m bulk`."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence

import numpy as np
from reader_records import frame_record, video_record, write_shard

from yt8m import inference, train
from yt8m.records import vocabulary
from yt8m.records.vocabulary import Vocabulary

VIDEO = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=6,3", "--num_classes=7"]
FRAME = ["--frame_features", "--feature_names=rgb,audio", "--feature_sizes=6,3", "--num_classes=7", "--max_frames=40"]


def video_shards(folder: pathlib.Path, sizes: tuple[int, ...], seed: int = 0) -> str:
    """Writes shards with these numbers of videos, and a vocabulary with counts; returns the pattern of the shards."""
    draw, folder = np.random.default_rng(seed), folder / f"video{seed}"
    folder.mkdir()
    for number, size in enumerate(sizes):
        records = []
        for video in range(size):
            vector = draw.normal(size=9).astype(np.float32)
            labels = sorted({int(np.argmax(vector[:7])), int(draw.integers(7))})
            name = f"s{number}v{video}" + ', "x"' * (video == 1)
            records.append(video_record(id=[name.encode()], labels=labels, mean_rgb=vector[:6], mean_audio=vector[6:]))
        write_shard(folder / f"part{number}.tfrecord", records)
    names = tuple(f"name {index}" for index in range(7))
    vocabulary.write(str(folder / vocabulary.NAME), Vocabulary(names, np.arange(7), ("",) * 7))
    return f"{folder}/part*.tfrecord"


def frame_shards(folder: pathlib.Path, sizes: tuple[int, ...], is_rated: bool = False) -> str:
    """Writes shards with these numbers of frame-level records; returns their pattern.

    If `is_rated`, a record has 1 to 3 ratings. The frames have few different values, so that some scores are equal.
    """
    draw, folder = np.random.default_rng(3), folder / ("rated" if is_rated else "frame")
    folder.mkdir()
    for number, size in enumerate(sizes):
        records = []
        for video in range(size):
            count = int(draw.integers(3, 40))
            frames = {
                "rgb": draw.integers(0, 3, (count, 6)).astype(np.uint8) * 100,
                "audio": np.ones((count, 3), np.uint8),
            }
            context = {"id": [f"s{number}v{video}".encode()], "labels": [video % 7]}
            if is_rated:
                ratings = range(1 + video % 3)
                context["segment_start_times"] = [5 * place for place in ratings]
                context["segment_labels"] = [(video + place) % 7 for place in ratings]
                context["segment_scores"] = [1.0 - place % 2 for place in ratings]
            records.append(frame_record(context, frames))
        write_shard(folder / f"part{number}.tfrecord", records)
    return f"{folder}/part*.tfrecord"


def lines_of(output: pathlib.Path) -> list[str]:
    """The lines of all prediction files in a folder, in the order of the shards, after one header."""
    texts = [path.read_text().splitlines() for path in sorted(output.glob("part*.csv"))]
    return [texts[0][0], *(line for text in texts for line in text[1:])]


def predictions(run: str, pattern: str, folder: pathlib.Path) -> list[str]:
    """The lines of the file that inference.py writes into `folder`."""
    words = [f"--train_dir={run}", f"--input_data_pattern={pattern}", f"--output_file={folder}/whole.csv"]
    assert inference.main([*words, "--batch_size=4"]) == 0
    return (folder / "whole.csv").read_text().splitlines()


def same_rows(found: list[str], expected: list[str]) -> bool:
    """Whether two prediction files have the same videos and classes in the same order, and the same scores.

    The last digit of a score may differ, because its rounding depends on the position of the video in its batch.
    """
    return len(found) == len(expected) and all(itertools.starmap(_is_same_row, zip(found, expected, strict=True)))


def _is_same_row(found: str, expected: str) -> bool:
    (video, words), (other_video, other_words) = (row.rpartition(",")[::2] for row in (found, expected))
    if video == "VideoId":
        return found == expected
    ours, theirs = words.split(), other_words.split()
    # One unit of the last of six digits is up to 1e-5 of a score that begins with 1.
    scores = np.allclose(np.array(ours[1::2], float), np.array(theirs[1::2], float), rtol=1.001e-5, atol=0)
    return (video, ours[::2]) == (other_video, theirs[::2]) and scores


def trained(folder: pathlib.Path, pattern: str, model: str, *features: str) -> str:
    """Trains a model for a few steps, with the flags `features`; returns the folder of the run."""
    run = str(folder / "run")
    words = [f"--train_data_pattern={pattern}", f"--train_dir={run}", f"--model={model}", "--max_steps=6"]
    assert train.main([*words, "--batch_size=8", "--base_learning_rate=0.3", *features]) == 0
    return run


def trained_on_videos(folder: pathlib.Path, sizes: Sequence[int]) -> tuple[str, str]:
    """Writes shards with these numbers of videos, and trains a MoeModel; returns (folder of the run, pattern)."""
    pattern = video_shards(folder, sizes)
    return trained(folder, pattern, "MoeModel", *VIDEO), pattern
