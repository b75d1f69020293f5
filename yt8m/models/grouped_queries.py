"""A transformer decoder whose queries stand for groups of classes, in place of a classifier on a mean frame.

Source: Ridnik et al., ML-Decoder: Scalable and Versatile Classification Head (2021, arXiv 2111.12933), with the layers
of the authors' code (Alibaba-MIIL/ML_Decoder): queries do not attend to each other. Each of G queries attends over the
frames, and each class is a linear function of the output of its group's query.

The memory of a video is that of heads x frames x G attention weights, whatever the number of classes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from yt8m.lazy import tf
from yt8m.models.layers import Net
from yt8m.numerics import precision, whole_blocks

_EPSILON = 1e-5  # of the layer normalisations, as published
_MASKED = -1e9  # added to the scores of padding, so that its share is exactly 0 in float32


class Decoder(NamedTuple):
    """The sizes of a decoder.

    Attributes:
      queries: number of queries, G.
      size: number of features of a query, E.
      heads: number of attention heads; divides `size`.
      feed_forward: units of the feed-forward part.
      learns_queries: whether the queries are trained; as published they keep their random start.
      drop_rate: share of the outputs of attention and feed-forward part that training drops.
    """

    queries: int
    size: int
    heads: int
    feed_forward: int
    learns_queries: bool
    drop_rate: float

    def logits(
        self, net: Net, inputs: tf.Tensor, mask: tf.Tensor, vocab_size: int, l2_penalty: float = 0.0
    ) -> tf.Tensor:
        """Logits [B, vocab_size] from frames [B, T, D] with mask [B, T]; `l2_penalty` weighs those of the classes."""
        with tf.variable_scope("decoder"):
            memory = tf.nn.relu(net.dense(inputs, self.size, "embedding"))
            queries = net.variable(
                "queries", [self.queries, self.size], tf.random_normal_initializer(), trainable=self.learns_queries
            )
            # As published, the queries are added to themselves (in training, to a dropout of themselves).
            targets = net.layer_norm(2.0 * queries, "query_ln", epsilon=_EPSILON)
            seen = self._attend(net, targets, memory, mask)
            targets = net.layer_norm(targets + net.dropout(seen, self.drop_rate), "attention_ln", epsilon=_EPSILON)
            units = tf.nn.relu(net.dense(targets, self.feed_forward, "feed_in"))
            fed = net.dense(net.dropout(units, self.drop_rate), self.size, "feed_out")
            targets = net.layer_norm(targets + net.dropout(fed, self.drop_rate), "feed_ln", epsilon=_EPSILON)
            return _class_logits(net, targets, vocab_size, l2_penalty)

    def _attend(self, net: Net, targets: tf.Tensor, memory: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Multi-head attention of targets [G, E] over memory [B, T, E], [B, G, E].

        The queries are the same for all videos, so they are multiplied by the weights of the keys first: no keys are
        stored. A bias of the keys would add the same to all scores of a query, and cancel out.
        """
        heads, depth = self.heads, self.size // self.heads
        of_heads = tf.reshape(net.dense(targets, self.size, "query"), [self.queries, heads, depth])
        with tf.variable_scope("key"):
            weights = net.variable("weights", [self.size, self.size], tf.glorot_uniform_initializer())
        keys = tf.reshape(weights, [self.size, heads, depth])
        folded = precision.matmul(tf.transpose(of_heads, [1, 0, 2]), tf.transpose(keys, [1, 2, 0]))
        folded = tf.reshape(folded / math.sqrt(depth), [1, heads * self.queries, self.size])
        scores = precision.matmul(folded, memory, transpose_b=True) + ((1.0 - mask) * _MASKED)[:, tf.newaxis, :]
        shares = tf.nn.softmax(scores)
        rows, time = tf.shape(memory)[0], tf.shape(memory)[1]
        values = tf.reshape(net.dense(memory, self.size, "value"), [rows, time, heads, depth])
        shares = tf.reshape(shares, [rows, heads, self.queries, time])
        mixed = tf.transpose(precision.matmul(shares, tf.transpose(values, [0, 2, 1, 3])), [0, 2, 1, 3])
        # In a video without frames the shares are those of its padding, so its result is set to 0.
        mixed *= tf.reshape(tf.reduce_max(mask, axis=1), [-1, 1, 1, 1])
        return net.dense(tf.reshape(mixed, [rows, self.queries, self.size]), self.size, "output")


def _class_logits(net: Net, outputs: tf.Tensor, vocab_size: int, l2_penalty: float) -> tf.Tensor:
    """w_c h_g(c) + b_c, [B, C], from the outputs h [B, G, E] of the queries.

    The group g(c) of class c is stored, so that a class keeps its query if classes are added, removed or reordered
    (`graph.class_axes`); at the start the classes are divided in their order, as published. Weights are sorted by group
    and multiplied group by group: a [B, C, E] of outputs by class is never stored.
    """
    queries, size = int(outputs.shape[1]), int(outputs.shape[2])
    weights = net.variable("weights", [size, vocab_size], tf.glorot_normal_initializer(), l2_penalty=l2_penalty)
    in_order = tf.constant_initializer([float(c // math.ceil(vocab_size / queries)) for c in range(vocab_size)])
    groups = tf.cast(net.variable("groups", [vocab_size], in_order, trainable=False), tf.int32)
    members = tf.one_hot(groups, queries, dtype=tf.int32)
    places = tf.reduce_sum(tf.cumsum(members, exclusive=True) * members, 1)  # among the classes of the same group
    width = whole_blocks.extended(tf.reduce_max(tf.reduce_sum(members, 0)))
    slots = groups * width + places
    by_slot = tf.scatter_nd(slots[:, tf.newaxis], tf.transpose(weights), [queries * width, size])
    of_groups = tf.reshape(by_slot, [queries, width, size])
    products = precision.matmul(tf.transpose(outputs, [1, 0, 2]), of_groups, transpose_b=True)  # [G, B, width]
    logits = tf.gather(tf.reshape(tf.transpose(products, [1, 0, 2]), [-1, queries * width]), slots, axis=1)
    logits = tf.ensure_shape(logits, [None, vocab_size])
    return logits + net.variable("biases", [vocab_size], tf.zeros_initializer())
