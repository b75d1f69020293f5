"""The process that evaluates beside a training: when it goes on waiting, and when it ends."""

from __future__ import annotations

import pathlib
import threading

import pytest
from clusters import free_addresses

from yt8m.command_line import flags
from yt8m.errors import RunError
from yt8m.runner.cluster import exchange
from yt8m.runner.cluster.peers import answering_at, answers
from yt8m.scoring import evaluation
from yt8m.training import cluster_training

pytestmark = pytest.mark.promise("P3")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_training, "POLL_SECONDS", 0.01)


def test_it_ends_where_the_chief_is_gone(tmp_path: pathlib.Path) -> None:
    (gone,) = free_addresses(1)
    with pytest.raises(RunError, match=rf"no checkpoint in .*\({gone}\).* 0\.1 s \(--stall_timeout"):
        next(cluster_training._follow_checkpoints(str(tmp_path), 0.1, gone))


def test_it_waits_as_long_as_the_chief_lives_and_ends_with_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred looks at a chief that saves nothing are no end; then it goes away."""
    (address,) = free_addresses(1)
    looks, gone = [], threading.Event()

    def look(chief: str) -> bool:
        looks.append(answers(chief))
        if len(looks) == 100:
            gone.set()
        return looks[-1]

    def train() -> None:
        with answering_at(address):
            listens.set()
            gone.wait()

    monkeypatch.setattr(cluster_training, "answers", look)
    listens, chief = threading.Event(), threading.Thread(target=train)
    chief.start()
    listens.wait()
    with pytest.raises(RunError, match="has not answered"):
        next(cluster_training._follow_checkpoints(str(tmp_path), 0.02, address))
    chief.join()
    assert all(looks[:100])
    assert not looks[-1]


def test_a_note_of_the_end_ends_it_well(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([str(tmp_path / "model.ckpt-7"), "", ""])
    monkeypatch.setattr(cluster_training, "_find_newer", lambda *_: next(found))
    exchange.end_run_marker(str(tmp_path), exchange.begin_run_marker(str(tmp_path)), 7)
    (gone,) = free_addresses(1)
    assert list(cluster_training._follow_checkpoints(str(tmp_path), 0.0, gone)) == [str(tmp_path / "model.ckpt-7")]


def test_a_taken_port_is_only_a_warning(tmp_path: pathlib.Path) -> None:
    (address,) = free_addresses(1)
    with answering_at(address), answering_at(address):
        assert answers(address)
    assert not answers(address)


def test_it_takes_the_data_as_the_training_does() -> None:
    words = ["--max_bad_records=3", "--nan_policy=zero", "--batch_size=16", "--num_readers=2", "--num_gpu=2"]
    files = ["--train_data_pattern=t*", "--eval_data_pattern=e*", "--train_dir=r", "--log_every_n_steps=7"]
    settings = evaluation.config_for_training(flags.train_config([*words, *files], files_are_here=False))
    assert (settings.max_bad_records, settings.nan_policy, settings.batch_size) == (3, "zero", 16)
    assert (settings.num_readers, settings.num_gpu, settings.log_every_n_steps) == (2, 2, 7)
    assert (settings.train_dir, settings.eval_data_pattern) == ("r", "e*")
