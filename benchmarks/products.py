"""The matrix products that a model cannot do without, at the shapes of its default sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
