"""The arithmetic of the benchmarks: ratios to floors, verdicts, comparisons."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks import compare, machine, measure, report
from benchmarks.measure import Measured, Sample
from benchmarks.rows import Row


def test_each_sample_is_divided_by_the_floors_around_it():
    floors = [Sample(2.0, 4.0), Sample(4.0, 4.0), Sample(6.0, 4.0)]
    found = Measured(100, [Sample(6.0, 8.0), Sample(10.0, 8.0)], floors).summary()
    assert found["ratio"] == {"median": 0.5, "low": 0.5, "high": 0.5}
    assert found["cpu_ratio"]["median"] == 0.5
    assert found["rate"] == pytest.approx({"median": (100 / 6 + 10) / 2, "low": 10.0, "high": 100 / 6})


def test_a_floor_that_was_taken_with_its_sample_is_its_own():
    found = Measured(1, [Sample(2.0, 4.0), Sample(4.0, 4.0)], [Sample(1.0, 1.0), Sample(3.0, 1.0)]).summary()
    assert found["ratio"] == {"median": 0.625, "low": 0.5, "high": 0.75}


def test_a_row_without_a_floor_has_no_ratio():
    assert list(Measured(1, [Sample(1.0, 1.0)], []).summary()) == ["rate", "cpu_rate"]


def test_latencies_of_requests_are_told_in_calls_of_the_floor():
    latencies = [0.001 * number for number in range(1, 102)]
    found = Measured(101, [Sample(1.0, 1.0)], [Sample(0.5, 0.5)], latencies, [0.002, 0.004, 0.3]).summary()
    assert found["latency"] == pytest.approx({"p50": 0.051, "p99": 0.1, "bare": 0.004})
    line = report.line("serve", Row(lambda _: Measured(1, [], [])), {**found, "peak_mb": 1.0, "others": 0.0})
    assert line.endswith("p50 51.0 ms, p99 100.0 ms: 12.8 and 25.0 bare calls")


def test_a_fuller_floor_has_ratios_of_its_own():
    floors, fuller = [Sample(1.0, 1.0)] * 2, [Sample(2.0, 3.0), Sample(4.0, 3.0)]
    measured = Measured(1, [Sample(4.0, 4.0)], floors, fuller_floors=fuller, fuller_name="reading and products")
    found = {**measured.summary(), "peak_mb": 1.0, "others": 0.0}
    assert found["ratio"]["median"] == 0.25
    line = report.line("train", Row(lambda _: Measured(1, [], [])), found)
    assert line.endswith("75% of reading and products (75%..75%; by cpu 75%)")


def test_repeat_does_not_count_the_first_time():
    calls = []
    measured = measure.repeat(lambda: calls.append(0), 7, repeats=3)
    assert (len(calls), len(measured.samples), measured.count) == (4, 3, 7)


def test_a_watched_row_tells_its_memory_and_the_others():
    found = measure.watched(lambda repeats: Measured(1, [Sample(1.0, 1.0)] * repeats, []), 2)
    assert found["peak_mb"] > 1
    assert found["others"] >= 0 or found["others"] != found["others"]  # nan where the system does not tell


def test_what_a_row_starts_counts_as_its_own(monkeypatch):
    def measure_a_process(repeats):
        code = "import time; held = b'1' * 200_000_000\nwhile time.process_time() < 0.3: pass"
        for _ in range(repeats):
            subprocess.run([sys.executable, "-c", code], check=True)
        return Measured(1, [Sample(1.0, 1.0)], [])

    # A machine on which nothing but this process and its children runs.
    monkeypatch.setattr(machine, "busy_seconds", measure._cpu_of_both)
    found = measure.watched(measure_a_process, 1)
    assert found["peak_mb"] > 190
    assert found["others"] == pytest.approx(0, abs=0.05)


def result(rate, ratio=None, spread=0.01, peak_mb=10.0):
    def around(value):
        return {"median": value, "low": value * (1 - spread), "high": value * (1 + spread)}

    ratios = {} if ratio is None else {"ratio": around(ratio), "cpu_ratio": around(ratio)}
    return {"rate": around(rate), "cpu_rate": around(rate), **ratios, "peak_mb": peak_mb, "others": 0.0}


def test_a_row_says_what_was_to_be_reached():
    def said(found, **limits):
        row = Row(lambda _: Measured(1, [], []), peak_mb=20, **limits)
        return [text.partition(":")[0] for text in report.verdicts(row, found)]

    assert said(result(99, 0.6, peak_mb=20), rate=100) == ["NO", "NO"]
    assert said(result(99, 0.6, peak_mb=19), ratio=0.5) == ["yes", "yes"]
    assert said(result(99, 0.6), rate=100, ratio=0.5)[0] == "yes"
    assert said(result(99, 0.4), rate=100, ratio=0.5)[0] == "NO"
    assert "60%" in report.line("a", Row(lambda _: Measured(1, [], [])), result(99, 0.6))


def test_a_row_that_starts_programs_says_how_long_one_takes():
    row = Row(lambda _: Measured(1, [], []), within=0.2)
    assert report.verdicts(row, result(10)) == ["yes: 0.10 s, at most 0.2 s"]
    assert report.verdicts(row, result(4)) == ["NO: 0.25 s, at most 0.2 s"]


def test_a_row_says_what_share_of_its_time_goes_beside_the_floor():
    row = Row(lambda _: Measured(1, [], []), beside=0.02)
    assert report.verdicts(row, result(10, 0.985)) == ["yes: 1.5% beside the floor, under 2%"]
    assert report.verdicts(row, result(10, 0.97)) == ["NO: 3.0% beside the floor, under 2%"]


def test_comparison_goes_by_the_ratio_and_marks_spreads_that_overlap(tmp_path, capsys):
    rows = {"a": (result(10, 0.5), result(5, 0.6)), "b": (result(10), result(10.1)), "c": (result(1), None)}
    for index, name in enumerate(("before.json", "after.json")):
        held = {"rows": {key: pair[index] for key, pair in rows.items() if pair[index]}}
        (tmp_path / name).write_text(json.dumps(held))
    assert compare.main([str(tmp_path / "before.json"), str(tmp_path / "after.json")]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["a", "ratio", "50.0%", "60.0%", "+20.0%"]
    assert second.split()[:5] == ["b", "rate", "10", "10", "+1.0%"]
    assert "overlap" in second


def test_compare_wants_two_files():
    assert compare.main(["one.json"]) == 2
