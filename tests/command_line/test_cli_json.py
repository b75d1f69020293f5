"""`--json` of every command that prints figures: the standard output is JSON alone, with the figures of the files."""

from __future__ import annotations

import contextlib
import csv
import json
import pathlib
import re
from typing import Any

import numpy as np
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


# What these commands print are no figures: words, paths, commands to run, or predictions that go into files.
NO_FIGURES = {
    *(
        "download",
        "sample-data",
        "cache",
        "from-mediapipe",
        "vocabulary",
        "cloud-job",
        "from-text",
        "import-checkpoint",
    ),
    *("serve", "inference", "bulk infer", "json-to-csv", "average-checkpoints", "completion"),
}


def test_every_command_that_prints_figures_takes_json(capsys: pytest.CaptureFixture[str]) -> None:
    takes_json, bulk_commands = set(), [f"bulk {name}" for name in ("infer", "rank", "eval", "extract")]
    for name in [name for name in cli.COMMANDS if name not in ("bulk", "completion")] + bulk_commands:
        capsys.readouterr()
        extra = ["search"] if name == "vocabulary" else []
        with contextlib.suppress(SystemExit):
            cli.main([*name.split(), *extra, "--help=all"])
        if re.search(r"^ *--\[?(no\]?)?json\b", capsys.readouterr().out, re.MULTILINE):
            takes_json.add(name)
    assert takes_json | NO_FIGURES == {*cli.COMMANDS, *bulk_commands} - {"bulk"}
    assert not takes_json & NO_FIGURES
    text = (small_run.ROOT / "docs/users/commands.md").read_text()
    (listed,) = re.findall(r"Commands that print figures take `--json`: (.*?)\. Then", text, re.DOTALL)
    assert set(re.findall(r"`([a-z][a-z -]*)`", listed)) == takes_json


def test_train_prints_its_last_figures(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert small_run.run(tmp_path / "run", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert printed["figures"] == [line for line in lines if "mode" not in line][-1]
    assert (printed["train_dir"], printed["status"]) == (str(tmp_path / "run"), "finished")
    assert (printed["validation"], printed["choice"]) == (None, None)
    assert printed["step"] == printed["figures"]["step"]
    assert (printed["meant"], printed["test"]) == ({"step": printed["step"], "validation": None}, None)


@pytest.mark.heavy
def test_select_prints_the_chosen_videos(
    run: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "next.csv"
    words = (f"--model={run}", f"--data={DATA}", f"--labelled={TRAINING}", f"--out={out}", "--count=4", "--json")
    printed = parsed(capsys, "select", *words)
    with open(out, newline="") as file:
        written = list(csv.DictReader(file))
    assert [(str(row["rank"]), row["video"], f"{row['value']:.4f}") for row in printed["chosen"]] == [
        (row["rank"], row["video"], row["value"]) for row in written
    ]
    assert "; ".join(f"{c['name']} {c['score']:.2f}" for c in printed["chosen"][0]["classes"]) == written[0]["classes"]
    assert (printed["out"], printed["left_out"], printed["candidates"] >= 4) == (str(out), 0, True)
    understood = parsed(capsys, "select", *words, "--dry_run")["understood"]
    assert understood.startswith(f"{DATA}: ")


@pytest.mark.heavy
def test_report_prints_the_figures_of_its_page(
    run: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluation.main([f"--model={run}", f"--data={DATA}", "--run_once", "--report"]) == 0
    page = tmp_path / "page.html"
    printed = parsed(capsys, "report", str(run), f"--out={page}", "--resamples=20", "--json")
    report = json.loads((run / "eval/report.json").read_text())
    (of_run,) = printed["runs"]
    assert (printed["page"], of_run["run"], page.exists()) == (str(page), str(run), True)
    assert of_run["figures"]["gap"] == pytest.approx(report["gap"])
    assert of_run["num_examples"] == report["num_examples"]
    assert all(low <= high for low, high in of_run["intervals"].values())


def test_make_records_prints_what_it_understood_and_its_counts(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(40, 4)).astype("f"))
    lines = [f"v{row},{'cat' if row % 2 else 'dog'}" for row in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["id,label", *lines, ""]))
    words = [f"--table={tmp_path}/t.csv", f"--array={tmp_path}/a.npy", f"--out={tmp_path}/own", "--json"]
    understood = parsed(capsys, "make-records", *words, "--dry_run")["understood"]
    printed = parsed(capsys, "make-records", *words)
    assert printed.pop("understood") == understood
    assert printed == json.loads((tmp_path / "own/video/summary.json").read_text())
    assert sum(split["videos"] for split in printed["splits"].values()) == 40


def test_a_comparison_that_is_not_made_and_fetched_weights_refuse_json(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["add-classes", "--model=runs/a", "--from_text=t.csv", "--out=runs/b", "--json"]
    for words, expected in ((texts, "--from_text"), (["extract", "--fetch_weights", "--json"], "--fetch_weights")):
        assert cli.main(words) == 2
        assert expected in capsys.readouterr().err


@pytest.mark.heavy
def test_bulk_rank_prints_what_it_ranked(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("apache_beam")
    from yt8m.bulk import jobs

    files = [tmp_path / "class0", tmp_path / "class1"]
    files[0].write_bytes(b"3,a:0 b:5\n")
    files[1].write_bytes(b"7,a:10\n")
    with open(tmp_path / "out", "wb") as file:
        assert [jobs._copy_line(file, str(path)) for path in files] == [2, 1]
    assert (tmp_path / "out").read_bytes() == b"3,a:0 b:5\n7,a:10\n"


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
