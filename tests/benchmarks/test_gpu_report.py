"""`make bench-gpu` on a machine without a GPU: the plan, rows that fail, and the end of the time."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest

from benchmarks import gpu, gpu_report

PATIENT = ("--minutes=1000", "--row_seconds=60000")  # however busy the machine is


def main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gpu_report", *words])
    return gpu_report.main()


def test_the_rows_are_those_of_all_models_and_have_different_names() -> None:
    names = [part.name for part in gpu_report.parts(list(gpu.MODELS))]
    assert len(set(names)) == len(names)
    assert names[:3] == ["gpu/data", "gpu/device", "gpu/LogisticModel, float32"]
    for model in gpu.MODELS:
        assert {f"gpu/{model}, float32", f"gpu/{model}, bfloat16", f"gpu/{model} bytes"} <= {*names}
    assert {"gpu/LstmModel, float32, cudnn", "gpu/DbofModel, bfloat16, prefetch_to_device"} <= {*names}


def test_after_the_slowest_data_there_is_time_for_rates_and_bytes_of_all_models() -> None:
    """A row takes 15 s in the middle, and the eight minutes begin before the data are made."""
    names = [part.name for part in gpu_report.parts(list(gpu.MODELS))]
    first = names[: 1 + int((60 * gpu_report.MINUTES - gpu_report._DATA_SECONDS) / 15)]
    assert {f"gpu/{model}{row}" for model in gpu.MODELS for row in (", float32", " bytes")} <= {*first}


def test_without_time_every_row_is_said_and_none_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(monkeypatch, "--small", "--minutes=0", "--models=MoeModel") == 0
    plan, table = capsys.readouterr().out.split("0 of 7 rows were measured")
    assert plan.count("gpu/MoeModel, float32") == 2  # in the plan, and when its turn comes
    assert table.count("FAILED: not run") == 7


@pytest.mark.heavy
@pytest.mark.long
def test_a_row_that_fails_is_noted_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    results = tmp_path / "gpu.json"
    words = ["--small", "--models=NoSuchModel,LogisticModel", "--rows=*bytes", f"--json={results}", *PATIENT]
    assert main(monkeypatch, *words) == 0
    table = capsys.readouterr().out.split("1 of 2 rows were measured")[1]
    [failed, copied] = table.strip().splitlines()
    assert "gpu/NoSuchModel bytes" in failed
    assert "unknown model 'NoSuchModel'" in failed
    assert "4.8 MB a step of 1,024 videos, 1.01 of the floor" in copied
    assert set(json.loads(results.read_text())["all"]) == {"gpu/NoSuchModel bytes", "gpu/LogisticModel bytes"}


@pytest.mark.heavy
def test_every_kind_of_row_runs_on_a_cpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(monkeypatch, "--small", "--models=LogisticModel,DbofModel", *PATIENT) == 0
    assert "12 of 12 rows were measured" in capsys.readouterr().out


def test_a_row_that_takes_too_long_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--small", "--models=LogisticModel", "--rows=*bytes", "--minutes=1000", "--row_seconds=0.1")
    assert main(monkeypatch, *words) == 0
    table = capsys.readouterr().out.split("0 of 1 rows were measured")[1]
    assert "FAILED: took longer than 0.1 s" in table


def test_a_row_that_prints_nothing_is_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    assert main(monkeypatch, "--small", "--models=LogisticModel", "--rows=*bytes", *PATIENT) == 0
    assert "FAILED: printed no result" in capsys.readouterr().out.split("0 of 1 rows were measured")[1]


def test_without_a_gpu_the_status_is_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gpu_report, "_gpu_of_a_process", lambda: "")
    assert main(monkeypatch) == 1
    said = capsys.readouterr().err
    assert "--small" in said
    assert "'.[gpu]'" in said
