"""A run with fewer GPUs than --num_gpu has a tower for each GPU, and everything counts the towers that exist.

The GPUs are faked: their number is that which the test names, and soft placement runs their ops on the CPU.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import cases
import pytest
from tiny_workload import TinyInputter, TinyModeler

from yt8m import deploy, runner
from yt8m.config.train_config import OptimizerConfig


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the number of GPUs of this machine."""
    return lambda count: monkeypatch.setattr(deploy, "count_gpus", lambda: count)


def losses(path: pathlib.Path) -> runner.CallbackConfig:
    return runner.CallbackConfig(options={"runner.tiny_hooks:Losses": {"path": str(path)}})


@pytest.mark.parametrize(("found", "towers"), cases.all_of([(2, 2)], heavy=[(0, 4), (1, 1), (5, 4)]))
def test_batch_schedule_and_epochs_count_the_towers_that_exist(
    train: Callable, data: str, tmp_path: pathlib.Path, lines: Callable, gpus: Callable, found: int, towers: int
) -> None:
    """40 rows, 2 a tower; the rate falls by half after every 16 examples."""
    schedule = OptimizerConfig(
        base_learning_rate=0.1, learning_rate_decay=0.5, learning_rate_decay_examples=16, optimizer="AdamOptimizer"
    )

    def run(name: str, asked: int) -> runner.Outcome:
        same = {"optimizer": schedule, "exact_resume": True, "model_dir": str(tmp_path / f"run {name}")}
        return train(losses(tmp_path / name), inputter=TinyInputter(data, 2, epochs=1), gpu_count=asked, **same)

    gpus(0)
    assert run("without GPUs", towers).global_step == 20 // towers
    gpus(found)
    said = len(lines())
    assert run("with GPUs", 4).global_step == 20 // towers
    assert (tmp_path / "with GPUs").read_text() == (tmp_path / "without GPUs").read_text()
    warnings = [line for line in lines()[said:] if "--num_gpu=4" in line]
    assert len(warnings) == (0 < found < 4)
    assert all(f"{found} GPU" in line and f"{2 * towers} examples, not 8" in line for line in warnings)


@pytest.mark.heavy
def test_an_exact_resume_on_fewer_gpus_says_that_the_data_begin_anew(
    train: Callable, lines: Callable, gpus: Callable
) -> None:
    same = {"gpu_count": 4, "exact_resume": True}
    gpus(4)
    assert train(max_steps=3, **same).global_step == 3
    gpus(2)
    assert train(max_steps=5, **same).global_step == 5
    assert sum("num_gpu was 4 and is 2" in line for line in lines()) == 1
    [position] = [line for line in lines() if "position in the data of step 3 cannot be used" in line]
    assert "--num_gpu" in position
    said = len(lines())
    assert train(max_steps=7, **same).global_step == 7  # as many GPUs as before: the position is used
    assert not [line for line in lines()[said:] if "cannot be used" in line or "rebuilt" in line]


def test_one_gpu_for_several_towers_trains_as_a_local_runner_does(
    data: str, tmp_path: pathlib.Path, gpus: Callable
) -> None:
    """The variables are then on the GPU, not on the CPU."""
    gpus(1)
    config = runner.RunnerConfig(model_dir=str(tmp_path / "run"), gpu_count=3)
    made = runner.build(config, TinyInputter(data), TinyModeler())
    assert (made.config.name, made.config.towers) == ("local_runner", 1)


def test_the_validation_during_a_training_does_not_say_it_again(
    data: str, tmp_path: pathlib.Path, lines: Callable, gpus: Callable
) -> None:
    gpus(2)
    config = runner.RunnerConfig("eval", str(tmp_path), gpu_count=3)
    assert runner.StandingEvaluation(config, TinyInputter(data), TinyModeler()).config.towers == 2
    assert not lines()
