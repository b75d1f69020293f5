"""What video records and frame records have in common: the id, the labels, features of a given size."""

from __future__ import annotations

from google.protobuf import descriptor_pb2

from yt8m.lazy import tf
from yt8m.readers.checks import gate, require, say


def parse_ids(serialized: tf.Tensor) -> tf.Tensor:
    """string [B] from Examples or SequenceExamples: `id`, or `video_id` as in the files of 2017 and AudioSet.

    Fails on a record that has neither, and on bytes that are no such proto, cut ones among them (`whole`).
    """
    # An Example is, on the wire, a SequenceExample with a context alone. This parser names what is wrong;
    # the other one quotes the damaged bytes, which Python then fails to decode.
    fields = {name: tf.io.FixedLenFeature([], tf.string, default_value="") for name in ("id", "video_id")}
    parsed, _, _ = tf.io.parse_sequence_example(serialized, fields, {})
    ids = tf.where_v2(tf.equal(parsed["id"], ""), parsed["video_id"], parsed["id"])
    named = require(
        tf.not_equal(ids, ""),
        lambda row: say("record ", row, " of the batch has no id: neither 'id' nor 'video_id' is there"),
    )
    return gate(ids, [named, whole(gate(serialized, [ids]))])


def whole(serialized: tf.Tensor) -> tf.Tensor:
    """A check that the outermost fields of each record [B] end where the record ends; bool scalar.

    TensorFlow's parser takes the end of a record for the end of any message that claims to be longer. A
    record that was cut between two features would lose what came after the cut. Fails with DataLossError.
    """

    def walked() -> tf.Tensor:
        # The op goes over all fields and takes out one that no record has, so that nothing is copied.
        found = tf.raw_ops.DecodeProtoV2(
            bytes=serialized,
            message_type="yt8m.Outermost",
            field_names=["unused"],
            output_types=[tf.string],
            descriptor_source=_outermost(),
        )
        return tf.reduce_all(found.sizes >= 0)  # the op itself complains; unused, it would be optimised away

    # The op refuses an empty batch, which has no record to complain of.
    is_whole = tf.cond(tf.size(serialized) > 0, walked, lambda: tf.constant(True))
    return require(tf.reshape(is_whole, [1]), lambda _: say("a record of the batch is damaged"))


def _outermost() -> bytes:
    """A message whose only field no record has, as DecodeProto wants it described."""
    files = descriptor_pb2.FileDescriptorSet()
    message = files.file.add(name="yt8m/outermost.proto", package="yt8m").message_type.add(name="Outermost")
    field = descriptor_pb2.FieldDescriptorProto
    largest = (1 << 29) - 1
    message.field.add(name="unused", number=largest, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    return b"bytes://" + files.SerializeToString(deterministic=True)


def dense_labels(labels: tf.RaggedTensor, ids: tf.Tensor, num_classes: int) -> tf.Tensor:
    """bool [B, C] from int64 lists in any order; none gives a row of False, a repeated one counts once.

    A label outside of 0..C-1 fails and names the label, C and the video.
    """
    known = labels_in_range(labels, ids, num_classes)
    indices = tf.stack([labels.value_rowids(), gate(labels.values, [known])], axis=1)
    shape = tf.stack([tf.size(ids, out_type=tf.int64), num_classes])
    found = tf.SparseTensor(indices, tf.ones_like(labels.values, tf.bool), shape)
    # Without the validation repeated and unsorted labels are fine, and it is the quickest way there is.
    dense = tf.sparse.to_dense(found, default_value=False, validate_indices=False)
    return tf.ensure_shape(dense, [None, num_classes])


def labels_in_range(labels: tf.RaggedTensor, ids: tf.Tensor, num_classes: int) -> tf.Tensor:
    """A check that every label is in 0..num_classes-1."""
    return require(
        tf.logical_and(labels.values >= 0, labels.values < num_classes),
        lambda at: say(
            *("video ", tf.gather(ids, labels.value_rowids()[at]), ": label ", labels.values[at]),
            f" is outside of 0..{num_classes - 1} (num_classes={num_classes}); check --num_classes",
        ),
    )


def of_size(feature: tf.RaggedTensor, name: str, size: int, ids: tf.Tensor) -> tf.Tensor:
    """[B, size] from lists of values; a list of another length fails and names feature, sizes and video."""
    lengths = feature.row_lengths()
    right = require(
        tf.equal(lengths, size),
        lambda row: say(
            *("video ", ids[row], f": feature {name} has ", lengths[row], f" values, expected {size}"),
            " (0: it is missing); check --feature_names and --feature_sizes",
        ),
    )
    return tf.reshape(gate(feature.values, [right]), [-1, size])
