"""Planted spans: films of noise in which classes are seen for a while, learned by `yt8m train` without a flag.

`python -m benchmarks.spans [SEED ...]` prints mAP at tIoU 0.5 of the model and of an oracle, which knows the planted
cells and whose spans are joined by the same rule, on films that were not trained on. The share of both is the figure.
"""

from __future__ import annotations

import csv
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import yt8m
from benchmarks.measure import Measured, repeat
from yt8m.command_line import cli
from yt8m.eval_util.span_joining import JoinRule, join_cells
from yt8m.eval_util.span_metrics import MatchedSpans, SpanTable
from yt8m.tables.words.times import union

CLASSES, SIZE, NOISE = 30, 64, 1.0
_WIDE = 1152  # values of a frame of YouTube-8M


class PlantedFilm(NamedTuple):
    """A film: its frames, float32 [T, size], one a second, and its spans (class, start, end) in seconds."""

    frames: np.ndarray
    spans: list[tuple[int, float, float]]


def films(seed: int, count: int = 400, longest: int = 300, noise: float = NOISE, size: int = SIZE) -> list[PlantedFilm]:
    """Films of 60 to 300 s with 0 to 6 spans of 2 to 40 s, which may overlap; noise of films and of frames is added."""
    draw = np.random.default_rng(seed)
    prototypes = np.random.default_rng(1000 + seed).normal(size=(CLASSES, size)).astype(np.float32)
    made = []
    for _ in range(count):
        seconds = int(draw.integers(60, longest + 1))
        frames = noise * draw.normal(size=(seconds, size)) + 0.3 * draw.normal(size=size)
        spans = []
        for _ in range(int(draw.integers(0, 7))):
            length = float(np.exp(draw.uniform(np.log(2), np.log(40))))
            start = float(draw.uniform(0, seconds - length))
            number = int(draw.integers(0, CLASSES))
            spans.append((number, start, start + length))
            edges = np.arange(seconds)
            share = np.clip(np.minimum(edges + 1, start + length) - np.maximum(edges, start), 0, 1)
            frames += share[:, None] * prototypes[number]
        made.append(PlantedFilm(frames.astype(np.float32), spans))
    return made


def split_of(number: int, count: int) -> str:
    """The split of a film: three fifths are for training, a fifth each for validation and test."""
    return ("train", "validate", "test")[int(np.searchsorted((0.6, 0.8), number / count, "right"))]


def write(folder: pathlib.Path, planted: list[PlantedFilm]) -> None:
    """Writes arrays of the frames and a table of the spans; splits train, validate and test."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "spans.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("video", "path", "label", "start", "end", "split"))
        for number, film in enumerate(planted):
            np.save(folder / f"film{number}.npy", film.frames)
            rows = [(f"class {k:02}", f"{start:.3f}", f"{end:.3f}") for k, start, end in film.spans]
            for row in rows or [("", "", "")]:
                writer.writerow((f"film{number}", f"film{number}.npy", *row, split_of(number, len(planted))))


class SpanShare(NamedTuple):
    """mAP at tIoU 0.5 of a model and of the oracle, and the seconds of the training."""

    model: float
    oracle: float
    seconds: float


def measure(folder: pathlib.Path, planted: list[PlantedFilm], flags: Sequence[str] = ()) -> SpanShare:
    """Makes records, trains, chooses the rule on the split validate, and measures on the split test."""
    write(folder, planted)
    words = [f"--table={folder}/spans.csv", f"--out={folder}/data", "--level=frame", "--rows=spans", "--segment_size=1"]
    call("make-records", *words)
    start = time.monotonic()
    call("train", f"--data={folder}/data/frame/train/*.tfrecord", f"--train_dir={folder}/run", *flags)
    seconds = time.monotonic() - start
    call("eval", f"--train_dir={folder}/run", f"--eval_data_pattern={folder}/data/frame/validate/*.tfrecord", "--spans")
    rule = JoinRule(**json.loads((folder / "run" / "eval" / "spans.json").read_text())["rule"])
    tests = [number for number in range(len(planted)) if split_of(number, len(planted)) == "test"]
    with yt8m.load(folder / "run") as model:
        rows = model.spans(f"{folder}/data/frame/test/*.tfrecord")
    found = [(int(row["video"][4:]), int(row["class"][6:]), row["start"], row["end"], row["score"]) for row in rows]
    true = [(number, *span, 0.0) for number in tests for span in planted[number].spans]
    oracle = [(number, *span) for number in tests for span in oracle_spans(planted[number], rule)]
    figures = [figure(true, spans) for spans in (found, oracle)]
    return SpanShare(figures[0], figures[1], seconds)


def oracle_spans(film: PlantedFilm, rule: JoinRule) -> list[tuple[int, float, float, float]]:
    """The spans of somebody who knows which cells show which class, joined by a rule; (class, start, end, score)."""
    shown = np.zeros((len(film.frames), CLASSES))
    edges = np.arange(len(film.frames))
    for number in range(CLASSES):
        covered = np.zeros(len(edges))
        for start, end in union([(start, end) for each, start, end in film.spans if each == number]):
            covered += np.clip(np.minimum(edges + 1, end) - np.maximum(edges, start), 0, 1)
        shown[:, number] = covered >= 0.5
    columns = join_cells(shown.astype(np.float32), np.full(CLASSES, 0.5), rule)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def figure(true: Sequence[Sequence[float]], found: Sequence[Sequence[float]]) -> float:
    """mAP at tIoU 0.5 of spans (video, class, start, end, score)."""
    tables = []
    for spans in (true, found):
        videos, classes, first, last, scores = np.array(spans, np.float64).reshape(-1, 5).T
        tables.append(SpanTable(videos.astype(np.int64), classes.astype(np.int64), first, last, scores))
    return float(MatchedSpans(tables[0], tables[1], (0.5,)).figures().aps.mean())


def an_hour(repeats: int) -> Measured:
    """The spans of a film of an hour, from features as wide as YouTube-8M's: an example is the film."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder, films(1, 30, longest=70, size=_WIDE))
        words = [f"--table={folder}/spans.csv", f"--out={folder}/data", "--level=frame", "--rows=spans"]
        call("make-records", *words, "--segment_size=1")
        flags = ["--model=FrameLevelLogisticModel", "--segment_context=5", "--max_steps=1", "--export_model_steps=none"]
        call("train", f"--data={folder}/data/frame/train/*.tfrecord", f"--train_dir={folder}/run", *flags)
        frames = np.random.default_rng(0).normal(size=(1, 3600, _WIDE)).astype(np.float32)
        with yt8m.load(folder / "run") as model:
            (feature,) = model._scorer.takes.format.sizes()
            model.spans({feature: frames[:, :100]})  # the graph is built
            return repeat(lambda: model.spans({feature: frames}), 1, repeats)


def call(name: str, *words: str) -> None:
    """Runs a command, which must succeed."""
    if status := cli.call(name, list(words)):
        raise SystemExit(f"{name} ended with status {status}")


def main() -> int:
    """Prints a line for each SEED or SEED:NOISE."""
    for word in sys.argv[1:] or ("1", "2"):
        seed, _, noise = word.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            share = measure(pathlib.Path(folder), films(int(seed), noise=float(noise or NOISE)))
        ratio = f"{share.model / share.oracle:.1%} in {share.seconds:.0f} s"
        print(f"{word}: mAP@0.5 {share.model:.3f}, oracle {share.oracle:.3f}: {ratio}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
