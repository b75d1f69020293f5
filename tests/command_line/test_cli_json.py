"""`--json` of every command that prints figures: the standard output is JSON alone, with the figures of the files."""

from __future__ import annotations

import csv
import json
import pathlib
from typing import Any

import pytest
import small_run
from golden_data import golden

from yt8m import eval as evaluation
from yt8m import inference
from yt8m.command_line import cli

DATA = golden("checkpoint_logistic/test.tfrecord")
TRAINING = golden("checkpoint_logistic/train.tfrecord")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("json") / "run"
    assert small_run.run(folder) == 0
    words = [f"--train_dir={folder}", f"--input_data_pattern={DATA}", f"--output_file={folder}/predictions.csv"]
    assert inference.main(words) == 0
    return folder


def parsed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a command prints with --json; people still get their text."""
    capsys.readouterr()
    program = {"eval": evaluation.main}.get(words[0])
    assert (program(words[1:]) if program else cli.main(list(words))) == 0
    printed = capsys.readouterr()
    assert printed.err
    return json.loads(printed.out)


def test_eval_prints_its_report(run: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"--model={run}", f"--data={DATA}", "--run_once", "--json"]
    assert parsed(capsys, "eval", *words) == json.loads((run / "eval/report.json").read_text())


def test_score_prints_the_metrics_by_their_keys(run: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = parsed(capsys, "eval", f"--model={run}", f"--data={DATA}", "--run_once", "--json")
    words = (f"--predictions={run}/predictions.csv", f"--data={DATA}", "--num_classes=10", "--json")
    figures = parsed(capsys, "score", *words)
    assert figures["videos"] == report["num_examples"]
    assert figures["gap"] == pytest.approx(report["gap"], abs=1e-3)  # the file has six digits of each score
    assert figures["hit_at_one"] == pytest.approx(report["hit_at_one"], abs=1e-5)


def test_predict_prints_a_list_of_videos(run: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    videos = parsed(capsys, "predict", f"--model={run}", f"--data={DATA}", "--count=3", "--top_k=2", "--json")
    with open(run / "predictions.csv", newline="") as file:
        written = [row["LabelConfidencePairs"].split()[:4] for row in list(csv.DictReader(file))[:3]]
    shown = [[word for c in video["classes"] for word in (str(c["index"]), f"{c['score']:.6f}")] for video in videos]
    assert shown == written


def test_predict_with_a_file_of_its_own_refuses_json(run: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", f"--model={run}", f"--data={DATA}", "--json", "--features=x.npz"]) == 2
    assert "--features" in capsys.readouterr().err


def test_count_prints_the_rows_of_its_table(
    run: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "count.csv"
    words = (f"--model={run}", f"--data={DATA}", f"--labelled={TRAINING}", f"--out={out}", "--json")
    rows = parsed(capsys, "count", *words)
    with open(out, newline="") as file:
        written = list(csv.DictReader(file))
    assert [list(row) for row in rows] == [list(row) for row in written]
    assert [f"{row['videos']:.1f} {row['share']:.6g}" for row in rows] == [
        f"{row['videos']} {row['share']}" for row in written
    ]


def test_ensemble_prints_the_weights_that_it_fits(run: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = run / "copy.csv"
    copy.write_text((run / "predictions.csv").read_text())
    words = (f"--predictions={run}/predictions.csv,{copy}", f"--data={DATA}", "--num_classes=10", "--json")
    figures = parsed(capsys, "ensemble", *words)
    assert list(figures["gaps"]) == [f"{run}/predictions.csv", str(copy)]
    assert figures["gap"] == pytest.approx(figures["gap_equal_weights"], abs=1e-9)
    assert len(figures["weights"]) == 2


def test_joining_files_without_figures_refuses_json(run: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = f"--predictions={run}/predictions.csv,{run}/predictions.csv"
    assert cli.main(["ensemble", files, "--out=joined.csv", "--num_classes=10", "--json"]) == 2
    assert "--data" in capsys.readouterr().err


def test_inspect_of_spans_refuses_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", f"--data={DATA}", "--spans=spans.csv", "--json"]) == 2
    assert "--spans" in capsys.readouterr().err


def test_audit_prints_its_summary(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (f"--data={TRAINING}", f"--out={tmp_path}/audit", "--num_classes=10", "--folds=2", "--dry_run", "--json")
    assert parsed(capsys, "audit", *words)["understood"].startswith(f"{TRAINING}: ")


def test_numbers_that_json_lacks_become_null(capsys: pytest.CaptureFixture[str]) -> None:
    from yt8m import terminal

    terminal.print_json([1])
    with terminal.json_output(True):
        print("for people")
        terminal.print_json({"a": float("nan"), "b": (1.5, float("inf"))})
    printed = capsys.readouterr()
    assert (json.loads(printed.out), printed.err) == ({"a": None, "b": [1.5, None]}, "for people\n")
