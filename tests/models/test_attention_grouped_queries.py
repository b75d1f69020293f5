"""The decoder with grouped queries: the values of the authors' code, and those of NumPy with padding."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest
from golden_data import golden
from models.forward import Variables, check, dense, sigmoid, softmax

from yt8m import models
from yt8m.lazy import tf
from yt8m.models.attention import Decoder
from yt8m.models.layers import Net

_SIZE, _WIDTH, _CLASSES = 16, 3, 11  # of the vectors
_LAYER = "decoder.layers.0."
_NORMS = {"query_ln": "norm1", "attention_ln": "norm2", "feed_ln": "norm3"}
_DENSE = {"embedding": "decoder.embed_standart", "feed_in": f"{_LAYER}linear1", "feed_out": f"{_LAYER}linear2"}


def of_ours(published: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """{our variable: its value, or its gradient} from those of the authors' code."""
    values = {}
    for ours, theirs in _NORMS.items():
        values |= {f"{ours}/gamma": published[f"{_LAYER}{theirs}.weight"]}
        values |= {f"{ours}/beta": published[f"{_LAYER}{theirs}.bias"]}
    for ours, theirs in (_DENSE | {"output": f"{_LAYER}multihead_attn.out_proj"}).items():
        values |= {f"{ours}/weights": published[f"{theirs}.weight"].T, f"{ours}/biases": published[f"{theirs}.bias"]}
    for place, ours in enumerate(("query", "key", "value")):
        rows = slice(place * _SIZE, (place + 1) * _SIZE)
        values[f"{ours}/weights"] = published[f"{_LAYER}multihead_attn.in_proj_weight"][rows].T
        if ours != "key":
            values[f"{ours}/biases"] = published[f"{_LAYER}multihead_attn.in_proj_bias"][rows]
    pooling = published["decoder.duplicate_pooling"]
    values["weights"] = np.stack([pooling[c // _WIDTH, :, c % _WIDTH] for c in range(_CLASSES)], axis=1)
    values["biases"] = published["decoder.duplicate_pooling_bias"]
    return values


def test_values_and_gradients_of_the_authors_code() -> None:
    arrays = np.load(golden("ml_decoder.npz"))
    parts = {
        kind: of_ours({name.removeprefix(kind): arrays[name] for name in arrays if name.startswith(kind)})
        for kind in ("parameter/", "gradient/")
    }
    decoder = Decoder(queries=4, size=_SIZE, heads=8, feed_forward=12, learns_queries=False, drop_rate=0.1)
    with tf.Graph().as_default(), tf.Session() as session:
        frames = tf.constant(arrays["frames"], tf.float32)
        computed = decoder.logits(Net(is_training=False), frames, tf.ones(tf.shape(frames)[:2]), _CLASSES)
        variables = {variable.op.name.removeprefix("decoder/"): variable for variable in tf.trainable_variables()}
        assert variables.keys() == parts["parameter/"].keys()
        session.run(tf.global_variables_initializer())
        for name, variable in variables.items():
            variable.load(parts["parameter/"][name].astype(np.float32), session)
        queries = next(v for v in tf.global_variables() if v.op.name == "decoder/queries")
        queries.load(arrays["parameter/decoder.query_embed.weight"].astype(np.float32), session)
        slopes = tf.cos(tf.range(_CLASSES, dtype=tf.float32))
        gradients = tf.gradients(tf.reduce_sum(tf.sin(computed) * slopes), list(variables.values()))
        logits, gradients = session.run([computed, gradients])
    np.testing.assert_allclose(logits, arrays["logits"], rtol=1e-6, atol=1e-6)
    for name, gradient in zip(variables, gradients, strict=True):
        expected = parts["gradient/"][name]
        largest = np.abs(expected).max()
        np.testing.assert_allclose(gradient / largest, expected / largest, rtol=0, atol=1e-6, err_msg=name)


def layer_norm(x: np.ndarray, v: Variables, scope: str, epsilon: float = 1e-5) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * v[f"{scope}/gamma"] + v[f"{scope}/beta"]


def decode(x: np.ndarray, v: Variables, queries: int, heads: int) -> np.ndarray:
    """Query by query and head by head; frames [n, D] of one video, perhaps none."""
    memory = np.maximum(dense(layer_norm(x, v, "input_ln", 1e-6), v, "decoder/embedding"), 0)
    targets = layer_norm(2 * v["decoder/queries"], v, "decoder/query_ln")
    asked, keys, values = (
        dense(rows, v, f"decoder/{name}") for rows, name in ((targets, "query"), (memory, "key"), (memory, "value"))
    )
    size = asked.shape[1] // heads
    seen = np.zeros_like(asked)
    for q in range(queries):
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            if len(x):
                seen[q, part] = softmax(keys[:, part] @ asked[q, part] / np.sqrt(size)) @ values[:, part]
    targets = layer_norm(targets + dense(seen, v, "decoder/output"), v, "decoder/attention_ln")
    fed = dense(np.maximum(dense(targets, v, "decoder/feed_in"), 0), v, "decoder/feed_out")
    targets = layer_norm(targets + fed, v, "decoder/feed_ln")
    groups = v["decoder/groups"].astype(int)
    weights, biases = v["decoder/weights"], v["decoder/biases"]
    return sigmoid(np.array([targets[group] @ weights[:, c] + biases[c] for c, group in enumerate(groups)]))


@pytest.mark.parametrize("queries", [3, *(pytest.param(each, marks=pytest.mark.heavy) for each in (2, 7))])
def test_forward(queries: int) -> None:
    sizes = {"probe_size": 6, "probe_heads": 2, "decoder_queries": queries, "decoder_feed_forward": 5}
    check("AttentiveProbeModel", sizes, lambda x, v: decode(x, v, queries, 2))


@pytest.mark.heavy
def test_the_queries_of_the_published_decoder_are_not_trained() -> None:
    for learns in (False, True):
        with tf.Graph().as_default():
            settings = {"decoder_queries": 3, "decoder_learns_queries": learns}
            models.create("TransformerModel", settings).create_model(tf.zeros([1, 2, 4]), vocab_size=5)
            trained = {variable.op.name for variable in tf.trainable_variables()}
        assert ("decoder/queries" in trained) is learns
        assert "decoder/groups" not in trained


_STEP = """
import sys
from yt8m import models
from yt8m.lazy import tf
rows, queries = int(sys.argv[1]), int(sys.argv[2])
config = tf.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=1)
with tf.Graph().as_default(), tf.Session(config=config) as session:
    frames = tf.random.stateless_normal([rows, 300, 1152], [1, 2])
    model = models.create(sys.argv[3], {"decoder_queries": queries})
    output = model.create_model(frames, vocab_size=3862, num_frames=tf.fill([rows], 300), is_training=True)
    gradients = tf.gradients(tf.reduce_sum(output.logits), tf.trainable_variables())
    session.run(tf.global_variables_initializer())
    for _ in range(2):
        session.run([tf.reshape(gradient, [-1])[0] for gradient in gradients])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def megabytes_of_a_video(queries: int, rows: tuple[int, int], model: str = "AttentiveProbeModel") -> float:
    """How much the peak of a process grows for each video of a training step; its input included.

    The peak is that of the process's own memory. `getrusage` would begin with the peak of the process that starts it.
    """
    words = [sys.executable, "-c", _STEP]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}  # freed memory is given back at once
    peaks = [
        int(
            subprocess.run(
                [*words, str(count), str(queries), model], env=environment, stdout=subprocess.PIPE, check=True
            ).stdout
        )
        for count in rows
    ]
    return (peaks[1] - peaks[0]) / 1024 / (rows[1] - rows[0])


@pytest.mark.heavy
@pytest.mark.long
def test_memory_of_a_step() -> None:
    by_class = megabytes_of_a_video(0, (1, 3))
    grouped = {
        model: megabytes_of_a_video(100, (16, 48), model) for model in ("AttentiveProbeModel", "TransformerModel")
    }
    print(f"a query for each class: {by_class:.0f} MB a video; 100 queries: {grouped}")
    assert max(grouped.values()) < 3.7 < by_class / 10
