"""Transforms the features that a model gets: its input transform, and augmentation in training.

A model declares its input transform by name. A model that uses only the mean of its frames gets that mean in their
place, computed from the bytes of a few videos at a time.
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
from yt8m.video import fitted_transforms
from yt8m.video.fitted_transforms import Statistics

_RGB_SIZE = 1024  # size of YouTube-8M's feature rgb, by which the transform reverse_whitening finds the feature

# Dequantised, a byte q is (q + _BYTE_OFFSET) * _BYTE_STEP.
_BYTE_STEP = 4.0 / 255.0
_BYTE_OFFSET = (4.0 / 512.0 - 2.0) / _BYTE_STEP
_LEAST_NORM = 1e-6  # a smaller norm of a frame counts as this norm, so that 0 is not divided by 0 (tf.nn.l2_normalize)
LEAST_BYTES_NORM = _LEAST_NORM / _BYTE_STEP  # the same norm for `shifted` bytes, which are not multiplied by _BYTE_STEP


def transform(
    name: str,
    raw: tf.Tensor,
    feature_sizes: tuple[int, ...],
    num_frames: tf.Tensor | None = None,
    statistics: Statistics | None = None,
) -> tf.Tensor:
    """Applies the input transform `name` to dequantised features.

    l2_normalize: divides by the length of the vector. raw: changes nothing. reverse_whitening: an rgb value x_j becomes
    (x_j - 4/512) (sqrt(e_j) + 1e-4), where e_j are the eigenvalues of the PCA, and 4/512 is half a quantisation step
    (code of NeXtVLAD, Lin et al. 2018); other features are unchanged. standardize: subtracts the mean of each value
    over the training data and divides by its deviation. normal_scores: replaces each value by the normal score of its
    rank in the training data, see `yt8m.records.normal_scores`.

    Args:
      raw: float32 [..., D], the joined features.
      num_frames: int [B], the number of frames of each video; None if there is no padding.
      statistics: the initial values of the variables of standardize or normal_scores, which a training needs; other
        programs read them from a checkpoint.

    Returns:
      float32 [..., D].
    """
    if name in fitted_transforms.NAMES:
        return fitted_transforms.apply(name, raw, num_frames, statistics)
    if name not in _TRANSFORMS:
        all_names = [*_TRANSFORMS, *fitted_transforms.NAMES]
        raise UsageError(
            f"unknown input transform {name!r}{suggestion(name, all_names, '.')} Known: {', '.join(all_names)}."
        )
    return _TRANSFORMS[name](raw, feature_sizes)


def transform_batch(
    name: str, batch: Batch, feature_sizes: tuple[int, ...], statistics: Statistics | None = None
) -> tf.Tensor:
    """The transformed features of a batch; except for rounding, the same as `transform` of `join_features`."""
    if name == "l2_normalize" and batch.features[0].shape.rank == 3:
        return _unit_frames(batch)
    return transform(name, join_features(batch), feature_sizes, batch.num_frames, statistics)


def shifted(codes: tf.Tensor) -> tf.Tensor:
    """float32 [...]: bytes [...], dequantised up to a constant factor, which L2 normalisation removes."""
    return tf.cast(codes, tf.float32) + _BYTE_OFFSET


def _unit_frames(batch: Batch) -> tf.Tensor:
    """float32 [B, T, D]: each frame, divided by its L2 norm; 0 past num_frames.

    A batch of frames can be 170 MB of floats, and one pass over it takes as long as a small matrix product. So bytes
    are only `shifted`, because the division removes any scale, and one product both divides by the norm and sets the
    padding to 0.
    """
    if all(feature.dtype == tf.uint8 for feature in batch.features):
        frames, least_norm = shifted(tf.concat(batch.features, -1)), LEAST_BYTES_NORM
    else:
        frames, least_norm = join_features(batch), _LEAST_NORM
    norms = tf.raw_ops.EuclideanNorm(input=frames, axis=[-1], keep_dims=True)
    mask = tf.sequence_mask(batch.num_frames, tf.shape(frames)[1], tf.float32)
    return frames * (mask[:, :, tf.newaxis] / tf.maximum(norms, least_norm))


def _reverse_whitening(raw: tf.Tensor, feature_sizes: tuple[int, ...]) -> tf.Tensor:
    sizes = feature_sizes or (int(raw.shape[-1]),)
    if _RGB_SIZE not in sizes:
        raise UsageError(
            f"the input transform reverse_whitening needs the {_RGB_SIZE} rgb features of YouTube-8M, but the feature "
            f"sizes are {sizes}; use the input transform l2_normalize or raw."
        )
    start = sum(sizes[: sizes.index(_RGB_SIZE)])
    rgb = slice(start, start + _RGB_SIZE)
    scale, shift = np.ones(sum(sizes), np.float32), np.zeros(sum(sizes), np.float32)
    scale[rgb] = np.sqrt(vocabulary.pca_eigenvalues()[:_RGB_SIZE]) + 1e-4
    shift[rgb] = 4.0 / 512  # half a quantisation step, which dequantising added
    # Padding must stay exactly 0, so only frames with a value other than 0 are shifted.
    is_frame = tf.cast(tf.reduce_any(tf.not_equal(raw, 0), axis=-1, keepdims=True), raw.dtype)
    return (raw - shift * is_frame) * scale


_TRANSFORMS: dict[str, Callable[[tf.Tensor, tuple[int, ...]], tf.Tensor]] = {
    "l2_normalize": lambda raw, _: tf.nn.l2_normalize(raw, -1),
    "raw": lambda raw, _: raw,
    "reverse_whitening": _reverse_whitening,
}


def takes_mean(model: Any) -> bool:
    """Whether `model` uses only the mean of its frames, as its attribute `takes_mean` says (see `BaseModel`).

    The attribute counts only in the class that also defines how frames are used. So a subclass that inherits
    `takes_mean` but overrides `forward` or `create_model` must declare it again.
    """
    for cls in type(model).__mro__:
        if vars(cls).keys() & {"forward", "create_model"}:
            return bool(vars(cls).get("takes_mean", False))
    return False


def can_average_bytes(batch: Batch) -> bool:
    """Whether `mean_of_unit_frames` can be used: the features are frames, are bytes (uint8), and are on a CPU.

    On a GPU, its many small ops would be slow.
    """
    if any(feature.dtype != tf.uint8 or feature.shape.rank != 3 for feature in batch.features):
        return False
    return not is_on_gpu(tf.identity(batch.num_frames))


def mean_of_unit_frames(batch: Batch) -> tf.Tensor:
    """float32 [B, 1, D]: the mean of the unit frames of each video; 0 for a video without frames.

    A unit frame is a frame divided by the length of its vector.

    Args:
      batch: a batch whose features are uint8 [B, T, size].
    """
    # Segments have a fixed number of frames. It is so small that calling a function for each segment would take longer
    # than computing its mean.
    are_segments = batch.features[0].shape[1] is not None
    return (_means_of_blocks if are_segments else _means_of_videos)(batch)[:, tf.newaxis]


def _means_of_videos(batch: Batch) -> tf.Tensor:
    """The means, float32 [B, D]; each thread of the session computes one video at a time.

    No op is divided among threads, because waking them would take a third of the time of a mean. The floats of one
    video stay in the processor's caches during all passes. Those of a whole batch (170 MB) would be written to memory
    and read again in each pass.
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
    """The mean, float32 [D], of the first unit frames of one video.

    Args:
      *features_and_count: the features, uint8 [T, size] each; then the number of frames, an integer scalar.
    """
    *features, count = features_and_count
    values = _shifted_in_one_pass(tf.concat([feature[:count] for feature in features], -1))
    norms = tf.raw_ops.EuclideanNorm(input=values, axis=[-1])
    factors = 1 / (tf.maximum(norms, LEAST_BYTES_NORM) * tf.cast(tf.maximum(count, 1), tf.float32))
    return tf.squeeze(tf.matmul(factors[tf.newaxis], values), 0)


