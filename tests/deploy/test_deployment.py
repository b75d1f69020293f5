"""Devices of every setting, and the refusals."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.deploy import DeploymentConfig, local
from yt8m.lazy import tf


@pytest.mark.parametrize(
    ("config", "clones", "optimizer", "inputs", "variables"),
    [
        (DeploymentConfig(), ["/device:GPU:0"], "/device:CPU:0", "/device:CPU:0", "/device:CPU:0"),
        (DeploymentConfig(2), ["/device:GPU:0", "/device:GPU:1"], "/device:CPU:0", "/device:CPU:0", "/device:CPU:0"),
        (
            DeploymentConfig(2, clone_on_cpu=True),
            ["/device:CPU:0", "/device:CPU:0"],
            "/device:CPU:0",
            "/device:CPU:0",
            "/device:CPU:0",
        ),
        (
            DeploymentConfig(2, spread_on_cpu=True),
            ["/device:CPU:0", "/device:CPU:1"],
            "/device:CPU:0",
            "/device:CPU:0",
            "/device:CPU:0",
        ),
        (
            DeploymentConfig(variables_on_clone=True),
            ["/device:GPU:0"],
            "/device:GPU:0",
            "/device:CPU:0",
            "/device:GPU:0",
        ),
    ],
)
def test_devices_of_one_machine(config, clones, optimizer, inputs, variables):
    assert [config.clone_device(i) for i in range(config.num_clones)] == clones
    assert config.optimizer_device() == optimizer
    assert config.inputs_device() == inputs
    assert config.variables_device() == variables
    assert config.caching_device() is None


def test_devices_of_a_cluster():
    config = DeploymentConfig(2, replica_id=1, num_replicas=3, num_ps_tasks=2)
    assert config.clone_device(1) == "/job:worker/device:GPU:1"
    assert config.optimizer_device() == "/job:worker/device:CPU:0"
    assert config.inputs_device() == "/job:worker/device:CPU:0"
    assert list(config.session_config().device_filters) == ["/job:ps", "/job:worker/task:1"]
    named = DeploymentConfig(num_ps_tasks=1, worker_job_name="trainer", ps_job_name="store")
    assert named.inputs_device() == "/job:trainer/device:CPU:0"
    assert (named.worker_device, named.ps_device) == ("/job:trainer", "/job:store")


def test_job_names_mean_nothing_without_parameter_servers():
    assert DeploymentConfig(worker_job_name="", ps_job_name="").clone_device(0) == "/device:GPU:0"


def test_scopes():
    assert DeploymentConfig().clone_scope(0) == ""
    assert [DeploymentConfig(2).clone_scope(i) for i in range(2)] == ["clone_0", "clone_1"]


@examples(10)
@given(tasks=st.integers(1, 5), variables=st.integers(0, 12))
def test_equal_variables_go_round_the_parameter_servers(tasks, variables):
    config = DeploymentConfig(num_ps_tasks=tasks)
    with tf.Graph().as_default():
        for _ in range(2):  # each call starts with empty servers
            with tf.device(config.variables_device()):
                made = [tf.Variable(float(i)) for i in range(variables)]
                other = tf.constant(1.0)
            expected = [f"/job:ps/task:{i % tasks}/device:CPU:0" for i in range(variables)]
            assert [variable.op.device for variable in made] == expected
            assert other.op.device == ""


def test_a_large_variable_has_a_server_for_itself_until_the_others_hold_as_much():
    shapes = [[100, 10], [300], [400], [200], [150], []]
    choose = DeploymentConfig(num_ps_tasks=2).variables_device()
    with tf.Graph().as_default(), tf.device(choose):
        made = [tf.get_variable(f"v{i}", shape) for i, shape in enumerate(shapes)]
        wide = tf.get_variable("wide", [90], tf.float64)
        last = tf.get_variable("last", [])
    tasks = [int(variable.op.device.split("task:")[1][0]) for variable in [*made, wide, last]]
    assert tasks == [0, 1, 1, 1, 1, 0, 0, 1]


def test_a_shape_that_is_not_known_counts_as_one_element():
    choose = DeploymentConfig(num_ps_tasks=2).variables_device()
    with tf.Graph().as_default(), tf.device(choose):
        made = [tf.Variable([0.0], shape=[None]), tf.Variable(0.0), tf.Variable(0.0)]
    assert [variable.op.device[13] for variable in made] == ["0", "1", "0"]


def test_the_chooser_leaves_placed_ops_and_knows_both_generations():
    choose = DeploymentConfig(num_ps_tasks=2).variables_device()
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:1/device:CPU:0"):
            placed = tf.Variable(0.0)
        old = tf.Variable(0.0, use_resource=False)
        assert choose(placed.op) == "/job:ps/task:1/device:CPU:0"
        assert choose(old.op) == "/job:ps/task:0/device:CPU:0"
        assert choose(old.op.node_def) == "/job:ps/task:1/device:CPU:0"
        assert choose(graph.get_operation_by_name(old.op.name + "/read")) == ""


def test_caching_puts_a_copy_beside_the_reader():
    config = DeploymentConfig(num_ps_tasks=2)
    with tf.Graph().as_default(), tf.device(config.variables_device()):
        variable = tf.get_variable("v", [], caching_device=config.caching_device())
        assert variable.op.device == "/job:ps/task:0/device:CPU:0"
        assert variable.value().device == ""


@pytest.mark.parametrize(
    ("arguments", "named", "found", "expected"),
    [
        ({"num_clones": 0}, "num_clones", "0", "at least 1"),
        ({"num_clones": 1.0}, "num_clones", "1.0", "integer"),
        ({"num_clones": True}, "num_clones", "True", "integer"),
        ({"replica_id": -1}, "replica_id", "-1", "at least 0"),
        ({"replica_id": 1}, "replica_id", "1", "num_replicas"),
        ({"num_replicas": 0}, "num_replicas", "0", "at least 1"),
        ({"num_replicas": 2}, "num_ps_tasks", "0", "expected a parameter server (num_ps_tasks) or all_reduce"),
        ({"num_ps_tasks": -1}, "num_ps_tasks", "-1", "at least 0"),
        ({"num_ps_tasks": 1, "worker_job_name": ""}, "worker_job_name", "''", "name"),
        ({"num_ps_tasks": 1, "ps_job_name": None}, "ps_job_name", "None", "name"),
        ({"num_ps_tasks": 1, "ps_job_name": "worker"}, "ps_job_name", "'worker'", "another name"),
        ({"clone_on_cpu": 1}, "clone_on_cpu", "1", "True or False"),
        ({"spread_on_cpu": "yes"}, "spread_on_cpu", "'yes'", "True or False"),
        ({"variables_on_clone": None}, "variables_on_clone", "None", "True or False"),
        ({"variables_on_clone": True, "num_clones": 2}, "variables_on_clone", "num_clones=2", "one clone"),
        ({"variables_on_clone": True, "num_ps_tasks": 1}, "variables_on_clone", "num_ps_tasks=1", "one clone"),
    ],
)
def test_refusals_name_the_argument_what_was_found_and_expected(arguments, named, found, expected):
    with pytest.raises(ValueError, match=named) as refused:
        DeploymentConfig(**arguments)
    assert found in str(refused.value)
    assert expected in str(refused.value)


@pytest.mark.parametrize("index", [-1, 2])
def test_there_are_no_other_clones(index):
    for method in (DeploymentConfig(2).clone_device, DeploymentConfig(2).clone_scope):
        with pytest.raises(ValueError, match=f"clone_index is {index}; expected 0 to 1"):
            method(index)


def test_a_config_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DeploymentConfig().num_clones = 2


@pytest.mark.parametrize(
    ("towers", "gpus", "devices", "note"),
    [
        (1, 0, ["CPU:0"], "no GPU found: running 1 tower on the CPU"),
        (2, 0, ["CPU:0", "CPU:1"], "no GPU found: running 2 towers on 2 CPU devices"),
        (3, 1, ["GPU:0"], "1 GPU found for 3 towers: running 1 on GPUs"),
        (4, 2, ["GPU:0", "GPU:1"], "2 GPUs found for 4 towers: running 2 on GPUs"),
        (1, 2, ["GPU:0"], None),
        (2, 2, ["GPU:0", "GPU:1"], None),
    ],
)
def test_local_takes_the_first_gpus_or_without_any_the_cpu(towers, gpus, devices, note):
    config, line = local(towers, gpus)
    assert [config.clone_device(i) for i in range(config.num_clones)] == [f"/device:{unit}" for unit in devices]
    assert line == note
    on_gpu = devices[0].startswith("GPU")
    assert config.variables_device() == ("/device:GPU:0" if devices == ["GPU:0"] else "/device:CPU:0")
    assert ("GPU" in config.session_config().device_count) is not on_gpu


@pytest.mark.parametrize(("towers", "gpus", "named"), [(0, 0, "num_towers"), (1, -1, "gpus")])
def test_local_refuses(towers, gpus, named):
    with pytest.raises(ValueError, match=named):
        local(towers, gpus)


def test_sessions_get_the_cpu_devices_that_clones_sit_on():
    config = DeploymentConfig(3, spread_on_cpu=True)
    assert dict(config.session_config().device_count) == {"GPU": 0, "CPU": 3}
    with tf.Session(config=config.session_config(), graph=tf.Graph()) as session:
        names = [device.name for device in session.list_devices()]
    for index in range(3):
        assert any(name.endswith(f"/device:CPU:{index}") for name in names)
