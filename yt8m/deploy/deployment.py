"""Chooses the devices of clones, variables, inputs and the optimizer, and creates the clones.

Clones are copies of a model, one per device, that share variables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from absl import logging

from yt8m.deploy.collective import collective_config
from yt8m.errors import quantity
from yt8m.lazy import quiet_native_stderr, tf

# The fields of `DeploymentConfig` that its constructor checks: {an integer: its least value}, and the booleans.
_LEAST_COUNTS = {"num_clones": 1, "replica_id": 0, "num_replicas": 1, "num_ps_tasks": 0}
_SWITCHES = ("clone_on_cpu", "spread_on_cpu", "variables_on_clone", "all_reduce")


@dataclass(frozen=True)
class DeploymentConfig:
    """The number of clones, their devices, and the role of this process in a cluster (as in slim's model_deploy).

    Attributes:
      num_clones: number of clones (towers) in this process.
      clone_on_cpu: place all clones on CPU:0 rather than clone i on GPU:i.
      replica_id: index of this worker in the cluster, from 0.
      num_replicas: number of workers; more than one needs parameter servers or `all_reduce`.
      num_ps_tasks: number of parameter servers; 0 for a single machine.
      worker_job_name, ps_job_name: the cluster's job names of the workers and of the parameter servers.
      spread_on_cpu: place clone i on CPU:i; `session_config` then makes `num_clones` CPU devices.
      variables_on_clone: place variables on the device of the only clone rather than on CPU:0.
      all_reduce: each worker has all variables, and the workers sum their gradients (`AllReduce`).

    Raises:
      ValueError: an argument is invalid; the message names it, its value and the values expected.
    """

    num_clones: int = 1
    clone_on_cpu: bool = False
    replica_id: int = 0
    num_replicas: int = 1
    num_ps_tasks: int = 0
    worker_job_name: str = "worker"
    ps_job_name: str = "ps"
    spread_on_cpu: bool = field(default=False, kw_only=True)
    variables_on_clone: bool = field(default=False, kw_only=True)
    all_reduce: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        for name, least in _LEAST_COUNTS.items():
            _check_count(name, getattr(self, name), least)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected True or False")
        self._check_replicas()
        self._check_variables_on_clone()

    def _check_replicas(self) -> None:
        if self.replica_id >= self.num_replicas:
            raise ValueError(f"replica_id is {self.replica_id}; expected less than num_replicas ({self.num_replicas})")
        if self.all_reduce and self.num_ps_tasks:
            raise ValueError(f"num_ps_tasks is {self.num_ps_tasks}; expected 0 with all_reduce")
        if self.num_replicas > 1 and not self.num_ps_tasks and not self.all_reduce:
            raise ValueError(
                f"num_replicas is {self.num_replicas}, num_ps_tasks is 0 and all_reduce is False; expected a parameter "
                "server (num_ps_tasks) or all_reduce for more than one replica"
            )
        for name in ("worker_job_name", "ps_job_name") if self.num_ps_tasks else ():
            job = getattr(self, name)
            if not isinstance(job, str) or not job:
                raise ValueError(f"{name} is {job!r}; expected the job's name if num_ps_tasks is positive")
        if self.num_ps_tasks and self.worker_job_name == self.ps_job_name:
            raise ValueError(f"ps_job_name is {self.ps_job_name!r}; expected another name than worker_job_name")

    def _check_variables_on_clone(self) -> None:
        if self.variables_on_clone and (self.num_clones > 1 or self.num_ps_tasks):
            raise ValueError(
                f"variables_on_clone is True with num_clones={self.num_clones} and "
                f"num_ps_tasks={self.num_ps_tasks}; expected one clone and no parameter servers"
            )

    @property
    def worker_device(self) -> str:
        """The job prefix, such as /job:worker, in the devices of all ops of a worker; empty without parameter servers.

        The prefix names no task, because `session_config` hides the devices of other workers.
        """
        return f"/job:{self.worker_job_name}" if self.num_ps_tasks else ""

    @property
    def ps_device(self) -> str:
        """The job prefix, such as /job:ps, in the devices of the variables; empty without parameter servers."""
        return f"/job:{self.ps_job_name}" if self.num_ps_tasks else ""

    @property
    def computes_on_cpu(self) -> bool:
        """Whether all clones compute on CPU devices, which share the memory of the host."""
        return self.clone_on_cpu or self.spread_on_cpu

    def clone_device(self, clone_index: int) -> str:
        """The name of the device on which one clone computes.

        Args:
          clone_index: index of the clone, from 0.

        Raises:
          ValueError: clone_index is negative, or not less than num_clones.
        """
        self._check_clone(clone_index)
        if self.spread_on_cpu:
            return f"{self.worker_device}/device:CPU:{clone_index}"
        return self.worker_device + ("/device:CPU:0" if self.clone_on_cpu else f"/device:GPU:{clone_index}")

    def clone_scope(self, clone_index: int) -> str:
        """The name scope of one clone: `clone_<i>`, or empty if there is only one clone.

        Args:
          clone_index: index of the clone, from 0.

        Raises:
          ValueError: clone_index is negative, or not less than num_clones.
        """
        self._check_clone(clone_index)
        return f"clone_{clone_index}" if self.num_clones > 1 else ""

    def optimizer_device(self) -> str:
        """The device that combines gradients: that of the only clone with variables_on_clone, else the worker's CPU."""
        return self.clone_device(0) if self.variables_on_clone else self.inputs_device()

    def inputs_device(self) -> str:
        """The device of the ops that read batches: the CPU of the worker."""
        return f"{self.worker_device}/device:CPU:0"

    def variables_device(self) -> str | Callable[[Any], str]:
        """The argument of `tf.device` for variables.

        Returns:
          The name of a device; with parameter servers a function that spreads variables over the servers by size. Each
          returned function counts the bytes on the servers from 0.
        """
        if self.num_ps_tasks:
            return _balance_servers(self.ps_device, self.num_ps_tasks)
        return self.clone_device(0) if self.variables_on_clone else "/device:CPU:0"

    def caching_device(self) -> Callable[[Any], str] | None:
        """The argument `caching_device` of `tf.get_variable`, by which a worker reads each variable once per step.

        Returns:
          A function from an op to the device on which the worker keeps the copy; None without parameter servers.
        """
        return (lambda op: str(op.device)) if self.num_ps_tasks else None

    def session_config(self) -> tf.ConfigProto:
        """The session configuration that creates the devices of this configuration and hides those of other workers."""
        # Soft placement moves two kinds of ops to a device that can run them: ops without a kernel for their
        # device (strings on a GPU), and assignments inside a clone to a variable on another device.
        config = tf.ConfigProto(allow_soft_placement=True)
        if self.computes_on_cpu:
            config.device_count["GPU"] = 0
        if self.spread_on_cpu:
            config.device_count["CPU"] = self.num_clones
        if self.num_ps_tasks:
            config.device_filters[:] = [self.ps_device, f"{self.worker_device}/task:{self.replica_id}"]
        if self.all_reduce:
            config.MergeFrom(collective_config())
            config.device_filters[:] = [f"/job:{self.worker_job_name}/task:{self.replica_id}"]
        return config

    def _check_clone(self, clone_index: int) -> None:
        if not 0 <= clone_index < self.num_clones:
            raise ValueError(f"clone_index is {clone_index}; expected 0 to {self.num_clones - 1}")


def count_gpus() -> int:
    """The number of GPUs that TensorFlow sees; TensorFlow's messages about missing GPUs are dropped."""
    with quiet_native_stderr():
        return len(tf.config.list_physical_devices("GPU"))


def local(num_towers: int, gpus: int) -> tuple[DeploymentConfig, str | None]:
    """Chooses the devices of the towers on one machine: the first `num_towers` GPUs, or the CPU if there is no GPU.

    Args:
      num_towers: number of towers to make. If there are GPUs, but fewer than towers, there is one tower for each GPU,
        as in the published code.
      gpus: number of GPUs that TensorFlow sees.

    Returns:
      The deployment, whose `num_clones` is the number of towers; and a line for the log if there are fewer GPUs than
      `num_towers`, else None.

    Raises:
      ValueError: num_towers is no positive integer, or gpus is negative or no integer.
    """
    _check_count("num_towers", num_towers, 1)
    _check_count("gpus", gpus, 0)
    if gpus:
        towers = min(num_towers, gpus)
        few = f"{quantity(gpus, 'GPU')} found for {num_towers} towers: running {towers} on GPUs"
        return DeploymentConfig(towers, variables_on_clone=towers == 1), few if gpus < num_towers else None
    devices = "1 tower on the CPU" if num_towers == 1 else f"{num_towers} towers on {num_towers} CPU devices"
    config = DeploymentConfig(num_towers, clone_on_cpu=True, spread_on_cpu=num_towers > 1)
    return config, f"no GPU found: running {devices}"


def _balance_servers(job: str, num_tasks: int) -> Callable[[Any], str]:
    """A function for `tf.device` that puts each new variable on the parameter server that has the fewest bytes so far.

    Every process that creates the same variables in the same order puts them on the same servers. An op that already
    has a device keeps it.
    """
    bytes_of_tasks = [0] * num_tasks

    def choose_device(op: Any) -> str:
        node = op.node_def if hasattr(op, "node_def") else op  # `op` is an Operation or a NodeDef
        holds_variable = node.op == "VarHandleOp" or node.op.startswith("Variable")
        if op.device or not holds_variable:
            return str(op.device)
        task = bytes_of_tasks.index(min(bytes_of_tasks))
        bytes_of_tasks[task] += _variable_bytes(node)
        return f"{job}/task:{task}/device:CPU:0"

    return choose_device


def _variable_bytes(node: Any) -> int:
    """The bytes of the variable whose op has the NodeDef `node`; those of one element if its shape is unknown."""
    shape = tf.TensorShape(node.attr["shape"].shape)
    elements = shape.num_elements() if shape.is_fully_defined() else 1
    return max(1, elements) * int(tf.as_dtype(node.attr["dtype"].type).size)


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}; expected an integer of at least {least}")


