"""How a run ends, and with which status."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
from collections.abc import Callable

import pytest
from tiny_workload import TinyModeler

from yt8m.command_line.program import Terminated, run_main
from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf
from yt8m.runner import Outcome, Status
from yt8m.runner.runner import explain


@pytest.mark.promise("P1")
@pytest.mark.promise("P7")
def test_exit_statuses() -> None:
    ends = {
        (Status.FINISHED, None): 0,
        (Status.OUT_OF_DATA, None): 0,
        (Status.FAILED, None): 1,
        (Status.STOPPED, signal.SIGTERM): 143,
        (Status.STOPPED, signal.SIGINT): 130,
    }
    for (status, number), code in ends.items():
        assert Outcome(status, 7, "so it was", number).exit_code == code


@pytest.mark.promise("P7")
@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UsageError("no such flag"), 2, "tool: error: no such flag\n"),
        (RunError("no such run"), 1, "tool: error: no such run\n"),
        (KeyboardInterrupt(), 130, "tool: stopped by Ctrl-C\n"),
        (Terminated(), 143, "tool: stopped by SIGTERM\n"),
    ],
)
def test_one_line_and_a_status(
    error: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(words: list[str]) -> int:
        raise error

    assert run_main("tool", run, []) == status
    assert capsys.readouterr().err == said


@pytest.mark.promise("C4")
@pytest.mark.parametrize("kind", [tf.errors.ResourceExhaustedError, tf.errors.OutOfRangeError])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_is_not_taken_for_memory(kind: type[tf.errors.OpError], number: int) -> None:
    message = f"Graph execution error:\n\nrun/export/12.partial/variables; {os.strerror(number)}\n\t [[node"
    said = explain(kind(None, None, message))
    remedy = "Make room there, or write elsewhere, and start again."
    assert said == f"no room to write: run/export/12.partial/variables; {os.strerror(number)}. {remedy}"


@pytest.mark.promise("P7")
def test_out_of_memory_in_one_tower_is_one_clear_message(train: Callable[..., Outcome]) -> None:
    """The second tower asks for four petabytes."""

    class Greedy(TinyModeler):
        towers = 0

        def build(self, batch, is_training):  # type: ignore[no-untyped-def]
            output = super().build(batch, is_training)
            Greedy.towers += is_training
            if Greedy.towers == 1:
                return output
            length = tf.shape(batch[0], out_type=tf.int64)[:1] * 2**47
            return dataclasses.replace(output, loss=output.loss * tf.reduce_max(tf.fill(length, 1.0)))

    outcome = train(modeler=Greedy(), gpu_count=2, max_steps=3)
    assert Greedy.towers == 2
    assert (outcome.status, outcome.exit_code, outcome.global_step) == ("failed", 1, 0)
    assert outcome.message.startswith("out of memory: ")
    assert outcome.message.endswith("Use a smaller batch size, or fewer towers per device.")
    assert "\n" not in outcome.message


def test_a_resumed_run_that_fails_before_its_first_step_is_at_the_step_of_its_checkpoint(
    train: Callable[..., Outcome],
) -> None:
    assert train(max_steps=2).global_step == 2
    outcome = train(max_steps=4, moving_average_decay=0.9)  # the checkpoint has no averages
    assert (outcome.status, outcome.global_step) == (Status.FAILED, 2)
