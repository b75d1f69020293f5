from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.numerics import precision


def test_the_innermost_scope_counts_and_ends() -> None:
    assert precision.current() == "float32"
    with precision.scope("bfloat16"):
        with precision.scope("float32"):
            assert precision.current() == "float32"
        assert precision.current() == "bfloat16"
    assert precision.current() == "float32"


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 5)])
def test_products_and_their_gradients(name: str, shape: tuple[int, ...]) -> None:
    """Sixteenths up to 1 are exact in bfloat16, and their products are near enough to round alike."""
    rng = np.random.default_rng(0)
    x, w, slope = (
        rng.integers(-16, 17, size=size).astype(np.float32) / 16 for size in (shape, (5, 4), (*shape[:-1], 4))
    )
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(x), tf.constant(w)
        with precision.scope(name):
            made = precision.product(*given)
        values = session.run([made, *tf.gradients(made, given, tf.constant(slope))])
    rows, slopes = x.reshape(-1, 5), slope.reshape(-1, 4)
    expected = (x @ w, (slopes @ w.T).reshape(shape), rows.T @ slopes)
    for found, wanted in zip(values, expected, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-6 if name == "float32" else 2**-8, atol=1e-6)