# The graph collections of which `Clone.added` records the new items. These are the values of tf.GraphKeys, written out
# because importing this module must not import TensorFlow.
_RECORDED_COLLECTIONS = ("losses", "regularization_losses", "update_ops", "summaries")


class _CloneFields(NamedTuple):
    outputs: Any
    scope: str
    device: str


class Clone(_CloneFields):
    """One copy of the model: the tuple (outputs, scope, device), as in slim.

    Attributes:
      outputs: what the model function returned for this clone.
      scope: the clone's name scope with a slash at the end; empty if there is only one clone.
      device: the device on which the clone computes.
      added: {collection of the graph: items that the model function added to it for this clone}; not an item of the
        tuple. It is None for a clone that was not made by `create_clones`; its items are then those whose names
        begin with `scope`.
    """

    added: Mapping[str, tuple[Any, ...]] | None = None

    def _replace(self, **fields: Any) -> Clone:
        """A copy in which the given fields are replaced; `added` stays the same."""
        copy = super()._replace(**fields)
        copy.added = self.added
        return copy

    def collected(self, collection: str) -> list[Any]:
        """The items that the model function added for this clone to one collection of the graph.

        Args:
          collection: one of tf.GraphKeys.LOSSES, REGULARIZATION_LOSSES, UPDATE_OPS and SUMMARIES.
        """
        if self.added is not None:
            return list(self.added.get(collection, ()))
        return tf.get_collection(collection, self.scope or None)


