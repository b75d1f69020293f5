"""The cluster's hooks, in a session without a cluster."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from yt8m.deploy.cluster import ClusterConfig
from yt8m.graph import Synchrony
from yt8m.lazy import tf
from yt8m.runner.cluster.exchange import SharedState
from yt8m.runner.signals import StopSignals


class Creator:
    """Gives each session's variables their first values."""

    def __init__(self) -> None:
        self._init = tf.global_variables_initializer()

    def create_session(self) -> tf.Session:
        session = tf.Session()
        session.run(self._init)
        return session


def test_the_sum_that_is_waited_for_ends_with_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """It logs no error, because nothing failed."""
    from yt8m.runner.cluster.replica_hooks import ReplicaHook

    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    before = set(threading.enumerate())
    with tf.Graph().as_default():
        weight, step = tf.get_variable("weight", initializer=1.0), tf.train.get_or_create_global_step()
        state = SharedState("")
        synchrony = Synchrony(1, state.table)
        common = synchrony.wrap(tf.train.GradientDescentOptimizer(0.5), tf.constant(3, tf.int64))
        stepped = common.apply_gradients([(tf.constant(0.25), weight)], step)
        hook = ReplicaHook(ClusterConfig(("host:1",)), state, StopSignals(1.0), synchrony)
        with tf.train.MonitoredSession(Creator(), [hook], 0) as session:
            for _ in range(2):
                session.run(stepped)
            assert session.run((weight, step)) == (0.75, 2)
            started = set(threading.enumerate()) - before
    assert any("QueueRunnerThread" in thread.name for thread in started)
    for thread in started:
        thread.join(600)
        assert not thread.is_alive()
    assert not failures
