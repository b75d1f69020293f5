"""Classes that are added to a trained run, and what that costs the others."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

import yt8m
from yt8m.command_line import cli
from yt8m.lazy import tf
from yt8m.records import vocabulary

# 8 classes before; one of them is gone, one has another name, two are new, and the order has changed.
BEFORE = [f"class {number}" for number in range(8)]
AFTER = ["comet", *BEFORE[:0:-1], "aurora"]
AFTER[AFTER.index("class 5")] = "class five"
SIZE = 16


def centre(name: str) -> np.ndarray:
    seed = sum(name.replace("five", "5").encode())
    return np.random.default_rng(seed).normal(size=SIZE)


def write_data(folder: pathlib.Path, names: list[str], videos: int = 400) -> None:
    """Videos of one or two classes each, as records with the splits train and validate."""
    rng = np.random.default_rng(len(names))
    drawn = [rng.choice(names, size=rng.integers(1, 3), replace=False) for _ in range(videos)]
    features = np.array([sum(map(centre, labels)) + rng.normal(size=SIZE) for labels in drawn], np.float32)
    ids, labels = [f"video {number}" for number in range(videos)], [";".join(labels) for labels in drawn]
    np.savez(f"{folder}.npz", id=ids, labels=labels, clip=features)
    vocabulary.write(f"{folder}.csv", vocabulary.of_names(names))
    words = [f"--table={folder}.npz", f"--out={folder}", f"--vocabulary={folder}.csv"]
    assert cli.main(["make-records", *words, "--splits=train:0.7,validate:0.3"]) == 0


@pytest.mark.long
def test_classes_are_added_and_compared(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, names in (("before", BEFORE), ("after", AFTER)):
        write_data(tmp_path / name, names)
    (tmp_path / "renames.csv").write_text("old,new\nclass 5,class five\n")
    training = [f"--train_data_pattern={tmp_path}/before/video/train/*", f"--train_dir={tmp_path}/old"]
    assert (
        cli.main(
            [
                "train",
                *training,
                "--batch_size=32",
                "--num_epochs=20",
                "--base_learning_rate=0.05",
                "--export_model_steps=none",
            ]
        )
        == 0
    )
    words = [f"--model={tmp_path}/old", f"--data={tmp_path}/after/video/train/*", f"--out={tmp_path}/new"]
    capfd.readouterr()
    assert cli.main(["add-classes", *words, f"--rename={tmp_path}/renames.csv"]) == 0
    said = capfd.readouterr()
    assert "classes of" in said.err
    assert "7 kept (1 renamed), 2 new, 1 gone" in said.err
    assert "7 classes of both models: full mAP" in said.out
    settings = json.loads((tmp_path / "new/config.json").read_text())["config"]
    assert settings["checkpoints"]["exact_resume"]  # so that a kill does not cost a part of a pass
    figures = json.loads((tmp_path / "new/added_classes.json").read_text())
    assert figures["before"] == figures["after"]  # the classes that were there before do not learn
    labels, scores = labels_and_scores(tmp_path)
    expected = [average_precision_score(labels[:, place], scores[:, place]) for place in range(len(AFTER))]
    is_new = np.isin(AFTER, ["comet", "aurora"])
    assert figures["videos"] == len(labels)
    assert figures["after"] == pytest.approx(np.mean(np.array(expected)[~is_new]), abs=1e-6)
    assert figures["added"] == pytest.approx(np.mean(np.array(expected)[is_new]), abs=1e-6)
    assert figures["added"] > 0.8


@pytest.mark.heavy
@pytest.mark.long
def test_a_kill_does_not_cost_the_new_classes_a_part_of_a_pass(tmp_path: pathlib.Path) -> None:
    """The weights are those of a run that was not killed, bit for bit."""
    for name, names in (("before", BEFORE), ("after", AFTER)):
        write_data(tmp_path / name, names, videos=120)
    words = [f"--train_data_pattern={tmp_path}/before/video/train/*", f"--train_dir={tmp_path}/old", "--batch_size=4"]
    assert cli.main(["train", *words, "--num_epochs=1", "--save_checkpoint_steps=40", "--export_model_steps=none"]) == 0
    growth = ["add-classes", f"--model={tmp_path}/old", f"--data={tmp_path}/after/video/train/*", "--num_epochs=20"]
    process = subprocess.Popen([sys.executable, "-m", "yt8m", *growth, f"--out={tmp_path}/killed"])
    while process.poll() is None and not list((tmp_path / "killed").glob("model.ckpt-[1-9]*.index")):
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed/added_classes.json").exists()
    weights = []
    for name in ("killed", "whole"):
        assert cli.main([*growth, f"--out={tmp_path}/{name}"]) == 0
        reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(f"{tmp_path}/{name}"))
        weights.append({key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()})
    assert weights[0].keys() == weights[1].keys()
    for key, values in weights[0].items():
        np.testing.assert_array_equal(values, weights[1][key], key)


def labels_and_scores(folder: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    batches = list(yt8m.read_records(f"{folder}/after/video/validate/*"))
    with yt8m.load(folder / "new") as model:
        rows = [
            [score for _, score in sorted((one.index, one.score) for one in video.classes)]
            for video in model.predict(batches, top_k=len(AFTER))
        ]
    return np.concatenate([batch.labels for batch in batches]), np.array(rows)


def test_what_is_missing_is_named(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["add-classes", f"--model={tmp_path}", "--data=train*"]) == 2
    assert "--out is missing" in capfd.readouterr().err
    assert cli.main(["add-classes", f"--model={tmp_path}/none", "--data=train*", f"--out={tmp_path}/new"]) == 2
    assert "there is no such" in capfd.readouterr().err
