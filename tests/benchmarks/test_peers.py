"""The comparison with PyTorch: turns, ratios, and that both compute the same."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.measure import Sample
from benchmarks.peers.__main__ import line, ratio_to_best
from benchmarks.peers.rows import CONTESTANTS, ROWS, Row
from benchmarks.peers.turns import Contestant, Turns, now
from yt8m.eval_util import EvaluationMetrics

# Batch statistics of a few videos magnify rounding, so the models that use them get enough.
SMALL_BATCHES = {"LogisticModel": 8, "MoeModel": 8, "DbofModel": 64, "NeXtVladModel": 32, "LstmModel": 8}


class Recorder(Turns):
    """Takes a given number of turns and keeps what is told."""

    def __init__(self, turns: int = 0) -> None:
        self.told, self._left = [], turns

    def tell(self, value):
        self.told.append(value)

    def wait(self):
        self._left -= 1
        return self._left >= 0


def test_a_turn_is_timed_per_step():
    turns, done, ended = Recorder(2), [], []
    turns.take(lambda: done.append(sum(range(500_000))), 4, warm_steps=3, finish=lambda: ended.append(len(done)))
    assert len(turns.told) == 2
    assert ended == [7, 14]
    assert all(0 < sample.cpu * 4 < 60 and sample.seconds > 0 for sample in turns.told)


def test_processor_time_includes_living_children():
    before = now()
    child = subprocess.Popen(
        [sys.executable, "-c", "print(sum(range(30_000_000)), flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    child.stdout.readline()
    used = now().cpu - before.cpu
    child.communicate(b"\n")
    assert used >= 0.05


def test_a_contestant_that_fails_ends_the_comparison_with_its_message(tmp_path):
    with pytest.raises(SystemExit, match=r"(?s)yt8m ended with status 1 before its turn was over:.*KeyError: 'none'"):
        Contestant("yt8m", "none", str(tmp_path))


def result(ours: float, eager: float, compiled: float, differs: float | None = 2e-7) -> dict:
    rates = {
        name: {"median": rate, "low": rate, "high": rate}
        for name, rate in zip(CONTESTANTS, (ours, eager, compiled), strict=True)
    }
    return {"rate": rates, "cpu_rate": rates, "differs": differs, "others": 0.0}


def test_the_ratio_is_to_the_faster_peer():
    assert ratio_to_best(result(100, 80, 125)["rate"]) == 0.8
    assert "NO: at least 0.95" in line(ROWS["step/MoeModel"], result(100, 80, 125))
    assert "yes: at least 0.95" in line(ROWS["step/MoeModel"], result(100, 80, 105))


@pytest.mark.parametrize(
    ("row", "differs", "verdict"), [("step/MoeModel", 2e-4, "2e-04 NO"), ("eval/MoeModel", None, "")]
)
def test_losses_that_differ_are_marked(row, differs, verdict):
    shown = line(ROWS[row], result(2, 1, 1, differs))
    assert (verdict or "yes") in shown
    assert ("e-04" in shown) == bool(verdict)
    assert ("NO: at least" in shown) == bool(verdict)


def test_every_network_has_all_works_and_names_are_unique():
    assert len(ROWS) == 5 * 6
    assert {row.work for row in ROWS.values()} == {"step", "files", "eval", "infer"}
    assert all(row.name == name for name, row in ROWS.items())


def test_samples_travel_as_json(monkeypatch):
    written = io.StringIO()
    turns = Recorder()
    turns._out = written
    Turns.tell(turns, Sample(0.5, 0.25))
    assert json.loads(written.getvalue()) == [0.5, 0.25]


# In a process of its own, because the compiler leaves threads and files behind.
LOSSES_OF_PEER = """
import pathlib, sys
from benchmarks.peers import rows, theirs, turns
model, batch, folder, contestant = sys.argv[1:]
rows.NETWORKS[model] = rows.NETWORKS[model]._replace(batch=int(batch))
theirs.take_turns(turns.Turns(), rows.Row("step", model, "float32", 1.0), pathlib.Path(folder), contestant)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("model", ["LogisticModel", "MoeModel", "DbofModel", "NeXtVladModel", "LstmModel"])
def test_all_compute_the_same_losses(model, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch torchmetrics")
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed: pip install torch torchmetrics")
    from benchmarks.peers import ours, rows

    monkeypatch.setitem(rows.NETWORKS, model, rows.NETWORKS[model]._replace(batch=SMALL_BATCHES[model]))
    turns = Recorder()
    ours.step(turns, Row("step", model, "float32", 1.0), tmp_path)
    assert len(turns.told[0]) == 10
    for contestant in ("eager", "compiled"):
        told = losses_of_peer(model, str(tmp_path), contestant)
        np.testing.assert_allclose(told, turns.told[0], rtol=1e-4, err_msg=contestant)


def losses_of_peer(model: str, folder: str, contestant: str) -> list[float]:
    """The losses of the first steps on what this project stored in `folder`."""
    command = [sys.executable, "-c", LOSSES_OF_PEER, model, str(SMALL_BATCHES[model]), folder, contestant]
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/compiled", "TMPDIR": folder}
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_the_figures_of_the_peers_are_those_of_this_project():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch torchmetrics")
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed: pip install torch torchmetrics")
    from benchmarks.peers.figures import Figures

    draw = np.random.default_rng(0)
    ours, theirs = EvaluationMetrics(50, 20), Figures()
    for _ in range(3):
        predictions, labels = draw.random((40, 50), np.float32), draw.random((40, 50)) < 0.06
        labels[:, 0] |= ~labels.any(1)
        ours.accumulate(predictions, labels, np.zeros(40))
        theirs.add(torch.tensor(predictions), torch.tensor(labels), torch.tensor(0.0))
    found, expected = theirs.get(), ours.get()
    assert found["Hit@1"] == pytest.approx(expected["avg_hit_at_one"], abs=1e-6)
    assert found["PERR"] == pytest.approx(expected["avg_perr"], abs=1e-6)
    assert found["GAP"] == pytest.approx(expected["gap"], abs=1e-6)
    assert found["mAP"] == pytest.approx(np.mean(expected["aps"]), abs=1e-6)
