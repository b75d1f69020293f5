"""What new classes cost: 100 classes, of which 2 go and 1 gets another name, and 5 new ones, in another order."""

from __future__ import annotations

import json
import pathlib
import time

import numpy as np
import pytest

from yt8m.command_line import cli
from yt8m.records import vocabulary

SIZE, VIDEOS = 192, 20_000
BEFORE = [f"class {number}" for number in range(100)]
NEW = [f"new {number}" for number in range(5)]
KEPT = ["class seven" if name == "class 7" else name for name in BEFORE[2:]]
AFTER = [*np.random.default_rng(0).permutation([*KEPT, *NEW]).tolist()]


def write_data(folder: pathlib.Path, names: list[str]) -> None:
    """Videos with one to three classes each; a class is a direction of the feature, and noise is added."""
    draw = np.random.default_rng(len(names))
    every = sorted({*BEFORE, *NEW})
    directions = dict(zip(every, np.random.default_rng(1).normal(size=(len(every), SIZE)), strict=True))
    directions["class seven"] = directions["class 7"]
    labels = [draw.choice(names, size=draw.integers(1, 4), replace=False) for _ in range(VIDEOS)]
    features = np.array([sum(directions[name] for name in row) for row in labels])
    features += draw.normal(0, 1.5, features.shape)
    ids, texts = [f"video {number}" for number in range(VIDEOS)], [";".join(row) for row in labels]
    np.savez(f"{folder}.npz", id=ids, labels=texts, clip=features.astype(np.float32))
    vocabulary.write(f"{folder}.csv", vocabulary.of_names(names))
    words = [f"--table={folder}.npz", f"--out={folder}", f"--vocabulary={folder}.csv"]
    assert cli.main(["make-records", *words, "--splits=train:0.85,validate:0.15"]) == 0


def seconds(*words: str) -> float:
    """The CPU time of a command in this process, whose TensorFlow is loaded already."""
    begun = time.process_time()
    assert cli.main(list(words)) == 0
    return time.process_time() - begun


@pytest.mark.heavy
@pytest.mark.long
def test_new_classes_cost_a_tenth_of_training_anew(tmp_path: pathlib.Path) -> None:
    for name, names in (("before", BEFORE), ("after", AFTER)):
        write_data(tmp_path / name, names)
    (tmp_path / "renames.csv").write_text("old,new\nclass 7,class seven\n")
    training = (
        "--model=MoeModel",
        "--batch_size=128",
        "--moe_num_mixtures=4",
        "--num_epochs=60",
        "--base_learning_rate=0.005",
    )
    seconds("train", *training, f"--train_data_pattern={tmp_path}/before/video/train/*", f"--train_dir={tmp_path}/old")
    data = f"{tmp_path}/after/video/train/*"
    anew = seconds("train", *training, f"--train_data_pattern={data}", f"--train_dir={tmp_path}/anew")
    growing = (f"--model={tmp_path}/old", f"--data={data}", f"--out={tmp_path}/grown")
    grown = seconds(
        "add-classes", *growing, f"--rename={tmp_path}/renames.csv", "--num_epochs=1", "--base_learning_rate=0.03"
    )
    figures = json.loads((tmp_path / "grown/added_classes.json").read_text())
    report = ("eval", f"--train_dir={tmp_path}/anew", f"--eval_data_pattern={tmp_path}/after/video/validate/*")
    seconds(*report, "--run_once", "--report")
    classes = json.loads((tmp_path / "anew/eval/report.json").read_text())["classes"]
    of_new = float(np.mean([classes[AFTER.index(name)]["average_precision"] for name in NEW]))
    print(
        f"AP of 5 new classes: {figures['added']:.3f} in {grown:.1f} s of CPU time, {of_new:.3f} in {anew:.1f} s by "
        f"training anew ({grown / anew:.1%}); mAP of {figures['kept_classes']} others: {figures['before']:.4f} before, "
        f"{figures['after']:.4f} after"
    )
    assert figures["kept_classes"] == 98
    assert figures["added"] >= 0.95 * of_new
    assert grown <= 0.1 * anew
    assert abs(figures["after"] - figures["before"]) <= 0.001
