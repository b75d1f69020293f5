"""How cells become spans is chosen on the labels of whole videos where nobody has marked spans."""

from __future__ import annotations

import csv
import json
import pathlib

import numpy as np
import pytest
from own_clips import write_table
from planted_films import NAMES, OPTIONS, Span, films, share_found

from yt8m.command_line import cli
from yt8m.eval_util.span_joining import JoinRule
from yt8m.scoring.film_spans import Joining
from yt8m.scoring.label_joining import BestCells


def make(folder: pathlib.Path, name: str, count: int, seed: int) -> list[list[Span]]:
    """Writes frame records with the labels of films; returns the planted spans."""
    frames, spans = films(count, seed)
    (folder / name).mkdir()
    for number, values in enumerate(frames):
        np.save(folder / name / f"{number:03}.npy", values)
    rows = [
        (f"{number:03}", f"{name}/{number:03}.npy", ";".join(sorted({span[2] for span in planted})))
        for number, planted in enumerate(spans)
    ]
    table = write_table(folder / f"{name}.csv", rows)
    words = [f"--table={table}", f"--out={folder}/{name}_data", "--level=frame", "--splits=all:1", "--shards=1"]
    (folder / "classes.csv").write_text("\n".join(["name", *NAMES]) + "\n")
    assert cli.call("make-records", [*words, f"--vocabulary={folder}/classes.csv"]) == 0
    return spans


@pytest.mark.long
def test_a_run_finds_spans_after_its_evaluation(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, "some", 150, 0)
    spans = make(tmp_path, "others", 40, 1)
    run, others = tmp_path / "run", f"{tmp_path}/others_data/frame/all/*.tfrecord"
    words = [f"--{name}={value}" for name, value in OPTIONS.items()]
    words += ["--model=FrameLevelLogisticModel", f"--train_dir={run}"]
    assert cli.call("train", [f"--data={tmp_path}/some_data/frame/all/*.tfrecord", *words]) == 0
    assert shares(run, others, spans)[1] < 0.3
    capsys.readouterr()
    evaluate = [f"--train_dir={run}", f"--eval_data_pattern={tmp_path}/some_data/frame/all/*.tfrecord", "--run_once"]
    assert cli.call("eval", [*evaluate, "--spans", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"chosen_on": {"labels of videos": 150}}
    assert "labels of 150 videos" in said.err
    written = json.loads((run / "eval/spans.json").read_text())
    assert (written["rule"]["hysteresis"], written["segment_size"]) == (0.7, 5)
    recall, precision = shares(run, others, spans)
    assert recall > 0.7
    assert precision > 0.7
    marked = json.dumps({**written, "chosen_on": {"records": "marked", "videos": 3, "ids": "a"}})
    (run / "eval/spans.json").write_text(marked)
    assert cli.main(["eval", *evaluate, "--spans"]) == 1
    assert (run / "eval/spans.json").read_text() == marked


def shares(run: pathlib.Path, pattern: str, spans: list[list[Span]]) -> tuple[float, float]:
    """What `share_found` says of the spans that a run finds in records."""
    assert cli.call("predict", [f"--model={run}", f"--spans={run}/found.csv", pattern]) == 0
    found: list[list[tuple[float, float, str, float]]] = [[] for _ in spans]
    with (run / "found.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["class"]:
                times = float(row["start"]), float(row["end"])
                found[int(row["video"])].append((*times, row["class"], float(row["score"])))
    return share_found(found, spans)


def test_thresholds_are_those_with_the_best_f1_of_the_best_cells() -> None:
    draw = np.random.default_rng(0)
    best = BestCells(2)
    scores, labels = [], []
    for _ in range(60):
        label = draw.random(2) < 0.5
        cells = draw.random((4, 2)).astype(np.float32) * np.where(label, 1.0, 0.6).astype(np.float32)
        best.add(cells, label)
        scores.append(cells.max(axis=0))
        labels.append(label)
    joining = best.joining(Joining(5, 1.0, np.zeros(2), JoinRule()))
    assert (best.videos, best.labels) == (60, int(np.sum(labels)))
    assert joining.rule == JoinRule(hysteresis=0.7)
    for number, threshold in enumerate(joining.thresholds.tolist()):
        own, truth = np.array(scores)[:, number], np.array(labels)[:, number]
        f1 = [2 * (truth & (own >= each)).sum() / ((own >= each).sum() + truth.sum()) for each in own]
        reached = 2 * (truth & (own >= threshold)).sum() / ((own >= threshold).sum() + truth.sum())
        assert reached == max(f1)
