"""Places on devices where the input of a step waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from yt8m import deploy
from yt8m.graph.towers import Share
from yt8m.lazy import tf


class Arrival(NamedTuple):
    """What one step trains on.

    Attributes:
      shares: the towers', in order.
      shards: as in InputOps; None where the inputter does not number its shards.
    """

    shares: list[Share]
    shards: tf.Tensor | None


class Area:
    """Room for one list of tensors on a device, from one step to the next.

    Args:
      device: where the tensors lie.
      dtypes: theirs.
      name: of the area; made unique in the graph.
    """

    def __init__(self, device: str, dtypes: Sequence[tf.DType], name: str) -> None:
        self._device, self._dtypes = device, list(dtypes)
        shared_name = tf.get_default_graph().unique_name(name)
        self._room = {"capacity": 1, "memory_limit": 0, "container": "", "shared_name": shared_name}

    def put(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Copies `values` here; would wait for ever where the last ones were not taken."""
        with tf.device(self._device):
            return tf.raw_ops.Stage(values=list(values), name="put", **self._room)

    def take(self) -> list[tf.Tensor]:
        """What was put here last; the area is empty then. Waits where nothing was put."""
        with tf.device(self._device):
            return list(tf.raw_ops.Unstage(dtypes=self._dtypes, name="take", **self._room))

    def is_empty(self) -> tf.Tensor:
        """Bool scalar."""
        with tf.device(self._device):
            return tf.equal(tf.raw_ops.StageSize(dtypes=self._dtypes, **self._room), 0)

    def clear(self) -> tf.Operation:
        """Forgets what was put here."""
        with tf.device(self._device):
            return tf.raw_ops.StageClear(dtypes=self._dtypes, **self._room)


class Areas:
    """The areas for one step's input, one on each device; they are full together and empty together.

    Args:
      like: an arrival; all have its types and shapes.
      deployment: the devices.
      mark: an area of one bool on the host, filled last of all: where it is empty, so are all others.
    """

    def __init__(self, like: Arrival, deployment: deploy.DeploymentConfig, mark: Area) -> None:
        self._like, self._mark = like, mark
        host = deployment.inputs_device()
        self._places = [
            deployment.clone_device(tower) if _is_for_device(leaf) else host
            for tower, share in enumerate(like.shares)
            for leaf in _leaves(share)
        ]
        self._places += [host for _ in _leaves(like.shards)]
        self._areas = {
            place: Area(place, [leaf.dtype for leaf in self._at(place, like)], "next_step")
            for place in dict.fromkeys(self._places)
        }

    def put(self, arrival: Arrival) -> tf.Operation:
        """Puts each part of `arrival` where it is needed."""
        parts = [area.put(self._at(place, arrival)) for place, area in self._areas.items()]
        with tf.control_dependencies(parts):
            return self._mark.put([tf.constant(True)])

    def take(self) -> Arrival:
        """What was put last. Whoever asks for a part of it takes all, so that the areas always agree."""
        parts = {place: area.take() for place, area in self._areas.items()}
        with tf.control_dependencies([part[0] for part in (*parts.values(), self._mark.take())]):
            taken = {place: iter(_passed_on(place, part)) for place, part in parts.items()}
        leaves = [next(taken[place]) for place in self._places]
        for leaf, before in zip(leaves, _leaves(self._like), strict=True):
            leaf.set_shape(before.shape)
        return _packed(self._like, leaves)

    def clear(self) -> list[tf.Operation]:
        """Forgets what was put."""
        return [area.clear() for area in (*self._areas.values(), self._mark)]

    def _at(self, place: str, arrival: Arrival) -> list[tf.Tensor]:
        return [leaf for leaf, at in zip(_leaves(arrival), self._places, strict=True) if at == place]


def _is_for_device(leaf: tf.Tensor) -> bool:
    """Whether a copy ahead saves anything: features, labels, their weights.

    Strings cannot be on a device, int32 is kept on the host by most kernels of a GPU, and what has but
    one number an example is there at once.
    """
    dtype = leaf.dtype
    is_number = dtype.is_floating or dtype.is_bool or (dtype.is_integer and dtype != tf.int32)
    return is_number and leaf.shape.rank is not None and leaf.shape.rank >= 2


def _passed_on(place: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    with tf.device(place):
        return [tf.identity(tensor) for tensor in tensors]


def _leaves(nest: Any) -> list[tf.Tensor]:
    """All tensors in `nest`, those within sparse ones among them."""
    return [leaf for leaf in tf.nest.flatten(nest, expand_composites=True) if leaf is not None]


def _packed(like: Any, leaves: Sequence[tf.Tensor]) -> Any:
    """A nest as `like` of `leaves`, None where that has None."""
    left = iter(leaves)
    whole = [leaf if leaf is None else next(left) for leaf in tf.nest.flatten(like, expand_composites=True)]
    return tf.nest.pack_sequence_as(like, whole, expand_composites=True)
