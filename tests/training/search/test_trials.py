"""Candidates that share sessions get the weights that each would get in a session of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import threading

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from training.search.own_data import write_rings

from yt8m import forks
from yt8m.command_line import cli, flags
from yt8m.lazy import tf
from yt8m.training.search import candidates, trials, videos_in_memory
from yt8m.training.search.candidates import Candidate
from yt8m.training.search.trials import CandidateTrial, Trainer
from yt8m.training.search.videos_in_memory import VideosInMemory

CANDIDATES = [
    Candidate("LogisticModel", "standardize", 0.01, 0.01),
    Candidate("GatedMlpModel", "standardize", 0.003, 0.01, {"drop_rate": 0.3}),
    Candidate("LogisticModel", "standardize", 0.1, 0.05),
    Candidate("GatedMlpModel", "standardize", 0.003, 0.01, {"drop_rate": 0.3}),
    Candidate("LogisticModel", "standardize", 0.01, 0.01),
]


def opened(folder: pathlib.Path) -> tuple[Trainer, VideosInMemory]:
    pattern = write_rings(folder)
    config, _ = flags.training([f"--data={pattern}", f"--out={folder}/run"])
    videos, _ = videos_in_memory.read(config.data, pattern, 1000)
    return Trainer(dataclasses.replace(config, seed=3), videos), videos


@pytest.mark.heavy
def test_candidates_in_one_session_are_trained_as_in_sessions_of_their_own(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, new_session = [], forks.new_session
    monkeypatch.setattr(forks, "new_session", lambda **of: sessions.append(new_session(**of)) or sessions[-1])
    trainer, videos = opened(tmp_path)
    alone = []
    for candidate in CANDIDATES:
        with contextlib.closing(Trainer(trainer._config, videos)) as other:
            alone.append(other.scores(CandidateTrial(candidate, 20, 32), videos))
    count = len(sessions)
    with contextlib.closing(trainer):
        for candidate, expected in zip(CANDIDATES, alone, strict=True):
            np.testing.assert_array_equal(trainer.scores(CandidateTrial(candidate, 20, 32), videos), expected)
    assert len(sessions) - count == 2  # one for each family
    assert not np.array_equal(alone[0], alone[2])
    for session in sessions:
        with pytest.raises(RuntimeError, match="closed"):
            session.run(session.graph.get_operations()[0])


def test_two_threads_have_sessions_of_their_own(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, videos = opened(tmp_path)
    trial, meet, results = CandidateTrial(CANDIDATES[0], 10, 32), threading.Barrier(2), []
    plain = trials._Order.next_rows
    is_first = threading.local()

    def next_rows(order: trials._Order) -> np.ndarray:
        if not hasattr(is_first, "met"):
            is_first.met = meet.wait()  # both are training now
        return plain(order)

    with contextlib.closing(trainer):
        expected = trainer.scores(trial, videos)
        monkeypatch.setattr(trials._Order, "next_rows", next_rows)
        threads = [threading.Thread(target=lambda: results.append(trainer.scores(trial, videos))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 2
    for scores in results:
        np.testing.assert_array_equal(scores, expected)


@pytest.mark.skipif(not pathlib.Path("/proc/self/task").exists(), reason="no /proc")
def test_a_session_has_the_threads_that_it_asks_for_whatever_the_first_one_asked_for() -> None:
    with tf.Session(graph=tf.Graph(), config=tf.ConfigProto(intra_op_parallelism_threads=1)):
        before = len([*pathlib.Path("/proc/self/task").iterdir()])
        with tf.Session(graph=tf.Graph(), config=tf.ConfigProto(intra_op_parallelism_threads=9)):
            assert len([*pathlib.Path("/proc/self/task").iterdir()]) >= before + 8


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(6))
def test_strong_penalties_leave_the_inputs_of_every_class(seed: int, tmp_path: pathlib.Path) -> None:
    """Each class is the product of two inputs, of which neither says anything alone."""
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(2500, 16)).astype(np.float32)
    labels = np.stack([inputs[:, 2 * place] * inputs[:, 2 * place + 1] > 0.3 for place in range(8)], 1)
    names = [";".join(f"c{place}" for place in np.flatnonzero(row)) for row in labels]
    np.savez(tmp_path / "t.npz", id=[f"v{row}" for row in range(2500)], labels=names, clip=inputs)
    words = ["--splits=train:0.7,test:0.3", f"--out={tmp_path}/data", f"--table={tmp_path}/t.npz"]
    assert cli.main(["make-records", *words]) == 0
    pattern = f"{tmp_path}/data/video/train/*"
    config, _ = flags.training([f"--data={pattern}", f"--out={tmp_path}/run"])
    (videos, _), (test, _) = (
        videos_in_memory.read(config.data, pattern.replace("train", split), 3000) for split in ("train", "test")
    )
    strongest = max(
        (each for each in candidates._CANDIDATES if each.model == "GatedMlpModel"), key=lambda each: each.penalty
    )
    with contextlib.closing(Trainer(dataclasses.replace(config, seed=seed), videos)) as trainer:
        scores = trainer.scores(CandidateTrial(strongest, 540, 64), test)
    assert min(average_precision_score(test.labels[:, place], scores[:, place]) for place in range(8)) > 0.9
