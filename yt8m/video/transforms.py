"""Transforms features between reader and model: the model's input transform, and augmentation in training.

A model declares its transform by name. A model that uses only the mean of its frames gets that mean directly, computed
from the bytes of a few videos at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m.config.run_options import AugmentConfig
from yt8m.errors import UsageError, suggestion
from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.numerics import random_keys
from yt8m.numerics.compiled import is_on_gpu
from yt8m.readers import join_features
from yt8m.readers.base import zero_padding
from yt8m.records import vocabulary
from yt8m.types import Batch

_VISUAL = 1024  # width of the rgb features, which were whitened after their PCA

# Dequantised, a byte q is (q + _BYTE_OFFSET) * _BYTE_STEP.
_BYTE_STEP = 4.0 / 255.0
_BYTE_OFFSET = (4.0 / 512.0 - 2.0) / _BYTE_STEP
_LEAST_NORM = 1e-6  # as in tf.nn.l2_normalize
LEAST_BYTES_NORM = _LEAST_NORM / _BYTE_STEP  # the least norm of `shifted` bytes


def transform(name: str, raw: tf.Tensor, feature_sizes: tuple[int, ...]) -> tf.Tensor:
    """Applies the input transform `name` to `raw` [..., D].

    l2_normalize: unit length over the last axis. raw: unchanged. reverse_whitening: rgb as (x - 4/512) (sqrt(e_j) +
    1e-4), where e are the PCA's eigenvalues (code of NeXtVLAD, Lin et al. 2018); other features are unchanged.

    Raises:
      UsageError: there is no such transform, or no features of size 1024 to reverse.
    """
    if name not in _TRANSFORMS:
        raise UsageError(
            f"unknown input transform {name!r}{suggestion(name, _TRANSFORMS, '.')} Known: {', '.join(_TRANSFORMS)}."
        )
    return _TRANSFORMS[name](raw, feature_sizes)


def transformed(name: str, batch: Batch, feature_sizes: tuple[int, ...]) -> tf.Tensor:
    """The same as `transform` of `join_features` for `batch`, except for rounding."""
    if name == "l2_normalize" and batch.features[0].shape.rank == 3:
        return _unit_frames(batch)
    return transform(name, join_features(batch), feature_sizes)


def shifted(codes: tf.Tensor) -> tf.Tensor:
    """float32: bytes dequantised up to a constant scale, which L2 normalisation removes."""
    return tf.cast(codes, tf.float32) + _BYTE_OFFSET


def _unit_frames(batch: Batch) -> tf.Tensor:
    """float32 [B, T, D]: each frame divided by its length, 0 past num_frames.

    A batch of frames is 170 MB of floats, and each pass over them costs as much as a small product. Normalisation
    removes any scale, so bytes are shifted but not scaled; the mask is part of the factor.
    """
    if all(feature.dtype == tf.uint8 for feature in batch.features):
        frames, least = shifted(tf.concat(batch.features, -1)), LEAST_BYTES_NORM
    else:
        frames, least = join_features(batch), _LEAST_NORM
    norms = tf.raw_ops.EuclideanNorm(input=frames, axis=[-1], keep_dims=True)
    valid = tf.sequence_mask(batch.num_frames, tf.shape(frames)[1], tf.float32)
    return frames * (valid[:, :, tf.newaxis] / tf.maximum(norms, least))


def _reverse_whitening(raw: tf.Tensor, feature_sizes: tuple[int, ...]) -> tf.Tensor:
    sizes = feature_sizes or (int(raw.shape[-1]),)
    if _VISUAL not in sizes:
        raise UsageError(
            f"reverse_whitening needs the {_VISUAL} rgb features of YouTube-8M; the feature sizes are {sizes}"
        )
    at = sum(sizes[: sizes.index(_VISUAL)])
    scale, shift = np.ones(sum(sizes), np.float32), np.zeros(sum(sizes), np.float32)
    scale[at : at + _VISUAL] = np.sqrt(vocabulary.pca_eigenvalues()[:_VISUAL]) + 1e-4
    shift[at : at + _VISUAL] = 4.0 / 512  # half a quantisation step, added by dequantising
    # Padding must stay exactly 0: only nonzero frames are shifted.
    is_frame = tf.cast(tf.reduce_any(tf.not_equal(raw, 0), axis=-1, keepdims=True), raw.dtype)
    return (raw - shift * is_frame) * scale


_TRANSFORMS: dict[str, Callable[[tf.Tensor, tuple[int, ...]], tf.Tensor]] = {
    "l2_normalize": lambda raw, _: tf.nn.l2_normalize(raw, -1),
    "raw": lambda raw, _: raw,
    "reverse_whitening": _reverse_whitening,
}


def takes_mean(model: Any) -> bool:
    """Whether the class that defines how `model` uses frames also declares `takes_mean` (see `BaseModel`).

    A subclass that inherits `takes_mean` but overrides `forward` or `create_model` must declare it again.
    """
    for cls in type(model).__mro__:
        if vars(cls).keys() & {"forward", "create_model"}:
            return bool(vars(cls).get("takes_mean", False))
    return False


def can_average_bytes(batch: Batch) -> bool:
    """Whether the frames are bytes on a CPU. On a GPU, the many small ops that average bytes would be slow."""
    if any(feature.dtype != tf.uint8 or feature.shape.rank != 3 for feature in batch.features):
        return False
    return not is_on_gpu(tf.identity(batch.num_frames))


def mean_of_unit_frames(batch: Batch) -> tf.Tensor:
    """float32 [B, 1, D]: the mean of a video's frames, divided by their lengths; zeros for a video without frames.

    Args:
      batch: a batch whose features are uint8 [B, T, size].
    """
    # A segment has a fixed number of frames: so few that calling a function for each would cost more than its mean.
    are_segments = batch.features[0].shape[1] is not None
    return (_means_of_blocks if are_segments else _means_of_videos)(batch)[:, tf.newaxis]


def _means_of_videos(batch: Batch) -> tf.Tensor:
    """The means, float32 [B, D], one video after the other in each of the session's threads.

    No op is divided among threads, since waking them would cost a third of the mean. The floats of one video stay in
    the processor's caches during all passes; those of a batch (170 MB) would be read and written in each.
    """
    arguments = [*batch.features, frames.count(batch.features[0], batch.num_frames)]
    specs = [tf.TensorSpec(argument.shape[1:], argument.dtype) for argument in arguments]
    mean = tf.function(_mean_of_video, specs, autograph=False).get_concrete_function()
    mean.add_to_graph(tf.get_default_graph())
    [means] = tf.raw_ops.MapDefun(
        arguments=arguments,
        captured_inputs=[],
        output_types=[tf.float32],
        output_shapes=[mean.output_shapes],
        f=mean,
        max_intra_op_parallelism=1,
    )
    return means


def _mean_of_video(*features_and_count: tf.Tensor) -> tf.Tensor:
    """The mean, float32 [D], of the first `count` frames of uint8 [T, size]."""
    *features, count = features_and_count
    values = _shifted_at_once(tf.concat([feature[:count] for feature in features], -1))
    norms = tf.raw_ops.EuclideanNorm(input=values, axis=[-1])
    shares = 1 / (tf.maximum(norms, LEAST_BYTES_NORM) * tf.cast(tf.maximum(count, 1), tf.float32))
    return tf.squeeze(tf.matmul(shares[tf.newaxis], values), 0)


# The number of values of segments that are processed together; as floats they stay in the processor's caches.
_BLOCK = 800_000
_BLOCKS_AT_ONCE = 4


def _means_of_blocks(batch: Batch) -> tf.Tensor:
    """The means, float32 [B, D], many rows at a time."""
    width = sum(int(feature.shape[-1]) for feature in batch.features)
    videos, longest = tf.unstack(tf.shape(batch.features[0])[:2])
    counts = frames.count(batch.features[0], batch.num_frames)
    size = tf.maximum(_BLOCK // (width * tf.maximum(longest, 1)), 1)
    means = tf.TensorArray(tf.float32, (videos + size - 1) // size, infer_shape=False, element_shape=[None, width])

    def one_block(number: tf.Tensor, means: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        rows = slice(number * size, (number + 1) * size)
        mean = _mean([feature[rows] for feature in batch.features], counts[rows])
        return number + 1, means.write(number, mean)

    _, means = tf.while_loop(
        lambda number, _: number < means.size(),
        one_block,
        (0, means),
        parallel_iterations=_BLOCKS_AT_ONCE,
        back_prop=False,
    )
    return means.concat()


def _mean(features: Sequence[tf.Tensor], counts: tf.Tensor) -> tf.Tensor:
    """The mean, float32 [B, D], of uint8 [B, T, size]."""
    longest = tf.reduce_max(counts)
    values = _shifted_at_once(tf.concat([feature[:, :longest] for feature in features], -1))
    norms = tf.raw_ops.EuclideanNorm(input=values, axis=[-1])
    return frames.mean(values, counts, tf.maximum(norms, LEAST_BYTES_NORM))


def _shifted_at_once(codes: tf.Tensor) -> tf.Tensor:
    """The same as `shifted`, to the last bit, in one pass instead of two; TensorFlow has this op only for the CPU."""
    least, most = _BYTE_OFFSET, _BYTE_OFFSET + 255  # 255 steps of 1; both ends are exact in float32
    as_codes = tf.bitcast(codes, tf.quint8)
    return tf.raw_ops.Dequantize(input=as_codes, min_range=least, max_range=most, mode="MIN_COMBINED")


def augment(batch: Batch, config: AugmentConfig) -> Batch:
    """`batch` with its features dequantised, joined into one float32 tensor and changed at random.

    The order is: crop in time, drop frames, add noise. Frames that stay move together in their order, and `num_frames`
    counts them: at least one of every video that had any. An augmentation that is off draws no random number.
    """
    if not config.is_on:
        return batch
    features, num_frames = join_features(batch), batch.num_frames
    if config.needs_frames:
        features, num_frames = _kept_first(features, _frames_to_keep(num_frames, tf.shape(features)[1], config))
    if config.augment_noise:
        noise = tf.random.stateless_normal(tf.shape(features), random_keys.next_seed())
        features = zero_padding(features + config.augment_noise * noise, num_frames)
    return batch._replace(features=(features,), num_frames=num_frames)


def _frames_to_keep(num_frames: tf.Tensor, frames: tf.Tensor, config: AugmentConfig) -> tf.Tensor:
    """bool [B, T]: the frames that stay."""
    is_kept = tf.sequence_mask(num_frames, frames)
    if config.augment_crop < 1:
        is_kept = _crop(num_frames, frames, config.augment_crop)
    if config.augment_frame_dropout:
        luck = tf.random.stateless_uniform(tf.shape(is_kept), random_keys.next_seed())
        luck = tf.where_v2(is_kept, luck, -1.0)
        best = tf.reduce_max(luck, axis=1, keepdims=True)
        # The frame with the largest draw always stays, so that a video never loses all of its frames.
        is_kept &= (luck >= config.augment_frame_dropout) | tf.equal(luck, best)
    return is_kept


def _crop(num_frames: tf.Tensor, frames: tf.Tensor, least: float) -> tf.Tensor:
    """bool [B, T]: True in one interval of each video; its length is drawn uniformly from the share `least` to 1."""
    rows = tf.shape(num_frames)
    part = tf.random.stateless_uniform(rows, random_keys.next_seed(), least, 1.0)
    lengths = tf.cast(num_frames, tf.float32)
    length = tf.minimum(tf.cast(tf.math.ceil(part * lengths), tf.int32), num_frames)
    free = tf.cast(num_frames - length + 1, tf.float32)
    start = tf.cast(tf.random.stateless_uniform(rows, random_keys.next_seed()) * free, tf.int32)
    start = tf.minimum(start, num_frames - length)[:, tf.newaxis]  # rounding may give `free` itself
    place = tf.range(frames)[tf.newaxis, :]
    return (place >= start) & (place < start + length[:, tf.newaxis])


def _kept_first(features: tf.Tensor, is_kept: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Moves the kept frames to the front, zeros after them; also returns their number."""
    order = tf.argsort(tf.cast(~is_kept, tf.int32), axis=1, stable=True)
    num_frames = tf.reduce_sum(tf.cast(is_kept, tf.int32), axis=1)
    return zero_padding(tf.gather(features, order, batch_dims=1), num_frames), num_frames


