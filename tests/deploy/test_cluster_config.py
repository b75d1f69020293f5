"""TF_CONFIG and CLUSTER_SPEC: what is understood, and what is refused by name."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from absl import logging

from yt8m.deploy.cluster import ClusterConfig, from_environment
from yt8m.errors import UsageError

JOBS = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"], "evaluator": ["e:1"]}


def described(cluster=JOBS, **task):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0, **task}})}


@pytest.mark.parametrize("text", ["", " ", "{}", '{"environment": "cloud"}', '{"task": {}}'])
def test_no_cluster_means_one_process(text):
    assert from_environment({"TF_CONFIG": text}) is None
    assert from_environment({}) is None


def test_every_role_finds_its_place():
    chief = from_environment(described())
    assert chief == ClusterConfig(("a:1", "b:1", "c:1"), ("d:1",), "chief", 0)
    assert (chief.name, chief.replica, chief.address, chief.is_chief) == ("chief", 0, "a:1", True)
    worker = from_environment(described(type="worker", index=1))
    assert (worker.name, worker.replica, worker.address, worker.is_chief) == ("worker 1", 2, "c:1", False)
    assert worker.replica_name(2) == "worker 1 (c:1)"
    assert worker.replica_name(0) == "chief (a:1)"
    server = from_environment(described(type="ps"))
    assert (server.name, server.address, server.is_distributed) == ("ps 0", "d:1", True)
    assert from_environment(described(type="evaluator")).address == ""


def test_master_is_the_older_name_of_the_chief():
    assert from_environment(described({"master": ["a:1"], "ps": ["b:1"]}, type="master")).is_chief


def test_an_evaluator_need_not_be_listed_and_leaves_the_chief_alone():
    found = from_environment(described({"chief": ["a:1"]}, type="evaluator"))
    assert found.role == "evaluator"
    assert not found.is_distributed


@pytest.mark.parametrize("host", ["a_b-0.c.internal", "10.0.0.1", "[::1]", "[fe80::1%eth0]", "bücher", "a."])
def test_names_and_addresses_of_hosts_are_taken(host):
    assert from_environment(described({"chief": [f"{host}:2222"]})).address == f"{host}:2222"


def test_vertex_pools():
    spec = {
        "cluster": {"workerpool0": ["a:1"], "workerpool1": ["b:1"], "workerpool2": ["c:1", "d:1"]},
        "environment": "cloud",
        "task": {"type": "workerpool2", "index": 1, "trial": ""},
    }
    found = from_environment({"CLUSTER_SPEC": json.dumps(spec)})
    assert found == ClusterConfig(("a:1", "b:1"), ("c:1", "d:1"), "ps", 1)
    assert from_environment({"CLUSTER_SPEC": json.dumps(spec), **described()}).servers == ("d:1",)


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ('{"cluster"', ["not JSON", "Expected, for example"]),
        ("[1]", ["holds a list"]),
        (json.dumps({"cluster": ["a:1"]}), ["cluster is", "expected an object of jobs"]),
        (described({"worker": ["a:1"]}), ["names no chief (it has worker)", "chief or master"]),
        (described({"chief": ["a:1", "b:1"]}), ["names 2 chiefs", "exactly one"]),
        (described({"chief": ["a:1"], "wroker": ["b:1"]}), ["'wroker'", "did you mean worker", "evaluator"]),
        (described({"chief": "a:1"}), ["the job chief is 'a:1'", "host:port"]),
        (described({"chief": ["a"]}), ["the job chief has the address 'a'", "host:port, such as host0:2222"]),
        (described({"chief": ["a:1"], "worker": ["b:1", 2]}), ["the job worker has the address 2;", "host:port"]),
        (described({"chief": ["a:70000"]}), ["the address 'a:70000'", "a port from 1 to 65535"]),
        (described({"chief": ["http://localhost:2222"]}), ["the address 'http://localhost:2222'", "a host name"]),
        (described({"chief": ["host..x:2222"]}), ["the address 'host..x:2222'", "a host name"]),
        (described({"chief": [f"{'x' * 64}:1"]}), [f"the address '{'x' * 64}:1'", "a host name"]),
        (described({"chief": ["::1:2222"]}), ["the address '::1:2222'", "IPv6 in brackets"]),
        (described({"chief": ["[::x]:2222"]}), ["the address '[::x]:2222'", "IPv6 in brackets"]),
        (described({"chief": ["a:1"], "ps": ["a:1"]}), ["a:1 is given twice"]),
        (described(type="boss"), ["unknown job 'boss'", "expected one of"]),
        (described(type=["worker"]), ['unknown job ["worker"]', "expected one of"]),
        (described(type={"worker": 0}), ['unknown job {"worker": 0}', "expected one of"]),
        (described(type="worker", index=2), ["index is 2", "2 processes", "from 0 to 1"]),
        (described(type="worker", index=-1), ["index is -1"]),
        (described(type="worker", index="0"), ["index is '0'", "whole number"]),
        (described({"chief": ["a:1"]}, type="ps"), ["the job ps, which the cluster does not list"]),
        *((described(type=role, index=None), [f"the type {role}", "no index"]) for role in JOBS),
        (json.dumps({"cluster": JOBS, "task": {"type": "worker"}}), ["the type worker", "no index", "from 0"]),
        (described({"master": ["a:1"]}, type="master", index=None), ["the type master", "no index"]),
        (json.dumps({"cluster": JOBS, "task": {"index": 0}}), ['task is {"index": 0}', "type and index"]),
        ('{"cluster": {}}', ["an empty cluster", "addresses of the processes are missing", "unset"]),
        ('{"cluster": null, "task": {"type": "worker", "index": 0}}', ["an empty cluster", "addresses"]),
        ('{"task": {"type": "worker", "index": 0}}', ["a task, but no cluster", "addresses", "unset"]),
        ('{"task":' * 50_000 + "0" + "}" * 50_000, ["not JSON", "nested deeper than 100"]),
        (f'{{"cluster": {"[" * 101 + "]" * 101}}}', ["not JSON", "nested deeper than 100"]),
    ],
)
@pytest.mark.promise("P8")
def test_what_cannot_be_is_named(variable, words):
    environment = variable if isinstance(variable, dict) else {"TF_CONFIG": variable}
    with pytest.raises(UsageError) as caught:
        from_environment(environment)
    for word in ["TF_CONFIG", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "jobs"),
    [("TF_CONFIG", ["chief", "worker", "ps"]), ("CLUSTER_SPEC", ["workerpool0", "workerpool1", "workerpool2"])],
)
@pytest.mark.parametrize("text", ["[]", "{", '{"cluster": {}}', '{"cluster": []}', '{"cluster": 1}'])
@pytest.mark.promise("P8")
def test_the_example_in_a_message_is_understood(variable, jobs, text):
    with pytest.raises(UsageError, match=f"^{variable}.* Expected, for example: ") as caught:
        from_environment({variable: text})
    example = str(caught.value).partition("Expected, for example: ")[2]
    assert list(json.loads(example)["cluster"]) == jobs
    found = from_environment({variable: example})
    assert found == ClusterConfig(("host0:2222", "host1:2222"), ("host2:2222",), "worker", 0)


@pytest.mark.parametrize("task", [None, {}])
@pytest.mark.promise("P8")
def test_without_a_task_it_is_the_published_codes_master(task, caplog):
    before = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    try:
        with caplog.at_level("INFO", logger="absl"):
            found = from_environment({"TF_CONFIG": json.dumps({"cluster": JOBS, "task": task})})
    finally:
        logging.set_verbosity(before)
    assert found == ClusterConfig(("a:1", "b:1", "c:1"), ("d:1",), "chief", 0)
    assert caplog.messages == ["TF_CONFIG names no task: this process is master 0, the chief"]


@pytest.mark.promise("P8")
def test_a_pool_without_a_task_is_refused():
    with pytest.raises(UsageError, match="CLUSTER_SPEC: task is null"):
        from_environment({"CLUSTER_SPEC": json.dumps({"cluster": {"workerpool0": ["a:1"]}})})


@pytest.mark.promise("P8")
def test_workers_without_a_server_cannot_train():
    with pytest.raises(UsageError, match="no parameter server"):
        ClusterConfig(("a:1", "b:1")).check_servers("parameter-servers")
    ClusterConfig(("a:1",)).check_servers("parameter-servers")
    ClusterConfig(("a:1",), ("b:1",)).check_servers("parameter-servers")
    ClusterConfig(("a:1", "b:1")).check_servers("all-reduce")
    with pytest.raises(UsageError, match=r"--exchange=all-reduce\b.*\b1 parameter server"):
        ClusterConfig(("a:1", "b:1"), ("c:1",)).check_servers("all-reduce")


def test_parsing_needs_no_tensorflow():
    code = (
        "import sys; from yt8m.deploy.cluster import from_environment as f; print(f().name);"
        "assert 'tensorflow' not in sys.modules"
    )
    root = pathlib.Path(__file__).resolve().parents[2]
    environment = {**os.environ, **described(type="worker"), "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "worker 0\n", done.stderr
