"""A model that sees the mean of the whole video beside each frame."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m import models
from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.models.frames import with_video_means

DRAW = np.random.default_rng(3)
COUNTS = np.array([4, 1, 0], np.int32)
FRAMES = (DRAW.normal(size=(3, 4, 5)) * (np.arange(4) < COUNTS[:, None])[:, :, None]).astype(np.float32)
FILM = DRAW.normal(size=(3, 5)).astype(np.float32)


@pytest.mark.parametrize("is_segment", [True, False])
def test_each_frame_is_followed_by_the_mean_of_its_video(is_segment: bool) -> None:
    """Of a segment the mean is given; a whole video has its own."""
    means = FRAMES.sum(1) / np.maximum(COUNTS, 1)[:, None]
    film = FILM if is_segment else means
    with tf.Graph().as_default(), tf.Session() as session:
        model = with_video_means(models.create("FrameLevelLogisticModel"))

        def predictions() -> tf.Tensor:
            made = model.create_model(
                tf.constant(FRAMES), num_frames=tf.constant(COUNTS), vocab_size=6, is_training=False
            )
            return made.predictions

        if is_segment:
            with frames.video_mean_scope(tf.constant(FILM)):
                output = predictions()
        else:
            output = predictions()
        session.run(tf.global_variables_initializer())
        weights, output = session.run([tf.trainable_variables()[0], output])
    assert weights.shape == (10, 6)
    seen = np.concatenate([means, film * (COUNTS > 0)[:, None]], 1)
    np.testing.assert_allclose(output, 1 / (1 + np.exp(-seen @ weights)), rtol=1e-5)


def test_the_model_stays_what_it_is() -> None:
    model = models.create("DbofModel", {"dbof_cluster_size": 4})
    seeing = with_video_means(model)
    assert (type(seeing).__name__, seeing.level, seeing.dbof_cluster_size) == ("DbofModel", "frame", 4)
    assert isinstance(seeing, type(model))