class Mixture(NamedTuple):
    """Mixup: how each row of a batch is mixed with another one: its features, its labels and its label weights.

    Source: Zhang et al., mixup: Beyond Empirical Risk Minimization (2018, arXiv 1710.09412). As in PSLA (Gong et al.
    2021, arXiv 2102.01243) the features of whole recordings are mixed, frame by frame. The first video always has the
    larger share, so that a mixture keeps its id, and that of labels seen in the log is mostly right.

    Attributes:
      shares: float32 [B], 0.5 to 1: the share of the row itself; its partner has the rest.
      partners: int32 [B], the number of the other row; a permutation.
    """

    shares: tf.Tensor
    partners: tf.Tensor

    def mix(self, rows: tf.Tensor) -> tf.Tensor:
        """The mean of each row of `rows` [B, ...] and its partner, weighted by their shares; float32."""
        rows = tf.cast(rows, tf.float32)
        shares = tf.reshape(self.shares, [-1] + [1] * (rows.shape.rank - 1))
        return shares * rows + (1.0 - shares) * tf.gather(rows, self.partners)

    def mix_batch(self, batch: Batch) -> Batch:
        """`batch` with mixed features (dequantised and joined), labels and label weights.

        Frames are mixed with the frames of the same number; where one video has ended, its frames count as 0. The
        mixture has as many frames as the longer video. If pairs are weighted, the mixed label is the mean weighted by
        shares times weights, so that a class that is rated in one of the videos only has the label that it has there.
        """
        labels, weights, video_labels = tf.cast(batch.labels, tf.float32), batch.label_weights, batch.video_labels
        if weights is None:
            labels = self.mix(labels)
        else:
            rated, weights = self.mix(labels * weights), self.mix(weights)
            labels = tf.math.divide_no_nan(rated, weights)
        if video_labels is not None:
            video_labels |= tf.gather(video_labels, self.partners)
        return batch._replace(
            features=(self.mix(join_features(batch)),),
            num_frames=tf.maximum(batch.num_frames, tf.gather(batch.num_frames, self.partners)),
            labels=labels,
            label_weights=weights,
            video_labels=video_labels,
            film_means=None if batch.film_means is None else tuple(map(self.mix, batch.film_means)),
        )


def draw_mixture(rows: tf.Tensor, alpha: float) -> Mixture:
    """A mixture of `rows` rows (an int32 scalar): for each a share of Beta(alpha, alpha), or 1 minus it if larger."""
    # A share of Beta(a, a) is X / (X + Y) with X and Y of Gamma(a). For a small a both would be 0 in float32, so their
    # logarithms are drawn: X has the distribution of Z U^(1 / a) with Z of Gamma(a + 1) and U uniform.
    gammas = tf.random.stateless_gamma([2, rows], random_keys.next_seed(), alpha + 1.0)
    uniform = 1.0 - tf.random.stateless_uniform([2, rows], random_keys.next_seed())  # above 0
    logs = tf.math.log(gammas) + tf.math.log(uniform) / alpha
    shares = tf.sigmoid(tf.abs(logs[0] - logs[1]))
    partners = tf.random.experimental.stateless_shuffle(tf.range(rows), random_keys.next_seed())
    return Mixture(shares, partners)
