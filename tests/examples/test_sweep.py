"""The sweep runs with Optuna itself: it trains, prunes, goes on after its end, and leaves one study."""

from __future__ import annotations

import pathlib
import signal
import sqlite3
import subprocess
import sys

import optuna
import pytest
from golden_data import golden

from examples import sweep

ROOT = pathlib.Path(__file__).parents[2]
DATA = ("--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10", "--batch_size=16")


def words(folder: pathlib.Path, trials: int) -> list[str]:
    files = {"train": "train", "eval": "test"}
    patterns = [
        f"--{flag}_data_pattern={golden(f'checkpoint_logistic/{name}.tfrecord')}" for flag, name in files.items()
    ]
    return [str(folder), str(trials), *patterns, *DATA, "--num_epochs=3"]


@pytest.mark.heavy
@pytest.mark.long
def test_it_goes_on_after_it_was_killed_and_finds_the_best(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "examples.sweep", *words(tmp_path / "sweep", 3)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert any("validation at step 10" in line for line in process.stderr)
    subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=True)  # with the process that trains
    assert process.wait() == -signal.SIGKILL
    process.stderr.close()
    (begun,) = [path for path in (tmp_path / "sweep").iterdir() if path.is_dir()]
    sweep.main(*words(tmp_path / "sweep", 3))
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{tmp_path}/sweep/study.db")
    done = study.get_trials(states=[optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED])
    assert len(done) == 3
    assert "-".join(map(str, done[0].params.values())) == begun.name  # the trial that was killed came first
    assert list(done[0].intermediate_values) == [10, 20, 30]
    assert f"the best GAP is {study.best_value:.4f}" in capsys.readouterr().out
    assert study.best_value == max(one.value for one in done if one.value is not None)


@pytest.mark.heavy
def test_a_trial_whose_figures_are_low_is_pruned(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    pruner = optuna.pruners.ThresholdPruner(lower=2.0)  # which no GAP reaches
    optuna.create_study(storage=f"sqlite:///{folder}/study.db", study_name="sweep", direction="maximize")
    monkeypatch.setattr(optuna.pruners, "MedianPruner", lambda: pruner)
    sweep.main(*words(folder, 1)[:2], *words(folder, 1)[2:], "--num_epochs=200")
    with sqlite3.connect(folder / "study.db") as study:
        assert study.execute("select state from trials").fetchall() == [("PRUNED",)]
    (run,) = [path for path in folder.iterdir() if path.is_dir()]
    assert '"stopped"' in (run / "ended.json").read_text()
