"""Which values a chief goes on from, in a session without a cluster."""

from __future__ import annotations

import pathlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tiny_workload import TinyModeler

from yt8m import graph, runner
from yt8m.lazy import tf
from yt8m.runner.cluster.exchange import SharedState
from yt8m.runner.cluster.replica import ChiefCreator

OURS, SAVED, FRESH = "our run", (5, 50.0), (0, 1.0)


class Chief:
    """A chief and the variables that it finds: the step, and one weight."""

    def __init__(self, model_dir: pathlib.Path) -> None:
        self.step = tf.train.get_or_create_global_step()
        self.weight = tf.get_variable("weight", initializer=FRESH[1])
        self.state = SharedState("")
        self.saver = tf.train.Saver()
        self.stem = str(model_dir / "model.ckpt")
        self.context: Any = types.SimpleNamespace(config=runner.RunnerConfig(model_dir=str(model_dir)))
        replica: Any = types.SimpleNamespace(
            ops=types.SimpleNamespace(global_step=self.step),
            state=self.state,
            saver=self.saver,
            restorer=graph.Restorer(),
            missing=tf.report_uninitialized_variables(),
            init=tf.global_variables_initializer(),
        )
        self._creator = ChiefCreator("", replica, self.context, OURS, TinyModeler())
        self.session = tf.Session()

    def load(self, step: int, weight: float) -> None:
        """Gives the variables values, as those who train do."""
        self.step.load(step, self.session)
        self.weight.load(weight, self.session)

    def save(self) -> None:
        """Leaves the checkpoint `SAVED`, in a session that has ended."""
        self.load(*SAVED)
        self.saver.save(self.session, self.stem, self.step)
        self.session.close()
        self.session = tf.Session()

    def comes(self) -> tuple[int, float]:
        """The values that it leaves when it comes; the workers may take them up."""
        self._creator._fill_variables(self.session)
        assert self.state.is_live(self.session, OURS)
        return self.session.run((self.step, self.weight))


@pytest.fixture
def chief(tmp_path: pathlib.Path) -> Iterator[Chief]:
    with tf.Graph().as_default():
        made = Chief(tmp_path)
        yield made
        made.session.close()


@pytest.mark.promise("P4")
@pytest.mark.parametrize("live", [(7, 70.0), (5, 51.0)])
def test_live_variables_that_are_not_older_than_the_checkpoint_stay(chief: Chief, live: tuple[int, float]) -> None:
    chief.save()
    chief.load(*live)
    chief.state.set_live(chief.session, OURS)
    assert chief.comes() == live
    assert chief.context.is_resumed


def older(chief: Chief) -> None:
    chief.load(3, 30.0)
    chief.state.set_live(chief.session, OURS)


def missing(chief: Chief) -> None:
    """One of two parameter servers has come back, empty."""
    chief.step.load(7, chief.session)
    chief.state.set_live(chief.session, OURS)


def of_another_run(chief: Chief) -> None:
    chief.load(7, 70.0)
    chief.state.set_live(chief.session, "another run")


def of_no_run(chief: Chief) -> None:
    """A chief was killed while it restored."""
    chief.load(7, 70.0)


@pytest.mark.promise("P4")
@pytest.mark.parametrize("find", [older, missing, of_another_run, of_no_run])
def test_any_others_are_those_of_the_checkpoint(chief: Chief, find: Callable[[Chief], None]) -> None:
    chief.save()
    find(chief)
    assert chief.comes() == SAVED
    assert chief.context.is_resumed
    assert not chief.state.is_live(chief.session, "another run")


@pytest.mark.promise("P4")
@pytest.mark.parametrize("find", [missing, of_another_run])
def test_without_a_checkpoint_they_are_fresh(chief: Chief, find: Callable[[Chief], None]) -> None:
    find(chief)
    assert chief.comes() == FRESH
    assert not chief.context.is_resumed


@pytest.mark.promise("P4")
@pytest.mark.parametrize(("find", "ended"), [(older, {1}), (missing, {1}), (of_another_run, set()), (of_no_run, set())])
def test_who_was_through_with_another_runs_data_is_forgotten(
    chief: Chief, find: Callable[[Chief], None], ended: set[int]
) -> None:
    """A replica that was through with the data of this run stays so when its chief comes back."""
    chief.save()
    find(chief)
    chief.state.set_ended(chief.session, 1)
    chief.comes()
    assert chief.state.ended(chief.session) == ended
