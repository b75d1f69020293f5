"""Functions of the frames of a batch: mask and mean of the real frames, separate features, samples.

The film of a segment is the whole video from which the segment was cut.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models.layers import Net
from yt8m.numerics import random_keys, within
from yt8m.types import ModelOutput


class _Origin(NamedTuple):
    """The arguments of `build_on_demand`."""

    inputs: tf.Tensor
    codes: tf.Tensor
    make: Callable[[tf.Tensor], tf.Tensor]


_origin: ContextVar[_Origin | None] = ContextVar("origin", default=None)


def build_on_demand(
    inputs: tf.Tensor, codes: tf.Tensor, make: Callable[[tf.Tensor], tf.Tensor]
) -> AbstractContextManager[None]:
    """A context in which `pick` computes only the frames of `inputs` that the model picks.

    Args:
      inputs: float32 [B, T, D], the input of a model.
      codes: [B, T, ...], the stored frames from which `inputs` are computed frame by frame.
      make: maps frame numbers int32 [B, S] to frames of `inputs`, [B, S, D]; zeros for padding.
    """
    return within(_origin, _Origin(inputs, codes, make))


_film: ContextVar[tf.Tensor | None] = ContextVar("film", default=None)


def film_scope(film: tf.Tensor) -> AbstractContextManager[None]:
    """A context in which `film`, float32 [B, D], is the mean frame of each whole video; `beside_film` reads it."""
    return within(_film, film)


def beside_film(inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tf.Tensor:
    """[B, T, 2 D]: each real frame of inputs [B, T, D], followed by the mean frame of its film; zeros for padding.

    Outside of `film_scope` the inputs are whole videos, and their own mean frame is used.
    """
    film = _film.get()
    film = mean(inputs, num_frames) if film is None else film
    every = mask(inputs, num_frames)[:, :, tf.newaxis] * film[:, tf.newaxis, :]
    return tf.concat([inputs, every], -1)


def pick(inputs: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """The frames [B, S, D] of inputs [B, T, D] with the numbers int32 [B, S]."""
    origin = _origin.get()
    if origin is not None and origin.inputs is inputs:
        return origin.make(numbers)
    return tf.gather(inputs, numbers, batch_dims=1)


def count(inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tf.Tensor:
    """int32 [B], the number of real frames of inputs [B, T, D]: `num_frames` clipped to 0..T, or T if it is None."""
    origin = _origin.get()
    # The shape of `codes` is known without computing `inputs`.
    sized = origin.codes if origin is not None and origin.inputs is inputs else inputs
    rows, frames = tf.shape(sized)[0], tf.shape(sized)[1]
    if num_frames is None:
        return tf.fill([rows], frames)
    return tf.clip_by_value(tf.cast(num_frames, tf.int32), 0, frames)


def mask(inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tf.Tensor:
    """The mask of real frames, float32 [B, T]: 1 at these, else 0."""
    return tf.sequence_mask(count(inputs, num_frames), tf.shape(inputs)[1], tf.float32)


def mean(inputs: tf.Tensor, num_frames: tf.Tensor | None, norms: tf.Tensor | None = None) -> tf.Tensor:
    """The mean [B, D] of the real frames of inputs [B, T, D], each divided by its entry in `norms` [B, T].

    Zeros for a video without frames.
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
    """Applies `describe(stream, index)` to each feature of inputs [B, T, D]; concatenates the results [B, .].

    The features (rgb, audio) lie side by side along the last axis; if there are no sizes, all of it is one stream. The
    variables of a feature are under `stream_0`, `stream_1`, ...

    Raises:
      UsageError: the sizes do not add up to D.
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
    """`samples` frames of each video, [B, samples, D] out of inputs [B, T, D].

    Args:
      num_frames: int [B] or None for all T. A video without a frame gives zeros.
      scattered: whether frames are drawn independently with replacement (evenly spaced in evaluation). Otherwise a
        run of consecutive frames from a random start (frame 0 in evaluation); the last frame is repeated if the
        video is shorter than the run.
      is_training: whether to draw at random.
    """
    real = tf.maximum(count(inputs, num_frames), 1)[:, tf.newaxis]
    choose = _scattered if scattered else _run
    return pick(inputs, choose(real, samples, is_training))


def in_training(
    net: Net, inputs: tf.Tensor, num_frames: tf.Tensor | None, samples: int, *, scattered: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """A sample of the frames in training, all frames otherwise.

    Args:
      samples, scattered: see `sample`.

    Returns:
      (frames [B, samples or T, D], float32 mask of the real frames [B, samples or T]).
    """
    if not net.is_training:
        return inputs, mask(inputs, num_frames)
    filled = tf.cast(count(inputs, num_frames) > 0, tf.float32)
    sampled = sample(inputs, num_frames, samples, scattered=scattered, is_training=True)
    return sampled, tf.repeat(filled[:, tf.newaxis], samples, 1)


def evenly_spaced(inputs: tf.Tensor, num_frames: tf.Tensor | None, samples: int) -> tf.Tensor:
    """At most `samples` frames of each video, in their order: [B, samples, D] out of inputs [B, T, D].

    A video with fewer frames gives each of them once, and then its last one.
    """
    real = tf.maximum(count(inputs, num_frames), 1)[:, tf.newaxis]
    places = (2 * tf.range(samples) + 1) * real // (2 * tf.minimum(real, samples))
    return pick(inputs, tf.minimum(places, real - 1))


def _scattered(real: tf.Tensor, samples: int, is_training: bool) -> tf.Tensor:
    """Frame numbers, int32 [B, samples], in 0..real-1, given the number of real frames [B, 1]."""
    if is_training:
        return _below(real, samples)
    middles = (2 * tf.range(samples) + 1) * real
    return middles // (2 * samples)


def _run(real: tf.Tensor, samples: int, is_training: bool) -> tf.Tensor:
    """The numbers of consecutive frames, int32 [B, samples]; after the last real frame its number is repeated."""
    steps = tf.range(samples)[tf.newaxis, :]
    if is_training:
        steps += _below(tf.maximum(real - samples, 0) + 1, 1)
    return tf.minimum(steps, real - 1)


def _below(limits: tf.Tensor, draws: int) -> tf.Tensor:
    """Draws int32 [B, draws], uniform over 0..limit-1 for limits [B, 1]."""
    shape = [tf.shape(limits)[0], draws]
    uniform = tf.random.stateless_uniform(shape, random_keys.next_seed())
    # A uniform draw of float32 times the limit may round up to the limit itself.
    return tf.minimum(tf.cast(uniform * tf.cast(limits, tf.float32), tf.int32), limits - 1)


class _SeesFilm:
    """A mixin that appends the mean frame of the film to each frame of a model's input.

    A segment model sees five seconds. The first and the seventh entry of the 2019 challenge gave their models the
    context of the whole video too.
    """

    takes_mean: ClassVar[bool] = False

    def create_model(
        self, model_input: tf.Tensor, *, num_frames: tf.Tensor | None = None, **others: Any
    ) -> ModelOutput:
        """The model on frames [B, T, 2 D] made of `model_input` [B, T, D] and of the means of the videos."""
        model: Any = super()
        wide = beside_film(model_input, num_frames)
        return model.create_model(wide, num_frames=num_frames, **others)  # type: ignore[no-any-return]


def with_film(model: Any) -> Any:
    """A copy of `model` whose input has the mean frame of the film after each frame (`beside_film`)."""
    cls = type(model)
    seeing = copy.copy(model)
    object.__setattr__(seeing, "__class__", type(cls.__name__, (_SeesFilm, cls), {"__module__": cls.__module__}))
    return seeing
