"""Joins the small tensors that cross between the host and a tower in a step, so that one copy carries them.

A copy takes about as long for a bias as for a page of memory, and a model with many small layers has dozens of biases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from yt8m import deploy
from yt8m.graph.towers import Towers
from yt8m.lazy import tf

SMALL_TENSOR = 4096  # bytes; for larger tensors the bytes cost more than the copy's start


class _Use(NamedTuple):
    """The tensor that an op takes as its input number `place`."""

    op: tf.Operation
    place: int
    tensor: tf.Tensor


def join_small_copies(towers: Towers, update_ops: Sequence[tf.Operation], deployment: deploy.DeploymentConfig) -> None:
    """Changes the graph of a step, so that its small weights go to each tower in one tensor.

    Likewise what the update takes of a tower comes back in one tensor: gradients of small weights, and statistics of
    the batch. All values stay the same to the bit. Nothing changes if the towers compute on the CPU or where the
    variables are, nor with parameter servers.

    Args:
      towers: the towers of the step.
      update_ops: the ops that take the gradients of the step; all that they need has been made.
    """
    if deployment.computes_on_cpu or deployment.variables_on_clone or deployment.num_ps_tasks:
        return
    host = deployment.inputs_device()
    losses = [loss for each in towers.outputs for loss in (each.loss, each.regularization_loss) if loss is not None]
    ops_of_update = with_needed_ops(update_ops)
    ops_of_step = with_needed_ops([*update_ops, *(loss.op for loss in losses)])
    for clone in towers.clones:
        results = [use for use in _uses_on(host, ops_of_update) if _comes_from(clone.device, use)]
        _join(results, clone.device, host, f"{clone.scope}joined_from_tower/")
        weights = [use for use in _uses_on(clone.device, ops_of_step) if _is_weight_elsewhere(clone.device, use)]
        _join(weights, host, clone.device, f"{clone.scope}joined_to_tower/")


def with_needed_ops(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """The ops and all that they need, each once."""
    to_follow, needed_ops = list(ops), dict[str, tf.Operation]()
    while to_follow:
        op = to_follow.pop()
        if op.name not in needed_ops:
            needed_ops[op.name] = op
            to_follow += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return list(needed_ops.values())


def _uses_on(device: str, ops: Sequence[tf.Operation]) -> list[_Use]:
    """The small tensors that those of the ops take which are on a device."""
    return [
        _Use(op, place, tensor)
        for op in ops
        if _is_on(op, device)
        for place, tensor in enumerate(op.inputs)
        if _is_small(tensor)
    ]


def _comes_from(device: str, use: _Use) -> bool:
    """Whether a tower on the device makes the tensor in every step: not in a branch or a loop of TensorFlow 1."""
    return _is_on(use.tensor.op, device) and not any(op._get_control_flow_context() for op in (use.op, use.tensor.op))


def _is_weight_elsewhere(device: str, use: _Use) -> bool:
    """Whether the tensor is the value, at any time in the step, of a variable that is not on the device."""
    read = use.tensor.op
    if read.type != "ReadVariableOp" or read.control_inputs or read._get_control_flow_context():
        return False
    return not _is_on(read.inputs[0].op, device)  # it is read where the variable is, whatever its own device says


def _join(uses: Sequence[_Use], source: str, target: str, scope: str) -> None:
    """Gives ops on the device `target` their inputs from the device `source` out of one tensor.

    A tensor from which another of them is computed is left as it is, since the joined one would wait for itself.
    """
    earlier = {op.name for op in with_needed_ops(use.tensor.op for use in uses)}
    uses = [use for use in uses if use.op.name not in earlier]
    tensors = list({use.tensor.ref(): use.tensor for use in uses}.values())
    if len(tensors) < 2:
        return
    with tf.name_scope(scope), tf.control_dependencies(None):
        with tf.device(source):
            joined = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
        with tf.device(target):
            flat_copies = tf.split(joined, [tensor.shape.num_elements() for tensor in tensors])
            copies = {
                tensor.ref(): tf.reshape(flat, tensor.shape) for tensor, flat in zip(tensors, flat_copies, strict=True)
            }
    for use in uses:
        use.op._update_input(use.place, copies[use.tensor.ref()])  # TensorFlow has no public method for it


def _is_small(tensor: tf.Tensor) -> bool:
    """Whether it is less than 4 kB of float32, as weights, gradients and statistics are in every precision."""
    size = tensor.shape.num_elements()
    return tensor.dtype == tf.float32 and size is not None and 0 < size * tensor.dtype.size < SMALL_TENSOR


def _is_on(op: tf.Operation, device: str) -> bool:
    return _normal_form(op.device) == _normal_form(device)


def _normal_form(device: str) -> str:
    """A name of a device in the form in which names are equal if the devices are."""
    return tf.DeviceSpec.from_string(device).to_string()
