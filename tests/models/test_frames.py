from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.models import frames


@pytest.mark.parametrize("num_frames", [None, [0, 1, 4, 9]])
def test_mean_of_real_frames(num_frames: list[int] | None) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6, 3)).astype(np.float32)
    real = [6] * 4 if num_frames is None else np.minimum(num_frames, 6)
    with tf.Graph().as_default(), tf.Session() as session:
        counts = None if num_frames is None else tf.constant(num_frames, tf.int64)
        mean, mask = session.run([f(tf.constant(x), counts) for f in (frames.mean, frames.mask)])
    for row, n in enumerate(real):
        np.testing.assert_allclose(mean[row], x[row, :n].sum(0) / max(n, 1), rtol=1e-5, atol=1e-6)
        assert mask[row].tolist() == [1.0] * n + [0.0] * (6 - n)
