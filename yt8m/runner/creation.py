"""Creates the graph of a run, and gives its variables their values in a session.

A resumed run imports its graph from the meta-graph of the newest checkpoint, if it can; all other runs build it by
code. The values of the variables come from the checkpoint, if there is one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from absl import logging

from yt8m import deploy, graph, options, storage
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.errors import RunError, UsageError
from yt8m.formats import NewerFormatError
from yt8m.graph import EvalOps, Inputter, Modeler, Restorer, TrainOps
from yt8m.graph.restore import VariableStart, format_starts, signature_of, warm_start
from yt8m.lazy import tf
from yt8m.numerics import precision
from yt8m.runner import checkpoints, failed_input
from yt8m.runner.run_config import RunnerConfig
from yt8m.storage import copies, own_runs


@dataclass(frozen=True)
class CreatedGraph:
    """The graph of a run, and what is needed to give its variables their values.

    Attributes:
      ops: the handles of the graph; None if only the caller has them.
      saver: saves the variables; None in evaluation and inference, which save nothing.
      checkpoint: path of the checkpoint to restore; None for a new run.
      restorer: restores the checkpoint into a graph that was built from the model's code; None if `saver` restores it.
      reason: why the graph was built from the model's code although a checkpoint exists; else empty.
    """

    ops: TrainOps | EvalOps
    saver: tf.train.Saver | None
    checkpoint: str | None
    restorer: graph.Restorer | None
    reason: str = ""
    is_own: bool = True


def graph_signature(config: RunnerConfig) -> dict[str, Any]:
    """All options that shape the graph, in the form in which JSON returns them (tuples are lists)."""
    signature = {**options.signature(options.shaping(config)), **config.signature}
    # The signatures of graphs for GPUs and for the CPU differ, so that neither is used on the other kind of machine: a
    # graph for GPUs may have ops without a CPU kernel, and a graph for the CPU would not use the GPUs.
    if not deploy.local(config.towers, deploy.count_gpus())[0].clone_on_cpu:
        signature["devices"] = "GPU"
    return json.loads(json.dumps(signature, default=str))


def count_towers(num_gpu: int) -> int:
    """The number of towers that a run with this --num_gpu will have on this machine."""
    return num_gpu if num_gpu == 1 else deploy.local(num_gpu, deploy.count_gpus())[0].num_clones


def fit_to_gpus(config: RunnerConfig, quiet: bool = False) -> RunnerConfig:
    """The config with as many towers as there will be: one for each GPU if there are GPUs, but fewer than towers.

    The batch of a step, the learning rate's schedule, the position in the data and the counts of steps and epochs all
    depend on the number of towers. They use that of this config, so they belong to the towers that exist.
    """
    wanted = config.towers
    if wanted == 1:
        return config
    deployment, message = deploy.local(wanted, deploy.count_gpus())
    if deployment.num_clones == wanted:
        return config
    if not quiet:
        rows = config.batch_size_per_gpu or 0
        step = f" A step reads {rows * deployment.num_clones} examples, not {rows * wanted}." if rows else ""
        logging.warning("--num_gpu=%d: %s.%s", wanted, message, step)
    return dataclasses.replace(config, devices=dataclasses.replace(config.devices, num_gpu=deployment.num_clones))


def deployment_for(config: RunnerConfig, quiet: bool = False) -> deploy.DeploymentConfig:
    """Chooses the devices of the towers and the variables: GPUs if there are any, else the CPU.

    Args:
      quiet: whether nothing is logged. If False, the log says why towers run on the CPU, and warns if the requested
        precision is slow there.
    """
    if config.name == "local_runner" and config.towers > 1:
        raise UsageError(
            f"local_runner supports one tower, but gpu_count is {config.towers}: "
            "use parameter_server_runner, which keeps the variables on the CPU"
        )
    deployment, message = deploy.local(config.towers, deploy.count_gpus())
    if message and not quiet:
        logging.info(message)
    slow = precision.slowness(config.devices.precision) if deployment.clone_on_cpu else ""
    if slow and not quiet:
        logging.warning(slow)
    changes: dict[str, Any] = {"variables_on_clone": False} if config.name == "parameter_server_runner" else {}
    cluster = config.cluster
    if cluster is not None and config.is_all_reduce:
        changes |= {"replica_id": cluster.replica, "num_replicas": len(cluster.replicas), "all_reduce": True}
    elif cluster is not None and cluster.is_distributed:
        sizes = {"num_replicas": len(cluster.replicas), "num_ps_tasks": len(cluster.servers)}
        changes = {"variables_on_clone": False, "replica_id": cluster.replica, **sizes}
    return dataclasses.replace(deployment, **changes)


def session_config(deployment: deploy.DeploymentConfig, devices: DeviceConfig) -> tf.ConfigProto:
    """The configuration of the TensorFlow sessions of a run: its devices, and whether XLA compiles the graph."""
    proto = deployment.session_config()
    proto.log_device_placement = devices.log_device_placement
    if devices.xla:
        proto.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    return proto


def replicate(
    config: RunnerConfig,
    inputter: Inputter,
    modeler: Modeler,
    deployment: deploy.DeploymentConfig,
    synchrony: graph.Synchrony | deploy.AllReduce | None = None,
) -> TrainOps | EvalOps:
    """Builds the graph of a run from the model's code in the current graph, with a tower on each device.

    Args:
      synchrony: how the replicas of a cluster take each step together; None if they take steps independently.
    """
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
        # An exact position has parsed batches, so their form must stay that of the run's earlier checkpoints.
        packs=not config.checkpoints.exact_resume,
    )


def create(
    config: RunnerConfig, inputter: Inputter, modeler: Modeler, deployment: deploy.DeploymentConfig
) -> CreatedGraph:
    """Creates the graph of a run in the current, empty graph, and finds the checkpoint to restore.

    A training resumes from the newest readable checkpoint. It imports the checkpoint's meta-graph if that has the
    signature of this run; else it builds the graph from the model's code, and the log says why.
    """
    if config.mode != "train":
        chosen_checkpoint = choose_checkpoint(config)
        return for_scoring(chosen_checkpoint, config.optimizer, replicate(config, inputter, modeler, deployment))
    checkpoint = failed_input.checkpoint_to_resume(config.model_dir, config.checkpoints.exact_resume)
    reason = ""
    if checkpoint is not None:
        reason = _find_reason_to_rebuild(checkpoint, config, inputter)
        if not reason:
            return _import_graph(checkpoint)
        logging.info("the graph is rebuilt and filled from %s: %s", checkpoint, reason)
    return for_training(replicate(config, inputter, modeler, deployment), checkpoint, reason)


def for_training(ops: TrainOps | EvalOps, checkpoint: str | None, reason: str = "") -> CreatedGraph:
    """Describes the current graph, which was built from the model's code for training; adds the ops of its savers.

    Args:
      checkpoint: path of the checkpoint to restore; None for a new run.
      reason: why the graph was built from the model's code although there is a checkpoint; empty if there is none.
    """
    restorer = graph.Restorer() if checkpoint is not None else None
    return CreatedGraph(ops, tf.train.Saver(max_to_keep=None), checkpoint, restorer, reason)


def for_scoring(checkpoint: str, optimizer: OptimizerConfig, ops: Any = None) -> CreatedGraph:
    """Describes the current graph, which was built for evaluation or inference; adds the ops that restore it.

    Args:
      ops: the handles of the graph; None if only the caller has them.
    """
    return CreatedGraph(ops, None, checkpoint, graph.Restorer(decay_in(checkpoint, optimizer)))


def choose_checkpoint(config: RunnerConfig) -> str:
    """The path of the checkpoint for evaluation or inference: `config.checkpoint`, or if that is empty, the newest.

    The path in `config.checkpoint` is not checked.
    """
    if config.checkpoint:
        return config.checkpoint
    # The checkpoint that the state file names comes first, because a newer checkpoint may be incomplete.
    checkpoint = checkpoints.pointed_to(config.model_dir) or checkpoints.newest_readable(config.model_dir)
    if checkpoint is None:
        raise RunError(f"no checkpoint in {config.model_dir}: train there first, or name another folder")
    return checkpoint


def _find_reason_to_rebuild(checkpoint: str, config: RunnerConfig, inputter: Inputter) -> str:
    """The reason why this run cannot use the meta-graph of `checkpoint`; empty if it can."""
    # Imported here, because the import is slow, and a program that only prints its help does not need it.
    from google.protobuf.message import DecodeError

    if not config.signature:
        return "the run has no signature of its graph"
    if inputter.calls_python:
        return "the input pipeline calls Python functions, which a meta-graph cannot hold"
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
        return "the graph in its .meta cannot be trained (it calls Python functions, or another project wrote it)"
    return "; ".join(differences(stored, config))


def differences(stored: Mapping[str, Any], config: RunnerConfig) -> Iterator[str]:
    """Describes each difference between the options of a saved graph and those of this run.

    An option that the saved graph lacks, because it was written by an earlier version, counts only if it is on.
    """
    saved, current = options.flat(stored), options.flat(graph_signature(config))
    added_but_off = {name for name in current.keys() - saved.keys() if not current[name]}
    for name in sorted({*saved, *current} - added_but_off):
        if saved.get(name) != current.get(name):
            yield f"{name} was {saved.get(name)!r} and is {current.get(name)!r}"


def _import_graph(checkpoint: str) -> CreatedGraph:
    """Imports the training graph of a checkpoint from its meta-graph into the current, empty graph."""
    logging.info("resuming from %s with the graph saved there", checkpoint)
    meta = f"{checkpoint}.meta"
    content = storage.read_bytes(meta)
    is_own = own_runs.is_noted(content)
    ops = graph.restore_train(meta, is_own)
    # The saver of the meta-graph is used, because a new saver would add its ops to the graph each time the run resumes.
    saver_def = tf.MetaGraphDef.FromString(content).saver_def
    saver_def.max_to_keep = 0
    return CreatedGraph(ops, tf.train.Saver(saver_def=saver_def), checkpoint, None, is_own=is_own)


def decay_in(checkpoint: str, optimizer: OptimizerConfig) -> float:
    """The decay of the moving averages of the weights in a checkpoint.

    Returns:
      The decay; 0 if the checkpoint has no averages. If the checkpoint cannot be read, the decay of the run.
    """
    if optimizer.moving_average_decay <= 0:
        return 0.0
    try:
        names = tf.train.load_checkpoint(copies.copy_of(checkpoint)).get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, storage.NotFoundError):
        return optimizer.moving_average_decay
    return optimizer.moving_average_decay if any("ExponentialMovingAverage" in n for n in names) else 0.0


def initializers(created: CreatedGraph) -> list[tf.Operation]:
    """Makes the ops that must run in a new session before a checkpoint is restored.

    Only ops that this graph needs are made, because each op becomes part of the saved graph.
    """
    ops = [] if created.checkpoint else [tf.global_variables_initializer()]
    if tf.local_variables():
        ops.append(tf.local_variables_initializer())
    if tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS):
        ops.append(tf.tables_initializer())
    return ops


def start_session(
    session: tf.Session, created: CreatedGraph, first: Sequence[tf.Operation], config: RunnerConfig
) -> None:
    """Gives the variables of a new session their values.

    They come from the checkpoint; in a new run from the initialisers and, if it is given, from
    `config.init_checkpoint`.
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
            changed = f" Changed since it was saved: {created.reason}." if created.reason else ""
            raise RunError(f"{error}{changed}") from error
    elif created.saver is not None:
        created.saver.restore(session, copies.copy_of(created.checkpoint))


