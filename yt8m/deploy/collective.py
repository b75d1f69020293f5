"""Sums over the replicas of a training without parameter servers, by TensorFlow's collective ops.

Each replica has all variables. A step has these collectives, in the same order on every replica: the announcements of
the replicas (number of examples, whether to stop or save after the step), the gradients in buckets, and the variables
that update ops change. Control dependencies keep the order; without them NCCL can mix up two collectives
(github.com/tensorflow/tensorflow/issues/62493).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from yt8m.deploy.gradients import GradientsAndVariables
from yt8m.lazy import tf

_LEADER = "/job:worker/replica:0/task:0"  # the task that coordinates the collectives: the chief
_GROUP = 1  # the key of the only group, to which all replicas belong
_BUCKET_BYTES = 4 << 20  # gradients are sent together until they reach this size
_ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")  # types of ops that change a variable


def collective_config() -> tf.ConfigProto:
    """The configuration for a server that takes part in collectives, and for the sessions on this server."""
    config = tf.ConfigProto()
    config.experimental.collective_group_leader = _LEADER
    # This has an effect on GPUs only; CPUs always use TensorFlow's ring algorithm.
    config.experimental.collective_nccl = True
    return config


class Round(IntEnum):
    """The kinds of calls of `session.run` in which replicas run collectives together.

    The value is TensorFlow's graph key of the call, which must be the same on all replicas.

    STEP: a training step.
    GREETING: before training, the replicas compare their settings.
    BROADCAST: all replicas take the chief's values of all variables.
    CHECK: the replicas compare checksums of their variables.
    BARRIER: every replica waits until all have made this call.
    """

    STEP = 1
    GREETING = 2
    BROADCAST = 3
    CHECK = 4
    BARRIER = 5

    def options(self) -> tf.RunOptions:
        """The `options` that a call of `session.run` of this kind needs."""
        options = tf.RunOptions()
        options.experimental.collective_graph_key = int(self)
        return options


class Announcement(IntEnum):
    """The columns of the vector by which a replica tells all others in each step what it has and what it plans.

    EXAMPLES: number of the replica's examples in this step; 0 if it has read all its data.
    STOP: 1 if all replicas should stop after this step because this replica got a signal, 2 because one of its
      callbacks asked for it, else 0.
    SAVE: 1 if a checkpoint will be saved after this step, else 0.
    WAITED: microseconds that the replica spent in the collectives of the step before.
    """

    EXAMPLES = 0
    STOP = 1
    SAVE = 2
    WAITED = 3


class AllReduce:
    """Builds the collectives of one replica. All replicas must call the same methods in the same order.

    Args:
      replica: which replica this is, from 0.
      replicas: number of replicas.
      wire: dtype in which gradients are sent and summed, float32 or bfloat16. Variables are always sent bit for bit.

    Attributes:
      announcement: int64 [len(Announcement)] placeholder for this replica's announcement; the graph adds EXAMPLES to
        the fed values. `announce` creates it.
      announced: int64 [replicas, len(Announcement)], the announcements of all replicas; None before `announce`.
      examples: int64 scalar, the number of examples of all replicas in this step. `announce` creates it.
    """

    def __init__(self, replica: int, replicas: int, wire: str = "float32") -> None:
        self.replica, self.replicas, self._wire = replica, replicas, tf.as_dtype(wire)
        self._instances = 0
        self._step = _Chain(self)
        self.announced: Any = None

    def announce(self, rows: tf.Tensor) -> None:
        """Builds the first collective of a step, in which the replicas exchange their announcements.

        Sets the attributes `announcement`, `announced` and `examples`.

        Args:
          rows: int64 scalar, the number of examples of this replica.
        """
        columns = len(Announcement)
        self.announcement = tf.placeholder_with_default(tf.zeros([columns], tf.int64), [columns], name="told")
        examples = tf.one_hot(int(Announcement.EXAMPLES), columns, dtype=tf.int64) * rows
        self.announced = self._gather(self._step, self.announcement + examples)
        counts = self.announced[:, int(Announcement.EXAMPLES)]
        self._first_with_examples = tf.argmax(tf.cast(counts > 0, tf.int32))
        self._rows = rows
        self.examples = tf.reduce_sum(counts)

    def sum_gradients(self, gradients: GradientsAndVariables, combine: str = "mean") -> list[tuple[Any, Any]]:
        """The weighted sum of the replicas' gradients; every replica gets the same bits.

        The gradients of the last variables are sent first: backpropagation computes these first, so they are sent while
        the others are computed. Each call of a collective sends a bucket: gradients of one dtype, collected until they
        reach 4 MiB.

        Args:
          gradients: (gradient, variable) pairs of this replica's mean loss. A sparse gradient becomes dense.
          combine: "mean" weights each replica by its share of the examples, "sum" by 1. A replica without examples
            adds nothing, not even a NaN.

        Returns:
          (summed gradient, variable) pairs, in the order of `gradients`.
        """
        has_rows = tf.cast(self._rows > 0, tf.float64)
        share = tf.cast(self._rows, tf.float64) / tf.cast(tf.maximum(self.examples, 1), tf.float64)
        factor = share if combine == "mean" else has_rows
        summed: list[tuple[Any, Any]] = list(gradients)
        for indices in _divide_into_buckets(gradients):
            dense = [tf.convert_to_tensor(gradients[index][0]) for index in indices]
            flat = tf.concat([tf.reshape(part, [-1]) for part in dense], 0)
            weighted = tf.math.multiply_no_nan(flat, tf.cast(factor, flat.dtype))
            wire = tf.float64 if flat.dtype == tf.float64 and self._wire == tf.float32 else self._wire
            total = tf.cast(self._step.sum(tf.cast(weighted, wire)), flat.dtype)
            totals = tf.split(total, [part.shape.num_elements() for part in dense])
            for index, part, flat_sum in zip(indices, dense, totals, strict=True):
                summed[index] = (tf.reshape(flat_sum, part.shape), gradients[index][1])
        return summed

    def keep_common(self, variables: Sequence[tf.Variable], after: Sequence[tf.Operation]) -> tf.Operation:
        """The op that runs the update ops and then gives `variables` the same values on all replicas.

        Every replica runs its update ops. Then all replicas take the values of the first replica that has examples in
        this step, as on one machine only the update ops of the first tower count. In a step in which no replica has
        examples the variables keep their former values.

        Args:
          variables: the variables that the update ops change.
          after: the update ops.
        """
        if not variables:
            return tf.group(*after)
        old_values = [_read_before_updates(variable) for variable in variables]
        with tf.control_dependencies(list(after)):
            flat = _as_integers([variable.read_value() for variable in variables])
        is_first = tf.equal(self._first_with_examples, self.replica)
        common = _from_integers(self._step.sum(tf.where_v2(is_first, flat, 0)), variables)
        has_examples = self.examples > 0
        return tf.group(
            *[
                variable.assign(tf.where_v2(has_examples, value, old), read_value=False)
                for variable, value, old in zip(variables, common, old_values, strict=True)
            ]
        )

    def waited(self) -> tf.Tensor:
        """int64 scalar: the microseconds that a step spends in its collectives on this replica.

        Only the collectives built before this call are counted.
        """
        return self._step.waited()

    def broadcast(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        """The op that gives every variable the chief's value, bit for bit; run it as `Round.BROADCAST`."""
        chain = _Chain(self)
        assignments: list[tf.Operation] = []
        for variable in variables:
            # The variables are sent one after another, so that memory never holds a second copy of all of them.
            with tf.control_dependencies(assignments[-1:]):
                flat = _as_integers([variable.read_value()])
            (value,) = _from_integers(chain.sum(flat if self.replica == 0 else tf.zeros_like(flat)), [variable])
            assignments.append(variable.assign(value, read_value=False))
        return tf.group(*assignments)

    def gather(self, values: tf.Tensor) -> tf.Tensor:
        """int64 [replicas, ...]: the int64 `values` of each replica; run it as any `Round` other than STEP."""
        return self._gather(_Chain(self), values)

    def digests(self, variables: Sequence[tf.Variable]) -> tf.Tensor:
        """int64 [replicas, V]: a checksum of each of the V variables on each replica; run it as `Round.CHECK`.

        A checksum changes if one bit of its variable changes, or if two different values of the variable are swapped.
        """
        return self.gather(tf.stack([_checksum(variable) for variable in variables]))

    def _gather(self, chain: _Chain, values: tf.Tensor) -> tf.Tensor:
        """int64 [replicas, ...]: the `values` of each replica, as the sum of arrays with one nonzero row each."""
        mine = tf.reshape(tf.one_hot(self.replica, self.replicas, dtype=tf.int64), [-1] + [1] * values.shape.rank)
        return tf.reshape(chain.sum(tf.reshape(mine * values, [-1])), [self.replicas, *values.shape])

    def reduce(self, vector: tf.Tensor) -> tf.Tensor:
        """The sum of `vector` over the replicas, by one collective op.

        The caller adds the control dependencies by which collectives run in the same order on all replicas.
        """
        self._instances += 1
        return tf.raw_ops.CollectiveReduceV2(
            input=vector,
            group_size=self.replicas,
            group_key=_GROUP,
            instance_key=self._instances,
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
        )


