"""The processes of a cluster and the role of this one, as TF_CONFIG or CLUSTER_SPEC describes them."""

from __future__ import annotations

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

# The names of the four jobs in each environment variable. Estimator and Vertex AI set TF_CONFIG; Vertex AI also sets
# CLUSTER_SPEC. If both are set, they describe the same cluster.
_JOBS = {
    "TF_CONFIG": {"chief": CHIEF, "master": CHIEF, "worker": WORKER, "ps": PS, "evaluator": EVALUATOR},
    "CLUSTER_SPEC": {"workerpool0": CHIEF, "workerpool1": WORKER, "workerpool2": PS, "workerpool3": EVALUATOR},
}
_ADDRESS = re.compile(r"\S+:\d{1,5}")


@dataclass(frozen=True)
class ClusterConfig:
    """The processes of a cluster, and the role of this one.

    Attributes:
      replicas: addresses of the processes that train, the chief first.
      servers: addresses of the parameter servers.
      role: chief, worker, ps or evaluator.
      index: number of this process among those of its role, from 0.
      lists_evaluator: whether the description lists an evaluator, which it need not.
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
        """{name as from `replica_name`: address} of the processes that train, the chief first."""
        return {self.replica_name(replica): address for replica, address in enumerate(self.replicas)}

    @property
    def others(self) -> dict[str, str]:
        """The `named_replicas` without this process."""
        return {name: address for name, address in self.named_replicas.items() if address != self.address}

    def replica_name(self, replica: int) -> str:
        """`worker 0 (host:port)`, for one of `replicas`."""
        name = f"{WORKER} {replica - 1}" if replica else CHIEF
        return f"{name} ({self.replicas[replica]})"

    def check_servers(self, exchange: str) -> None:
        """Refuses workers that exchange neither variables nor gradients, and parameter servers without any use.

        Args:
          exchange: parameter-servers or all-reduce.

        Raises:
          UsageError: there are workers, but no parameter server, or all-reduce and a parameter server.
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
    """The cluster that TF_CONFIG describes, or else CLUSTER_SPEC; None if neither describes one.

    Raises:
      UsageError: the description is malformed; the message says what was found and what was expected.
    """
    for variable, jobs in _JOBS.items():
        cluster = _parse(variable, environment.get(variable, ""), jobs)
        if cluster is not None:
            return cluster
    return None


def is_left_to_the_chief(does: str, command: str) -> bool:
    """Whether this process has nothing to do because the chief of the cluster works alone; logs who works.

    Args:
      does: the work of the chief, as a verb, such as `evaluates`.
      command: the command that divides the same work between many processes, named in the log.

    Raises:
      UsageError: for the reasons of `from_environment`.
    """
    cluster = from_environment()
    if cluster is None or (cluster.is_chief and not cluster.is_distributed):
        return False
    hint = f"`{command}` uses many processes"
    if cluster.is_chief:
        logging.info("the chief %s alone; %s", does, hint)
        return False
    logging.info("%s has nothing to do: the chief %s alone; %s", cluster.name, does, hint)
    return True


def _parse(variable: str, text: str, jobs: Mapping[str, str]) -> ClusterConfig | None:
    if not text.strip():
        return None
    try:
        whole = storage.parse_json(text)
    except ValueError as error:
        raise UsageError(f"{variable} is not JSON ({error}): {_shown(text)}. {_EXAMPLE}") from error
    if not isinstance(whole, dict):
        raise UsageError(f"{variable} holds a {type(whole).__name__}, not an object. {_EXAMPLE}")
    if "cluster" not in whole and not whole.get("task"):
        return None
    if not whole.get("cluster"):
        content = "an empty cluster" if "cluster" in whole else "a task, but no cluster"
        raise UsageError(
            f"{variable} has {content}: the addresses of the processes are missing. Add them, or unset "
            f"{variable} if this process is to work alone. {_EXAMPLE}"
        )
    addresses = _addresses(variable, whole["cluster"], jobs)
    chiefs = " or ".join(name for name, role in jobs.items() if role == CHIEF)
    if not addresses[CHIEF]:
        raise UsageError(
            f"{variable} names no chief (it has {', '.join(whole['cluster']) or 'no job'}); exactly one process has to "
            f"be {chiefs}: it saves the run. {_EXAMPLE}"
        )
    if len(addresses[CHIEF]) > 1:
        raise UsageError(f"{variable} names {len(addresses[CHIEF])} chiefs; expected exactly one. {_EXAMPLE}")
    role, index = _task(variable, whole.get("task") or _usual_task(variable), jobs, addresses)
    replicas, has_evaluator = (*addresses[CHIEF], *addresses[WORKER]), bool(addresses[EVALUATOR])
    return ClusterConfig(replicas, tuple(addresses[PS]), role, index, has_evaluator)


