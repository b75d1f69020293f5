"""Builds the whole graph of one training step, or of one evaluation or inference step, with its summaries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import deploy
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.errors import UsageError
from yt8m.graph import collections
from yt8m.graph.apply import Gradients, apply_gradients, tower_gradients
from yt8m.graph.inputs import read_shares
from yt8m.graph.joined_copies import join_small_copies
from yt8m.graph.optimizers import Columns, Synchrony, create_optimizer, learning_rate
from yt8m.graph.protocols import EvalOps, Inputter, Modeler, PredictOps, TrainOps, check_workload
from yt8m.graph.towers import Towers, build_towers
from yt8m.lazy import tf


def build(
    inputter: Inputter,
    modeler: Modeler,
    deployment: deploy.DeploymentConfig,
    optimizer: OptimizerConfig,
    devices: DeviceConfig | None = None,
    *,
    seed: int = 0,
    split: bool = True,
    signature: Mapping[str, Any] | None = None,
    synchrony: Synchrony | deploy.AllReduce | None = None,
    columns: Columns | None = None,
    packs: bool = True,
) -> TrainOps:
    """Builds one training step in the current graph and publishes it to collections.

    Args:
      inputter: makes the batches; a step reads inputter.batch_size examples for each tower.
      modeler: the model and its loss.
      deployment: the towers and their devices.
      optimizer: the settings of optimizer, learning rate, clipping, regularisation and averages.
      devices: the precision and the batch norm of the towers, and whether each step copies the next step's batch to
        their devices. Predictions in evaluation mode (`TrainOps.predict`) are always computed in float32. With
        `sync_batch_norm` a custom modeler can share its own statistics too, by `across_towers.gathered`.
      seed: the seed of all random ops in the graph.
      split: whether one batch is split over the towers; if false, each tower gets a batch of its own.
      signature: the options that shaped this graph; they are stored in it, so that a resumed run can compare them. If
        the input calls Python, they are not stored, because a resumed run cannot use the graph.
      synchrony: how the replicas of a cluster take each step together; None if they take steps independently. With
        `AllReduce` a step after the end of the data of all replicas raises no error; its `examples` is 0.
      columns: {name of a variable: bool [size of its last axis], which of its columns learn}; all other variables and
        columns are frozen. None: everything learns. Not to be used together with `synchrony`.
      packs: whether batches that are copied to other devices may be packed (`Inputter.pack_batches`).

    Returns:
      The handles. N towers give the same gradients as one tower on the same batch, except for rounding. For models with
      batch norm this is true only if its statistics are taken over all towers. It is never true for models that draw
      random values, nor for a loss that compares examples with one another.

    Raises:
      UsageError: `inputter` or `modeler` is not derived from its base class; or gradients are to be accumulated by
        several replicas that share parameter servers.
    """
    _check_arguments(inputter, modeler, optimizer, deployment)
    if packs:
        _pack_for(deployment, inputter, modeler)
    with tf.device(deployment.inputs_device()):  # an op without a device would run on the first GPU
        ops = _build_step(
            inputter, modeler, deployment, optimizer, devices or DeviceConfig(), seed, split, synchrony, columns
        )
        keep_order_of_sums(tf.get_default_graph())
        collections.publish_train(ops, None if inputter.calls_python else signature or {})
        return ops


def _build_step(
    inputter: Inputter,
    modeler: Modeler,
    deployment: deploy.DeploymentConfig,
    optimizer: OptimizerConfig,
    devices: DeviceConfig,
    seed: int,
    split: bool,
    synchrony: Synchrony | deploy.AllReduce | None,
    columns: Columns | None,
) -> TrainOps:
    """Does what `build` does, which describes the arguments, without publishing the handles."""
    global_step = _global_step(deployment)
    # The global step is read only once, because a second read in the same step could give another value.
    start_step = tf.identity(global_step.read_value(), name="step_at_start")
    is_endless = isinstance(synchrony, deploy.AllReduce)
    read = read_shares(inputter, deployment, split, devices.prefetch_to_device, is_endless, modeler.reads_parts)
    towers = build_towers(modeler, deployment, read.shares, mode="train", seed=seed, step=start_step, devices=devices)
    replicas = synchrony.replicas if synchrony is not None else 1
    rate = learning_rate(optimizer, start_step, inputter.batch_size * deployment.num_clones * replicas)
    with tf.device(deployment.optimizer_device()):
        update = _build_update(towers, rate, optimizer, global_step, synchrony, columns)
    join_small_copies(towers, [update.train_op, update.gradients.bad_tower.op], deployment)
    train_op, step = _complete_step(update.train_op, read.put_next, global_step)
    losses = _step_losses(towers, optimizer.regularization_penalty)
    shown = {"learning_rate": rate, **_trained(losses, optimizer.regularization_penalty)}
    return TrainOps(
        train_op=train_op,
        global_step=global_step,
        step=step,
        learning_rate=rate,
        label_loss=losses["label_loss"],
        regularization_loss=losses["reg_loss"],
        total_loss=losses["total_loss"],
        examples=update.examples,
        gradient_norms=update.gradients.norms,
        gradient_variables=tuple(variable.op.name for _, variable in update.gradients.combined),
        predictions=towers.predictions(),
        reports=towers.reports(),
        predict=(predict := build_predictions(modeler, deployment, read.batch)),
        summary_op=_create_summaries(towers, update.gradients, shown, predict),
        input=read.ops,
        averages=update.averages,
        bad_tower=update.gradients.bad_tower,
    )


def _pack_for(deployment: deploy.DeploymentConfig, inputter: Inputter, modeler: Modeler) -> None:
    """Packs the batches if they are copied to the towers' devices; from one CPU device to another nothing is copied."""
    if modeler.unpacks and not deployment.computes_on_cpu:
        inputter.pack_batches()


