"""The matrix products that a model cannot do without, at its default sizes, and the time that they take alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.measure import Work, timed_steps
from yt8m.lazy import tf

RGB, AUDIO, CLASSES, FRAMES = 1024, 128, 3862, 300
FEATURES = RGB + AUDIO


class Product(NamedTuple):
    """[rows, inner] x [inner, columns].

    Attributes:
      side_by_side: the number of products in one batched product (0: a plain product).
      in_turn: the number of sequential products; each waits for the one before it (time steps).
    """

    rows: int
    inner: int
    columns: int
    side_by_side: int = 0
    in_turn: int = 1


def dense(rows: int, inputs: int, outputs: int, *, training: bool = True, to_input: bool = True) -> list[Product]:
    """One layer: forward, and in training the gradient of its weights and, if asked, of its input."""
    products = [Product(rows, inputs, outputs)]
    if training:
        products.append(Product(inputs, rows, outputs))
        products += [Product(rows, outputs, inputs)] if to_input else []
    return products


def mixture(rows: int, inputs: int, experts: int = 2, *, to_input: bool = True) -> list[Product]:
    """The mixture-of-experts classifier: gates (one dummy more than experts) and experts."""
    gates = dense(rows, inputs, CLASSES * (experts + 1), to_input=to_input)
    return gates + dense(rows, inputs, CLASSES * experts, to_input=to_input)


def dbof(batch: int) -> list[Product]:
    """30 sampled frames to 8192 words, 1024 hidden units, mixture; the input is normalised and trained."""
    return [*dense(batch * 30, FEATURES, 8192), *dense(batch, 8192, 1024), *mixture(batch, 1024)]


def recurrent(batch: int, units: int, gates: Sequence[int]) -> list[Product]:
    """Two layers over 300 frames, mixture on the last state.

    Args:
      batch: videos.
      units: cells of a layer.
      gates: width, in multiples of `units`, of each product with the state in a step (LSTM: 4; GRU: 2 and 1).
    """
    products: list[Product] = []
    for inputs in (FEATURES, units):
        products += dense(batch * FRAMES, inputs, sum(gates) * units, to_input=inputs == units)
        for width in gates:
            products.append(Product(batch, units, width * units, in_turn=FRAMES))
            products.append(Product(batch, width * units, units, in_turn=FRAMES))
            products.append(Product(units, batch * FRAMES, width * units))
    return products + mixture(batch, units)


def net_vlad(batch: int) -> list[Product]:
    """256 clusters of rgb and 128 of audio over 300 frames, 1024 hidden units, context gating, mixture."""
    products: list[Product] = []
    for features, clusters in ((RGB, 256), (AUDIO, 128)):
        products += dense(batch * FRAMES, features, clusters, to_input=False)
        products.append(Product(clusters, FRAMES, features, side_by_side=batch))
        products.append(Product(FRAMES, features, clusters, side_by_side=batch))
    described = RGB * 256 + AUDIO * 128
    return [*products, *dense(batch, described, 1024), *dense(batch, 1024, 1024), *mixture(batch, 1024)]


def transformer(batch: int, layers: int = 2, size: int = 512, wide: int = 2048, heads: int = 8) -> list[Product]:
    """Self-attention among 300 frames, mixture on the mean frame."""
    rows, head = batch * FRAMES, size // heads
    products = dense(rows, FEATURES, size, to_input=False)
    for _ in range(layers):
        products += 4 * dense(rows, size, size) + dense(rows, size, wide) + dense(rows, wide, size)
        products += 2 * [Product(FRAMES, head, FRAMES, side_by_side=batch * heads)]  # scores; back to shares
        products += 4 * [Product(FRAMES, FRAMES, head, side_by_side=batch * heads)]
    return products + mixture(batch, size)


def floor(products: Sequence[Product], steps: int = 20, precision: str = "float32") -> Work:
    """The products of a step one after the other, and nothing else, in a session of its own in this process.

    Args:
      products: in order.
      steps: steps in a sample, which is the time of one.
      precision: of operands and results; operands are created in it, so no cast is timed.
    """
    with tf.Graph().as_default(), tf.variable_scope("", reuse=tf.AUTO_REUSE):
        elements: list[tf.Tensor] = []
        for product in products:
            with tf.control_dependencies(elements[-1:]):
                elements.append(_element(product, tf.as_dtype(precision)))
        # Fetch an element of each product: TensorFlow does not compute a product that nothing uses.
        fetch, session = tf.add_n(elements), tf.Session()
        session.run(tf.global_variables_initializer())
    return timed_steps(session, fetch, steps)


def _element(product: Product, dtype: tf.DType) -> tf.Tensor:
    """Computes a product and returns one element of it."""
    parallel = [product.side_by_side] if product.side_by_side else []
    left = _stored_matrix([*parallel, product.rows, product.inner], dtype)
    right = _stored_matrix([*parallel, product.inner, product.columns], dtype)
    if product.in_turn == 1:
        return tf.cast(tf.reshape(tf.matmul(left, right), [-1])[0], tf.float32)

    def step(time: tf.Tensor, element: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # The element goes into the next operand, so that no two run at once and none is hoisted out.
        operand = left + tf.cast(1e-30 * element, dtype)
        return time + 1, tf.cast(tf.matmul(operand, right)[0, 0], tf.float32)

    return tf.while_loop(lambda time, _: time < product.in_turn, step, [tf.constant(0), tf.zeros([])])[1]


def _stored_matrix(shape: list[int], dtype: tf.DType) -> tf.Tensor:
    """A matrix that is stored before the clock starts; products of the same shape share it."""
    variable = tf.get_variable(
        f"matrix_{'x'.join(map(str, shape))}",
        shape,
        dtype,
        initializer=tf.random_normal_initializer(),
        use_resource=True,
    )
    return tf.identity(variable.read_value())
