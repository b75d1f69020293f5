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
) -> TrainOps:
    """Builds one training step in the current graph and publishes it to collections.

    Args:
      inputter: gives the batches; a step reads inputter.batch_size examples for each tower.
      modeler: the model and its loss.
      deployment: the towers and their devices.
      optimizer: the settings of optimizer, learning rate, clipping, regularisation and averages.
      devices: the precision and the batch norm of the towers, and whether each step copies the next step's batch to
        their devices. The predict path is always in float32. With `sync_batch_norm` a custom modeler can share its own
        statistics too, by `across_towers.gathered`.
      seed: the seed of all random ops in the graph.
      split: whether one batch is split over the towers; if false, each tower gets a batch of its own.
      signature: the options that shaped this graph; they are stored in it, so that a resumed run can compare them. If
        the input calls Python, they are not stored, because a resumed run cannot use the graph.
      synchrony: how the replicas of a cluster take each step together; None if they take steps independently. With
        `AllReduce` a step never reports the end of the data; its `examples` is 0 then.
      columns: {variable: bool [size of its last axis], which columns learn}; all else is frozen. None: everything
        learns. Not for several replicas.

    Returns:
      The handles. N towers give the same gradients as one tower on the same batch, except for rounding. For models with
      batch norm this holds only if its statistics are taken over all towers. It never holds for models that draw
      random values, nor for a loss that compares examples with one another.

    Raises:
      UsageError: gradients are to be accumulated in a cluster.
    """
    _check(inputter, modeler, optimizer, deployment)
    global_step = tf.train.get_or_create_global_step()
    # Read only once: a second read in the same step could give another value.
    start = tf.identity(global_step.read_value(), name="step_at_start")
    devices, is_endless = devices or DeviceConfig(), isinstance(synchrony, deploy.AllReduce)
    read = read_shares(inputter, deployment, split, devices.prefetch_to_device, endless=is_endless)
    towers = build_towers(modeler, deployment, read.shares, mode="train", seed=seed, step=start, devices=devices)
    replicas = synchrony.replicas if synchrony is not None else 1
    rate = learning_rate(optimizer, start, inputter.batch_size * deployment.num_clones * replicas)
    # Read the rate before the global step is incremented: with accumulation that happens before the update.
    with tf.device(deployment.optimizer_device()), tf.control_dependencies([rate]):
        applied = _apply(towers, rate, optimizer, global_step, synchrony, columns)
    train_op, step = _whole_step(applied.train_op, read.put_next, global_step)
    losses = _losses(towers, optimizer.regularization_penalty)
    ops = TrainOps(
        train_op=train_op,
        global_step=global_step,
        step=step,
        learning_rate=rate,
        label_loss=losses["label_loss"],
        regularization_loss=losses["reg_loss"],
        total_loss=losses["total_loss"],
        examples=applied.examples,
        gradient_norms=applied.found.norms,
        gradient_variables=tuple(variable.op.name for _, variable in applied.found.together),
        predictions=towers.predictions(),
        reports=towers.reports(),
        predict=(predict := predict_path(modeler, deployment, read.batch)),
        summary_op=_summaries(towers, applied.found, {"learning_rate": rate, **losses}, predict),
        input=read.ops,
        averages=applied.averages,
        bad_tower=applied.found.bad_tower,
    )
    keep_order_of_sums(tf.get_default_graph())
    collections.publish_train(ops, None if inputter.calls_python else signature or {})
    return ops


def _summaries(
    towers: Towers, gradients: Gradients, scalars: Mapping[str, tf.Tensor], predict: PredictOps
) -> tf.Tensor:
    scalars = {**towers.single_losses(), **scalars}
    of_model = towers.clones[0].collected(tf.GraphKeys.SUMMARIES)
    return train_summaries(gradients.together, scalars, predict.histograms, model_summaries=of_model)


def _whole_step(
    train_op: tf.Operation, put_next: tf.Operation | None, global_step: tf.Variable
) -> tuple[tf.Operation, tf.Tensor]:
    """The op of a whole step (training and the staging of the next batch), and the global step read after it."""
    if put_next is not None:  # runs in parallel with the computation; the step ends when both have ended
        train_op = tf.group(train_op, put_next, name="train_and_put_next")
    with tf.control_dependencies([train_op]):
        return train_op, tf.identity(global_step.read_value(), name="step_after_train_op")


def _check(
    inputter: Inputter, modeler: Modeler, optimizer: OptimizerConfig, deployment: deploy.DeploymentConfig
) -> None:
    check_workload(inputter, modeler)
    if optimizer.accumulate_steps > 1 and deployment.num_ps_tasks and deployment.num_replicas > 1:
        raise UsageError(
            f"--accumulate_steps={optimizer.accumulate_steps} works on one machine only: the replicas of a cluster "
            "share the global step, by which batches are grouped. Leave the flag out."
        )


