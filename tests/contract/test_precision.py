"""What holds for every registered model whose products are made in bfloat16 or float16."""

from __future__ import annotations

import re
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from contract.model_cases import B, C, D
from contract.model_session import NUM_FRAMES, Built, built

from yt8m import models
from yt8m.lazy import tf

# Dense products, and batched ones.
_QUICK = {"MoeModel": ("float16",), "LogisticModel": ("bfloat16",)}
_CASES = [
    pytest.param(
        (name, precision),
        marks=() if precision in _QUICK.get(name, ()) else pytest.mark.heavy,
        id=f"{name}-{precision}",
    )
    for precision in ("bfloat16", "float16")
    for name in models.built_in_names()
]


@pytest.fixture(scope="module", params=_CASES)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Built, Built]]:
    """The same weights in float32 and rounded."""
    name, precision = request.param
    with built(name) as exact, built(name, precision) as rounded:
        yield exact, rounded


def float32_products(graph: tf.Graph) -> Iterator[str]:
    """Products that the code writes (automatic gradients follow them) and that are left in float32.

    Those of one row are the mean of frames and the statistics of batch norm under a mask: no products of a
    model's own.
    """
    definition = graph.as_graph_def(add_shapes=True)
    for node in (*definition.node, *(node for f in definition.library.function for node in f.node_def)):
        if "MatMul" in node.op and node.attr["T"].type == tf.float32.as_datatype_enum:
            (shape,) = node.attr["_output_shapes"].list.shape
            if not re.search(r"MatMul(_\d+)?_grad/", node.name) and shape.dim[-2].size != 1:
                yield node.name


def length(gradients: list[np.ndarray]) -> float:
    """Euclidean, of all together."""
    return float(np.sqrt(sum(np.square(gradient).sum() for gradient in gradients)))


def test_products_are_rounded_and_nothing_else_is(pair: tuple[Built, Built]) -> None:
    exact, rounded = pair
    assert list(float32_products(exact.session.graph)) != []
    assert list(float32_products(rounded.session.graph)) == []
    outputs = [(tower.predictions, *tower.heads) for tower in (rounded.evaluation, rounded.training)]
    for tensor in (*rounded.variables, *outputs[0], *outputs[1], *rounded.training.gradients):
        assert tensor.dtype.base_dtype == tf.float32


def test_predictions_and_gradients_are_near(pair: tuple[Built, Built]) -> None:
    exact, rounded = pair
    x = exact.draw()
    fetches = [[model.training.predictions, *model.training.gradients] for model in pair]
    expected, found = exact.run(fetches[0], x), rounded.run(fetches[1], x)
    np.testing.assert_allclose(found[0], expected[0], atol=0.03)
    apart, sizes = [g - w for g, w in zip(found[1:], expected[1:], strict=True)], expected[1:]
    whole = length(sizes)
    assert length(apart) < 0.2 * whole
    # If the terms of a small gradient nearly cancel, what is left is mostly rounding of the terms. How much depends on
    # the processor: those without bfloat16 products round at other places.
    rounding = 2 * float(ml_dtypes.finfo(rounded.computed_in).eps) * whole
    for difference, wanted in zip(apart, sizes, strict=True):
        assert length([difference]) < 0.2 * length([wanted]) + 1e-2 + rounding


def test_a_step_is_the_same_again_and_rows_and_padding_keep_to_themselves(pair: tuple[Built, Built]) -> None:
    rounded = pair[1]
    x = rounded.draw()
    fetches = [rounded.evaluation.predictions, rounded.training.predictions]
    first, again = (rounded.run(fetches, x) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    if x.ndim == 3:
        padded = np.concatenate([x, np.zeros((B, 4, D), np.float32)], 1)
        np.testing.assert_allclose(rounded.run(fetches, padded), first, atol=0.01)
    half = rounded.run(fetches[0], x[:3], NUM_FRAMES[:3])
    assert half.shape == (3, C)
    np.testing.assert_allclose(half, first[0][:3], atol=0.01)
