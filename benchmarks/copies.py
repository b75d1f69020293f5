"""What crosses from one device to another in a training step, beside what must cross.

`python -m benchmarks.copies --model=DbofModel --towers=1,2` builds a training step with each tower on a CPU device of
its own, beside the device of the input, and reads from TensorFlow's partition graphs and traces what is sent. So no
GPU is needed. Ops of a tower that have no GPU kernel are put on the host, as TensorFlow's soft placement does. The step
runs on few short videos, and the sizes are computed for 1,024 videos of 300 frames a tower.

The floor is what a step must copy: the frames that the model uses, the labels (eight bytes each) and the numbers of
frames, once for each tower; each weight once for each tower, and each gradient once. With one tower the weights are on
its device. Tensors of less than 4 kB are counted too, since each takes the time of a copy, however small it is. Not
seen is what a GPU's kernels read from the host's memory or leave there, such as shapes.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from yt8m import deploy, graph, losses, models
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.graph import Inputter
from yt8m.graph.joined_copies import SMALL_TENSOR, with_needed_ops
from yt8m.lazy import tf
from yt8m.readers import listed_labels
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler

SIZES, CLASSES = (1024, 128), 3862
LABEL_RATE = 0.001  # the share of the classes that a video has
# Videos of a tower and frames of a video: in the step that runs, and in the batch whose bytes are counted. No model has
# a size that is a multiple of one of the small numbers, so their multiples in a shape are rows and frames.
SMALL, LARGE = (31, 19), (1024, 300)
# What `unsupported` can build: a training, whose products may have half precision; an evaluation, which may be of rated
# segments or report single videos; and an inference.
TRAININGS = ("training", "training, one tower", "training, copied ahead", "training, bfloat16", "training, float16")
STEPS = (*TRAININGS, "eval", "eval, videos", "eval, segments", "infer", "infer, listed classes")


class DevicesOfTowers(deploy.DeploymentConfig):
    """Places towers on CPU devices 1, 2, ... and all else on CPU device 0, as it places them on GPUs and the host."""

    def clone_device(self, clone_index: int) -> str:
        """The device of a tower."""
        return f"{self.worker_device}/device:CPU:{clone_index + 1}"

    def session_config(self) -> tf.ConfigProto:
        """Makes the devices, and leaves the graph as it was built."""
        config = tf.ConfigProto(allow_soft_placement=True, device_count={"CPU": self.num_clones + 1, "GPU": 0})
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
        return config


class Copy(NamedTuple):
    """A tensor that is sent from one device to another in a step.

    Attributes:
      name: the name of the op that makes it.
      target: number of the CPU device to which it is sent; 0 is the host.
      dtype: its type.
      small_shape: its shape in the step that ran.
    """

    name: str
    target: int
    dtype: str
    small_shape: tuple[int, ...]

    def shape(self, sizes: tuple[int, int] = LARGE) -> tuple[int, ...]:
        """Its shape in a batch of so many videos and frames. What joins weights has none of them."""
        if "/joined_" in self.name:
            return self.small_shape
        return tuple(_enlarged(size, sizes) for size in self.small_shape)

    def bytes(self, sizes: tuple[int, int] = LARGE) -> int:
        """Its size in a batch of so many videos and frames."""
        return int(np.prod(self.shape(sizes), dtype=np.int64)) * int(tf.as_dtype(self.dtype).size)


class _Videos(Inputter):
    """Random videos in memory, or rated segments."""

    def __init__(self, level: str, is_rated: bool = False) -> None:
        self.batch_size, self._level, self._is_rated, self._is_packed = SMALL[0], level, is_rated, False

    def pack_batches(self) -> None:
        self._is_packed = True

    def files(self) -> Sequence[str]:
        return ()

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        draw, frames = np.random.default_rng(1), SMALL[1] if self._level == "frame" else 1
        features = tuple(draw.integers(0, 256, (batch_size, frames, size), np.uint8) for size in SIZES)
        if self._level != "frame":
            features = tuple(feature[:, 0].astype(np.float32) for feature in features)
        ids, labels = np.array([b"v"] * batch_size), draw.random((batch_size, CLASSES)) < LABEL_RATE
        ratings = (labels.astype(np.float32),) * self._is_rated
        videos = (ids, features, np.full(batch_size, frames, np.int32), labels, *ratings)
        dims = (None,) if self._level == "frame" else ()
        shapes = ((), tuple((*dims, size) for size in SIZES), (), (CLASSES,), *[(CLASSES,) for _ in ratings])
        padded = tf.data.Dataset.from_tensor_slices(videos).repeat().padded_batch(batch_size, shapes)
        return padded.map(lambda *fields: self._form_of(Batch(*fields)))

    def _form_of(self, batch: Batch) -> Batch:
        """The batch as a reader would make it."""
        if not self._is_packed:
            return batch
        places, videos = tf.where(batch.labels), tf.size(batch.video_ids, out_type=tf.int64)
        labels = tf.RaggedTensor.from_value_rowids(places[:, 1], places[:, 0], videos)
        fields = listed_labels.fields_of_labels(labels, batch.video_ids, CLASSES, is_listed=True)
        return batch._replace(labels=None, label_lists=fields["label_lists"])


@contextlib.contextmanager
def _as_on_gpus() -> Iterator[None]:
    """A context in which ops of towers are chosen as for GPUs, but for the recurrent kernels, which no CPU can run."""
    rooms = (
        "numerics.compiled",
        "numerics.precision",
        "models.frames",
        "models.time_steps",
        "video.transforms",
        "video.modeler",
    )

    def is_of_tower(tensor: tf.Tensor) -> bool:
        return bool(tf.DeviceSpec.from_string(tensor.device).device_index)

    with contextlib.ExitStack() as stack:
        for room in rooms:
            stack.enter_context(mock.patch(f"yt8m.{room}.is_on_gpu", is_of_tower))
        yield


def copies(
    model_name: str, towers: int, prefetch: bool = False, sync_batch_norm: bool = False, **hyper_parameters: Any
) -> list[Copy]:
    """The tensors that cross devices in a training step of a model, which fetches train_op, loss and learning rate."""
    deployment = DevicesOfTowers(towers, variables_on_clone=towers == 1)
    with tf.Graph().as_default():
        devices = DeviceConfig(prefetch_to_device=prefetch, sync_batch_norm=sync_batch_norm)
        ops = _build(model_name, deployment, devices, hyper_parameters)
        for op in ops_without_gpu_kernel():
            op._set_device("/device:CPU:0")
        with tf.Session(config=deployment.session_config()) as session:
            session.run(tf.global_variables_initializer())
            session.run(ops.input.initializer, {ops.input.files: []})
            metadata = tf.RunMetadata()
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
            fetches = [ops.train_op, ops.label_loss, ops.learning_rate]
            session.run(fetches)
            session.run(fetches, options=options, run_metadata=metadata)
    return sorted(_received(metadata), key=lambda copy: (-copy.bytes(), copy))


def _build(
    model_name: str, deployment: DevicesOfTowers, devices: DeviceConfig, hyper_parameters: Mapping[str, Any]
) -> Any:
    """Builds a training step of a model in the current graph."""
    modeler = _modeler(model_name, hyper_parameters)
    with _as_on_gpus():
        return graph.build(_Videos(modeler.model.level), modeler, deployment, OptimizerConfig(), devices)


def _build_scoring(model_name: str, step: str, hyper_parameters: Mapping[str, Any]) -> None:
    """Builds a step of an evaluation or an inference in the current graph; `step` is one of `STEPS`."""
    modeler = _modeler(model_name, hyper_parameters)
    mode, _, kind = step.partition(", ")
    modeler.keeps_videos = kind in ("videos", "segments")
    modeler.listed_classes = (1, 2) if kind == "listed classes" else ()
    with _as_on_gpus():
        videos = _Videos(modeler.model.level, is_rated=kind == "segments")
        graph.build_eval(videos, modeler, DevicesOfTowers(2), mode)


def _modeler(model_name: str, hyper_parameters: Mapping[str, Any]) -> VideoModeler:
    model = models.create(model_name, {**_feature_sizes(model_name), **hyper_parameters})
    return VideoModeler(model, losses.get("CrossEntropyLoss")(), CLASSES, feature_sizes=SIZES)


def unsupported(model_name: str, step: str = "training", **hyper_parameters: Any) -> list[str]:
    """The ops in the towers of a model's step that have no GPU kernel for their types, as `type: name`.

    Args:
      model_name: name of the model.
      step: one of `STEPS`. With one tower the update of the weights is on its device too.
      hyper_parameters: of the model.
    """
    with tf.Graph().as_default() as built:
        if step in TRAININGS:
            towers = 1 if step == "training, one tower" else 2
            deployment = DevicesOfTowers(towers, variables_on_clone=towers == 1)
            precision = step.rpartition(" ")[2] if step.endswith("float16") else "float32"
            devices = DeviceConfig(prefetch_to_device=step == "training, copied ahead", precision=precision)
            _build(model_name, deployment, devices, hyper_parameters)
        else:
            _build_scoring(model_name, step, hyper_parameters)
        ops = [f"{op.type}: {op.name}" for op in ops_without_gpu_kernel()]
        return ops + _without_gpu_kernel_in_functions(built.as_graph_def())


def without_device(model_name: str, **hyper_parameters: Any) -> list[str]:
    """The ops of a model's training step that have no device, as `type: name`: they would run on the first GPU.

    Ops that read or write a variable are left out: they run where the variable is.
    """
    with tf.Graph().as_default():
        ops = _build(model_name, DevicesOfTowers(2), DeviceConfig(), hyper_parameters)
        needed_ops = with_needed_ops([ops.train_op, ops.label_loss.op, ops.learning_rate.op])
    return sorted(
        f"{op.type}: {op.name}"
        for op in needed_ops
        if not op.device and op.type != "NoOp" and not any(tensor.dtype == tf.resource for tensor in op.inputs)
    )


def ops_without_gpu_kernel() -> list[tf.Operation]:
    """The ops of the current graph that are placed on the device of a tower and have no GPU kernel for their types."""
    return [
        op
        for op in tf.get_default_graph().get_operations()
        if tf.DeviceSpec.from_string(op.device).device_index and not has_gpu_kernel(op.node_def)
    ]


def _without_gpu_kernel_in_functions(graph_def: tf.GraphDef) -> list[str]:
    """Likewise the ops in the loops and branches of the towers, as `type: name`."""
    bodies = {function.signature.name: function.node_def for function in graph_def.library.function}
    on_towers = [node for node in graph_def.node if tf.DeviceSpec.from_string(node.device).device_index]
    left, seen, found = [name for node in on_towers for name in _functions_of(node)], set[str](), []
    while left:
        name = left.pop()
        if name in bodies and name not in seen:
            seen.add(name)
            left += [inner for node in bodies[name] for inner in _functions_of(node)]
            found += [f"{node.op}: {name}/{node.name}" for node in bodies[name] if not has_gpu_kernel(node)]
    return found


def _functions_of(node: tf.NodeDef) -> list[str]:
    """The functions that an op may run."""
    values = list(node.attr.values())
    return [value.func.name for value in values] + [each.name for value in values for each in value.list.func]


def _feature_sizes(model_name: str) -> dict[str, Any]:
    """The hyper-parameter `feature_sizes`, if the model has it."""
    return {"feature_sizes": SIZES} if "feature_sizes" in models.hyper_parameters(models.get(model_name)) else {}


def has_gpu_kernel(node: tf.NodeDef) -> bool:
    """Whether TensorFlow has a GPU kernel for an op and its attributes; ops without any kernel count as having one."""
    limits = _gpu_kernels(node.op)
    return limits is None or any(
        all((node.attr[name].s or node.attr[name].type) in values for name, values in kernel.items())
        for kernel in limits
    )


@functools.cache
def _gpu_kernels(op_type: str) -> Sequence[Mapping[str, Sequence[Any]]] | None:
    """The types or texts that each GPU kernel of an op takes, by the name of an attribute; None if it has no kernel."""
    from tensorflow.python.framework import kernels

    registered = kernels.get_registered_kernels_for_op(op_type).kernel
    on_gpu = [kernel for kernel in registered if kernel.device_type in ("GPU", "DEFAULT")]
    found = [{limit.name: _allowed(limit.allowed_values.list) for limit in kernel.constraint} for kernel in on_gpu]
    return found if registered else None


def _allowed(values: Any) -> Sequence[Any]:
    """The values of a list in which one kind alone is set; an empty text is equal to the type 0, which is none."""
    return [*values.type] or [text or 0 for text in values.s]


def _received(metadata: tf.RunMetadata) -> Iterator[Copy]:
    """The tensors that were sent in a traced step. The trace has them where they were made, not where they arrive."""
    made: dict[str, list[dict[int, Any]]] = {}
    for device in metadata.step_stats.dev_stats:
        for stats in device.node_stats:
            outputs = {output.slot: output.tensor_description for output in stats.output}
            made.setdefault(stats.node_name, []).append(outputs)
    for part in metadata.partition_graphs:
        for node in part.node:
            if node.op not in ("_Send", "_HostSend"):
                continue
            name, _, slot = node.input[0].partition(":")
            target = int(node.attr["recv_device"].s.decode().rpartition(":")[2])
            for outputs in made.get(name, ()):  # one for each turn of a loop
                if description := outputs.get(int(slot or 0)):
                    shape = tuple(dim.size for dim in description.shape.dim)
                    yield Copy(name, target, tf.as_dtype(description.dtype).name, shape)


def _enlarged(size: int, sizes: tuple[int, int]) -> int:
    """A size of the small batch in that of so many videos and frames."""
    for small, large in zip(SMALL, sizes, strict=True):
        if size and size % small == 0:
            size = size // small * large
    return size


class Crossing(NamedTuple):
    """What crosses devices in a training step.

    Attributes:
      bytes: those of all tensors.
      small: number of tensors of less than `SMALL_TENSOR` bytes.
    """

    bytes: int
    small: int

    @classmethod
    def of(cls, crossing: Sequence[Copy], sizes: tuple[int, int] = LARGE) -> Crossing:
        """The sums of the tensors that cross, for a batch of so many videos and frames."""
        found = [copy.bytes(sizes) for copy in crossing]
        return cls(sum(found), sum(size < SMALL_TENSOR for size in found))


def floor(model_name: str, towers: int, sizes: tuple[int, int] = LARGE, **hyper_parameters: Any) -> int:
    """The bytes that a training step of a model must copy, for a batch of so many videos and frames."""
    model = models.create(model_name, {**_feature_sizes(model_name), **hyper_parameters})
    rows, frames = sizes
    if model.level == "video":
        features = rows * sum(SIZES) * 4
    else:
        features = rows * min(_frames_used(model) or frames, frames) * sum(SIZES) + rows * 4
    data = features + rows * int(CLASSES * LABEL_RATE * 8)
    with tf.Graph().as_default():
        modeler = VideoModeler(model, None, CLASSES, feature_sizes=SIZES)
        modeler.predict_placeholders(model.level == "frame")
        weights = sum(4 * int(variable.shape.num_elements()) for variable in tf.trainable_variables())
    return data if towers == 1 else towers * (data + 2 * weights)


def _frames_used(model: Any) -> int:
    """How many frames of a video a training step uses; 0 for all."""
    return int(getattr(model, "picked_frames", 0))


def main() -> None:
    """Prints a table; with --list the tensors too."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.copies", description=__doc__)
    parser.add_argument("--model", default="", help="names with commas between; all by default")
    parser.add_argument("--towers", default="1,2,4")
    parser.add_argument("--list", type=int, default=0, help="how many of the largest tensors are listed")
    arguments = parser.parse_args()
    print("model                     towers prefetch  MB copied   MB floor  ratio  small a tower")
    for name in arguments.model.split(",") if arguments.model else models.built_in_names():
        for towers in map(int, arguments.towers.split(",")):
            least = floor(name, towers)
            for prefetch in (False, True):
                _print_row(name, towers, prefetch, least, arguments.list)


def _print_row(name: str, towers: int, prefetch: bool, least: int, listed: int) -> None:
    crossing = copies(name, towers, prefetch)
    total, small = Crossing.of(crossing)
    print(
        f"{name:25s} {towers:6d} {'yes' if prefetch else 'no':8s} {total / 1e6:10.1f} {least / 1e6:10.1f} "
        f"{total / least:6.2f} {small / towers:14.1f}",
        flush=True,
    )
    for copy in crossing[:listed]:
        print(f"    {copy.bytes() / 1e6:9.3f} MB to {copy.target}: {copy.dtype:8s} {copy.shape()} {copy.name}")


if __name__ == "__main__":
    main()