def build_eval(
    inputter: Inputter, modeler: Modeler, deployment: deploy.DeploymentConfig, mode: str = "eval", *, seed: int = 0
) -> EvalOps:
    """Builds one step of evaluation (`mode` eval) or inference (infer) and publishes it to collections.

    Inference has no labels and so no loss. Random ops of a model are seeded with `seed`, so that two
    evaluations agree.
    """
    check_workload(inputter, modeler)
    global_step = tf.train.get_or_create_global_step()
    read = read_shares(inputter, deployment, split=True)
    zero = tf.zeros([], tf.int64)
    towers = build_towers(modeler, deployment, read.shares, mode=mode, seed=seed, step=zero)
    loss = towers.mean("loss") if towers.outputs[0].loss is not None else None
    ops = EvalOps(
        global_step=global_step,
        examples=towers.examples(),
        predict=predict_path(modeler, deployment, read.batch),
        input=read.ops,
        label_loss=loss,
        reports=towers.reports(),
        summary_op=None if loss is None else train_summaries([], {"label_loss": loss}),
    )
    keep_order_of_sums(tf.get_default_graph())
    collections.publish_eval(ops)
    return ops


def keep_order_of_sums(graph: tf.Graph) -> None:
    """Makes every sum of three or more float tensors add them in the order of its inputs.

    AddN reuses the memory of an input that no other op needs any more, and begins with this input (AddNOp in
    TensorFlow's aggregate_ops.cc). Which one that is depends on which ops have already run, so the last bit of a sum
    could differ from step to step. No other op needs the Snapshot of the first input, so AddN always begins with it.
    Functions and the loops of TensorFlow 1 are left as they are: an op cannot be put into them afterwards.
    """
    for op in graph.get_operations():
        is_sum = op.type == "AddN" and len(op.inputs) > 2 and op.inputs[0].dtype.is_floating
        if is_sum and op._get_control_flow_context() is None:
            with graph.as_default(), graph.name_scope(""), graph.device(op.device), graph.control_dependencies(None):
                first = tf.raw_ops.Snapshot(input=op.inputs[0], name=f"{op.name}_first")
            op._update_input(0, first)  # there is no public way to put an op between two others


def predict_path(modeler: Modeler, deployment: deploy.DeploymentConfig, batch: Any) -> PredictOps:
    """Evaluation-mode predictions outside of the towers, with the towers' variables; computed only if fetched."""
    with (
        tf.device(deployment.clone_device(0)),
        tf.name_scope("predict"),
        tf.variable_scope(tf.get_variable_scope(), reuse=True),
    ):
        return modeler.predict(batch)


def _losses(towers: Towers, penalty: float) -> dict[str, tf.Tensor]:
    """The losses of a step by the tags of their summaries; total = label + penalty * regularization."""
    # If a step has no example of this replica, its loss is that of a row of zeros, which may be NaN.
    label_loss = tf.where_v2(towers.examples() > 0, towers.mean("loss"), 0.0)
    regularization = towers.mean("regularization_loss") + tf.add_n([tf.zeros([]), *towers.shared_terms])
    total = label_loss + penalty * regularization
    return {"label_loss": label_loss, "reg_loss": regularization, "total_loss": total}


class _Applied(NamedTuple):
    """The update of the weights in a step.

    Attributes:
      train_op: the op that applies the update.
      found: the gradients before clipping.
      averages: (variable's name, its moving average's name) pairs.
      examples: int64 scalar, number of examples whose gradients were used.
    """

    train_op: tf.Operation
    found: Gradients
    averages: tuple[tuple[str, str], ...]
    examples: tf.Tensor


def _apply(
    towers: Towers,
    rate: tf.Tensor,
    config: OptimizerConfig,
    global_step: tf.Variable,
    together: deploy.AllReduce | Synchrony | None,
    columns: Columns | None,
) -> _Applied:
    """Combines, clips and applies the gradients, increments the global step, updates the averages."""
    if isinstance(together, deploy.AllReduce):
        return _apply_common(towers, rate, config, global_step, together)
    optimizer = create_optimizer(config.optimizer, rate, config.weight_decay, columns)
    gradients = tower_gradients(towers, optimizer, config, columns=columns)
    if together is not None:
        optimizer = together.wrap(optimizer, towers.examples())
    # Only the applied gradients depend on the update ops, so fetching a gradient, norm or summary changes no variable.
    applied = deploy.gradients_after(towers.outputs[0].update_ops, gradients.together)
    averages, train_op = apply_gradients(applied, gradients.norms, optimizer, config, global_step, towers.examples())
    return _Applied(train_op, gradients, averages, towers.examples())


