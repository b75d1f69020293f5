"""Where the parts of a step's input wait, and that an area gives back what was put there."""

from __future__ import annotations

import numpy as np
import pytest
from graph.staged_toy import Names, Scores

from yt8m import deploy, graph
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.graph.inputs import DeviceBuffer, PrefetchBuffers, RowShare, StagedBatch
from yt8m.lazy import tf


def places(deployment: deploy.DeploymentConfig) -> dict[str, set[tuple[str, ...]]]:
    """{device: the types that are put there at a time} of a training graph."""
    with tf.Graph().as_default() as made:
        graph.build(Names(), Scores(), deployment, OptimizerConfig(), DeviceConfig(prefetch_to_device=True))
        puts = [op for op in made.get_operations() if op.type == "Stage"]
        takes = [op for op in made.get_operations() if op.type == "Unstage"]
    found: dict[str, set[tuple[str, ...]]] = {}
    for op in puts:
        found.setdefault(op.device, set()).add(tuple(tensor.dtype.name for tensor in op.inputs))
    taken: dict[str, set[tuple[str, ...]]] = {}
    for op in takes:
        taken.setdefault(op.device, set()).add(tuple(tensor.dtype.name for tensor in op.outputs))
    assert taken == found
    assert len(puts) == 2 * len(takes)  # by the step that finds nothing, and by the one before
    return found


def test_features_and_labels_wait_on_the_towers_devices() -> None:
    """The GPUs need not exist, because a graph only names its devices."""
    large = ("float32", "float32", "bool")
    small = ("string", "int32", "int64", "float32")
    is_full = ("bool",)
    assert places(deploy.DeploymentConfig(2)) == {
        "/device:CPU:0": {(*small, *small, "int64"), is_full},
        "/device:GPU:0": {large},
        "/device:GPU:1": {large},
    }
    assert places(deploy.DeploymentConfig(1, variables_on_clone=True)) == {
        "/device:CPU:0": {(*small, "int64"), is_full},
        "/device:GPU:0": {large},
    }
    spread = places(deploy.DeploymentConfig(2, spread_on_cpu=True))
    assert spread["/device:CPU:1"] == {large}


@pytest.mark.parametrize("shards", [None, [7, 8]])
def test_nests_come_back_as_they_were_put(shards: list[int] | None) -> None:
    """With None, with sparse tensors, and static shapes."""
    with tf.Graph().as_default():
        sparse = tf.sparse.from_dense([[0, 3], [4, 0]])
        batch = {"none": None, "sparse": sparse, "dense": tf.placeholder_with_default(np.eye(2), [None, 2])}
        share = RowShare(batch, tf.constant(2, tf.int64), tf.constant(1.0))
        batch_of_step = StagedBatch([share], None if shards is None else tf.constant(shards, tf.int64))
        host = deploy.DeploymentConfig(clone_on_cpu=True)
        is_full = DeviceBuffer(host.inputs_device(), [tf.bool], "is_full")
        buffers = PrefetchBuffers(batch_of_step, host, is_full)
        put, empty, clear = buffers.put(batch_of_step), is_full.is_empty(), buffers.clear()
        taken = buffers.take()
        assert taken.shares[0].batch["none"] is None
        assert taken.shares[0].batch["dense"].shape.as_list() == [None, 2]
        assert (taken.shards is None) == (shards is None)
        dense = tf.sparse.to_dense(taken.shares[0].batch["sparse"])
        with tf.Session() as session:
            assert session.run(empty)
            session.run(put)
            assert not session.run(empty)
            assert session.run(dense).tolist() == [[0, 3], [4, 0]]
            assert session.run(empty)
            session.run(put)
            session.run(clear)
            assert session.run(empty)