def _global_step(deployment: deploy.DeploymentConfig) -> tf.Variable:
    """The global step of the current graph, on the host or on a parameter server: its readers are there."""
    device = deployment.variables_device() if deployment.num_ps_tasks else deployment.inputs_device()
    with tf.device(None), tf.device(device):
        return tf.train.get_or_create_global_step()


def _create_summaries(
    towers: Towers, gradients: Gradients, scalars: Mapping[str, tf.Tensor], predict: PredictOps
) -> tf.Tensor:
    """The merged summary of a training step."""
    scalars = {**towers.single_losses(), **scalars}
    model_summaries = towers.clones[0].collected(tf.GraphKeys.SUMMARIES)
    return train_summaries(gradients.combined, scalars, predict.histograms, model_summaries)


def _complete_step(
    train_op: tf.Operation, put_next: tf.Operation | None, global_step: tf.Variable
) -> tuple[tf.Operation, tf.Tensor]:
    """Completes the op of a training step by the one that copies the next step's batch to the towers' devices.

    Args:
      put_next: the op that copies the next batch; None if each step reads its batch itself.
    """
    if put_next is not None:
        # Both ops run at the same time, and the step ends when both have ended.
        train_op = tf.group(train_op, put_next, name="train_and_put_next")
    with tf.control_dependencies([train_op]):
        return train_op, tf.identity(global_step.read_value(), name="step_after_train_op")


def _check_arguments(
    inputter: Inputter, modeler: Modeler, optimizer: OptimizerConfig, deployment: deploy.DeploymentConfig
) -> None:
    """Raises UsageError for the reasons that `build` names."""
    check_workload(inputter, modeler)
    if optimizer.accumulate_steps > 1 and deployment.num_ps_tasks and deployment.num_replicas > 1:
        raise UsageError(
            f"--accumulate_steps={optimizer.accumulate_steps} does not work with parameter servers: replicas share "
            "the global step, by which batches are grouped. Leave the flag out."
        )


def build_eval(
    inputter: Inputter, modeler: Modeler, deployment: deploy.DeploymentConfig, mode: str = "eval", *, seed: int = 0
) -> EvalOps:
    """Builds one step of evaluation or inference in the current graph and publishes it to collections.

    Args:
      inputter: makes the batches.
      modeler: the model and its loss.
      deployment: the towers and their devices.
      mode: `eval`; or `infer`, in which batches need no labels, and there is then no loss.
      seed: the seed of the model's random ops, by which two evaluations of the same model agree.

    Raises:
      UsageError: `inputter` or `modeler` is not derived from its base class.
    """
    check_workload(inputter, modeler)
    _pack_for(deployment, inputter, modeler)
    with tf.device(deployment.inputs_device()):
        global_step = _global_step(deployment)
        read = read_shares(inputter, deployment, split=True)
        zero = tf.zeros([], tf.int64)
        towers = build_towers(
            modeler, deployment, read.shares, mode=mode, seed=seed, step=zero, rows=inputter.batch_size
        )
        loss = towers.mean("loss") if towers.outputs[0].loss is not None else None
        ops = EvalOps(
            global_step=global_step,
            examples=towers.examples(),
            predict=build_predictions(modeler, deployment, read.batch),
            input=read.ops,
            label_loss=loss,
            reports=towers.reports(),
            summary_op=None if loss is None else train_summaries([], {"label_loss": loss}),
        )
        keep_order_of_sums(tf.get_default_graph())
        collections.publish_eval(ops)
        return ops


