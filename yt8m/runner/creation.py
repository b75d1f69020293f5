"""Creates the graph of a run and gives its variables their values.

The graph comes from the checkpoint's meta-graph, or is built by code and filled from the checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from absl import logging

from yt8m import deploy, graph, options, storage
from yt8m.config.train_config import OptimizerConfig
from yt8m.errors import RunError, UsageError
from yt8m.formats import NewerFormatError
from yt8m.graph import EvalOps, Inputter, Modeler, Restorer, TrainOps
from yt8m.graph.restore import Started, signature_of, table_of_starts, warm_start
from yt8m.lazy import tf
from yt8m.numerics import precision
from yt8m.runner import checkpoints
from yt8m.runner.run_config import RunnerConfig
from yt8m.storage import copies, own_runs


@dataclass(frozen=True)
class CreatedGraph:
    """A graph that a session can be opened on.

    Attributes:
      ops: the handles of the graph; None if its builder keeps them.
      saver: the saver of its variables; None in evaluation and inference, which save nothing.
      checkpoint: path of the checkpoint to restore; None for a new run.
      restorer: reads a checkpoint into a graph built by code; None if `saver` does that.
      reason: why the graph was built by code although a checkpoint exists.
      is_own: whether this user built the graph here; False if it was loaded from a file of unknown origin.
    """

    ops: TrainOps | EvalOps
    saver: tf.train.Saver | None
    checkpoint: str | None
    restorer: graph.Restorer | None
    reason: str = ""
    is_own: bool = True


def graph_signature(config: RunnerConfig) -> dict[str, Any]:
    """All settings that shape the graph, as they are after JSON was written and read (tuples are lists)."""
    signature = {**options.signature(options.shaping(config)), **config.signature}
    # A graph for GPUs may hold ops without a CPU kernel; one for the CPU leaves a GPU idle.
    if not deploy.local(config.towers, deploy.count_gpus())[0].clone_on_cpu:
        signature["devices"] = "GPU"
    return json.loads(json.dumps(signature, default=str))


def deployment_for(config: RunnerConfig, quiet: bool = False) -> deploy.DeploymentConfig:
    """Towers on GPUs if there are enough of them, else on the CPU.

    Unless `quiet`, this is logged, with a warning if the CPU is slower in the requested precision.

    Raises:
      UsageError: the local runner was asked for several towers.
    """
    if config.name == "local_runner" and config.towers > 1:
        raise UsageError(
            f"local_runner drives one tower, but gpu_count is {config.towers}: "
            "use parameter_server_runner, which keeps the variables on the CPU"
        )
    deployment, message = deploy.local(config.towers, deploy.count_gpus())
    if message and not quiet:
        logging.info(message)
    slow = precision.slowness(config.devices.precision) if deployment.clone_on_cpu else ""
    if slow and not quiet:
        logging.warning(slow)
    places: dict[str, Any] = {"variables_on_clone": False} if config.name == "parameter_server_runner" else {}
    cluster = config.cluster
    if cluster is not None and config.is_all_reduce:
        places |= {"replica_id": cluster.replica, "num_replicas": len(cluster.replicas), "all_reduce": True}
    elif cluster is not None and cluster.is_distributed:
        sizes = {"num_replicas": len(cluster.replicas), "num_ps_tasks": len(cluster.servers)}
        places = {"variables_on_clone": False, "replica_id": cluster.replica, **sizes}
    return dataclasses.replace(deployment, **places)


def session_config(config: RunnerConfig) -> tf.ConfigProto:
    """The session configuration of a run."""
    proto = deployment_for(config, quiet=True).session_config()
    proto.log_device_placement = config.devices.log_device_placement
    if config.devices.xla:
        proto.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    return proto


def replicate(
    config: RunnerConfig,
    inputter: Inputter,
    modeler: Modeler,
    deployment: deploy.DeploymentConfig,
    synchrony: graph.Synchrony | deploy.AllReduce | None = None,
) -> TrainOps | EvalOps:
    """Builds the graph of `config.mode` with code."""
    tf.set_random_seed(config.seed)
    if config.mode != "train":
        return graph.build_eval(inputter, modeler, deployment, config.mode, seed=config.seed)
    return graph.build(
        inputter,
        modeler,
        deployment,
        config.optimizer,
        config.devices,
        seed=config.seed,
        split=config.split_batch,
        signature=graph_signature(config),
        synchrony=synchrony,
        columns=config.columns,
    )


def create(
    config: RunnerConfig, inputter: Inputter, modeler: Modeler, deployment: deploy.DeploymentConfig
) -> CreatedGraph:
    """Creates the graph of `config.mode` in the current, empty graph, and finds the checkpoint to restore.

    Training resumes from the newest readable checkpoint: in its own meta-graph if that has the same
    signature, else in a graph rebuilt from code, and the log says why.

    Raises:
      RunError: there is no checkpoint for evaluation or inference, or none can be read.
    """
    if config.mode != "train":
        chosen = choose(config)
        return filled_from(chosen, config.optimizer, replicate(config, inputter, modeler, deployment))
    checkpoint = checkpoints.newest_readable(config.model_dir)
    reason = ""
    if checkpoint is not None:
        reason = _why_rebuild(checkpoint, config, inputter)
        if not reason:
            return _from_meta_graph(checkpoint)
        logging.info("the graph is rebuilt and filled from %s: %s", checkpoint, reason)
    return fill_from(replicate(config, inputter, modeler, deployment), checkpoint, reason)


def fill_from(ops: TrainOps | EvalOps, checkpoint: str | None, reason: str = "") -> CreatedGraph:
    """The current graph, built by code for a training, to be filled from a checkpoint if there is one."""
    restorer = graph.Restorer() if checkpoint is not None else None
    return CreatedGraph(ops, tf.train.Saver(max_to_keep=None), checkpoint, restorer, reason)


def filled_from(checkpoint: str, optimizer: OptimizerConfig, ops: Any = None) -> CreatedGraph:
    """The current graph, to be filled from a checkpoint (from its averages if any) for evaluation or inference."""
    return CreatedGraph(ops, None, checkpoint, graph.Restorer(decay_in(checkpoint, optimizer)))


def choose(config: RunnerConfig) -> str:
    """The checkpoint for evaluation or inference.

    Raises:
      RunError: there is no checkpoint.
    """
    if config.checkpoint:
        return config.checkpoint
    # The state file is read first: a checkpoint newer than the one that it names may not be complete yet.
    checkpoint = checkpoints.pointed_to(config.model_dir) or checkpoints.newest_readable(config.model_dir)
    if checkpoint is None:
        raise RunError(f"no checkpoint in {config.model_dir}: train there first, or name another folder")
    return checkpoint


def _why_rebuild(checkpoint: str, config: RunnerConfig, inputter: Inputter) -> str:
    """The reason why this run cannot use the meta-graph of `checkpoint`; empty if it can."""
    from google.protobuf.message import DecodeError  # imported here because it is slow, and --help does not need it

    if not config.signature:
        return "the run does not say what shapes its graph"
    if inputter.calls_python:
        return "the input calls Python, which no meta-graph holds"
    meta = f"{checkpoint}.meta"
    if not storage.exists(meta):
        return "it has no .meta"
    try:
        stored = signature_of(meta)
    except NewerFormatError:
        raise
    except (RunError, ValueError, DecodeError) as error:
        return f"its .meta cannot be read ({error})"
    if stored is None:
        return "its .meta has no graph to go on with (the graph calls Python, or another project wrote it)"
    return "; ".join(differences(stored, config))


def differences(stored: Mapping[str, Any], config: RunnerConfig) -> Iterator[str]:
    """The differences between a saved graph's signature and that of this run, in words.

    An option that a later version has added makes no difference while it is off: the saved graph was built without it.
    """
    saved, current = options.flat(stored), options.flat(graph_signature(config))
    added_but_off = {name for name in current.keys() - saved.keys() if not current[name]}
    for name in sorted({*saved, *current} - added_but_off):
        if saved.get(name) != current.get(name):
            yield f"{name} was {saved.get(name)!r} and is {current.get(name)!r}"


def _from_meta_graph(checkpoint: str) -> CreatedGraph:
    logging.info("resuming from %s with the graph saved there", checkpoint)
    meta = f"{checkpoint}.meta"
    content = storage.read_bytes(meta)
    is_own = own_runs.is_noted(content)
    ops = graph.restore_train(meta, is_own)
    # Uses the saver stored in the file: a new saver would add its ops to the graph at each resume.
    saver_def = tf.MetaGraphDef.FromString(content).saver_def
    saver_def.max_to_keep = 0
    return CreatedGraph(ops, tf.train.Saver(saver_def=saver_def), checkpoint, None, is_own=is_own)


def decay_in(checkpoint: str, optimizer: OptimizerConfig) -> float:
    """The decay of the moving averages that the run reads; 0 if the checkpoint has no averages."""
    if optimizer.moving_average_decay <= 0:
        return 0.0
    try:
        names = tf.train.load_checkpoint(copies.copy_of(checkpoint)).get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, storage.NotFoundError):
        return optimizer.moving_average_decay
    return optimizer.moving_average_decay if any("ExponentialMovingAverage" in n for n in names) else 0.0


def initializers(created: CreatedGraph) -> list[tf.Operation]:
    """The ops to run before the restore. Only necessary ops are made, since each stays in the saved graph."""
    ops = [] if created.checkpoint else [tf.global_variables_initializer()]
    if tf.local_variables():
        ops.append(tf.local_variables_initializer())
    if tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS):
        ops.append(tf.tables_initializer())
    return ops


def start_session(
    session: tf.Session, created: CreatedGraph, first: Sequence[tf.Operation], config: RunnerConfig
) -> None:
    """Runs `first`, then restores the checkpoint; if there is none, loads `config.init_checkpoint` if given.

    Raises:
      RunError: the checkpoint belongs to another model.
    """
    session.run(list(first))
    if created.checkpoint is None:
        if config.init_checkpoint:
            _warm_start(session, created, config)
        return
    if created.restorer is not None:
        try:
            _restore(session, created.restorer, created.checkpoint, config)
        except RunError as error:
            changed = f" What has changed: {created.reason}." if created.reason else ""
            raise RunError(f"{error}{changed}") from error
    elif created.saver is not None:
        created.saver.restore(session, copies.copy_of(created.checkpoint))


def _warm_start(session: tf.Session, created: CreatedGraph, config: RunnerConfig) -> None:
    """Loads the weights of another run, and logs a table of what was taken and what was not."""
    checkpoint = config.init_checkpoint
    folder = checkpoint.rpartition("/")[0] or "."

    def read(path: str) -> tuple[str, list[Started]]:
        return path, warm_start(session, path, getattr(created.ops, "averages", ()), config.init_classes)

    path, rows = checkpoints.with_newer(
        checkpoint, lambda: checkpoints.newest_readable(folder) or checkpoint, lambda path: [path], read
    )
    taken = sum(not row.problem for row in rows)
    log = logging.info if taken == len(rows) else logging.warning
    log("%d of the model's %d variables start from %s:\n%s", taken, len(rows), path, table_of_starts(rows))


def _restore(session: tf.Session, restorer: Restorer, checkpoint: str, config: RunnerConfig) -> None:
    """Restores the checkpoint; if a training run deletes it meanwhile, restores a newer one."""
    while True:
        try:
            restorer.restore(session, checkpoint)
            return
        except (tf.errors.OpError, ValueError, RuntimeError, storage.NotFoundError) as error:
            if not checkpoints.is_gone(checkpoint) or config.mode == "train":
                raise
            if config.checkpoint:
                raise storage.NotFoundError(f"{checkpoint} was deleted while it was read") from error
        logging.warning("%s was deleted meanwhile: taking the next", checkpoint)
        checkpoint = choose(config)
