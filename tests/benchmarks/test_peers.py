"""The comparison with PyTorch: turns, ratios, and that both compute the same."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import data
from benchmarks.measure import Sample
from benchmarks.peers import comparison
from benchmarks.peers.comparison import NETWORKS, ROWS, Comparison, describe_difference, losses_path
from benchmarks.peers.contestants import Contestant, PipeTurns
from yt8m.datasets.sample_data import SampleConfig, generate
from yt8m.eval_util import EvaluationMetrics
from yt8m.lazy import tf
from yt8m.models import recurrent
from yt8m.models.layers import Net

# The compiler takes minutes for a network; `make bench-peers` compares the losses of all of them.
COMPILED = ["LogisticModel"]
# Batch statistics of a few videos magnify rounding, so the models that use them get enough.
SMALL_BATCHES = {"LogisticModel": 8, "MoeModel": 8, "DbofModel": 64, "NeXtVladModel": 32, "LstmModel": 4, "GruModel": 4}
# PyTorch's GRU is another function, which is nearly the same with the first weights, and gives other gradients.
LOSSES_COMPARED = {"GruModel": 1}


class Recorder(PipeTurns):
    """Gives a number of turns and keeps the samples."""

    def __init__(self, turns: int = 0) -> None:
        self.samples, self._turns = [], turns

    def tell(self, sample):
        self.samples.append(sample)

    def wait(self):
        self._turns -= 1
        return self._turns >= 0


@pytest.mark.parametrize(("warm", "expected"), [(5, [8, 16]), (1, [5, 10])])
def test_a_turn_is_timed_per_step(warm, expected):
    turns, done, ended = Recorder(2), [], []
    turns.take(lambda: done.append(sum(range(500_000))), 4, finish=lambda: ended.append(len(done)), warm=warm)
    assert len(turns.samples) == 2
    assert ended == expected  # with the steps before each turn, at most as many as it has
    assert all(0 < sample.cpu * 4 < 60 and sample.seconds > 0 for sample in turns.samples)


@pytest.mark.heavy
def test_a_contestant_that_fails_ends_the_comparison_with_its_message(tmp_path):
    contestant = Contestant("yt8m", "step", "none", "float32", str(tmp_path))
    with contestant, pytest.raises(SystemExit, match=r"(?s)yt8m ended with status 1 before .*KeyError: 'none'"):
        contestant.turn()


def test_the_line_that_a_contestant_begins_with_is_that_of_its_first_turn(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("go\ngo\n"))
    turns = object.__new__(PipeTurns)  # whose constructor redirects standard output
    turns._is_told = False
    assert [turns.begin(), turns.wait(), turns.wait(), turns.wait()] == [True, True, True, False]
    assert not turns.begin()


def test_a_contestant_answers_each_turn_with_a_sample(tmp_path, monkeypatch):
    code = "import sys\nfor turn, _ in enumerate(sys.stdin): print([turn + 0.5, 0.25], flush=True)"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "python").write_text(f"#!/bin/sh\nexec python3 -c '{code}'\n")
    (tmp_path / "python").chmod(0o755)
    with Contestant("eager", str(tmp_path)) as contestant:
        assert [contestant.turn(), contestant.turn()] == [Sample(0.5, 0.25), Sample(1.5, 0.25)]


@pytest.mark.parametrize(("factor", "verdict"), [(1.0001, "NO: losses differ by 1e-04"), (1.00001, "yes: losses")])
def test_losses_that_differ_are_marked(factor, verdict):
    ours = np.array([3.0, 2.0])
    assert describe_difference(ours, [ours, ours * factor], 5e-5).startswith(verdict)


def test_every_network_has_all_works_and_a_goal_for_each():
    assert len(ROWS) == 5 * 6 + 2
    assert [name for name in ROWS if "GruModel" in name] == ["peers/eval/GruModel", "peers/infer/GruModel"]
    assert ROWS["peers/step/MoeModel, bfloat16"].ratio == 1.0
    assert [ROWS[f"peers/{work}/MoeModel"].ratio for work in ("files", "eval", "infer")] == [1.3, 1.3, 1.3]
    assert [ROWS[f"peers/{work}/LstmModel"].ratio for work in ("files", "eval", "infer")] == [1.0, 1.3, 1.0]


def test_samples_travel_as_json():
    written = io.StringIO()
    turns = Recorder()
    turns._out = written
    PipeTurns.tell(turns, Sample(0.5, 0.25))
    assert json.loads(written.getvalue()) == [0.5, 0.25]


# In a process of its own, because the compiler leaves threads and files behind.
LOSSES_OF_PEER = """
import pathlib, sys
from benchmarks.peers import comparison, contestants, theirs
model, batch, folder, contestant = sys.argv[1:]
comparison.NETWORKS[model] = comparison.NETWORKS[model]._replace(batch=int(batch))
theirs.take_turns(contestants.PipeTurns(), comparison.Comparison("step", model), pathlib.Path(folder), contestant)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("model", ["LogisticModel", "MoeModel", "DbofModel", "NeXtVladModel", "LstmModel", "GruModel"])
def test_all_compute_the_same_losses(model, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[peers]'")
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed: pip install -e '.[peers]'")
    from benchmarks.peers import ours

    monkeypatch.setitem(NETWORKS, model, NETWORKS[model]._replace(batch=SMALL_BATCHES[model]))
    monkeypatch.setattr(data, "shards", lambda level: short_videos(level, tmp_path))
    ours.take_turns(Recorder(), Comparison("step", model), tmp_path, comparison.OURS)
    expected = np.load(losses_path(tmp_path, comparison.OURS))
    assert len(expected) == ours.LOSSES
    for contestant in comparison.PEERS if model in COMPILED else ["eager"]:
        store_losses_of_peer(model, str(tmp_path), contestant)
        losses = np.load(losses_path(tmp_path, contestant))
        compared = LOSSES_COMPARED.get(model, ours.LOSSES)
        np.testing.assert_allclose(losses[:compared], expected[:compared], rtol=1e-4, err_msg=contestant)


@pytest.mark.heavy
def test_both_grus_compute_the_same_while_the_reset_gate_is_open():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[peers]'")
    from benchmarks.peers import networks

    draw, cells, num_frames = np.random.default_rng(0), 3, np.array([4, 2])
    codes = draw.integers(0, 256, (2, 4, 5)).astype(np.uint8)
    batch = networks.Batch((torch.tensor(codes),), torch.tensor(num_frames), torch.zeros(2, 1))
    with tf.Graph().as_default(), tf.Session() as session, tf.variable_scope("tower"):
        inputs = tf.nn.l2_normalize(tf.constant(networks.dequantised(torch.tensor(codes)).numpy()), -1)
        _, finals = recurrent.stack(
            recurrent.gru, Net(False), inputs, tf.sequence_mask(num_frames, 4, tf.float32), cells, 2
        )
        weights = {}
        for variable in tf.global_variables():
            weights[variable.op.name] = draw.normal(size=variable.shape).astype(np.float32)
            if variable.op.name.endswith("gates/bias"):
                weights[variable.op.name][:cells] = 100.0  # the reset gate is 1
            variable.load(weights[variable.op.name], session)
        expected = session.run(finals[-1])
    mixture = {f"tower/{part}/{kind}": np.zeros(1) for part in ("gates", "experts") for kind in ("weights", "biases")}
    with torch.no_grad():
        got = networks.Gru({**weights, **mixture}).last_output(batch)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)


