"""Replicas of one training must share the model and the flags that change its steps."""

from __future__ import annotations

from typing import Any

import pytest

from yt8m.deploy.cluster import WORKER, ClusterConfig
from yt8m.lazy import tf
from yt8m.runner.cluster.shared_flags import fingerprint
from yt8m.runner.run_config import RunnerConfig

pytestmark = pytest.mark.promise("P8")

REPLICAS, SERVERS = ("a:1", "b:1"), ("c:1",)


def fingerprint_of(size: int = 2, role: str = "chief", servers: tuple[str, ...] = SERVERS, **options: Any) -> int:
    with tf.Graph().as_default():
        variable = tf.get_variable("weights", [size])
        config = RunnerConfig(model_dir="run", cluster=ClusterConfig(REPLICAS, servers, role), **options)
        return fingerprint(config, [variable])


@pytest.mark.parametrize(
    "options",
    [{"size": 3}, {"max_steps": 5}, {"signature": {"model": "MoeModel"}}, {"base_learning_rate": 0.1}]
    + [{"sync_replicas": True}, {"servers": ("c:1", "d:1")}],
)
def test_what_changes_the_steps_changes_the_fingerprint(options: dict[str, Any]) -> None:
    assert fingerprint_of(**options) != fingerprint_of()


@pytest.mark.parametrize(
    "options",
    [{"role": WORKER}, {"log_every_n_steps": 3}, {"signature": {"teacher": "/here"}}, {"save_summary_steps": 7}]
    + [{"num_gpu": 2}, {"batch_size_per_gpu": 512}, {"signature": {"batch_size": 512}}],
)
def test_the_role_the_log_the_paths_and_the_size_of_a_machine_do_not(options: dict[str, Any]) -> None:
    assert fingerprint_of(**options) == fingerprint_of()
    assert 0 <= fingerprint_of(**options) < 2**63