def _addresses(variable: str, cluster: Any, jobs: Mapping[str, str]) -> dict[str, list[str]]:
    """The addresses of each role."""
    if not isinstance(cluster, dict):
        raise UsageError(f"{variable}: cluster is {_shown(cluster)}; expected an object of jobs. {_EXAMPLE}")
    addresses: dict[str, list[str]] = {role: [] for role in (CHIEF, WORKER, PS, EVALUATOR)}
    for job, tasks in cluster.items():
        if job not in jobs:
            raise UsageError(_unknown(variable, job, jobs))
        if not isinstance(tasks, list) or not all(_is_address(task) for task in tasks):
            raise UsageError(f"{variable}: the job {job} is {_shown(tasks)}; expected a list of addresses, host:port.")
        addresses[jobs[job]] += tasks
    _refuse_twice(variable, [address for tasks in addresses.values() for address in tasks])
    return addresses


def _usual_task(variable: str) -> Any:
    """The task of a process for which `variable` names none: for TF_CONFIG master 0, as in the published code."""
    if variable != "TF_CONFIG":
        return None
    logging.info("TF_CONFIG names no task: this process is master 0, the chief")
    return {"type": "master", "index": 0}


def _task(variable: str, task: Any, jobs: Mapping[str, str], addresses: Mapping[str, Sequence[str]]) -> tuple[str, int]:
    """The role of this process, and its index in the role."""
    if not isinstance(task, dict) or "type" not in task:
        raise UsageError(
            f"{variable}: task is {_shown(task)}; expected an object with type and index of this process. {_EXAMPLE}"
        )
    job, index = task["type"], task.get("index", 0)
    if job not in jobs:
        raise UsageError(_unknown(variable, job, jobs))
    role = jobs[job]
    # An evaluator need not be listed: no process connects to it.
    count = len(addresses[role]) or int(role == EVALUATOR)
    if not count:
        raise UsageError(f"{variable}: the task is of the job {job}, which the cluster does not list.")
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
        raise UsageError(
            f"{variable}: the task's index is {_shown(index)}, but the job {job} has "
            f"{count} process{'es' * (count != 1)}; expected a whole number from 0 to {count - 1}."
        )
    return role, index


def _unknown(variable: str, job: Any, jobs: Mapping[str, str]) -> str:
    close = suggestion(job, jobs) if isinstance(job, str) else ""
    return f"{variable}: unknown job {_shown(job)}{close}; expected one of {', '.join(jobs)}."


def _is_address(value: Any) -> bool:
    return (
        isinstance(value, str) and _ADDRESS.fullmatch(value) is not None and 0 < int(value.rpartition(":")[2]) < 65536
    )


def _refuse_twice(variable: str, addresses: Sequence[str]) -> None:
    twice = sorted({address for address in addresses if addresses.count(address) > 1})
    if twice:
        raise UsageError(f"{variable}: the address {twice[0]} is given twice; each process needs one of its own.")


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{text[:80]}..." if len(text) > 80 else repr(text) if isinstance(value, str) else text


_EXAMPLE = (
    'Expected, for example: {"cluster": {"chief": ["host0:2222"], "worker": ["host1:2222"], '
    '"ps": ["host2:2222"]}, "task": {"type": "worker", "index": 0}}'
)