def _warm_start(session: tf.Session, created: CreatedGraph, config: RunnerConfig) -> None:
    """Loads the weights of `config.init_checkpoint`, and logs a table that says which variables were loaded.

    If the run that wrote the checkpoint deletes it while it is read, a newer checkpoint of that run is loaded.
    """
    checkpoint = config.init_checkpoint
    folder = checkpoint.rpartition("/")[0] or "."

    def load_weights(path: str) -> tuple[str, list[VariableStart]]:
        return path, warm_start(session, path, getattr(created.ops, "averages", ()), config.init_classes)

    path, starts = checkpoints.with_newer(
        checkpoint, lambda: checkpoints.newest_readable(folder) or checkpoint, lambda path: [path], load_weights
    )
    count = sum(not start.problem for start in starts)
    log = logging.info if count == len(starts) else logging.warning
    log("%d of the model's %d variables start from %s:\n%s", count, len(starts), path, format_starts(starts))


def _restore(session: tf.Session, restorer: Restorer, checkpoint: str, config: RunnerConfig) -> None:
    """Restores a checkpoint. Evaluation and inference restore a newer one if training deletes it while it is read."""
    while True:
        try:
            restorer.restore(session, checkpoint)
            return
        except (tf.errors.OpError, ValueError, RuntimeError, storage.NotFoundError) as error:
            if not checkpoints.is_gone(checkpoint) or config.mode == "train":
                raise
            if config.checkpoint:
                raise storage.NotFoundError(f"{checkpoint} was deleted while it was read") from error
        logging.warning("%s was deleted while it was read: reading the newest checkpoint instead", checkpoint)
        checkpoint = choose_checkpoint(config)
