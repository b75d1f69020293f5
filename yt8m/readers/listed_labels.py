"""Labels as lists of class numbers, which take few bytes, for batches that are copied to another device.

A batch of 1,024 videos with the 3,862 classes of YouTube-8M has 4 MB of multi-hot labels, but only 3,000 labels.
"""

from __future__ import annotations

from yt8m.lazy import tf
from yt8m.readers.base import after_checks, dense_labels, require_known_labels

FEWEST_CLASSES = 512  # a row of fewer multi-hot labels takes less memory than the numbers of 64 labels


def fields_of_labels(
    labels: tf.RaggedTensor, ids: tf.Tensor, num_classes: int, is_listed: bool
) -> dict[str, tf.Tensor | None]:
    """The fields of a `Batch` of videos that hold its labels: `label_lists` if `is_listed`, else `labels`.

    Args:
      labels: int64 [B, (labels)], the list of each record, which may be unsorted and have repeated labels.
      ids: string [B], the ids of the records, for messages.
    """
    if not is_listed:
        return {"labels": dense_labels(labels, ids, num_classes)}
    values = after_checks(labels.values, [require_known_labels(labels, ids, num_classes)])
    return {"labels": None, "label_lists": _padded(labels.with_values(values))}


def _padded(labels: tf.RaggedTensor) -> tf.Tensor:
    """Lists of labels as a tensor.

    Returns:
      int64 [B, K], where K is the length of the longest list, at least 1. The rows of shorter lists end with copies of
      their first label; the row of an empty list has -1 everywhere.
    """
    longest = tf.maximum(tf.reduce_max(tf.concat([labels.row_lengths(), [1]], 0)), 1)
    padded = labels.to_tensor(-1, shape=tf.stack([tf.constant(-1, tf.int64), longest]))
    return tf.ensure_shape(tf.where_v2(padded < 0, padded[:, :1], padded), [None, None])


def multi_hot(lists: tf.Tensor, num_classes: int) -> tf.Tensor:
    """The labels of the `label_lists` of a batch, int64 [B, K], as bool [B, C], made on their device.

    No two entries of a row write different values to one place, so a GPU may write them in any order.
    """
    # Most GPU kernels keep integers of 32 bits in the host's memory, and `tf.range` makes its result there. So a sum
    # numbers the rows, and only the last op before the scattering makes 32 bits.
    starts = tf.cumsum(tf.fill(tf.shape(lists), tf.constant(num_classes, tf.int64)), exclusive=True)
    places = tf.reshape(starts + tf.maximum(lists, 0), [-1])
    labels = tf.raw_ops.SparseToDense(
        sparse_indices=tf.cast(places, tf.int32),
        output_shape=tf.reshape(tf.shape(lists)[0] * num_classes, [1]),
        sparse_values=tf.reshape(lists >= 0, [-1]),
        default_value=False,
        validate_indices=False,
    )
    return tf.reshape(labels, [-1, num_classes])
