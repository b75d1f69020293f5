"""The loop that merges what hooks ask for, and the graph that a runner makes."""

from __future__ import annotations

import pathlib
import runpy
import sys
import traceback
from typing import Any

import pytest
from small_run import ROOT, train_words
from tiny_workload import TinyInputter, TinyModeler

from yt8m import runner
from yt8m.errors import UsageError
from yt8m.graph import EvalOps, InputOps, PredictOps, TrainOps
from yt8m.lazy import tf
from yt8m.runner.lines import Every
from yt8m.runner.runner import run_steps
from yt8m.runner.signals import StopSignals


class Asks(tf.train.SessionRunHook):
    """Asks for what it is made with."""

    def __init__(self, fetches: Any, feeds: Any = None, options: Any = None) -> None:
        self.arguments = tf.train.SessionRunArgs(fetches, feeds, options)

    def before_run(self, run_context: Any) -> Any:
        return self.arguments

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.got = run_values
        if self.got.results == 12:
            run_context.request_stop()


def test_fetches_feeds_and_options_of_all_hooks_meet_in_one_run() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        left, right = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
        counter = tf.get_variable("counter", initializer=0)
        session.run(counter.initializer)
        step = counter.assign_add(1)
        options = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
        hooks = [Asks(left * right, {left: 3}), Asks(None, {right: 4}), Asks([step], options=options)]
        ops = EvalOps(step, step, PredictOps(step), InputOps(step.op, step, b""))  # `examples` is what is fetched
        assert not run_steps(session, ops, hooks, StopSignals(1.0))
        assert hooks[0].got.results == 12
        assert hooks[1].got.results is None
        assert hooks[2].got.results == [1]
        assert hooks[0].got.run_metadata is not None
        assert session.run(counter) == 1
        with pytest.raises(RuntimeError, match="two callbacks feed"):
            run_steps(session, ops, [Asks(left, {left: 3}), Asks(None, {left: 4})], StopSignals(1.0))


@pytest.mark.parametrize("name", ["local_runner", "parameter_server_runner"])
def test_a_runner_gives_its_graph_without_running_it(tmp_path: pathlib.Path, data: str, name: str) -> None:
    towers = 2 if name == "parameter_server_runner" else 1
    config = runner.RunnerConfig(model_dir=str(tmp_path / "run"), gpu_count=towers, name=name)
    made = runner.build(config, TinyInputter(data), TinyModeler())
    with tf.Graph().as_default():
        created = made.create_graph()
        assert isinstance(created.ops, TrainOps)
        assert created.checkpoint is None
        devices = {variable.device for variable in tf.trainable_variables()}
        assert devices == {"/device:CPU:0"}
    with tf.Graph().as_default():
        assert isinstance(made.replicate_graph(), TrainOps)
    evaluated = runner.RunnerConfig(mode="eval", model_dir=str(tmp_path / "run"))
    with tf.Graph().as_default():
        assert isinstance(runner.build(evaluated, TinyInputter(data), TinyModeler()).replicate_graph(), EvalOps)


@pytest.mark.heavy
def test_from_train_py_to_session_run_are_at_most_nine_frames(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[list[str]] = []
    run = tf.Session.run

    def counting(*arguments: Any, **options: Any) -> Any:
        stack = [(pathlib.Path(frame.filename), frame.name) for frame in traceback.extract_stack()]
        frames = [name for path, name in stack if path == ROOT / "train.py" or ROOT / "yt8m" in path.parents]
        if frames[-1] == "run_steps":
            steps.append(frames)
        return run(*arguments, **options)

    monkeypatch.setattr(tf.Session, "run", counting)
    monkeypatch.setattr(sys, "argv", ["train.py", *train_words(tmp_path / "run", "--max_steps=2")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
    assert not ended.value.code
    assert len(steps) == 2
    assert steps[0][0] == "<module>"
    assert len(steps[0]) <= 9, steps[0]


class _Duck:
    """Has all that an inputter must have but the base class."""

    batch_size = 8

    def files(self) -> list[str]:
        return []

    def dataset(self, files: Any, batch_size: int) -> Any:
        return None


def test_a_new_run_calls_its_session_four_times_before_the_first_step(
    tmp_path: pathlib.Path, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow prepares the whole graph for each: initial values, input, the check of the weights, and their save."""
    calls, run = [], tf.Session.run

    def counted(session: tf.Session, fetches: Any, *args: Any, **more: Any) -> Any:
        calls.append([getattr(fetch, "name", fetch) for fetch in tf.nest.flatten(fetches)])
        return run(session, fetches, *args, **more)

    monkeypatch.setattr(tf.Session, "run", counted)
    config = runner.RunnerConfig(model_dir=str(tmp_path / "run"), max_steps=1)
    assert runner.build(config, TinyInputter(data), TinyModeler()).run().global_step == 1
    steps = [number for number, names in enumerate(calls) if any("step_after_train_op" in str(name) for name in names)]
    assert steps[0] == 4, calls


def test_a_workload_that_is_not_derived_from_the_base_classes_is_refused(tmp_path: pathlib.Path, data: str) -> None:
    config = runner.RunnerConfig(model_dir=str(tmp_path))
    duck: Any = _Duck()
    with pytest.raises(UsageError, match=r"_Duck .*yt8m\.graph\.Inputter"):
        runner.build(config, duck, TinyModeler())
    with pytest.raises(UsageError, match=r"_Duck .*yt8m\.graph\.Modeler"):
        runner.build(config, TinyInputter(data), duck)


class _Files(TinyInputter):
    """Five files, which are not looked for."""

    def files(self) -> list[str]:
        return list("abcde")


def test_the_defaults_of_an_inputter() -> None:
    inputter = _Files("", 8)
    assert [inputter.share(index, 2).files() for index in range(2)] == [["a", "c", "e"], ["b", "d"]]
    assert inputter.share(0, 2).batch_size == 8
    with pytest.raises(UsageError, match="there are 5 files for 6 processes, and _Files does not divide"):
        inputter.share(0, 6)
    assert list(inputter.changed_files()) == []
    assert (inputter.num_epochs, inputter.records, inputter.shard_order, inputter.damage()) == (None,) * 4
    assert (dict(inputter.expected_records), list(inputter.bad_records()), inputter.zeroed_values()) == ({}, [], 0)
    with pytest.raises(NotImplementedError, match="_Files has a shard_order"):
        inputter.numbered_dataset(None, 8, None)


def test_every_tolerates_jumps_and_counts_from_where_it_fired() -> None:
    now = [0.0]
    often = Every(steps=10, seconds=60, clock=lambda: now[0])
    often.restart(7)
    assert not often.due(9)
    assert often.due(10)
    assert often.due(13)
    often.restart(13)
    assert not often.due(19)
    now[0] = 60.0
    assert often.due(14)
    assert not Every().due(10**9)
