"""A training that ends by itself when validation no longer improves, is killed, listed, and started again."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from reader_records import video_record, write_shard
from small_run import weights

import yt8m
from yt8m import eval as evaluation
from yt8m import train
from yt8m.reports import run_list
from yt8m.training import training_run

CLASSES, SIZE = 40, 16

# A metric that ends its own process in the middle of the validation that `end.json` asks for, once.
SUDDEN = """
import json, os, pathlib, signal
from yt8m.eval_util.metrics import Gap

class SuddenGap(Gap):
    name, key = "sudden GAP", "sudden_gap"
    of_batches = False
    batches = 0

    @classmethod
    def create(cls, batch):
        plan = pathlib.Path(os.environ["PLAN"])
        told = json.loads(plan.read_text()) if plan.exists() else {}
        if told.get("after") == cls.batches:
            plan.unlink()
            os.kill(os.getpid(), told["signal"])
        cls.batches += 1
        return cls()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Few noisy videos of 40 classes to train on, so that a model soon learns them by heart, and others."""
    folder = tmp_path_factory.mktemp("forty")
    draw = np.random.default_rng(0)
    means = draw.normal(size=(CLASSES, SIZE)).astype("f4")
    for name, count in (("train", 160), ("validate", 96)):
        labels = draw.integers(CLASSES, size=count)
        noise = draw.normal(size=(count, SIZE)).astype("f4")
        records = [
            video_record(id=[b"%s%d" % (name.encode(), row)], labels=[int(label)], mean_rgb=means[label] + noise[row])
            for row, label in enumerate(labels)
        ]
        write_shard(folder / f"{name}.tfrecord", records)
    (folder / "sudden.py").write_text(SUDDEN)
    return folder


def words(folder: pathlib.Path, name: str, *more: str) -> list[str]:
    """A command line; later words win."""
    usual = [
        f"--train_data_pattern={folder}/train.tfrecord",
        f"--eval_data_pattern={folder}/validate.tfrecord",
        f"--train_dir={folder}/{name}",
        "--feature_names=mean_rgb",
        f"--feature_sizes={SIZE}",
        f"--num_classes={CLASSES}",
        "--batch_size=16",
        "--num_epochs=60",
        "--base_learning_rate=0.3",
        "--moving_average_decay=0.9",
        "--patience=3",
        "--keep_checkpoints=20",
        "--export_model_steps=none",
        "--exact_resume",
        "--seed=1",
    ]
    given = {word.partition("=")[0] for word in more}
    return [word for word in usual if word.partition("=")[0] not in given] + list(more)


def note(run: pathlib.Path) -> dict:
    return json.loads((run / "best/best.json").read_text())


def validations(run: pathlib.Path) -> list[dict]:
    return json.loads((run / "validation.json").read_text())["validations"]


@pytest.fixture(scope="module")
def whole(folder: pathlib.Path) -> pathlib.Path:
    assert train.main(words(folder, "whole")) == 0
    return folder / "whole"


@pytest.fixture(scope="module")
def short(folder: pathlib.Path) -> pathlib.Path:
    """Its first four validations."""
    assert train.main(words(folder, "short", "--max_steps=40")) == 0
    return folder / "short"


@pytest.mark.heavy
def test_it_ends_three_validations_after_the_best(whole: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    gaps = [row["GAP"] for row in validations(whole)]
    best = int(np.argmax(gaps))
    assert 0 < best == len(gaps) - 4
    steps = [row["step"] for row in validations(whole)]
    assert steps == [10 * (epoch + 1) for epoch in range(len(gaps))]
    ended = json.loads((whole / "ended.json").read_text())
    message = f"no better GAP in 3 validations (--patience=3); the best is {gaps[best]:.4f}, of step {steps[best]}"
    assert ended == {"status": "finished", "step": steps[-1], "message": message}
    (listed,) = run_list.find_runs([str(whole)], "gap")
    assert (listed.state, listed.why, listed.figures.step) == ("finished", message, steps[best])
    assert listed.figures.values["GAP"] == gaps[best]
    # Started again, it says so, and trains no further.
    assert train.main(words(whole.parent, "whole")) == 0
    assert f"training ended at step {steps[-1]}: {message}" in capsys.readouterr().err


@pytest.mark.heavy
def test_the_best_is_kept_and_has_the_figures_of_eval(whole: pathlib.Path) -> None:
    best = max(validations(whole), key=lambda row: row["GAP"])
    told = note(whole)
    assert (told["step"], told["metric"], told["gap"]) == (best["step"], "GAP", best["GAP"])
    ends = ("data-00000-of-00001", "index", "meta")
    expected = {"best.json", *(f"model.ckpt-{best['step']}.{end}" for end in ends)}
    assert {path.name for path in (whole / "best").iterdir()} == expected
    (whole / "best/config.json").write_text((whole / "config.json").read_text())
    data = f"--eval_data_pattern={whole.parent}/validate.tfrecord"
    assert evaluation.main([f"--train_dir={whole}/best", data, "--run_once", "--batch_size=16"]) == 0
    report = json.loads((whole / "best/eval/report.json").read_text())
    figures = {row["name"]: report[row["key"]] for row in report["metrics"]}
    assert figures == told["figures"] == {name: best[name] for name in figures}
    with yt8m.load(whole, checkpoint="best") as model:
        assert model.evaluate(f"{whole.parent}/validate.tfrecord")["gap"] == pytest.approx(best["GAP"])


@pytest.mark.heavy
def test_fit_starts_from_its_config_returns_the_history_and_keeps_the_lowest_loss(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    of = {"config": whole / "config.json", "train_dir": tmp_path / "run"}
    run = yt8m.fit(**of, best_metric="loss", patience=1, base_learning_rate=0.6, eval_every_n_steps=7, max_steps=30)
    losses = {row["step"]: row["loss"] for row in run.validations}
    assert list(losses)[:2] == [7, 14]
    assert run.step == max(losses)
    assert note(tmp_path / "run")["step"] == min(losses, key=losses.__getitem__)
    assert note(tmp_path / "run")["metric"] == "loss"
    assert run.figures["step"] <= run.step
    assert "mAP" not in run.figures


@pytest.mark.heavy
def test_a_metric_that_the_data_do_not_give_is_refused_by_the_first_validation(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--best_metric=MAP@100000 of rated pairs", "--max_steps=20", "--num_gpu=1")
    assert train.main([*words(folder, "unrated"), *more]) == 1
    said = capsys.readouterr().err
    assert re.search("--best_metric=MAP@100000 of rated pairs: .*cannot be computed", said)
    assert "GAP" in said.rpartition("Give one of")[2]


@pytest.mark.heavy
def test_a_resumed_run_chooses_its_best_by_the_new_metric_and_on_the_new_data(
    whole: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = whole.parent / "changed"
    shutil.copytree(whole, run)
    former = validations(run)
    assert train.main(words(whole.parent, "changed", "--best_metric=PERR", "--patience=1")) == 0
    said = capsys.readouterr().err
    highest = max(former, key=lambda row: row["PERR"])
    assert "--best_metric is now PERR, and was GAP" in said
    assert (note(run)["step"], note(run)["metric"]) == (highest["step"], "PERR")
    assert {path.name for path in (run / "best").glob("*.index")} == {f"model.ckpt-{highest['step']}.index"}
    assert validations(run) == former
    # A part of the videos are other data: the next validation is the best one, whatever those before it found.
    last = former[-1]["step"] + 10
    assert train.main(words(whole.parent, "changed", "--eval_max_videos=30", f"--max_steps={last}")) == 0
    said = capsys.readouterr().err
    assert f"the earlier validations ({len(former)}) no longer count for best/ and --patience: they valid" in said
    assert [row["step"] for row in validations(run)[len(former) :]] == [last]
    assert (note(run)["step"], note(run)["gap"]) == (last, validations(run)[-1]["GAP"])


@pytest.mark.heavy
def test_a_sample_of_the_videos_is_the_same_in_every_validation(
    whole: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from yt8m.eval_util.videos import hashes
    from yt8m.records import shards

    more = ("--eval_max_videos=20", "--max_steps=20", "--num_gpu=1")
    assert train.main([*words(whole.parent, "sampled"), *more]) == 0
    said = capsys.readouterr().err
    assert "the same 20 of 96 videos" in said
    # Nothing is said of the copies of these videos, and the flags of the input are those of the training.
    assert [line.partition("no manifest of ")[2].split()[0] for line in said.splitlines() if "no manifest" in line] == [
        f"{whole.parent}/train.tfrecord"
    ]
    assert said.count(" INFO input on ") == 1
    payloads = list(shards.read_shard(f"{whole.parent}/validate.tfrecord"))
    keys = hashes([shards.parse(payload).id() for payload in payloads])
    chosen = sorted(np.argsort(keys)[:20])
    (tmp_path / "sample.tfrecord").write_bytes(b"".join(shards.framed(payloads[row]) for row in chosen))
    data = f"--eval_data_pattern={tmp_path}/sample.tfrecord"
    run = whole.parent / "sampled"
    assert evaluation.main([f"--train_dir={run}", data, "--run_once", "--batch_size=16"]) == 0
    report = json.loads((run / "eval/report.json").read_text())
    last = validations(run)[-1]
    assert [report[row["key"]] for row in report["metrics"]] == [last[row["name"]] for row in report["metrics"]]
    assert report["num_examples"] == 20


def start(folder: pathlib.Path, name: str, *more: str, plan: dict | None = None) -> subprocess.Popen:
    """A training in a process of its own, whose metric may end it."""
    (folder / f"{name}.plan").unlink(missing_ok=True)
    if plan is not None:
        (folder / f"{name}.plan").write_text(json.dumps(plan))
    environment = {**os.environ, "PYTHONPATH": str(folder), "PLAN": str(folder / f"{name}.plan")}
    command = [sys.executable, "-m", "yt8m.train", *words(folder, name, *more)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def same_end(folder: pathlib.Path, whole: pathlib.Path, name: str) -> None:
    """The run has the steps, the validations and the best of the one that was never ended."""
    run = folder / name
    assert [{key: row[key] for key in ("step", "GAP", "loss")} for row in validations(run)] == [
        {key: row[key] for key in ("step", "GAP", "loss")} for row in validations(whole)
    ]
    assert note(run)["step"] == note(whole)["step"]
    step = validations(whole)[-1]["step"]
    for place, at in (("", step), ("best", note(whole)["step"])):
        expected = weights(whole / place, at)
        found = weights(run / place, at)
        assert found.keys() == expected.keys()
        assert all((found[variable] == expected[variable]).all() for variable in expected)


@pytest.mark.promise("C9")
def test_a_signal_in_the_middle_of_a_validation_loses_nothing(
    folder: pathlib.Path, short: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sudden = ("--best_metric=sudden:SuddenGap", "--max_steps=40")
    # A validation has six batches: the second one is killed, and then stopped when it is repeated.
    process = start(folder, "ended", *sudden, plan={"after": 8, "signal": signal.SIGKILL})
    log = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL, log
    assert [row["step"] for row in validations(folder / "ended")] == [10]
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PLAN", f"{folder}/ended.plan")
    (folder / "ended.plan").write_text(json.dumps({"after": 2, "signal": signal.SIGTERM}))
    original = training_run.runner_config
    with monkeypatch.context() as patch:  # on a slow machine the save would outlast the grace, and end pytest
        patch.setattr(
            training_run, "runner_config", lambda *given: dataclasses.replace(original(*given), stop_grace_seconds=300)
        )
        assert train.main(words(folder, "ended", *sudden)) == 128 + signal.SIGTERM
    repeated = "the validation of step 20 was interrupted: a resumed run repeats it"
    # The signal may arrive after the last batch: then the validation is complete.
    assert repeated in capsys.readouterr().err or len(validations(folder / "ended")) == 2
    assert train.main(words(folder, "ended", *sudden)) == 0
    same_end(folder, short, "ended")


@pytest.mark.promise("C9")
@pytest.mark.heavy
@pytest.mark.long
def test_ten_kills_at_random_moments_change_nothing(folder: pathlib.Path, whole: pathlib.Path) -> None:
    draw = random.Random(7)
    for _ in range(10):
        process = start(folder, "random")
        lines = draw.randrange(1, 30)
        try:
            for place, _ in enumerate(process.stderr):
                if place == lines:
                    break
        finally:
            process.kill()
            process.communicate()
    process = start(folder, "random")
    log = process.communicate()[1]
    assert process.returncode == 0, log
    same_end(folder, whole, "random")