def create_clones(
    config: DeploymentConfig,
    model_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[Clone]:
    """Calls `model_fn(*args, **kwargs)` once per clone, on the device and in the name scope of the clone.

    The first call of `model_fn` makes the variables (in the current variable scope, on config.variables_device()), the
    later calls reuse them. The current variable scope determines all other properties of the variables, such as their
    caching device. `create_clones` may be called several times in one graph.

    Args:
      config: the number of clones and their devices.
      model_fn: builds one clone from `args` and `kwargs`; what it returns becomes the `outputs` of the clone.
      args: the positional arguments of `model_fn`; none by default.
      kwargs: the keyword arguments of `model_fn`; none by default.

    Returns:
      The clones, in the order of their devices.

    Raises:
      ValueError: a later clone uses a variable that the first did not make.
    """
    _permit_missing_gpus(config)
    with _variables_on(config.variables_device()):
        return [
            _create_clone(config, index, lambda: model_fn(*(args or ()), **(kwargs or {})))
            for index in range(config.num_clones)
        ]


def _create_clone(config: DeploymentConfig, index: int, build: Callable[[], Any]) -> Clone:
    """Calls `build` on the device and in the name scope of clone `index`, and records what it adds to collections."""
    device, current_scope = config.clone_device(index), tf.get_default_graph().get_name_scope()
    with (
        # A single clone has no name scope of its own. A name with a slash at the end opens the current scope again.
        tf.name_scope(config.clone_scope(index) or (current_scope and f"{current_scope}/")) as scope,
        tf.device(device),
        tf.variable_scope(
            tf.get_variable_scope(),
            reuse=True if index else None,
            auxiliary_name_scope=False,  # the clone's own name scope is enough
        ),
    ):
        # The items that a clone adds are found by their position, not by name scope: the name scope of a single clone
        # is the whole graph.
        before = {key: len(tf.get_collection_ref(key)) for key in _RECORDED_COLLECTIONS}
        clone = Clone(build(), scope, device)
        clone.added = {key: tuple(tf.get_collection(key)[size:]) for key, size in before.items()}
        return clone


def _permit_missing_gpus(config: DeploymentConfig) -> None:
    """Logs a warning if clones are placed on GPUs that do not exist, and lets them compute on the CPU.

    In that case a session opened without a configuration would fail by TensorFlow's default; this function changes the
    default for the whole process. A session with the configuration `DeploymentConfig.session_config` runs in any case.
    """
    if config.clone_on_cpu or config.spread_on_cpu or config.num_ps_tasks:
        return
    gpus = count_gpus()
    if gpus < config.num_clones:
        logging.warning(
            "%d of %d clones are placed on GPUs that TensorFlow does not see: they compute on the CPU.",
            config.num_clones - gpus,
            config.num_clones,
        )
        tf.config.set_soft_device_placement(True)


@contextlib.contextmanager
def _variables_on(device: str | Callable[[Any], str]) -> Iterator[None]:
    """A context that places new variables on `device`, even inside `tf.device` contexts for other devices."""

    def create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        # `tf.device(None)` comes first, so that the clone's device does not apply to the initial values.
        with tf.device(None), tf.device(device):
            return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield
