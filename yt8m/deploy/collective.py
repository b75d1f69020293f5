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

_LEADER = "/job:worker/replica:0/task:0"  # the chief
_GROUP = 1  # the key of the only group, to which all replicas belong
_BUCKET_BYTES = 4 << 20
_ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


def collective_config() -> tf.ConfigProto:
    """The configuration of a server, and of its sessions, that takes part in collectives."""
    config = tf.ConfigProto()
    config.experimental.collective_group_leader = _LEADER
    config.experimental.collective_nccl = True  # counts for GPUs only; CPUs always use rings
    return config


class Round(IntEnum):
    """The kinds of calls of `session.run` with collectives. The value is the graph key, the same on all replicas."""

    STEP = 1
    GREETING = 2
    BROADCAST = 3
    CHECK = 4
    BARRIER = 5

    def options(self) -> tf.RunOptions:
        """The options of a call of this kind."""
        options = tf.RunOptions()
        options.experimental.collective_graph_key = int(self)
        return options


class Announcement(IntEnum):
    """The columns of a replica's announcement in a step.

    EXAMPLES: number of the replica's examples; 0 if it has read all its data.
    STOP: 1 if all replicas should stop after this step because this one got a signal, 2 because a callback asked, or 0.
    SAVE: 1 if a checkpoint will be saved after this step, else 0.
    WAITED: microseconds that the replica spent in the collectives of the step before.
    """

    EXAMPLES = 0
    STOP = 1
    SAVE = 2
    WAITED = 3


class AllReduce:
    """Builds the collectives of one replica. All replicas must make the same calls in the same order.

    Args:
      replica: which replica this is, from 0.
      replicas: number of replicas.
      wire: dtype in which gradients are sent and summed, float32 or bfloat16. Variables are always sent bit for bit.

    Attributes:
      announcement: int64 [len(Announcement)] placeholder, this replica's announcement; the graph fills in EXAMPLES.
      announced: int64 [replicas, len(Announcement)], the announcements of all replicas; None before `announce`.
      examples: int64 scalar, the number of examples of all replicas in this step.
    """

    def __init__(self, replica: int, replicas: int, wire: str = "float32") -> None:
        self.replica, self.replicas, self._wire = replica, replicas, tf.as_dtype(wire)
        self._instances = 0
        self._step = _Chain(self)
        self.announced: Any = None

    def announce(self, rows: tf.Tensor) -> None:
        """Exchanges the announcements, the first collective of a step.

        Args:
          rows: int64 scalar, the number of examples of this replica.
        """
        columns = len(Announcement)
        self.announcement = tf.placeholder_with_default(tf.zeros([columns], tf.int64), [columns], name="told")
        examples = tf.one_hot(int(Announcement.EXAMPLES), columns, dtype=tf.int64) * rows
        self.announced = self._gather(self._step, self.announcement + examples)
        counts = self.announced[:, int(Announcement.EXAMPLES)]
        self._first = tf.argmax(tf.cast(counts > 0, tf.int32))
        self._rows = rows
        self.examples = tf.reduce_sum(counts)

    def sum_gradients(self, gradients: GradientsAndVariables, combine: str = "mean") -> list[tuple[Any, Any]]:
        """The gradients of all replicas, summed; every replica gets the same bits.

        They are sent in buckets of at least 4 MB, the gradients of the last variables first: backpropagation gives
        these first, so their bucket travels while the others are computed.

        Args:
          gradients: (gradient, variable) pairs of this replica's mean loss. A sparse gradient becomes dense.
          combine: "mean" weights each replica by its share of the examples, "sum" by 1. A replica without examples
            adds nothing, not even a NaN.
        """
        has_rows = tf.cast(self._rows > 0, tf.float64)
        share = tf.cast(self._rows, tf.float64) / tf.cast(tf.maximum(self.examples, 1), tf.float64)
        factor = share if combine == "mean" else has_rows
        summed: list[tuple[Any, Any]] = list(gradients)
        for places in _buckets(gradients):
            dense = [tf.convert_to_tensor(gradients[place][0]) for place in places]
            flat = tf.concat([tf.reshape(part, [-1]) for part in dense], 0)
            weighted = tf.math.multiply_no_nan(flat, tf.cast(factor, flat.dtype))
            wire = tf.float64 if flat.dtype == tf.float64 and self._wire == tf.float32 else self._wire
            total = tf.cast(self._step.sum(tf.cast(weighted, wire)), flat.dtype)
            totals = tf.split(total, [part.shape.num_elements() for part in dense])
            for place, part, whole in zip(places, dense, totals, strict=True):
                summed[place] = (tf.reshape(whole, part.shape), gradients[place][1])
        return summed

    def keep_common(self, variables: Sequence[tf.Variable], after: Sequence[tf.Operation]) -> tf.Operation:
        """The op that gives `variables` the values that the first replica with examples has.

        On one machine only the update ops of the first tower run. Here those of every replica run, and then all
        replicas take the values of one. In a step without any example the variables keep their former values.

        Args:
          variables: the variables that update ops change.
          after: the update ops, which run first.
        """
        if not variables:
            return tf.group(*after)
        before = [_read_first(variable) for variable in variables]
        with tf.control_dependencies(list(after)):
            flat = _as_integers([variable.read_value() for variable in variables])
        is_mine = tf.equal(self._first, self.replica)
        common = _from_integers(self._step.sum(tf.where_v2(is_mine, flat, 0)), variables)
        has_any = self.examples > 0
        return tf.group(
            *[
                variable.assign(tf.where_v2(has_any, value, old), read_value=False)
                for variable, value, old in zip(variables, common, before, strict=True)
            ]
        )

    def waited(self) -> tf.Tensor:
        """int64 scalar: microseconds that this replica spent in the collectives of the step built so far."""
        return self._step.waited()

    def broadcast(self, variables: Sequence[tf.Variable]) -> tf.Operation:
        """The op of `Round.BROADCAST`: every variable gets the chief's value, bit for bit."""
        chain = _Chain(self)
        done: list[tf.Operation] = []
        for variable in variables:
            # One at a time, so that no second copy of all variables is needed.
            with tf.control_dependencies(done[-1:]):
                flat = _as_integers([variable.read_value()])
            (value,) = _from_integers(chain.sum(flat if self.replica == 0 else tf.zeros_like(flat)), [variable])
            done.append(variable.assign(value, read_value=False))
        return tf.group(*done)

    def gather(self, values: tf.Tensor) -> tf.Tensor:
        """int64 [replicas, ...]: the int64 `values` of each replica, for a `Round` that is not a step."""
        return self._gather(_Chain(self), values)

    def digests(self, variables: Sequence[tf.Variable]) -> tf.Tensor:
        """int64 [replicas, V], for `Round.CHECK`: a checksum of each variable on each replica.

        Any difference in a single bit and any swap of two different values changes the checksum.
        """
        return self.gather(tf.stack([_digest(variable) for variable in variables]))

    def _gather(self, chain: _Chain, values: tf.Tensor) -> tf.Tensor:
        mine = tf.reshape(tf.one_hot(self.replica, self.replicas, dtype=tf.int64), [-1] + [1] * values.shape.rank)
        return tf.reshape(chain.sum(tf.reshape(mine * values, [-1])), [self.replicas, *values.shape])

    def reduce(self, vector: tf.Tensor) -> tf.Tensor:
        """The sum of `vector` over the replicas. The caller adds the control dependencies that keep the order."""
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
    """The collectives of one `Round`, each of which begins after the one before has ended."""

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
        return tf.cast(1e6 * tf.add_n(self._seconds), tf.int64)


def _buckets(gradients: GradientsAndVariables) -> list[list[int]]:
    """The indices of the gradients that are sent together, from the last variable to the first."""
    buckets: list[list[int]] = []
    size = 0
    for place in reversed(range(len(gradients))):
        gradient = gradients[place][0]
        if not buckets or size >= _BUCKET_BYTES or gradients[buckets[-1][0]][0].dtype != gradient.dtype:
            buckets.append([])
            size = 0
        buckets[-1].append(place)
        size += gradients[place][1].shape.num_elements() * gradient.dtype.size
    return buckets


def _read_first(variable: tf.Variable) -> tf.Tensor:
    """The value that `variable` has before any update op of the step changes it."""
    value = variable.read_value()
    for op in variable.handle.consumers():
        if op.type in _ASSIGNMENTS and op is not variable.initializer:
            op._add_control_input(value.op)  # the ops are the model's, and were built before this read
    return value


def _as_integers(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """int32 [n]: the bits of all values, so that a sum with zeros returns them exactly."""
    return tf.concat([tf.reshape(_bits(value), [-1]) for value in values], 0)


def _bits(value: tf.Tensor) -> tf.Tensor:
    small = {1: tf.int8, 2: tf.int16}.get(value.dtype.size)
    if value.dtype == tf.bool:
        return tf.cast(value, tf.int32)
    return tf.bitcast(value, tf.int32) if small is None else tf.cast(tf.bitcast(value, small), tf.int32)


def _from_integers(flat: tf.Tensor, variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """The inverse of `_as_integers`."""
    types = [(variable.shape, variable.dtype.base_dtype) for variable in variables]
    sizes = [shape.num_elements() * max(1, dtype.size // 4) for shape, dtype in types]
    return [_value(part, *shape_and_type) for part, shape_and_type in zip(tf.split(flat, sizes), types, strict=True)]


def _value(bits: tf.Tensor, shape: tf.TensorShape, dtype: tf.DType) -> tf.Tensor:
    if dtype == tf.bool:
        return tf.cast(tf.reshape(bits, shape), tf.bool)
    if dtype.size == 8:
        return tf.bitcast(tf.reshape(bits, [*shape, 2]), dtype)
    small = {1: tf.int8, 2: tf.int16}.get(dtype.size)
    whole = tf.reshape(bits, shape)
    return tf.bitcast(whole if small is None else tf.cast(whole, small), dtype)


def _digest(variable: tf.Variable) -> tf.Tensor:
    """int64 scalar: the sum over all values of (bits as an integer) x (an odd number that depends on the position)."""
    bits = tf.cast(_as_integers([variable.read_value()]), tf.int64)
    places = tf.range(tf.size(bits, out_type=tf.int64), dtype=tf.int64)
    return tf.reduce_sum(bits * (places * 0x9E3779B1 * 2 + 1))