class _Chain:
    """The collectives of one `Round`. Control dependencies make each begin after the previous one has ended."""

    def __init__(self, team: AllReduce) -> None:
        self._team = team
        self._last: list[tf.Operation] = []
        self._seconds: list[tf.Tensor] = []

    def sum(self, vector: tf.Tensor) -> tf.Tensor:
        """The sum of `vector` over the replicas."""
        with tf.control_dependencies([vector, *self._last]):
            begun = tf.timestamp()
        with tf.control_dependencies([begun]):
            total = self._team.reduce(vector)
        with tf.control_dependencies([total]):
            self._seconds.append(tf.timestamp() - begun)
        self._last = [total.op]
        total.set_shape(vector.shape)
        return total

    def waited(self) -> tf.Tensor:
        """int64 scalar: the microseconds that the collectives built so far take when they run."""
        return tf.cast(1e6 * tf.add_n(self._seconds), tf.int64)


def _divide_into_buckets(gradients: GradientsAndVariables) -> list[list[int]]:
    """Divides the gradients, from the last to the first, into buckets that are sent together."""
    buckets: list[list[int]] = []
    size = 0
    for index in reversed(range(len(gradients))):
        gradient = gradients[index][0]
        if not buckets or size >= _BUCKET_BYTES or gradients[buckets[-1][0]][0].dtype != gradient.dtype:
            buckets.append([])
            size = 0
        buckets[-1].append(index)
        size += gradients[index][1].shape.num_elements() * gradient.dtype.size
    return buckets


