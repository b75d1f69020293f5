"""Functions of the frames of a batch: mask and mean of the real frames, separate features, samples.

Frames after the number of frames of a video are padding; the frames before it are real.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models.layers import Net
from yt8m.numerics import random_keys, within
from yt8m.numerics.compiled import is_on_gpu
from yt8m.types import ModelOutput


class _Origin(NamedTuple):
    """The arguments of `build_on_demand`, which describes them."""

    inputs: tf.Tensor
    codes: tf.Tensor
    make: Callable[[tf.Tensor], tf.Tensor]
    shape: tf.Tensor  # of `codes`; taken once, because each tensor is copied to the tower's device by itself


_origin: ContextVar[_Origin | None] = ContextVar("origin", default=None)


def build_on_demand(
    inputs: tf.Tensor, codes: tf.Tensor, make: Callable[[tf.Tensor], tf.Tensor]
) -> AbstractContextManager[None]:
    """A context in which `pick` computes single frames of `inputs`, so that a model that samples needs no others.

    TensorFlow computes only what is used. So if a model reads `inputs` only through `pick` and `count`, the other
    frames are never computed.

    Args:
      inputs: float32 [B, T, D], the input of a model.
      codes: [B, T, ...], the stored frames from which `inputs` are computed frame by frame.
      make: maps frame numbers int32 [B, S] to frames of `inputs`, [B, S, D]; zeros for padding.
    """
    # On another device, the frames would be copied there for their shape alone.
    with on_device_of(codes):
        shape = tf.shape(codes)
    return within(_origin, _Origin(inputs, codes, make, shape))


def on_device_of(tensor: tf.Tensor) -> AbstractContextManager[None]:
    """A context in which ops are placed where `tensor` is; without effect if the graph does not say where."""
    return tf.device(tensor.device) if tensor.device else contextlib.nullcontext()


_WORD_BYTES = 4  # of int32


def gather_stored(stored: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """The frames [B, S, size] of stored frames [B, T, size] with these numbers, int32 [B, S], where the frames are.

    So only the frames that are picked are copied to another device. On a GPU, bytes are gathered as 32-bit words,
    because TensorFlow has no kernel there that gathers bytes, and would copy all frames to the CPU and back.
    """
    with on_device_of(stored):
        size = stored.shape[-1]
        as_words = stored.dtype == tf.uint8 and is_on_gpu(stored) and size is not None and size % _WORD_BYTES == 0
        return _gather_words(stored, numbers) if as_words else tf.gather(stored, numbers, batch_dims=1)


def _gather_words(stored: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """As `gather_stored`, by words. Only bytes are reshaped, because the GPU's reshape keeps int32 on the host."""
    size, shape = int(stored.shape[-1]), tf.shape(stored)
    words = tf.bitcast(tf.reshape(stored, tf.concat([shape[:2], [size // _WORD_BYTES, _WORD_BYTES]], 0)), tf.int32)
    picked = tf.bitcast(tf.gather(words, numbers, batch_dims=1), tf.uint8)
    return tf.ensure_shape(
        tf.reshape(picked, tf.concat([tf.shape(numbers), [size]], 0)), [None, numbers.shape[-1], size]
    )


_video_means: ContextVar[tf.Tensor | None] = ContextVar("video_means", default=None)


def video_mean_scope(video_means: tf.Tensor) -> AbstractContextManager[None]:
    """A context in which `append_video_means` appends `video_means`.

    Args:
      video_means: float32 [B, D], the mean frame of the whole video from which each segment of the batch was cut.
    """
    return within(_video_means, video_means)


def append_video_means(inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tf.Tensor:
    """Appends to each real frame the mean frame of its whole video.

    Outside of `video_mean_scope` the inputs are whole videos, and their own mean frame is used.

    Args:
      inputs: float32 [B, T, D].
      num_frames: int [B]; None if every frame is real.

    Returns:
      float32 [B, T, 2 D], zeros for padding.
    """
    means = _video_means.get()
    means = mean(inputs, num_frames) if means is None else means
    repeated = mask(inputs, num_frames)[:, :, tf.newaxis] * means[:, tf.newaxis, :]
    return tf.concat([inputs, repeated], -1)


def pick(inputs: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """The frames [B, S, D] of inputs [B, T, D] with these numbers, int32 [B, S]; see `build_on_demand`."""
    origin = _origin.get()
    if origin is not None and origin.inputs is inputs:
        return origin.make(numbers)
    return tf.gather(inputs, numbers, batch_dims=1)


def _where_stored(inputs: tf.Tensor) -> AbstractContextManager[None]:
    """A context in which ops are placed where the stored frames of `inputs` are, so that no frame number is copied."""
    origin = _origin.get()
    is_stored = origin is not None and origin.inputs is inputs
    return on_device_of(origin.codes) if is_stored and origin else contextlib.nullcontext()


def count(inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tf.Tensor:
    """int32 [B], the number of real frames of inputs [B, T, D]: `num_frames` clipped to 0..T, or T if it is None."""
    origin = _origin.get()
    # [B, T] is taken from `codes`, because the shape of `inputs` is known only after they are computed.
    shape = origin.shape if origin is not None and origin.inputs is inputs else tf.shape(inputs)
    rows, frames = shape[0], shape[1]
    if num_frames is None:
        return tf.fill([rows], frames)
    return tf.clip_by_value(tf.cast(num_frames, tf.int32), 0, frames)


def mask(inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tf.Tensor:
    """The mask of the frames of inputs [B, T, D], float32 [B, T]: 1 at real frames, 0 at padding."""
    return tf.sequence_mask(count(inputs, num_frames), tf.shape(inputs)[1], tf.float32)


def mean(inputs: tf.Tensor, num_frames: tf.Tensor | None, norms: tf.Tensor | None = None) -> tf.Tensor:
    """The mean frame of each video.

    Args:
      inputs: float32 [B, T, D].
      num_frames: int [B]; None if every frame is real.
      norms: [B, T], by which the frames are divided first; None to leave them as they are.

    Returns:
      float32 [B, D]; zeros for a video without frames.
    """
    real = count(inputs, num_frames)
    shares = mask(inputs, num_frames) / tf.cast(tf.maximum(real, 1), tf.float32)[:, tf.newaxis]
    if norms is not None:
        shares /= norms
    # A product reads the frames once and writes no masked copy of them.
    return tf.squeeze(tf.matmul(shares[:, tf.newaxis, :], inputs), 1)


def each_stream(
    inputs: tf.Tensor, feature_sizes: tuple[int, ...], describe: Callable[[tf.Tensor, int], tf.Tensor]
) -> tf.Tensor:
    """Describes each feature (rgb, audio) by a vector, and concatenates the vectors.

    The variables of a feature are in the scope `stream_0`, `stream_1`, ...

    Args:
      inputs: float32 [B, T, D], the features side by side along the last axis.
      feature_sizes: number of columns of each feature; if empty, all of `inputs` counts as one feature.
      describe: maps (a feature [B, T, size], its index) to a vector for each video, [B, F].

    Returns:
      float32 [B, sum of all F].
    """
    if feature_sizes and sum(feature_sizes) != inputs.shape[-1]:
        raise UsageError(
            f"feature_sizes {feature_sizes} add up to {sum(feature_sizes)}, but the input has "
            f"{inputs.shape[-1]} features; give the sizes of the features that are read"
        )
    described = []
    for index, stream in enumerate(tf.split(inputs, list(feature_sizes), -1) if feature_sizes else [inputs]):
        with tf.variable_scope(f"stream_{index}"):
            described.append(describe(stream, index))
    return tf.concat(described, -1)


def sample(
    inputs: tf.Tensor, num_frames: tf.Tensor | None, samples: int, *, scattered: bool, is_training: bool
) -> tf.Tensor:
    """Picks `samples` frames of each video.

    Args:
      inputs: float32 [B, T, D].
      num_frames: int [B]; None if every frame is real. A video without a frame gives zeros.
      scattered: whether frames are drawn independently with replacement (evenly spaced in evaluation). Otherwise a
        run of consecutive frames from a random start (frame 0 in evaluation); the last frame is repeated if the
        video is shorter than the run.

    Returns:
      float32 [B, samples, D].
    """
    choose = _scattered_numbers if scattered else _consecutive_numbers
    with _where_stored(inputs):
        real = tf.maximum(count(inputs, num_frames), 1)[:, tf.newaxis]
        numbers = choose(real, samples, is_training)
    return pick(inputs, numbers)


def in_training(
    net: Net, inputs: tf.Tensor, num_frames: tf.Tensor | None, samples: int, *, scattered: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """A sample of the frames in training, all frames otherwise.

    Args:
      inputs: float32 [B, T, D].
      num_frames: int [B]; None if every frame is real.
      scattered: whether single frames are drawn rather than a run of frames, see `sample`.

    Returns:
      (frames [B, samples or T, D], float32 mask of the real frames [B, samples or T]).
    """
    if not net.is_training:
        return inputs, mask(inputs, num_frames)
    has_frames = tf.cast(count(inputs, num_frames) > 0, tf.float32)
    sampled = sample(inputs, num_frames, samples, scattered=scattered, is_training=True)
    return sampled, tf.repeat(has_frames[:, tf.newaxis], samples, 1)


def evenly_spaced(inputs: tf.Tensor, num_frames: tf.Tensor | None, samples: int) -> tf.Tensor:
    """Picks evenly spaced frames of each video, in their order: [B, samples, D] out of inputs [B, T, D].

    A video with fewer than `samples` frames gives each of them once, and then repeats its last one.
    """
    with _where_stored(inputs):
        real = tf.maximum(count(inputs, num_frames), 1)[:, tf.newaxis]
        places = (2 * tf.range(samples) + 1) * real // (2 * tf.minimum(real, samples))
        numbers = tf.minimum(places, real - 1)
    return pick(inputs, numbers)


def _scattered_numbers(real: tf.Tensor, samples: int, is_training: bool) -> tf.Tensor:
    """Frame numbers in 0..real-1, int32 [B, samples], given the number of real frames, int32 [B, 1].

    They are drawn independently in training, and evenly spaced otherwise.
    """
    if is_training:
        return _draw_below(real, samples)
    middles = (2 * tf.range(samples) + 1) * real
    return middles // (2 * samples)


def _consecutive_numbers(real: tf.Tensor, samples: int, is_training: bool) -> tf.Tensor:
    """The numbers of consecutive frames, int32 [B, samples]; the number of the last real frame is repeated at the end.

    The first one is drawn in training, and 0 otherwise. `real`, int32 [B, 1], is the number of real frames.
    """
    steps = tf.range(samples)[tf.newaxis, :]
    if is_training:
        steps += _draw_below(tf.maximum(real - samples, 0) + 1, 1)
    return tf.minimum(steps, real - 1)


def _draw_below(limits: tf.Tensor, draws: int) -> tf.Tensor:
    """Draws int32 [B, draws], uniform over 0..limit-1 for limits [B, 1]."""
    shape = [tf.shape(limits)[0], draws]
    uniform = tf.random.stateless_uniform(shape, random_keys.next_seed())
    # A uniform draw of float32 times the limit may round up to the limit itself.
    return tf.minimum(tf.cast(uniform * tf.cast(limits, tf.float32), tf.int32), limits - 1)


class _GetsVideoMeans:
    """A base class that makes a model get the mean frame of the whole video, appended to each frame of its input.

    A segment model sees five seconds. The first and the seventh entry of the 2019 challenge gave their models the
    context of the whole video too.
    """

    takes_mean: ClassVar[bool] = False
    picked_frames: ClassVar[int] = 0  # the means are those of all frames

    def create_model(
        self, model_input: tf.Tensor, *, num_frames: tf.Tensor | None = None, **others: Any
    ) -> ModelOutput:
        """Builds the model on `append_video_means` of the input [B, T, D]; the arguments are those of the model."""
        model: Any = super()
        extended = append_video_means(model_input, num_frames)
        return model.create_model(extended, num_frames=num_frames, **others)  # type: ignore[no-any-return]


def with_video_means(model: Any) -> Any:
    """A copy of `model` that appends the mean frame of the whole video to each frame (`append_video_means`)."""
    cls = type(model)
    extended = copy.copy(model)
    # The class is replaced, not wrapped, so that the copy is still an instance of the class of the model. The model is
    # a frozen dataclass, so `object.__setattr__` sets it.
    bases = (_GetsVideoMeans, cls)
    object.__setattr__(extended, "__class__", type(cls.__name__, bases, {"__module__": cls.__module__}))
    return extended
