"""The processes of a cluster and the role of this one, as TF_CONFIG or CLUSTER_SPEC describes them."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from absl import logging

from yt8m import storage
from yt8m.errors import UsageError, suggestion

CHIEF, WORKER, PS, EVALUATOR = "chief", "worker", "ps", "evaluator"

# {environment variable: {name of a job in the variable: role of the processes in this job}}. Estimator and Vertex AI
# set TF_CONFIG; Vertex AI also sets CLUSTER_SPEC. If both are set, they describe the same cluster.
_ROLES_OF_JOBS = {
    "TF_CONFIG": {"chief": CHIEF, "master": CHIEF, "worker": WORKER, "ps": PS, "evaluator": EVALUATOR},
    "CLUSTER_SPEC": {"workerpool0": CHIEF, "workerpool1": WORKER, "workerpool2": PS, "workerpool3": EVALUATOR},
}
# Matches host:port; the host may be an IPv6 address in brackets. `_is_address` also checks host and port.
_ADDRESS = re.compile(r"(?P<host>[\w.-]+|\[\S+\]):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class ClusterConfig:
    """The processes of a cluster, and the role of this one.

    Attributes:
      replicas: addresses of the processes that train, the chief first.
      servers: addresses of the parameter servers.
      role: the role of this process: chief, worker, ps (parameter server) or evaluator.
      index: number of this process among those of its role, from 0.
      lists_evaluator: whether the description of the cluster lists an evaluator. An evaluator works without being
        listed, too.
    """

    replicas: tuple[str, ...]
    servers: tuple[str, ...] = ()
    role: str = CHIEF
    index: int = 0
    lists_evaluator: bool = field(default=False, compare=False)

    @property
    def is_chief(self) -> bool:
        """Whether this process is the chief, which saves the run."""
        return self.role == CHIEF

    @property
    def is_distributed(self) -> bool:
        """Whether several processes train together; a chief with an evaluator trains alone."""
        return len(self.replicas) + len(self.servers) > 1

    @property
    def replica(self) -> int:
        """The index of this chief or worker in `replicas`."""
        return self.index + (self.role == WORKER)

    @property
    def name(self) -> str:
        """The name of this process in messages, such as `worker 0`."""
        return self.role if self.role == CHIEF else f"{self.role} {self.index}"

    @property
    def address(self) -> str:
        """Where this process listens; empty for an evaluator, to which no process connects."""
        if self.role == EVALUATOR:
            return ""
        return self.servers[self.index] if self.role == PS else self.replicas[self.replica]

    @property
    def named_replicas(self) -> dict[str, str]:
        """The processes that train, the chief first: {name for messages (see `replica_name`): address}."""
        return {self.replica_name(replica): address for replica, address in enumerate(self.replicas)}

    @property
    def others(self) -> dict[str, str]:
        """The `named_replicas` without this process."""
        return {name: address for name, address in self.named_replicas.items() if address != self.address}

    def replica_name(self, replica: int) -> str:
        """The name and address of a process that trains, for messages: `chief (host:port)` or `worker 0 (host:port)`.

        Args:
          replica: its index in `replicas`.
        """
        name = f"{WORKER} {replica - 1}" if replica else CHIEF
        return f"{name} ({self.replicas[replica]})"

    def check_servers(self, exchange: str) -> None:
        """Checks that the cluster has parameter servers if `exchange` needs them, and none if it does not.

        Args:
          exchange: what keeps the weights of the replicas equal: `parameter-servers` or `all-reduce`.

        Raises:
          UsageError: `exchange` is all-reduce and the cluster has parameter servers; or `exchange` is
            parameter-servers and the cluster has workers, but no parameter server.
        """
        if self.servers and exchange == "all-reduce":
            raise UsageError(
                f"--exchange=all-reduce is for a chief and workers only, but the cluster has {len(self.servers)} "
                "parameter server(s): leave out the job ps (workerpool2), or the flag."
            )
        if self.is_distributed and not self.servers and exchange != "all-reduce":
            raise UsageError(
                f"the cluster has {len(self.replicas) - 1} workers besides the chief and no parameter server; "
                "training needs at least one (job ps, or workerpool2) to hold the variables. Without any, "
                "--exchange=all-reduce lets each process hold all variables."
            )


def from_environment(environment: Mapping[str, str] = os.environ) -> ClusterConfig | None:
    """Reads the description of the cluster from TF_CONFIG, or, if that describes none, from CLUSTER_SPEC.

    Args:
      environment: {environment variable: value}; by default that of this process.

    Returns:
      The cluster; None if neither variable describes one.
    """
    for variable, jobs in _ROLES_OF_JOBS.items():
        cluster = _parse_cluster(variable, environment.get(variable, ""), jobs)
        if cluster is not None:
            return cluster
    return None


def is_left_to_the_chief(verb: str, command: str) -> bool:
    """Whether this process belongs to a cluster whose chief does all the work, and is not the chief.

    If there is a cluster, a line in the log says that the chief works alone.

    Args:
      verb: what the chief does, such as `evaluates`; used in the log.
      command: the command that divides the same work between many processes; the log suggests it.
    """
    cluster = from_environment()
    if cluster is None or (cluster.is_chief and not cluster.is_distributed):
        return False
    hint = f"`{command}` uses many processes"
    if cluster.is_chief:
        logging.info("the chief %s alone; %s", verb, hint)
        return False
    logging.info("%s has nothing to do: the chief %s alone; %s", cluster.name, verb, hint)
    return True


def _parse_cluster(variable: str, text: str, jobs: Mapping[str, str]) -> ClusterConfig | None:
    """Parses the value of one environment variable.

    Args:
      text: its value, JSON; empty if it is not set.

    Returns:
      The cluster; None if `text` is empty or describes no cluster.
    """
    if not text.strip():
        return None
    example = _format_example(variable)
    try:
        description = storage.parse_json(text)
    except ValueError as error:
        raise UsageError(f"{variable} is not JSON ({error}): {_format_value(text)}. {example}") from error
    if not isinstance(description, dict):
        raise UsageError(f"{variable} holds a {type(description).__name__}, not an object. {example}")
    if "cluster" not in description and not description.get("task"):
        return None
    if not description.get("cluster"):
        content = "an empty cluster" if "cluster" in description else "a task, but no cluster"
        raise UsageError(
            f"{variable} has {content}: the addresses of the processes are missing. Add them, or unset "
            f"{variable} if this process is to work alone. {example}"
        )
    addresses = _addresses_by_role(variable, description["cluster"], jobs)
    chiefs = " or ".join(name for name, role in jobs.items() if role == CHIEF)
    if not addresses[CHIEF]:
        raise UsageError(
            f"{variable} names no chief (it has {', '.join(description['cluster']) or 'no job'}); exactly one process "
            f"has to be {chiefs}: it saves the run. {example}"
        )
    if len(addresses[CHIEF]) > 1:
        raise UsageError(f"{variable} names {len(addresses[CHIEF])} chiefs; expected exactly one. {example}")
    task = description.get("task") or _default_task(variable)
    role, index = _role_and_index(variable, task, jobs, addresses)
    replicas, has_evaluator = (*addresses[CHIEF], *addresses[WORKER]), bool(addresses[EVALUATOR])
    return ClusterConfig(replicas, tuple(addresses[PS]), role, index, has_evaluator)


def _addresses_by_role(variable: str, cluster: Any, jobs: Mapping[str, str]) -> dict[str, list[str]]:
    """Reads the addresses of the processes in `cluster`, and refuses one that occurs twice.

    Returns:
      {role: addresses} with all four roles; the list of a role without processes is empty.
    """
    if not isinstance(cluster, dict):
        raise UsageError(
            f"{variable}: cluster is {_format_value(cluster)}; expected an object of jobs. {_format_example(variable)}"
        )
    addresses: dict[str, list[str]] = {role: [] for role in (CHIEF, WORKER, PS, EVALUATOR)}
    for job, tasks in cluster.items():
        if job not in jobs:
            raise UsageError(_format_unknown_job(variable, job, jobs))
        if not isinstance(tasks, list):
            raise UsageError(
                f"{variable}: the job {job} is {_format_value(tasks)}; expected a list of addresses, host:port."
            )
        for task in tasks:
            if not _is_address(task):
                raise UsageError(
                    f"{variable}: the job {job} has the address {_format_value(task)}; expected host:port, such as "
                    "host0:2222: a host name or an IP address (IPv6 in brackets), and a port from 1 to 65535."
                )
        addresses[jobs[job]] += tasks
    _refuse_repeated(variable, [address for tasks in addresses.values() for address in tasks])
    return addresses


def _default_task(variable: str) -> Any:
    """The task to assume if `variable` names none.

    For TF_CONFIG it is master 0 (the chief), as in the published code; the log says so. For CLUSTER_SPEC it is None.
    """
    if variable != "TF_CONFIG":
        return None
    logging.info("TF_CONFIG names no task: this process is master 0, the chief")
    return {"type": "master", "index": 0}


def _role_and_index(
    variable: str, task: Any, jobs: Mapping[str, str], addresses: Mapping[str, Sequence[str]]
) -> tuple[str, int]:
    """The role of this process, and its index among the processes of this role."""
    if not isinstance(task, dict) or "type" not in task:
        raise UsageError(
            f"{variable}: task is {_format_value(task)}; expected an object with type and index of this process. "
            f"{_format_example(variable)}"
        )
    job, index = task["type"], task.get("index")
    if not isinstance(job, str) or job not in jobs:
        raise UsageError(_format_unknown_job(variable, job, jobs))
    if index is None:
        # Not 0 by default: two workers without an index would both take themselves for worker 0.
        raise UsageError(
            f"{variable}: the task has the type {job}, but no index; give each process of the job its number, from 0. "
            f"{_format_example(variable)}"
        )
    role = jobs[job]
    # The cluster need not list its evaluator, because no process connects to it.
    count = len(addresses[role]) or int(role == EVALUATOR)
    if not count:
        raise UsageError(
            f"{variable}: the task is of the job {job}, which the cluster does not list. Add the job and the addresses "
            "of its processes to the cluster, or correct the task."
        )
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
        raise UsageError(
            f"{variable}: the task's index is {_format_value(index)}, but the job {job} has "
            f"{count} process{'es' * (count != 1)}; expected a whole number from 0 to {count - 1}."
        )
    return role, index


def _format_unknown_job(variable: str, job: Any, jobs: Mapping[str, str]) -> str:
    hint = suggestion(job, jobs) if isinstance(job, str) else ""
    return f"{variable}: unknown job {_format_value(job)}{hint}; expected one of {', '.join(jobs)}."


def _is_address(value: Any) -> bool:
    """Whether a JSON value is `host:port` that a process can listen on and connect to; the host need not exist."""
    matched = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    return matched is not None and 0 < int(matched["port"]) < 65536 and _is_host(matched["host"])


def _is_host(text: str) -> bool:
    """Whether `text` has the form of a host name, an IPv4 address, or an IPv6 address in brackets."""
    try:
        if text.startswith("["):
            ipaddress.IPv6Address(text[1:-1])
        else:
            text.encode("idna")  # as sockets do: the parts between the dots must have 1 to 63 characters
    except ValueError:
        return False
    return True


def _refuse_repeated(variable: str, addresses: Sequence[str]) -> None:
    repeated = sorted({address for address in addresses if addresses.count(address) > 1})
    if repeated:
        raise UsageError(
            f"{variable}: the address {repeated[0]} is given twice; each process needs an address of its own."
        )


def _format_value(value: Any) -> str:
    """A JSON value for a message: at most 80 characters of a string or of the JSON; a short string gets quotes."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{text[:80]}..." if len(text) > 80 else repr(text) if isinstance(value, str) else text


def _format_example(variable: str) -> str:
    """The end of a message: a description that `variable` may hold, with its own names of the jobs."""
    jobs = {role: job for job, role in reversed(_ROLES_OF_JOBS[variable].items())}  # chief, not its older name master
    cluster = {jobs[role]: [f"host{number}:2222"] for number, role in enumerate((CHIEF, WORKER, PS))}
    return f"Expected, for example: {json.dumps({'cluster': cluster, 'task': {'type': jobs[WORKER], 'index': 0}})}"
