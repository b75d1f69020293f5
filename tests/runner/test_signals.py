"""SIGTERM and ctrl-C, sent to real processes."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import threading
from collections.abc import Callable

import cases
import pytest

from yt8m.runner.signals import StopSignals

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    "number",
    cases.all_of([signal.SIGTERM], heavy=[signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU]),
    ids=lambda n: n.name,
)
@pytest.mark.promise("P1")
def test_the_step_in_hand_is_saved(start: Callable, tmp_path: pathlib.Path, number: int) -> None:
    process = start(callbacks={"runner.tiny_hooks:Gate": {"step": 20}})
    assert process.stdout.readline() == "at step 20\n"
    process.send_signal(number)
    output, log = process.communicate()
    assert process.returncode == 128 + number, log
    status, step, _ = json.loads(output.splitlines()[-1])
    assert status == "stopped"
    assert step >= 20
    assert (tmp_path / "run" / f"model.ckpt-{step}.index").exists()
    assert f'model_checkpoint_path: "model.ckpt-{step}"' in (tmp_path / "run" / "checkpoint").read_text()


ABOUT = {"runner.tiny_hooks:Gate": {"step": 0}}


@pytest.mark.promise("P2")
def test_blocked_in_a_dequeue_it_ends_within_the_grace(start: Callable, tmp_path: pathlib.Path) -> None:
    process = start(blocks=True, stop_grace_seconds=0.3, callbacks=ABOUT)
    assert process.stdout.readline() == "about to run\n"
    process.send_signal(signal.SIGTERM)
    output, log = process.communicate()
    assert process.returncode == 143, log
    assert json.loads(output.splitlines()[-1])[:2] == ["stopped", 0]
    assert (tmp_path / "run" / "model.ckpt-0.index").exists()


@pytest.mark.heavy
@pytest.mark.promise("P2")
def test_blocked_in_the_system_it_ends_all_the_same(start: Callable, tmp_path: pathlib.Path) -> None:
    """Opening a pipe that nobody writes to: closing the session does not help."""
    os.mkfifo(tmp_path / "pipe")
    # The grace is long enough for a busy machine to come from what is printed to the step.
    process = start(data=str(tmp_path / "pipe"), stop_grace_seconds=5.0, callbacks=ABOUT)
    assert process.stdout.readline() == "about to run\n"
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate()
    assert process.returncode == 143, log
    assert "ending the process" in log
    assert (tmp_path / "run" / "model.ckpt-0.index").exists()


@pytest.mark.heavy
@pytest.mark.promise("P2")
def test_what_takes_longer_than_the_grace_beside_the_steps(start: Callable, tmp_path: pathlib.Path) -> None:
    """The session is closed then, so nothing can be saved: that is the signal's doing and no failure."""
    process = start(
        stop_grace_seconds=0.3,
        callbacks={"runner.tiny_hooks:Gate": {"step": 20, "seconds": 1.0}},
        checkpoints={"save_checkpoint_steps": 15},
    )
    assert process.stdout.readline() == "at step 20\n"
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate()
    assert process.returncode == 143, log
    assert (tmp_path / "run" / "model.ckpt-15.index").exists()


@pytest.mark.parametrize("number", cases.all_of([signal.SIGTERM], heavy=[signal.SIGINT]))
@pytest.mark.promise("P1")
@pytest.mark.promise("P7")
def test_a_second_signal_ends_at_once(start: Callable, number: int) -> None:
    process = start(blocks=True, stop_grace_seconds=3600, callbacks=ABOUT)
    assert process.stdout.readline() == "about to run\n"
    process.send_signal(number)
    assert any("stopping after this step" in line for line in process.stderr)
    process.send_signal(number)
    _, log = process.communicate()
    assert process.returncode == 128 + number, log


@pytest.mark.heavy
@pytest.mark.promise("P1")
def test_a_notice_again_or_before_sigterm_ends_nothing_at_once(start: Callable, tmp_path: pathlib.Path) -> None:
    """The kernel sends SIGXCPU every second, and Slurm sends SIGTERM after the SIGUSR1 of `--signal=USR1@60`."""
    process = start(callbacks={"runner.tiny_hooks:Gate": {"step": 20, "seconds": 1.0}})
    assert process.stdout.readline() == "at step 20\n"
    process.send_signal(signal.SIGUSR1)
    assert any("SIGUSR1: stopping after this step" in line for line in process.stderr)
    for number in (signal.SIGUSR1, signal.SIGXCPU, signal.SIGTERM):
        process.send_signal(number)
    output, log = process.communicate()
    assert process.returncode == 128 + signal.SIGUSR1, log
    step = json.loads(output.splitlines()[-1])[1]
    assert (tmp_path / "run" / f"model.ckpt-{step}.index").exists()


def test_ignored_signals_and_handlers_of_others_stay() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGUSR1, lambda *_: None)
    own = signal.getsignal(signal.SIGUSR1)
    try:
        with StopSignals(1.0) as signals:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGUSR1) is own
            assert signal.getsignal(signal.SIGXCPU) is not signal.SIG_DFL
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not signals.requested
        assert signal.getsignal(signal.SIGXCPU) is signal.SIG_DFL
    finally:
        for number, handler in zip((signal.SIGHUP, signal.SIGUSR1), former, strict=True):
            signal.signal(number, handler)


def test_outside_of_the_main_thread_nothing_is_touched() -> None:
    seen = []

    def enter() -> None:
        with StopSignals(1.0) as signals:
            signals.renew_grace()
            seen.append((signals.requested, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [(False, signal.getsignal(signal.SIGTERM))]