def _read_before_updates(variable: tf.Variable) -> tf.Tensor:
    """The value that `variable` has before any update op of the step changes it.

    Adds a control dependency on this read to every op of the graph that assigns to the variable.
    """
    value = variable.read_value()
    for op in variable.handle.consumers():
        if op.type in _ASSIGNMENTS and op is not variable.initializer:
            # TensorFlow's public API cannot do this, because the model built these ops before this read.
            op._add_control_input(value.op)
    return value


def _as_integers(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """int32 [n]: the bits of all values, read as integers; adding zeros to integers never changes a bit."""
    return tf.concat([tf.reshape(_bits(value), [-1]) for value in values], 0)


def _bits(value: tf.Tensor) -> tf.Tensor:
    """int32: the bits of each value as one integer, or as two (a last axis of size 2) if it has 8 bytes."""
    narrow_type = {1: tf.int8, 2: tf.int16}.get(value.dtype.size)
    if value.dtype == tf.bool:
        return tf.cast(value, tf.int32)
    return tf.bitcast(value, tf.int32) if narrow_type is None else tf.cast(tf.bitcast(value, narrow_type), tf.int32)


def _from_integers(flat: tf.Tensor, variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """Turns the integers that `_as_integers` made from values of `variables` back into these values.

    Args:
      flat: int32 [n], the bits of all values.
    """
    types = [(variable.shape, variable.dtype.base_dtype) for variable in variables]
    sizes = [shape.num_elements() * max(1, dtype.size // 4) for shape, dtype in types]
    return [
        _value_of_bits(part, *shape_and_type) for part, shape_and_type in zip(tf.split(flat, sizes), types, strict=True)
    ]


def _value_of_bits(bits: tf.Tensor, shape: tf.TensorShape, dtype: tf.DType) -> tf.Tensor:
    """The tensor of this shape and dtype whose bits, as `_bits` returns them, are the int32 vector `bits`."""
    if dtype == tf.bool:
        return tf.cast(tf.reshape(bits, shape), tf.bool)
    if dtype.size == 8:
        return tf.bitcast(tf.reshape(bits, [*shape, 2]), dtype)
    narrow_type = {1: tf.int8, 2: tf.int16}.get(dtype.size)
    integers = tf.reshape(bits, shape)
    return tf.bitcast(integers if narrow_type is None else tf.cast(integers, narrow_type), dtype)


def _checksum(variable: tf.Variable) -> tf.Tensor:
    """int64 scalar: the sum over all values of (bits as an integer) x (an odd number that depends on the position)."""
    bits = tf.cast(_as_integers([variable.read_value()]), tf.int64)
    positions = tf.range(tf.size(bits, out_type=tf.int64), dtype=tf.int64)
    return tf.reduce_sum(bits * (positions * 0x9E3779B1 * 2 + 1))