def short_videos(level: str, folder: pathlib.Path) -> str:
    """The pattern of new shards. On 300 frames the compiled LSTM alone takes more than twenty minutes."""
    generate(SampleConfig(str(folder), level, train=256, validate=0, test=0, min_frames=10, max_frames=12))
    return str(folder / level / "train" / "*.tfrecord")


def store_losses_of_peer(model: str, folder: str, contestant: str) -> None:
    """Lets a peer store its losses of the first steps on what this project stored in `folder`."""
    command = [sys.executable, "-c", LOSSES_OF_PEER, model, str(SMALL_BATCHES[model]), folder, contestant]
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/compiled", "TMPDIR": folder}
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.heavy
def test_the_figures_of_the_peers_are_those_of_this_project():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[peers]'")
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed: pip install -e '.[peers]'")
    from benchmarks.peers.figures import Figures

    draw = np.random.default_rng(0)
    ours, theirs = EvaluationMetrics(50, 20), Figures()
    for _ in range(3):
        predictions, labels = draw.random((40, 50), np.float32), draw.random((40, 50)) < 0.06
        labels[:, 0] |= ~labels.any(1)
        ours.accumulate(predictions, labels, np.zeros(40))
        theirs.add(torch.tensor(predictions), torch.tensor(labels), torch.tensor(0.0))
    figures, expected = theirs.get(), ours.get()
    assert figures["Hit@1"] == pytest.approx(expected["avg_hit_at_one"], abs=1e-6)
    assert figures["PERR"] == pytest.approx(expected["avg_perr"], abs=1e-6)
    assert figures["GAP"] == pytest.approx(expected["gap"], abs=1e-6)
    assert figures["mAP"] == pytest.approx(np.mean(expected["aps"]), abs=1e-6)