def keep_order_of_sums(graph: tf.Graph) -> None:
    """Changes `graph` so that every sum of three or more float tensors adds them in the order of the op's inputs.

    Without this, AddN reuses the memory of an input that no other op needs any more, and adds the other inputs to it
    (AddNOp in TensorFlow's aggregate_ops.cc). Which input that is depends on which ops have already run, so the last
    bit of a sum could differ from step to step. This function gives AddN a copy of its first input (Snapshot), which no
    other op needs, so AddN always begins with that copy. Sums inside functions and inside the loops of TensorFlow 1
    stay as they are, because an op cannot be put into these afterwards.
    """
    for op in graph.get_operations():
        is_sum = op.type == "AddN" and len(op.inputs) > 2 and op.inputs[0].dtype.is_floating
        if is_sum and op._get_control_flow_context() is None:
            with graph.as_default(), graph.name_scope(""), graph.device(op.device), graph.control_dependencies(None):
                first = tf.raw_ops.Snapshot(input=op.inputs[0], name=f"{op.name}_first")
            op._update_input(0, first)  # TensorFlow has no public method that puts an op between two others


def build_predictions(modeler: Modeler, deployment: deploy.DeploymentConfig, batch: Any) -> PredictOps:
    """Builds predictions in evaluation mode, apart from the towers but with the same variables; computed if fetched."""
    with (
        tf.device(deployment.clone_device(0)),
        tf.name_scope("predict"),
        tf.variable_scope(tf.get_variable_scope(), reuse=True),
    ):
        return modeler.predict(modeler.unpacked(batch))


def _step_losses(towers: Towers, penalty: float) -> dict[str, tf.Tensor]:
    """{tag of a summary: loss of the step}: label_loss, reg_loss, and total_loss = label_loss + penalty * reg_loss."""
    # In a step without examples the towers compute the loss of a row of zeros, which may be NaN.
    label_loss = tf.where_v2(towers.examples() > 0, towers.mean("loss"), 0.0)
    regularization = towers.mean("regularization_loss") + tf.add_n([tf.zeros([]), *towers.shared_terms])
    total = label_loss + penalty * regularization
    return {"label_loss": label_loss, "reg_loss": regularization, "total_loss": total}


def _trained(losses: Mapping[str, tf.Tensor], penalty: float) -> dict[str, tf.Tensor]:
    """The losses that have a summary: as in the published code, that of regularisation only if it is trained."""
    return {tag: loss for tag, loss in losses.items() if tag != "reg_loss" or penalty}


class _Update(NamedTuple):
    """The update of the weights in a step."""

    train_op: tf.Operation
    gradients: Gradients
    averages: tuple[tuple[str, str], ...]
    examples: tf.Tensor


def _build_update(
    towers: Towers,
    rate: tf.Tensor,
    config: OptimizerConfig,
    global_step: tf.Variable,
    synchrony: deploy.AllReduce | Synchrony | None,
    columns: Columns | None,
) -> _Update:
    """Builds the op that combines, clips and applies the gradients, updates the averages and counts the step.

    Args:
      synchrony: how the replicas of a cluster take each step together; None if they take steps independently.
      columns: {name of a variable: which of its columns learn}; None: everything learns.
    """
    if isinstance(synchrony, deploy.AllReduce):
        return _build_common_update(towers, rate, config, global_step, synchrony)
    optimizer = create_optimizer(config.optimizer, rate, config.weight_decay, columns)
    gradients = tower_gradients(towers, optimizer, config, columns=columns)
    if synchrony is not None:
        optimizer = synchrony.wrap(optimizer, towers.examples())
    # Only the applied gradients depend on the update ops, so fetching a gradient, norm or summary changes no variable.
    delayed = deploy.gradients_after(towers.outputs[0].update_ops, gradients.combined)
    with tf.control_dependencies([rate]):  # read before the global step is incremented
        averages, train_op = apply_gradients(
            delayed, gradients.norms, optimizer, config, global_step, towers.examples()
        )
    return _Update(train_op, gradients, averages, towers.examples())


