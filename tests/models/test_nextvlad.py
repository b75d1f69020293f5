from __future__ import annotations

import numpy as np
import pytest
from models.forward import NUM_FRAMES, Variables, check, dense, draw_frames, l2, norm, run, sigmoid, softmax

from yt8m import models
from yt8m.errors import UsageError
from yt8m.lazy import tf

SMALL = {
    "nextvlad_cluster_size": 4,
    "nextvlad_hidden_size": 8,
    "groups": 2,
    "gating_reduction": 4,
    "feature_sizes": (3, 2),
}


def described(x: np.ndarray, v: Variables, scope: str, groups: int, clusters: int) -> np.ndarray:
    wide = dense(x, v, f"{scope}expansion")
    attention = sigmoid(dense(wide, v, f"{scope}group_attention"))
    scores = norm(wide @ v[f"{scope}cluster_weights"], v, f"{scope}cluster_bn")
    pieces = wide.shape[1] // groups
    centres, y = v[f"{scope}centres"], np.zeros((clusters, pieces))
    for i in range(len(x)):
        for g in range(groups):
            a = attention[i, g] * softmax(scores[i, g * clusters : (g + 1) * clusters])
            y += a[:, None] * (wide[i, g * pieces : (g + 1) * pieces] - centres)
    return norm(l2(y).ravel(), v, f"{scope}vlad_bn")


def logits(x: np.ndarray, v: Variables, scope: str = "") -> np.ndarray:
    streams = [described(x[:, :3], v, f"{scope}stream_0/", 2, 4), described(x[:, 3:], v, f"{scope}stream_1/", 1, 2)]
    hidden = norm(dense(np.concatenate(streams), v, f"{scope}hidden1"), v, f"{scope}hidden1_bn")
    squeezed = np.maximum(norm(dense(hidden, v, f"{scope}se_gating/squeeze"), v, f"{scope}se_gating/bn"), 0)
    hidden = hidden * sigmoid(dense(squeezed, v, f"{scope}se_gating/excite"))
    return dense(hidden, v, f"{scope}fully_connected")


def test_forward_pass() -> None:
    check("NeXtVladModel", SMALL, lambda x, v: sigmoid(logits(x, v)))


@pytest.mark.heavy
def test_mixture_and_its_side_outputs() -> None:
    x = draw_frames()
    got, v = run("MixNeXtVladModel", {**SMALL, "mix_number": 2}, x)
    for row, n in enumerate(NUM_FRAMES):
        frames = x[row, :n].astype(np.float64)
        z = np.array([logits(frames, v, f"branch_{e}/") for e in range(2)])
        mean = frames.mean(0) if n else np.zeros(5)
        mixed = softmax(dense(norm(mean, v, "mixture_bn"), v, "mixture")) @ z
        np.testing.assert_allclose(got["predictions"][row], sigmoid(mixed), rtol=1e-5)
        for e in range(2):
            np.testing.assert_allclose(got[f"branch_{e}"][row], z[e], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(got[f"distilled_{e}"][row], z[e] / 3, rtol=1e-4, atol=1e-5)


def test_branches_learn_from_the_mixture() -> None:
    model = models.create("MixNeXtVladModel", {**SMALL, "mix_number": 2, "cl_temperature": 2.0})
    with tf.Graph().as_default(), tf.Session() as session:
        output = model.create_model(tf.constant(draw_frames()), vocab_size=3, is_training=False)
        session.run(tf.global_variables_initializer())
        sides = {side.name: side for side in output.side_outputs}
        softened = session.run(tf.nn.softmax(output.logits / 2.0))
        np.testing.assert_allclose(session.run(sides["distilled_1"].target), softened, rtol=1e-6)
    assert [sides["distilled_0"].weight, sides["distilled_0"].loss] == [4.0, "SoftmaxLoss"]
    assert [sides["branch_0"].weight, sides["branch_0"].loss, sides["branch_0"].target] == [1.0, None, None]


def test_groups_must_divide() -> None:
    with pytest.raises(UsageError, match=r"groups .*feature 0 .*\b3 x 2 for 4\b"):
        models.create("NeXtVladModel", {"groups": 4, "feature_sizes": (3, 2)})


def test_the_published_sizes_have_the_published_number_of_parameters() -> None:
    """89 M (Lin et al. 2018, table 1, 8 groups)."""
    with tf.Graph().as_default():
        frames = tf.placeholder(tf.float32, [None, None, 1152])
        model = models.create("NeXtVladModel", {"feature_sizes": (1024, 128)})
        model.create_model(frames, vocab_size=3862, is_training=False)
        count = sum(variable.shape.num_elements() for variable in tf.trainable_variables())
    assert round(count / 1e6) == 89
