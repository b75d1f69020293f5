"""The arithmetic of the benchmarks: ratios to floors, verdicts, comparisons."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time

import pytest

from benchmarks import compare, measure, rows
from benchmarks.measure import Measured, Sample
from benchmarks.rows import Row

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = Row(lambda _: Measured(1))


# A program of its own, because other tests of this process may free memory meanwhile.
MAPS_AND_FILLS = """
import sys
import numpy as np
from benchmarks import measure

with measure.OwnMemory() as before:
    pass
with measure.OwnMemory(interval=0.01) as memory:
    arrays = [np.memmap(sys.argv[1], np.uint8, "r"), np.ones(48 << 20, np.uint8)]
    sums = [int(array.sum()) for array in arrays]  # held until the last sample
print(*sums, memory.peak_mb - before.peak_mb)
"""


@pytest.mark.heavy
def test_own_memory_leaves_out_the_pages_of_files(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(128 << 20))
    words = subprocess.check_output([sys.executable, "-c", MAPS_AND_FILLS, path], text=True, cwd=ROOT).split()
    assert words[:2] == ["0", str(48 << 20)]
    assert 32 < float(words[2]) < 100


def test_each_sample_is_divided_by_the_floors_around_it():
    floors = {"copying": [Sample(2.0, 4.0), Sample(4.0, 4.0), Sample(6.0, 4.0)]}
    summary = Measured(100, [Sample(6.0, 8.0), Sample(10.0, 8.0)], floors).summary()
    assert summary["ratio"] == {"median": 0.5, "low": 0.5, "high": 0.5}
    assert summary["cpu_ratio"]["median"] == 0.5
    assert summary["rate"] == pytest.approx({"median": (100 / 6 + 10) / 2, "low": 10.0, "high": 100 / 6})
    assert summary["notes"] == []


def test_a_floor_that_was_taken_with_its_sample_is_its_own():
    floors = {"plain steps": [Sample(1.0, 1.0), Sample(3.0, 1.0)]}
    summary = Measured(1, [Sample(2.0, 4.0), Sample(4.0, 4.0)], floors).summary()
    assert summary["ratio"] == {"median": 0.625, "low": 0.5, "high": 0.75}


def test_a_row_without_a_floor_has_no_ratio():
    assert list(Measured(1, [Sample(1.0, 1.0)]).summary()) == ["rate", "cpu_rate", "notes"]


def test_of_several_floors_the_first_is_in_the_table_and_a_note_has_each():
    floors = {"reading": [Sample(1.0, 1.0)] * 2, "reading and products": [Sample(2.0, 3.0), Sample(4.0, 3.0)]}
    summary = {**Measured(1, [Sample(4.0, 4.0)], floors, ["losses agree"]).summary(), "peak_mb": 1.0, "others": 0.0}
    assert summary["ratio"]["median"] == 0.25
    assert rows.line("train", ROW, summary).endswith(
        "losses agree; 25% of reading (25%..25%; by cpu 25%); 75% of reading and products (75%..75%; by cpu 75%)"
    )


def test_floors_are_timed_around_each_sample_after_a_turn_that_is_not_counted():
    order = []

    def work(name, samples):
        def turn():
            order.append(name)
            return samples.pop(0)

        return turn

    floor = work("floor", [Sample(seconds, 1.0) for seconds in (9, 1, 2, 3)])
    measured = measure.take_turns(7, work("work", [Sample(seconds, 1.0) for seconds in (9, 4, 5)]), {"copy": floor}, 2)
    assert order == ["work", "floor", "floor", "work", "floor", "work", "floor"]
    assert (measured.count, [sample.seconds for sample in measured.samples]) == (7, [4, 5])
    assert [sample.seconds for sample in measured.floors["copy"]] == [1, 2, 3]


def test_repeat_does_not_count_the_first_time():
    calls = []
    measured = measure.repeat(lambda: calls.append(0), 7, repeats=3)
    assert (len(calls), len(measured.samples), measured.count) == (4, 3, 7)


def test_a_watched_row_tells_its_memory_and_the_others():
    found = measure.watched(lambda repeats: Measured(1, [Sample(1.0, 1.0)] * repeats), 2)
    assert found["peak_mb"] > 1
    assert found["others"] >= 0


def test_what_a_row_starts_counts_as_its_own(monkeypatch):
    def measure_a_process(repeats):
        code = "import time; content = b'1' * 200_000_000\nwhile time.process_time() < 0.3: pass"
        for _ in range(repeats):
            subprocess.run([sys.executable, "-c", code], check=True)
        return Measured(1, [Sample(1.0, 1.0)])

    # A machine on which nothing but this process and its children runs.
    monkeypatch.setattr(measure, "busy_seconds", measure.cpu_seconds)
    found = measure.watched(measure_a_process, 1)
    assert found["peak_mb"] > 190
    assert found["others"] == pytest.approx(0, abs=0.05)


def command_of(process):
    """What a process runs; empty once it is dead."""
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_process_that_takes_too_long_ends_with_what_it_started(tmp_path):
    number = tmp_path / "number"
    code = "import subprocess, sys\n"
    code += "child = subprocess.Popen(['sleep', '1000'])\n"
    code += "open(sys.argv[1], 'w').write(str(child.pid))\n"
    with pytest.raises(SystemExit, match="took longer than 5 s"):
        measure.run_process([sys.executable, "-c", code + "child.wait()", str(number)], seconds=5.0)
    patience = time.monotonic() + 60.0
    while command_of(number.read_text()) and time.monotonic() < patience:
        time.sleep(0.01)
    assert command_of(number.read_text()) == b""


def test_a_process_that_fails_says_what_it_wrote():
    with pytest.raises(SystemExit, match=r"(?s)status 3.*no such thing"):
        measure.run_process([sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(3)"])


def result(rate, ratio=None, spread=0.01, peak_mb=10.0):
    def around(value):
        return {"median": value, "low": value * (1 - spread), "high": value * (1 + spread)}

    ratios = {} if ratio is None else {"ratio": around(ratio), "cpu_ratio": around(ratio)}
    return {"rate": around(rate), "cpu_rate": around(rate), **ratios, "notes": [], "peak_mb": peak_mb, "others": 0.0}


@pytest.mark.heavy
def test_cpu_time_includes_living_children_and_their_own():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    child = "print(sum(range(30_000_000)), flush=True); input()"
    before = measure.now()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, child], **pipes) as process:
        process.stdout.readline()
        used, tree = measure.now().cpu - before.cpu, measure.tree_seconds(process.pid)
        process.communicate(b"\n")
    assert used >= 0.05
    assert tree >= 0.05
    assert measure.tree_seconds(process.pid) == 0  # it has ended


def test_a_row_says_what_was_to_be_reached():
    def said(found, **limits):
        row = Row(lambda _: Measured(1), peak_mb=20, **limits)
        return [text.partition(":")[0] for text in rows.verdicts(row, found)]

    assert said(result(99, 0.6, peak_mb=20), rate=100) == ["NO", "NO"]
    assert said(result(99, 0.6, peak_mb=19), ratio=0.5) == ["yes", "yes"]
    assert said(result(99, 0.6), rate=100, ratio=0.5) == ["yes", "NO", "yes"]
    assert said(result(99, 0.4), ratio=0.5)[0] == "NO"
    assert "60%" in rows.line("a", Row(lambda _: Measured(1)), result(99, 0.6))


def test_a_row_that_starts_programs_says_how_long_one_takes():
    row = Row(lambda _: Measured(1), within=0.2)
    assert rows.verdicts(row, result(10)) == ["yes: 0.10 s, at most 0.2 s"]
    assert rows.verdicts(row, result(4)) == ["NO: 0.25 s, at most 0.2 s"]


def test_a_row_says_what_share_of_its_time_goes_beside_the_floor():
    row = Row(lambda _: Measured(1), beside=0.02)
    assert rows.verdicts(row, result(10, 0.985)) == ["yes: 1.5% beside the floor, under 2%"]
    assert rows.verdicts(row, result(10, 0.97)) == ["NO: 3.0% beside the floor, under 2%"]


def test_comparison_goes_by_the_ratio_and_marks_spreads_that_overlap(tmp_path, capsys):
    pairs = {"a": (result(10, 0.5), result(5, 0.6)), "b": (result(10), result(10.1)), "c": (result(1), None)}
    for index, name in enumerate(("before.json", "after.json")):
        held = {"rows": {key: pair[index] for key, pair in pairs.items() if pair[index]}}
        (tmp_path / name).write_text(json.dumps(held))
    assert compare.main([str(tmp_path / "before.json"), str(tmp_path / "after.json")]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["a", "ratio", "50.0%", "60.0%", "+20.0%"]
    assert second.split()[:5] == ["b", "rate", "10.00", "10.10", "+1.0%"]
    assert "overlap" in second


def test_compare_wants_two_files():
    assert compare.main(["one.json"]) == 2