def _build_common_update(
    towers: Towers, rate: tf.Tensor, config: OptimizerConfig, global_step: tf.Variable, all_reduce: deploy.AllReduce
) -> _Update:
    """Does what `_build_update` does, with the gradients of all replicas, which `all_reduce` combines.

    A step in which no replica has an example changes no variable.
    """
    all_reduce.announce(towers.examples())
    # All replicas must also agree on the variables that no gradient changes, such as batch-norm statistics. They are
    # listed before the optimizer makes variables of its own, which are equal on all replicas anyway.
    excluded = {global_step.ref(), *(variable.ref() for variable in tf.trainable_variables())}
    others = [variable for variable in tf.global_variables() if variable.ref() not in excluded]
    optimizer = create_optimizer(config.optimizer, rate, config.weight_decay)
    gradients = tower_gradients(towers, optimizer, config, all_reduce)
    update_op = all_reduce.keep_common(others, towers.outputs[0].update_ops)
    averages: list[tuple[str, str]] = []

    def apply() -> tf.Tensor:
        names, op = apply_gradients(
            gradients.combined, gradients.norms, optimizer, config, global_step, all_reduce.examples
        )
        averages.extend(names)
        with tf.control_dependencies([op]):
            return tf.constant(True)

    with tf.control_dependencies([rate, update_op]):
        is_applied = tf.cond(all_reduce.examples > 0, apply, lambda: tf.constant(False))
    return _Update(is_applied.op, gradients, tuple(averages), all_reduce.examples)


# The largest number of values that a histogram is computed from. A bin with 1 % of them has a relative error of 6 %.
_MOST_VALUES = 1 << 15
_RUN = 16  # number of consecutive values that are read together: 16 float32 values fill one cache line


def train_summaries(
    gradients: Sequence[tuple[Any, Any]],
    scalars: Mapping[str, tf.Tensor],
    histograms: Mapping[str, tf.Tensor] | None = None,
    model_summaries: Sequence[tf.Tensor] = (),
) -> tf.Tensor:
    """One merged summary: scalars, histograms of each gradient and of its variable, and further histograms.

    The summaries are not put into the SUMMARIES collection, since others could run that collection outside of a step.
    The tags are exactly the names given; `tf.summary` would add a number to a name that an op already has.

    Args:
      scalars: {tag: scalar}.
      histograms: {tag: values} of further histograms, computed from all values.
    """
    summaries = [tf.raw_ops.ScalarSummary(tags=name, values=value) for name, value in scalars.items()]
    for gradient, variable in gradients:
        gradient_values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        summaries.append(_histogram(f"{variable.op.name}/gradient", _sample_values(gradient_values)))
        summaries.append(_histogram(variable.op.name, _sample_values(variable.read_value())))
    summaries += [_histogram(tag, values) for tag, values in (histograms or {}).items()]
    return tf.summary.merge([*summaries, *model_summaries], collections=[])


def summary_tags(summary_op: tf.Tensor) -> list[str]:
    """The tags that a summary op will write, without those that the graph computes only when the op runs.

    Args:
      summary_op: a summary, or a summary that merges others.
    """
    op = summary_op.op
    if op.type == "MergeSummary":
        return [tag for tensor in op.inputs for tag in summary_tags(tensor)]
    tags = tf.get_static_value(op.inputs[0]) if op.inputs and op.inputs[0].dtype == tf.string else None
    if tags is None:
        return []
    names = [name.decode() for name in np.ravel(tags)]
    if op.type not in _MEDIA_SUMMARIES:
        return names
    kind, attribute = _MEDIA_SUMMARIES[op.type]
    count = op.get_attr(attribute)
    return [f"{name}/{kind}" + (f"/{index}" if count > 1 else "") for name in names for index in range(count)]


# Some types of summary ops write several tags, such as `tag/image/0`, `tag/image/1`. {type: (the word in the middle of
# the tag, the attribute of the op that has the number of tags)}.
_MEDIA_SUMMARIES = {"ImageSummary": ("image", "max_images"), "AudioSummaryV2": ("audio", "max_outputs")}


def _histogram(tag: str, values: tf.Tensor) -> tf.Tensor:
    """A histogram summary of the finite values among `values`.

    HistogramSummary refuses NaN and infinity. Its error would end the step before the NaN guard can name the tower and
    the variable.
    """
    if values.dtype.is_floating:
        # `tf.boolean_mask` does the same with 15 ops, which make a training start later.
        flat = tf.reshape(values, [-1])
        values = tf.gather_nd(flat, tf.where_v2(tf.math.is_finite(flat)))
    return tf.raw_ops.HistogramSummary(tag=tag, values=values)


def _sample_values(values: tf.Tensor) -> tf.Tensor:
    """At most `_MOST_VALUES` of the values; all values if there are no more.

    The sample consists of runs of `_RUN` consecutive values, because memory is read in cache lines: reading every n-th
    value would take as long as reading all. The distance of the runs is chosen so that the sample has values of all
    columns.
    """
    count = values.shape.num_elements() or 0
    if count <= _MOST_VALUES:
        return values
    distance = -(-count // _MOST_VALUES) * _RUN
    while math.gcd(distance, values.shape[-1]) > _RUN:
        distance += _RUN
    sections = tf.reshape(tf.reshape(values, [-1])[: count // distance * distance], [-1, distance])
    return tf.reshape(sections[:, :_RUN], [-1])
