"""The graph of one replica: every process builds the same variables, on the same parameter servers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from yt8m import graph
from yt8m.graph import Inputter, Modeler, TrainOps
from yt8m.lazy import tf
from yt8m.runner.cluster import exchange
from yt8m.runner.cluster.exchange import SharedState
from yt8m.runner.cluster.servers import server_device
from yt8m.runner.creation import deployment_for, replicate
from yt8m.runner.run_config import RunnerConfig


@dataclass(frozen=True)
class ReplicaGraph:
    """What a session on it needs.

    Attributes:
      ops: its handles.
      board: the table that the replicas share.
      saver: writes checkpoints.
      restorer: reads them.
      missing: names of variables without a value.
      init: gives all shared variables their first values.
      local_init: the same for what is this process' own.
      done: tells the parameter servers that this process needs them no longer.
      deployment: devices, and how to open a session.
      synchrony: the common steps; None where each replica steps by itself.
    """

    ops: TrainOps
    board: SharedState
    saver: tf.train.Saver
    restorer: graph.Restorer
    missing: tf.Tensor
    init: tf.Operation
    local_init: tf.Operation
    done: Sequence[tf.Operation]
    deployment: Any
    synchrony: graph.Synchrony | None


def build(config: RunnerConfig, inputter: Inputter, modeler: Modeler) -> ReplicaGraph:
    """Builds it in the current, empty graph."""
    deployment, cluster = deployment_for(config), config.cluster
    assert cluster is not None
    board = SharedState(server_device(0))
    with tf.device(server_device(0)):
        tf.train.get_or_create_global_step()
    synchrony = None
    if config.sync_replicas:
        synchrony = graph.Synchrony(deployment.num_replicas, board.table)
        config = _averages_on_the_chief(config)
    ops = replicate(config, inputter, modeler, deployment, synchrony)
    assert isinstance(ops, TrainOps)
    _check_places()
    # Files are read and written here, not where a variable lives.
    with tf.device(deployment.inputs_device()):
        return ReplicaGraph(
            ops=ops,
            board=board,
            saver=tf.train.Saver(max_to_keep=None),
            restorer=graph.Restorer(),
            missing=tf.report_uninitialized_variables(tf.global_variables()),
            init=tf.global_variables_initializer(),
            local_init=tf.group(tf.local_variables_initializer(), tf.tables_initializer()),
            done=exchange.tell_ops(cluster.replica_name(cluster.replica), len(cluster.servers)),
            deployment=deployment,
            synchrony=synchrony,
        )


def _averages_on_the_chief(config: RunnerConfig) -> RunnerConfig:
    """Moving averages move once a common step, not once a replica."""
    assert config.cluster is not None
    if config.cluster.is_chief:
        return config
    optimizer = dataclasses.replace(config.optimizer, moving_average_decay=0.0)
    return dataclasses.replace(config, optimizer=optimizer)


def _check_places() -> None:
    """Refuses a variable that other replicas would not see."""
    for variable in tf.global_variables():
        if not variable.device.startswith(server_device(0).partition("/task")[0]):
            raise RuntimeError(
                f"the variable {variable.op.name} is on {variable.device or 'no device'}, where the other "
                "replicas do not see it"
            )
