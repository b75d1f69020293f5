"""The command `python -m benchmarks`: which rows run, and what a failed one leaves."""

from __future__ import annotations

import json
import pathlib

import pytest

from benchmarks import __main__ as command
from benchmarks import measure
from yt8m.numerics import precision

RESULT = {
    "rate": {"median": 2.0, "low": 1.0, "high": 3.0},
    "cpu_rate": {"median": 2.0},
    "peak_mb": 1.0,
    "others": 0.0,
    "notes": [],
    "turns": 1,
}


def run(monkeypatch: pytest.MonkeyPatch, *words: str, fails: str = "") -> tuple[int, list[str]]:
    """The status of the command, and the rows that it started; none of them is measured."""
    started: list[str] = []

    def answer(command: list[str], seconds: float | None) -> str:
        name = next(word for word in command if word.startswith("--worker=")).removeprefix("--worker=")
        started.append(name)
        if name == fails:
            raise SystemExit("no torch")
        return "a line of a log\n" + json.dumps(RESULT)

    monkeypatch.setattr(measure, "run_process", answer)
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    return command.main(), started


def test_several_patterns_choose_rows_in_the_order_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    status, started = run(monkeypatch, "--rows", "start/help", "peers/[ei]*/MoeModel")
    assert status == 0
    assert started == ["start/help", "peers/eval/MoeModel", "peers/infer/MoeModel"]


def test_without_patterns_the_usual_rows_run(monkeypatch: pytest.MonkeyPatch) -> None:
    status, started = run(monkeypatch)
    assert status == 0
    assert started == list(command.ROWS)


def test_a_pattern_of_no_row_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--rows", "start/help", "peer/*") == (2, [])
    assert "'peer/*'" in capsys.readouterr().err


def test_a_row_that_fails_is_said_and_the_others_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    words = ("--rows", "peers/eval/M*", "peers/infer/M*", "--json", str(tmp_path / "found.json"))
    assert run(monkeypatch, *words, fails="peers/eval/MoeModel")[0] == 1
    assert "peers/eval/MoeModel                    FAILED: no torch" in capsys.readouterr().out
    found = json.loads((tmp_path / "found.json").read_text())
    assert list(found["rows"]) == ["peers/infer/MoeModel"]
    assert found["processor"] == measure.describe_processor()
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


def test_when_the_time_is_over_the_rows_that_are_left_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--rows", "peers/eval/*", "--minutes=0") == (1, [])
    assert capsys.readouterr().out.count("not begun: the time is over") == 6


@pytest.mark.parametrize(
    ("name", "flags", "text"),
    [
        ("Intel(R) Xeon(R) Processor", "avx2 avx512f avx512_bf16 amx_bf16", "Intel Xeon with AMX"),
        ("AMD EPYC 9B14", "avx2 avx512f avx512_bf16", "AMD EPYC 9B14 with AVX512-BF16"),
        ("Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz", "avx2", "Intel Core i7-8550U with AVX2"),
        ("Old", "sse2", "Old"),
    ],
)
def test_a_processor_has_its_name_and_its_fastest_instructions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, name: str, flags: str, text: str
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nmodel name\t: {name}\nflags\t\t: {flags}\n")
    monkeypatch.setattr(precision, "CPUINFO", str(tmp_path / "cpuinfo"))
    assert measure.describe_processor() == f"{text}, {measure.cores()} cores"