# Rows (segments) are processed in blocks of so many values, which as floats fit the processor's caches.
_BLOCK_VALUES = 800_000
_PARALLEL_BLOCKS = 4  # so many blocks may be computed at the same time


def _means_of_blocks(batch: Batch) -> tf.Tensor:
    """The means, float32 [B, D], computed in blocks of many rows."""
    width = sum(int(feature.shape[-1]) for feature in batch.features)
    num_rows, num_frames = tf.unstack(tf.shape(batch.features[0])[:2])
    counts = frames.count(batch.features[0], batch.num_frames)
    size = tf.maximum(_BLOCK_VALUES // (width * tf.maximum(num_frames, 1)), 1)  # rows of a block
    means = tf.TensorArray(tf.float32, (num_rows + size - 1) // size, infer_shape=False, element_shape=[None, width])

    def add_block(number: tf.Tensor, means: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        rows = slice(number * size, (number + 1) * size)
        block_means = _means_of_rows([feature[rows] for feature in batch.features], counts[rows])
        return number + 1, means.write(number, block_means)

    _, means = tf.while_loop(
        lambda number, _: number < means.size(),
        add_block,
        (0, means),
        parallel_iterations=_PARALLEL_BLOCKS,
        back_prop=False,
    )
    return means.concat()


def _means_of_rows(features: Sequence[tf.Tensor], counts: tf.Tensor) -> tf.Tensor:
    """The means, float32 [B, D], of the unit frames of the features, uint8 [B, T, size] each."""
    longest = tf.reduce_max(counts)
    values = _shifted_in_one_pass(tf.concat([feature[:, :longest] for feature in features], -1))
    norms = tf.raw_ops.EuclideanNorm(input=values, axis=[-1])
    return frames.mean(values, counts, tf.maximum(norms, LEAST_BYTES_NORM))


def _shifted_in_one_pass(codes: tf.Tensor) -> tf.Tensor:
    """The same as `shifted`, to the last bit, in one pass instead of two. TensorFlow has this op only for CPUs."""
    least, most = _BYTE_OFFSET, _BYTE_OFFSET + 255  # 255 steps of 1; both ends are exact in float32
    as_codes = tf.bitcast(codes, tf.quint8)
    return tf.raw_ops.Dequantize(input=as_codes, min_range=least, max_range=most, mode="MIN_COMBINED")


def augment(batch: Batch, config: AugmentConfig) -> Batch:
    """The batch with its features dequantised, joined into one float32 tensor and changed at random.

    The batch is unchanged if all augmentation is off. First frames are cropped in time, then some are dropped, then
    noise is added. The frames that are kept move to the front in their order, and `num_frames` becomes their number; a
    video that has frames keeps at least one. A kind of augmentation that is off draws no random numbers.
    """
    if not config.is_on:
        return batch
    features, num_frames = join_features(batch), batch.num_frames
    if config.needs_frames:
        features, num_frames = _move_kept_to_front(
            features, _draw_kept_frames(num_frames, tf.shape(features)[1], config)
        )
    if config.augment_noise:
        noise = tf.random.stateless_normal(tf.shape(features), random_keys.next_seed())
        features = zero_padding(features + config.augment_noise * noise, num_frames)
    return batch._replace(features=(features,), num_frames=num_frames)


def _draw_kept_frames(num_frames: tf.Tensor, frames: tf.Tensor, config: AugmentConfig) -> tf.Tensor:
    """bool [B, T], with T `frames`: True for the frames that are kept."""
    is_kept = tf.sequence_mask(num_frames, frames)
    if config.augment_crop < 1:
        is_kept = _draw_crop(num_frames, frames, config.augment_crop)
    if config.augment_frame_dropout:
        draws = tf.random.stateless_uniform(tf.shape(is_kept), random_keys.next_seed())
        draws = tf.where_v2(is_kept, draws, -1.0)
        largest = tf.reduce_max(draws, axis=1, keepdims=True)
        # The frame with the largest draw is always kept, so that a video never loses all of its frames.
        is_kept &= (draws >= config.augment_frame_dropout) | tf.equal(draws, largest)
    return is_kept


def _draw_crop(num_frames: tf.Tensor, frames: tf.Tensor, least_share: float) -> tf.Tensor:
    """bool [B, T], with T `frames`: True in one interval of the frames of each video.

    The share of the frames that are in the interval is drawn uniformly from `least_share` to 1.
    """
    shape = tf.shape(num_frames)
    shares = tf.random.stateless_uniform(shape, random_keys.next_seed(), least_share, 1.0)
    lengths = tf.minimum(tf.cast(tf.math.ceil(shares * tf.cast(num_frames, tf.float32)), tf.int32), num_frames)
    num_starts = tf.cast(num_frames - lengths + 1, tf.float32)
    starts = tf.cast(tf.random.stateless_uniform(shape, random_keys.next_seed()) * num_starts, tf.int32)
    starts = tf.minimum(starts, num_frames - lengths)[:, tf.newaxis]  # rounding may give `num_starts` itself
    numbers = tf.range(frames)[tf.newaxis, :]
    return (numbers >= starts) & (numbers < starts + lengths[:, tf.newaxis])


def _move_kept_to_front(features: tf.Tensor, is_kept: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """(features float32 [B, T, D]: the kept frames of each video, then zeros; num_frames int32 [B]: their number)."""
    order = tf.argsort(tf.cast(~is_kept, tf.int32), axis=1, stable=True)
    num_frames = tf.reduce_sum(tf.cast(is_kept, tf.int32), axis=1)
    return zero_padding(tf.gather(features, order, batch_dims=1), num_frames), num_frames


class Mixture(NamedTuple):
    """Mixup: mixes the features, labels and label weights of each row of a batch with those of another row.

    Source: Zhang et al., mixup: Beyond Empirical Risk Minimization (2018, arXiv 1710.09412). As in PSLA (Gong et al.
    2021, arXiv 2102.01243) the features of whole recordings are mixed, frame by frame. The row itself always has the
    larger share. So its id can stand for the mixture, and the metrics of training batches in the log, which count only
    the labels of the row itself, are mostly right.

    Attributes:
      shares: float32 [B], from 0.5 to 1: the share of the row itself in its mixture; its partner has the rest.
      partners: int32 [B], a permutation: the index of the partner of each row.
    """

    shares: tf.Tensor
    partners: tf.Tensor

    def mix(self, rows: tf.Tensor) -> tf.Tensor:
        """float32 [B, ...]: the mean of each of the `rows` [B, ...] and its partner, weighted by their shares."""
        rows = tf.cast(rows, tf.float32)
        shares = tf.reshape(self.shares, [-1] + [1] * (rows.shape.rank - 1))
        return shares * rows + (1.0 - shares) * tf.gather(rows, self.partners)

    def mix_batch(self, batch: Batch) -> Batch:
        """The batch with mixed features (dequantised and joined), labels and label weights.

        Each frame is mixed with the frame of the same number; after the end of one video, its frames count as 0. The
        mixture has as many frames as the longer video. If there are label weights, a mixed label is the mean with
        weights (share times label weight): if a class is rated in only one of the videos, it has the label from there.
        The labels of the videos that segments are part of (`video_labels`) are joined, and `film_means` are mixed.
        """
        labels, weights, video_labels = tf.cast(batch.labels, tf.float32), batch.label_weights, batch.video_labels
        if weights is None:
            labels = self.mix(labels)
        else:
            weighted_labels, weights = self.mix(labels * weights), self.mix(weights)
            labels = tf.math.divide_no_nan(weighted_labels, weights)
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
    """Draws the mixture of a batch with `rows` rows, an int32 scalar.

    A share is s or 1 - s, whichever is larger, with s from the distribution Beta(alpha, alpha).
    """
    # A share from Beta(a, a) is X / (X + Y) with X and Y from Gamma(a). For a small a both would be 0 in float32, so
    # their logarithms are drawn: X is distributed as Z U^(1 / a), with Z from Gamma(a + 1) and U uniform.
    gammas = tf.random.stateless_gamma([2, rows], random_keys.next_seed(), alpha + 1.0)
    uniform = 1.0 - tf.random.stateless_uniform([2, rows], random_keys.next_seed())  # above 0
    logs = tf.math.log(gammas) + tf.math.log(uniform) / alpha
    shares = tf.sigmoid(tf.abs(logs[0] - logs[1]))
    partners = tf.random.experimental.stateless_shuffle(tf.range(rows), random_keys.next_seed())
    return Mixture(shares, partners)