def _apply_common(
    towers: Towers, rate: tf.Tensor, config: OptimizerConfig, global_step: tf.Variable, all_reduce: deploy.AllReduce
) -> _Applied:
    """As `_apply`, on the gradients of all replicas; a step in which no replica has an example changes nothing."""
    all_reduce.announce(towers.examples())
    # The variables that exist before the optimizer makes its own, and that no gradient changes.
    excluded = {global_step.ref(), *(variable.ref() for variable in tf.trainable_variables())}
    others = [variable for variable in tf.global_variables() if variable.ref() not in excluded]
    optimizer = create_optimizer(config.optimizer, rate, config.weight_decay)
    gradients = tower_gradients(towers, optimizer, config, all_reduce)
    updated = all_reduce.keep_common(others, towers.outputs[0].update_ops)
    averages: list[tuple[str, str]] = []

    def step() -> tf.Tensor:
        names, op = apply_gradients(
            gradients.together, gradients.norms, optimizer, config, global_step, all_reduce.examples
        )
        averages.extend(names)
        with tf.control_dependencies([op]):
            return tf.constant(True)

    with tf.control_dependencies([updated]):
        stepped = tf.cond(all_reduce.examples > 0, step, lambda: tf.constant(False))
    return _Applied(stepped.op, gradients, tuple(averages), all_reduce.examples)


_SHOWN = 1 << 15  # limit of values per histogram; a bin with 1 % of them then has a relative error of 6 %
_RUN = 16  # consecutive values in a run: 16 float32 are one cache line


def train_summaries(
    gradients: Sequence[tuple[Any, Any]],
    scalars: Mapping[str, tf.Tensor],
    histograms: Mapping[str, tf.Tensor] | None = None,
    model_summaries: Sequence[tf.Tensor] = (),
) -> tf.Tensor:
    """One merged summary: scalars, histograms of each gradient and its weights (`_thinned`), and further histograms.

    The summaries are not put into the SUMMARIES collection, since others could run that collection outside of a step.
    The tags are exactly the names given; `tf.summary` would add a number to a name that an op already has.
    `model_summaries` are those that the modeler made with `tf.summary`; they keep their tags.
    """
    merged = [tf.raw_ops.ScalarSummary(tags=name, values=value) for name, value in scalars.items()]
    for gradient, variable in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        for tag, shown in ((f"{variable.op.name}/gradient", values), (variable.op.name, variable.read_value())):
            merged.append(_histogram(tag, _thinned(shown)))
    merged += [_histogram(tag, shown) for tag, shown in (histograms or {}).items()]
    return tf.summary.merge([*merged, *model_summaries], collections=[])


def summary_tags(summary_op: tf.Tensor) -> list[str]:
    """The tags that `summary_op`, a merged summary, will write, but for tags that are computed in the graph."""
    op = summary_op.op
    if op.type == "MergeSummary":
        return [tag for tensor in op.inputs for tag in summary_tags(tensor)]
    tags = tf.get_static_value(op.inputs[0]) if op.inputs and op.inputs[0].dtype == tf.string else None
    if tags is None:
        return []
    names = [name.decode() for name in np.ravel(tags)]
    if op.type not in _MEDIA:
        return names
    kind, attribute = _MEDIA[op.type]
    count = op.get_attr(attribute)
    return [f"{name}/{kind}" + (f"/{index}" if count > 1 else "") for name in names for index in range(count)]


# Summaries that write `tag/image/0`, `tag/image/1`, ...: the word, and the attribute that says how many there are.
_MEDIA = {"ImageSummary": ("image", "max_images"), "AudioSummaryV2": ("audio", "max_outputs")}


def _histogram(tag: str, values: tf.Tensor) -> tf.Tensor:
    """A histogram of the finite values.

    The op refuses NaN and infinity. That would end the step before the NaN guard can name the tower and the variable.
    """
    if values.dtype.is_floating:
        # `tf.boolean_mask` does the same with 15 ops, which make a training start later.
        flat = tf.reshape(values, [-1])
        values = tf.gather_nd(flat, tf.where_v2(tf.math.is_finite(flat)))
    return tf.raw_ops.HistogramSummary(tag=tag, values=values)


def _thinned(values: tf.Tensor) -> tf.Tensor:
    """All values if there are few; else runs of consecutive values, spaced so that all columns are sampled equally.

    Runs are used because memory is read in cache lines: reading single values would cost as much as reading all.
    """
    count = values.shape.num_elements() or 0
    if count <= _SHOWN:
        return values
    apart = -(-count // _SHOWN) * _RUN
    while math.gcd(apart, values.shape[-1]) > _RUN:
        apart += _RUN
    runs = tf.reshape(tf.reshape(values, [-1])[: count // apart * apart], [-1, apart])
    return tf.reshape(runs[:, :_RUN], [-1])
