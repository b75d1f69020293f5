"""The network: two convolutions with local response normalisation and pooling, two dense layers.

Krizhevsky, cuda-convnet's layers for CIFAR-10 on 24x24 crops, 2011; the normalisation is that of
Krizhevsky, Sutskever and Hinton, "ImageNet Classification with Deep Convolutional Neural
Networks", 2012, section 3.3.
"""

from __future__ import annotations

from typing import NamedTuple

from examples.cifar10.records import NUM_CLASSES
from yt8m.lazy import tf

WEIGHT_DECAY = 0.004  # of the dense layers


class Network(NamedTuple):
    """The outputs of the network on one tower.

    Attributes:
      logits: float32 [B, 10].
      decays: the weight decay of each dense layer, scalars.
    """

    logits: tf.Tensor
    decays: tuple[tf.Tensor, ...]


def network(images: tf.Tensor) -> Network:
    """The whole network on pictures float32 [B, 24, 24, 3]."""
    first = _normalized(_pooled(_convolution(images, 64, "conv1", bias=0.0)), "norm1")
    second = _pooled(_normalized(_convolution(first, 64, "conv2", bias=0.1), "norm2"))
    height, width, depth = second.shape.as_list()[1:]
    flat = tf.reshape(second, [-1, height * width * depth])
    third, third_decay = _dense(flat, 384, "local3")
    fourth, fourth_decay = _dense(third, 192, "local4")
    with tf.variable_scope("softmax_linear"):
        weights = _weights([192, NUM_CLASSES], 1 / 192)
        biases = tf.get_variable("biases", [NUM_CLASSES], initializer=tf.zeros_initializer())
        logits = tf.nn.bias_add(tf.matmul(fourth, weights), biases)
    return Network(logits, (third_decay, fourth_decay))


def _weights(shape: list[int], spread: float) -> tf.Variable:
    initial = tf.truncated_normal_initializer(stddev=spread)
    return tf.get_variable("weights", shape, initializer=initial)


def _convolution(inputs: tf.Tensor, filters: int, name: str, bias: float) -> tf.Tensor:
    with tf.variable_scope(name):
        kernel = _weights([5, 5, inputs.shape[-1], filters], 0.05)
        biases = tf.get_variable("biases", [filters], initializer=tf.constant_initializer(bias))
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(inputs, kernel, 1, "SAME"), biases))


def _dense(inputs: tf.Tensor, units: int, name: str) -> tuple[tf.Tensor, tf.Tensor]:
    """A dense layer and its weight decay."""
    with tf.variable_scope(name):
        weights = _weights([inputs.shape[-1], units], 0.04)
        biases = tf.get_variable("biases", [units], initializer=tf.constant_initializer(0.1))
        outputs = tf.nn.relu(tf.nn.bias_add(tf.matmul(inputs, weights), biases))
        return outputs, tf.multiply(tf.nn.l2_loss(weights), WEIGHT_DECAY, name="weight_decay")


def _pooled(inputs: tf.Tensor) -> tf.Tensor:
    return tf.nn.max_pool2d(inputs, 3, 2, "SAME")


def _normalized(inputs: tf.Tensor, name: str) -> tf.Tensor:
    return tf.nn.lrn(inputs, depth_radius=4, bias=1.0, alpha=0.001 / 9, beta=0.75, name=name)
