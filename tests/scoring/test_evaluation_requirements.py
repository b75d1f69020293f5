"""`yt8m eval --require`: the status, the lines, report.json, and the intervals of the report."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
import small_run
from golden_data import golden

from yt8m import eval as evaluation
from yt8m.reports import loading


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("require")
    counts = "".join(f"{number},class {number},{100 - 9 * number}\n" for number in range(10))
    (made / "vocabulary.csv").write_text(f"index,name,count\n{counts}")
    assert small_run.run(made / "run", f"--vocabulary={made}/vocabulary.csv") == 0
    return made


def _words(folder: pathlib.Path, *more: str) -> list[str]:
    data = golden("checkpoint_logistic/test.tfrecord")
    return [f"--train_dir={folder}/run", f"--eval_data_pattern={data}", "--run_once", *more]


def test_the_status_says_whether_all_are_met(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluation.main(_words(folder, "--require=gap>=0.01,loss<=1000")) == 0
    assert "gap>=0.01: met, " in capsys.readouterr().out
    assert not (folder / "run/eval/thresholds.csv").exists()
    assert evaluation.main(_words(folder, "--report", "--require=gap>=0.999,perr>=0,gap_tail>=0,map<=1")) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if ": met" in line or ": MISSED" in line]
    assert [line.partition(",")[0] for line in lines[:3]] == ["gap>=0.999: MISSED", "perr>=0: met", "gap_tail>=0: met"]
    (run,) = loading.load([f"{folder}/run"], 200, 0)
    verdicts = json.loads((folder / "run/eval/report.json").read_text())["requirements"]
    assert [verdict["metric"] for verdict in verdicts] == ["gap", "perr", "gap_tail", "map"]
    for verdict in verdicts[:2]:
        bounds = loading.interval_of(run, verdict["metric"])
        assert bounds is not None
        np.testing.assert_allclose((verdict["low"], verdict["high"]), bounds)
    assert verdicts[2]["low"] <= verdicts[2]["value"] <= verdicts[2]["high"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--run_once", "--require=gab>=0.8"], "there is no metric 'gab'"),
        (["--run_once", "--require=gap>0.8"], "'gap>0.8' is not a requirement"),
        (["--require=gap>=0.8"], "--require needs --run_once"),
    ],
)
def test_wrong_requirements_are_refused_before_any_work(
    words: list[str], message: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluation.main([f"--train_dir={tmp_path}", *words]) == 2
    assert message in capsys.readouterr().err
